//! One change at a time for each name.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use oscar_model::name::ServiceName;
use tokio::sync::OwnedMutexGuard;

/// Queues that nobody stands in are swept when there are this many.
const TIDY_AT: usize = 4096;

type Lane = tokio::sync::Mutex<()>;

/// A queue per name, which lasts as long as somebody stands in it.
pub(crate) struct Turns<N = ServiceName> {
    lanes: Mutex<HashMap<N, Weak<Lane>>>,
}

impl<N> Default for Turns<N> {
    fn default() -> Self {
        Self { lanes: Mutex::default() }
    }
}

impl<N: Clone + Eq + Hash> Turns<N> {
    pub(crate) async fn take(&self, name: &N) -> OwnedMutexGuard<()> {
        let lane = {
            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            if lanes.len() >= TIDY_AT {
                lanes.retain(|_, lane| lane.strong_count() > 0);
            }
            lanes.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
                let lane = Arc::new(Lane::default());
                lanes.insert(name.clone(), Arc::downgrade(&lane));
                lane
            })
        };
        lane.lock_owned().await
    }
}
