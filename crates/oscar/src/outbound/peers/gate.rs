//! How many calls are under way: in all, for one owner, and for one owner to one machine.
//!
//! Nobody's members, however many of them hang, take the places of somebody else's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Above this many owners and machines, those without a call are forgotten.
const MANY: usize = 256;

/// The most calls at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub(super) in_all: usize,
    pub(super) per_owner: usize,
    pub(super) per_host: usize,
}

pub(super) struct Gate {
    most: Most,
    all: Arc<Semaphore>,
    owners: Places<String>,
    hosts: Places<(String, String)>,
}

/// Leaves by being dropped.
pub(super) struct Pass {
    _places: [OwnedSemaphorePermit; 3],
}

type Places<K> = Mutex<HashMap<K, Arc<Semaphore>>>;

impl Gate {
    pub(super) fn new(most: Most) -> Self {
        let clamp = |count: usize| count.clamp(1, Semaphore::MAX_PERMITS);
        let Most { in_all, per_owner, per_host } = most;
        let most = Most { in_all: clamp(in_all), per_owner: clamp(per_owner), per_host: clamp(per_host) };
        Self { most, all: Arc::new(Semaphore::new(most.in_all)), owners: Mutex::default(), hosts: Mutex::default() }
    }

    /// Waits for a place, but not longer than `patience`. The narrowest bound comes first: who
    /// waits for a machine that hangs must not hold a place of all.
    pub(super) async fn enter(&self, owner: &str, host: &str, patience: Duration) -> Option<Pass> {
        let at_host = places(&self.hosts, (owner.to_owned(), host.to_owned()), self.most.per_host);
        let of_owner = places(&self.owners, owner.to_owned(), self.most.per_owner);
        let wait = async {
            let at_host = at_host.acquire_owned().await.ok()?;
            let of_owner = of_owner.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(Pass { _places: [at_host, of_owner, all] })
        };
        tokio::time::timeout(patience, wait).await.ok()?
    }
}

fn places<K: std::hash::Hash + Eq>(known: &Places<K>, key: K, most: usize) -> Arc<Semaphore> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= MANY {
        known.retain(|_, places| Arc::strong_count(places) > 1);
    }
    Arc::clone(known.entry(key).or_insert_with(|| Arc::new(Semaphore::new(most))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[tokio::test(start_paused = true)]
    async fn one_machine_cannot_take_all_places() {
        let gate = Gate::new(Most { in_all: 3, per_owner: 3, per_host: 2 });
        let first = gate.enter("ana", "a", SOON).await.expect("a place");
        let _second = gate.enter("ana", "a", SOON).await.expect("a place");
        assert!(gate.enter("ana", "a", SOON).await.is_none(), "the machine is full");
        let _third = gate.enter("ana", "b", SOON).await.expect("a place");
        assert!(gate.enter("bob", "c", SOON).await.is_none(), "all is full");
        drop(first);
        assert!(gate.enter("bob", "c", SOON).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn one_owner_takes_nobody_elses_places() {
        let gate = Gate::new(Most { in_all: 8, per_owner: 4, per_host: 2 });
        let mut hanging = Vec::new();
        for host in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            hanging.extend(gate.enter("ana", host, SOON).await);
        }
        assert_eq!(hanging.len(), 4, "what is the owner's share");
        for _ in 0..2 {
            hanging.push(gate.enter("bob", "a", SOON).await.expect("another owner has a place, also there"));
        }
        assert!(gate.enter("bob", "a", SOON).await.is_none(), "the machine is full for him too");
    }

    #[tokio::test]
    async fn machines_without_calls_are_forgotten() {
        let gate = Gate::new(Most { in_all: 8, per_owner: 8, per_host: 2 });
        let _kept = gate.enter("ana", "kept", SOON).await;
        for index in 0..3 * MANY {
            gate.enter(&format!("owner-{index}"), &format!("host-{index}"), SOON).await.expect("a place");
        }
        let hosts = gate.hosts.lock().expect("not poisoned");
        let kept = ("ana".to_owned(), "kept".to_owned());
        assert!(hosts.len() <= MANY + 1 && hosts.contains_key(&kept), "{}", hosts.len());
        assert!(gate.owners.lock().expect("not poisoned").len() <= MANY + 1);
    }
}
