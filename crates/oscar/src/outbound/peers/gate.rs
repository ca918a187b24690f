//! How many calls are under way, in all and to one machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Above this many machines, those without a call are forgotten.
const MANY_HOSTS: usize = 256;

pub(super) struct Gate {
    all: Arc<Semaphore>,
    per_host: usize,
    hosts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Leaves by being dropped.
pub(super) struct Pass {
    _host: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Gate {
    pub(super) fn new(all: usize, per_host: usize) -> Self {
        let all = Arc::new(Semaphore::new(all.clamp(1, Semaphore::MAX_PERMITS)));
        Self { all, per_host: per_host.clamp(1, Semaphore::MAX_PERMITS), hosts: Mutex::default() }
    }

    /// Waits for a place, but not longer than `patience`. The machine's own bound comes first:
    /// who waits for a machine that hangs must not hold a place of all.
    pub(super) async fn enter(&self, host: &str, patience: Duration) -> Option<Pass> {
        let places = self.places(host);
        let wait = async {
            let host = places.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(Pass { _host: host, _all: all })
        };
        tokio::time::timeout(patience, wait).await.ok()?
    }

    fn places(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= MANY_HOSTS {
            hosts.retain(|_, places| Arc::strong_count(places) > 1);
        }
        let places = hosts.entry(host.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.per_host)));
        Arc::clone(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[tokio::test(start_paused = true)]
    async fn one_machine_cannot_take_all_places() {
        let gate = Gate::new(3, 2);
        let first = gate.enter("a", SOON).await.expect("a place");
        let _second = gate.enter("a", SOON).await.expect("a place");
        assert!(gate.enter("a", SOON).await.is_none(), "the machine is full");
        let _third = gate.enter("b", SOON).await.expect("a place");
        assert!(gate.enter("c", SOON).await.is_none(), "all is full");
        drop(first);
        assert!(gate.enter("c", SOON).await.is_some());
    }

    #[tokio::test]
    async fn machines_without_calls_are_forgotten() {
        let gate = Gate::new(8, 2);
        let _kept = gate.enter("kept", SOON).await;
        for index in 0..3 * MANY_HOSTS {
            gate.enter(&format!("host-{index}"), SOON).await.expect("a place");
        }
        let hosts = gate.hosts.lock().expect("not poisoned");
        assert!(hosts.len() <= MANY_HOSTS + 1 && hosts.contains_key("kept"), "{}", hosts.len());
    }
}
