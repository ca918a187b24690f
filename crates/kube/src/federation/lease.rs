//! Which manager writes down what is remembered of federations, finishes what others left and repairs
//! what it owns: two run at once during every roll-out.
//!
//! The holder has a number that no holder before had. It is written on every entry of the
//! journal, so one that lost the Lease without noticing cannot change what its successor
//! wrote: holding a Lease alone is no proof.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use oscar_engine::ports::StoreError;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::calls::Calls;
use crate::layout::federation::{ENTRIES, build_election, read_election, read_epoch};
use crate::mirror::stamp_of;
use crate::options::Options;
use crate::shelf::Stamp;

/// The Lease `<name>-manager` in the manager's namespace.
pub struct KubeLease {
    calls: Calls,
    namespace: String,
    name: String,
    duration: Duration,
    /// One life of one manager.
    holder: String,
    state: Mutex<State>,
    won: Notify,
}

#[derive(Default)]
struct State {
    /// The number of our last time as the holder; zero when there was none.
    epoch: u64,
    /// When the last renewal that came through was sent.
    renewed: Option<Instant>,
    /// Since when the Lease of somebody else stands still, by our own clock: the clocks of
    /// managers need not agree.
    still: Option<(Stamp, Instant)>,
}

impl KubeLease {
    pub(crate) fn new(calls: &Calls, options: &Options) -> Self {
        Self {
            calls: calls.clone(),
            namespace: options.namespace.clone(),
            name: format!("{}-manager", options.name),
            duration: options.lease_duration,
            holder: Uuid::new_v4().to_string(),
            state: Mutex::default(),
            won: Notify::new(),
        }
    }

    /// Whether this manager is the one. Ends well before anybody else may take over, also when
    /// the apiserver cannot be reached.
    pub fn holds(&self) -> bool {
        self.state().renewed.is_some_and(|since| since.elapsed() < self.duration * 2 / 3)
    }

    /// Waits until this manager is the one, for as long as it takes when the former one crashed or
    /// lets go. Says so when it does not become it.
    pub(crate) async fn in_charge(&self) -> Result<(), StoreError> {
        let limit = self.duration * 3 / 2;
        let waited = tokio::time::timeout(limit, async {
            loop {
                let mut won = pin!(self.won.notified());
                won.as_mut().enable();
                if self.holds() {
                    return;
                }
                won.await;
            }
        });
        waited.await.map_err(|_| {
            StoreError::Unavailable(format!(
                "another manager of this cluster looks after its federations and did not let go within {} s; nothing was \
                 changed: during a roll-out this ends when the old manager has gone, so try again",
                limit.as_secs()
            ))
        })
    }

    /// The number of this manager's last time as the holder; zero when it never was.
    pub fn epoch(&self) -> u64 {
        self.state().epoch
    }

    /// Takes the Lease when it is nobody's, or stood still for its duration while we looked, so
    /// it has to be called again and again. Whether it is ours now.
    pub async fn acquire(&self) -> Result<bool, StoreError> {
        let since = Instant::now();
        let found: Option<Lease> = self.calls.get(&self.namespace, &self.name).await?;
        let Some(found) = found else {
            let epoch = self.highest_epoch().await? + 1;
            let lease = build_election(&self.namespace, &self.name, &self.holder, epoch, self.duration);
            return match self.calls.create(&lease).await {
                Ok(_) => Ok(self.won(epoch, since)),
                Err(StoreError::AlreadyExists) => Ok(false),
                Err(error) => Err(error),
            };
        };
        let (holder, epoch) = read_election(&found);
        if holder == self.holder {
            return self.renew_found(&found, epoch, since).await;
        }
        if !holder.is_empty() && !self.stood_still(&found) {
            return Ok(false);
        }
        // Somebody may have deleted the Lease once and let the count begin anew.
        let next = epoch.max(self.highest_epoch().await?) + 1;
        self.write(&found, &self.holder, next, since).await
    }

