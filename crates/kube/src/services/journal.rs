//! The Leases: taking one, taking one over, giving it back.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use oscar_engine::ports::StoreError;
use tokio::time::Instant;
use uuid::Uuid;

use crate::calls::Calls;
use crate::layout::journal::{Intent, SELECTOR, build_lease, lease_name, read_lease};
use crate::mirror::stamp_of;
use crate::options::Options;
use crate::shelf::Stamp;

const POLL: Duration = Duration::from_millis(100);

pub(super) struct Journal {
    calls: Calls,
    namespace: String,
    patience: Duration,
    /// Tells our Leases from those of other managers and of our own earlier lives.
    process: String,
    active: Arc<Mutex<HashSet<String>>>,
    /// Since when each Lease of somebody else stands still, by our own clock: the clocks of
    /// managers need not agree.
    still: Mutex<HashMap<String, (Stamp, Instant)>>,
}

/// A Lease that is ours until it is released, or for [`Options::patience`].
pub(super) struct Held {
    pub(super) service: String,
    /// Where an abandoned change may have left something.
    pub(super) unsettled: Vec<String>,
    stamp: Stamp,
    since: Instant,
    patience: Duration,
    _holder: Holder,
}

impl Held {
    /// Whether somebody else may have taken it over by now.
    pub(super) fn is_overdue(&self) -> bool {
        self.since.elapsed() >= self.patience
    }

    /// Fails once it is overdue. What was read before is not written over then: somebody else may
    /// have begun to change it.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.is_overdue() { Err(too_slow()) } else { Ok(()) }
    }

    /// When it was ours for that long.
    pub(super) fn until(&self, long: Duration) -> Instant {
        self.since + long
    }
}

pub(super) fn too_slow() -> StoreError {
    StoreError::Unavailable("the apiserver was too slow".to_owned())
}

/// How a Lease ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// It was ours to the end.
    Done,
    /// Somebody took it for abandoned.
    Lost,
    Unknown(StoreError),
}

/// A name under which this process holds a Lease, for as long as the value lives.
struct Holder {
    name: String,
    active: Arc<Mutex<HashSet<String>>>,
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

impl Journal {
    pub(super) fn new(calls: &Calls, options: &Options) -> Self {
        Self {
            calls: calls.clone(),
            namespace: options.namespace.clone(),
            patience: options.patience,
            process: Uuid::new_v4().to_string(),
            active: Arc::default(),
            still: Mutex::default(),
        }
    }

    /// Waits until the name is ours to change. Gives up when somebody keeps changing it.
    pub(super) async fn acquire(&self, service: &str, namespace: &str) -> Result<Held, StoreError> {
        let holder = self.holder();
        let intent =
            Intent { service: service.to_owned(), namespaces: vec![namespace.to_owned()], holder: holder.name.clone() };
        let lease = build_lease(&self.namespace, &intent, self.patience);
        let begun = Instant::now();
        loop {
            let since = Instant::now();
            match self.calls.create(&lease).await {
                Ok(made) => return Ok(self.held(&made, since, vec![], holder)),
                Err(StoreError::AlreadyExists) => {}
                Err(StoreError::NotFound) => {
                    return Err(StoreError::Unavailable(format!("the namespace '{}' does not exist", self.namespace)));
                }
                Err(error) => return Err(error),
            }
            let found: Option<Lease> = self.calls.get(&self.namespace, &lease_name(service)).await?;
            let Some(found) = found else { continue };
            if read_lease(&found).holder == holder.name {
                // The answer to our first try was lost on the way.
                return Ok(self.held(&found, since, vec![], holder));
            }
            if self.is_abandoned(&found) {
                match self.take_over(&found, &intent).await {
                    Ok((taken, since)) => {
                        return Ok(self.held(&taken, since, read_lease(&found).namespaces, holder));
                    }
                    Err(StoreError::Conflict | StoreError::NotFound) => continue,
                    Err(error) => return Err(error),
                }
            }
            if begun.elapsed() > self.patience * 3 {
                return Err(StoreError::Unavailable(format!("another manager is changing service '{service}'")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Every Lease that nobody works on any more.
    pub(super) async fn abandoned(&self) -> Result<Vec<Lease>, StoreError> {
        let leases: Vec<Lease> = self.calls.list(&self.namespace, SELECTOR).await?;
        let names: HashSet<_> = leases.iter().filter_map(|lease| lease.metadata.name.clone()).collect();
        lock(&self.still).retain(|name, _| names.contains(name));
        Ok(leases.into_iter().filter(|lease| self.is_abandoned(lease)).collect())
    }

    /// Makes an abandoned Lease ours, unless somebody else was faster.
    pub(super) async fn acquire_abandoned(&self, found: &Lease) -> Result<Option<Held>, StoreError> {
        let holder = self.holder();
        let old = read_lease(found);
        let intent = Intent { holder: holder.name.clone(), ..old.clone() };
        match self.take_over(found, &intent).await {
            Ok((lease, since)) => Ok(Some(self.held(&lease, since, old.namespaces, holder))),
            Err(StoreError::Conflict | StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn release(&self, held: Held) -> Release {
        let name = lease_name(&held.service);
        match self.calls.delete::<Lease>(&self.namespace, &name, &held.stamp).await {
            Ok(()) => Release::Done,
            // Repeating a delete whose answer was lost finds nothing; nobody else can have
            // deleted it before it could be taken for abandoned.
            Err(StoreError::NotFound) if !held.is_overdue() => Release::Done,
            Err(StoreError::NotFound | StoreError::Conflict) => Release::Lost,
            Err(error) => Release::Unknown(error),
        }
    }

    /// Ours and nobody works on it, or it stood still for as long as we watched it.
    fn is_abandoned(&self, lease: &Lease) -> bool {
        let holder = read_lease(lease).holder;
        if holder.starts_with(&self.process) {
            return !lock(&self.active).contains(&holder);
        }
        let stamp = stamp_of(&lease.metadata);
        let mut still = lock(&self.still);
        let name = lease.metadata.name.clone().unwrap_or_default();
        let (seen, since) = still.entry(name).or_insert_with(|| (stamp.clone(), Instant::now()));
        if *seen != stamp {
            *seen = stamp;
            *since = Instant::now();
        }
        since.elapsed() >= self.patience
    }

    async fn take_over(&self, found: &Lease, intent: &Intent) -> Result<(Lease, Instant), StoreError> {
        let mut namespaces = read_lease(found).namespaces;
        namespaces.extend(
            intent.namespaces.iter().filter(|&namespace| !namespaces.contains(namespace)).cloned().collect::<Vec<_>>(),
        );
        let intent = Intent { namespaces, ..intent.clone() };
        let mut lease = build_lease(&self.namespace, &intent, self.patience);
        lease.metadata.resource_version.clone_from(&found.metadata.resource_version);
        lease.metadata.uid.clone_from(&found.metadata.uid);
        let since = Instant::now();
        let taken = self.calls.replace(&lease).await?;
        tracing::info!(service = intent.service, "finishing an abandoned change");
        Ok((taken, since))
    }

    fn held(&self, lease: &Lease, since: Instant, unsettled: Vec<String>, holder: Holder) -> Held {
        Held {
            service: read_lease(lease).service,
            unsettled,
            stamp: stamp_of(&lease.metadata),
            since,
            patience: self.patience,
            _holder: holder,
        }
    }

    fn holder(&self) -> Holder {
        let name = format!("{}/{}", self.process, Uuid::new_v4());
        lock(&self.active).insert(name.clone());
        Holder { name, active: self.active.clone() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
