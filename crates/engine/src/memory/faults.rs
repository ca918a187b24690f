use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// Whether a planted failure comes before the call had its effect, or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

/// Failures that a test planted, each for the next call of a name.
#[derive(Default)]
pub(super) struct Faults {
    planted: Mutex<Vec<(&'static str, When)>>,
    /// Calls that do not come back.
    stuck: watch::Sender<Vec<&'static str>>,
}

impl Faults {
    pub(super) fn plant(&self, call: &'static str, when: When) {
        self.planted.lock().unwrap_or_else(PoisonError::into_inner).push((call, when));
    }

    pub(super) fn hang(&self, call: &'static str) {
        self.stuck.send_modify(|stuck| stuck.push(call));
    }

    pub(super) fn let_go(&self) {
        self.stuck.send_modify(Vec::clear);
    }

    /// Waits while calls of this name do not come back.
    pub(super) async fn wait(&self, call: &'static str) {
        let _ = self.stuck.subscribe().wait_for(|stuck| !stuck.contains(&call)).await;
    }

    /// Whether the call fails here. Each failure happens once.
    pub(super) fn strike(&self, call: &'static str, when: When) -> bool {
        let mut planted = self.planted.lock().unwrap_or_else(PoisonError::into_inner);
        let place = planted.iter().position(|fault| *fault == (call, when));
        place.map(|place| planted.remove(place)).is_some()
    }
}