    /// Keeps the Lease. False when it is not ours any more.
    pub async fn renew(&self) -> Result<bool, StoreError> {
        let since = Instant::now();
        let found: Option<Lease> = self.calls.get(&self.namespace, &self.name).await?;
        match found {
            Some(found) if read_election(&found).0 == self.holder => {
                let epoch = read_election(&found).1;
                self.renew_found(&found, epoch, since).await
            }
            _ => Ok(self.lost()),
        }
    }

    /// Lets go of it, so that the next one need not wait.
    pub async fn release(&self) -> Result<(), StoreError> {
        self.lost();
        let found: Option<Lease> = self.calls.get(&self.namespace, &self.name).await?;
        let Some(found) = found.filter(|found| read_election(found).0 == self.holder) else { return Ok(()) };
        let epoch = read_election(&found).1;
        self.write(&found, "", epoch, Instant::now()).await.map(|_| ())
    }

    /// Renews it when it is ours, and otherwise tries to take it.
    pub async fn tick_hold(&self) -> Result<bool, StoreError> {
        let ours = self.state().renewed.is_some();
        if ours && self.renew().await? {
            return Ok(true);
        }
        self.acquire().await
    }

    /// Tries for ever to be the holder, and to stay it.
    pub async fn hold_forever(&self) {
        let mut troubled = false;
        loop {
            let before = self.holds();
            match self.tick_hold().await {
                Ok(now) => {
                    if before != now {
                        tracing::info!(
                            holds = now,
                            epoch = self.epoch(),
                            "the manager that repairs federations changed"
                        );
                    }
                    troubled = false;
                }
                Err(error) if !troubled => {
                    tracing::warn!(%error, "the Lease of the manager cannot be kept");
                    troubled = true;
                }
                Err(error) => tracing::debug!(%error, "the Lease of the manager cannot be kept"),
            }
            tokio::time::sleep(self.duration / 4).await;
        }
    }

    async fn renew_found(&self, found: &Lease, epoch: u64, since: Instant) -> Result<bool, StoreError> {
        self.write(found, &self.holder, epoch, since).await
    }

    /// Replaces the state that was found; false when somebody was faster.
    async fn write(&self, found: &Lease, holder: &str, epoch: u64, since: Instant) -> Result<bool, StoreError> {
        let mut lease = build_election(&self.namespace, &self.name, holder, epoch, self.duration);
        lease.metadata.resource_version.clone_from(&found.metadata.resource_version);
        lease.metadata.uid.clone_from(&found.metadata.uid);
        match self.calls.replace(&lease).await {
            Ok(_) if holder == self.holder => Ok(self.won(epoch, since)),
            Ok(_) => Ok(false),
            Err(StoreError::Conflict | StoreError::NotFound) => Ok(self.lost()),
            Err(error) => Err(error),
        }
    }

    /// The greatest number on any entry of the journal.
    async fn highest_epoch(&self) -> Result<u64, StoreError> {
        let entries: Vec<Secret> = self.calls.list(&self.namespace, ENTRIES).await?;
        Ok(entries.iter().map(|entry| read_epoch(&entry.metadata)).max().unwrap_or_default())
    }

    fn stood_still(&self, found: &Lease) -> bool {
        let stamp = stamp_of(&found.metadata);
        let mut state = self.state();
        match &state.still {
            Some((seen, since)) if *seen == stamp => since.elapsed() >= self.duration,
            _ => {
                state.still = Some((stamp, Instant::now()));
                false
            }
        }
    }

    fn won(&self, epoch: u64, since: Instant) -> bool {
        let mut state = self.state();
        *state = State { epoch, renewed: Some(since), still: None };
        drop(state);
        self.won.notify_waiters();
        true
    }

    fn lost(&self) -> bool {
        self.state().renewed = None;
        false
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for KubeLease {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("KubeLease").field("name", &self.name).field("holds", &self.holds()).finish_non_exhaustive()
    }
}
