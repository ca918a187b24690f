//! How each member was when it was looked at last.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use oscar_model::federation::topology::MemberId;

use crate::ports::peers::MemberState;

type ByMember = BTreeMap<MemberId, MemberState>;

/// By federation. Not stored: after a restart everybody is looked at again.
#[derive(Default)]
pub(crate) struct States {
    known: Mutex<BTreeMap<String, ByMember>>,
}

impl States {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, ByMember>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn of(&self, federation_id: &str) -> ByMember {
        self.known().get(federation_id).cloned().unwrap_or_default()
    }

    pub(crate) fn set(&self, federation_id: &str, member: &MemberId, state: MemberState) {
        self.known().entry(federation_id.to_owned()).or_default().insert(member.clone(), state);
    }

    /// As the coordinator told a worker.
    pub(crate) fn replace(&self, federation_id: &str, states: ByMember) {
        self.known().insert(federation_id.to_owned(), states);
    }

    /// Forgets members that are no longer there.
    pub(crate) fn retain(&self, federation_id: &str, keep: impl Fn(&MemberId) -> bool) {
        if let Some(states) = self.known().get_mut(federation_id) {
            states.retain(|member, _| keep(member));
        }
    }

    pub(crate) fn forget(&self, federation_id: &str) {
        self.known().remove(federation_id);
    }
}
