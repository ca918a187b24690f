//! Who works with a refresh token: of several managers of one cluster, one at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::vault::Claim;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::calls::Calls;
use crate::layout::federation::{build_election, claim_name, read_election};
use crate::mirror::stamp_of;
use crate::shelf::Stamp;

const POLL: Duration = Duration::from_millis(100);

/// Leases of grants. One is made when somebody begins, renewed while he works and deleted when he is
/// done.
pub(super) struct Claims {
    calls: Calls,
    namespace: String,
    /// A Lease that stood still for so long belongs to nobody any more: who works renews it.
    patience: Duration,
    /// Since when each Lease of somebody else stands still, by our own clock.
    still: Mutex<HashMap<String, (Stamp, Instant)>>,
    /// Nothing is renewed for a vault that is gone.
    alive: Arc<()>,
}

impl Claims {
    pub(super) fn new(calls: &Calls, namespace: &str, patience: Duration) -> Self {
        Self {
            calls: calls.clone(),
            namespace: namespace.to_owned(),
            patience,
            still: Mutex::default(),
            alive: Arc::default(),
        }
    }

    pub(super) async fn take(&self, id: &str) -> Result<Claim, StoreError> {
        let (name, holder, begun) = (claim_name(id), Uuid::new_v4().to_string(), Instant::now());
        let mut lease = build_election(&self.namespace, &name, &holder, 0, self.patience);
        loop {
            match self.calls.create(&lease).await {
                Ok(made) => return Ok(self.ours(&made)),
                Err(StoreError::AlreadyExists) => {}
                Err(StoreError::NotFound) => {
                    return Err(StoreError::Unavailable(format!("the namespace '{}' does not exist", self.namespace)));
                }
                Err(error) => return Err(error),
            }
            let found: Option<Lease> = self.calls.get(&self.namespace, &name).await?;
            let Some(found) = found else { continue };
            if read_election(&found).0 == holder {
                // The answer to our first try was lost on the way.
                return Ok(self.ours(&found));
            }
            if self.stood_still(&name, &stamp_of(&found.metadata)) {
                lease.metadata.uid.clone_from(&found.metadata.uid);
                lease.metadata.resource_version.clone_from(&found.metadata.resource_version);
                match self.calls.replace(&lease).await {
                    Ok(taken) => return Ok(self.ours(&taken)),
                    Err(StoreError::Conflict | StoreError::NotFound) => {}
                    Err(error) => return Err(error),
                }
                (lease.metadata.uid, lease.metadata.resource_version) = (None, None);
            }
            if begun.elapsed() > self.patience * 2 {
                return Err(StoreError::Unavailable("another manager is working with this refresh token".to_owned()));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn stood_still(&self, name: &str, stamp: &Stamp) -> bool {
        let mut still = self.still.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, since) = still.entry(name.to_owned()).or_insert_with(|| (stamp.clone(), Instant::now()));
        if seen != stamp {
            (*seen, *since) = (stamp.clone(), Instant::now());
        }
        since.elapsed() >= self.patience
    }

    fn ours(&self, lease: &Lease) -> Claim {
        let name = lease.metadata.name.clone().unwrap_or_default();
        self.still.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        let (given_back, end) = oneshot::channel();
        let keeping = Keeping {
            calls: self.calls.clone(),
            lease: lease.clone(),
            namespace: self.namespace.clone(),
            name,
            patience: self.patience,
            vault: Arc::downgrade(&self.alive),
        };
        tokio::spawn(keeping.until(end));
        Claim::new(move || drop(given_back))
    }
}

/// A Lease that is ours as long as somebody works.
struct Keeping {
    calls: Calls,
    lease: Lease,
    namespace: String,
    name: String,
    patience: Duration,
    vault: Weak<()>,
}

impl Keeping {
    /// Renews it again and again, and deletes it in the end.
    async fn until(mut self, mut end: oneshot::Receiver<()>) {
        while timeout(self.patience / 3, &mut end).await.is_err() {
            if self.vault.upgrade().is_none() {
                // This manager is no more. What it leaves is taken over.
                return;
            }
            match self.renew().await {
                Ok(()) => {}
                Err(StoreError::NotFound | StoreError::Conflict) => {
                    tracing::warn!(
                        lease = self.name,
                        "the Lease of a refresh token was taken away while it was in use"
                    );
                    return;
                }
                Err(error) => tracing::debug!(lease = self.name, %error, "a Lease is renewed later"),
            }
        }
        match self.calls.delete::<Lease>(&self.namespace, &self.name, &stamp_of(&self.lease.metadata)).await {
            // Somebody took it for abandoned.
            Ok(()) | Err(StoreError::NotFound | StoreError::Conflict) => {}
            Err(error) => tracing::warn!(%error, "a Lease of a refresh token was not given back"),
        }
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        let holder = read_election(&self.lease).0.to_owned();
        let mut renewed = build_election(&self.namespace, &self.name, &holder, 0, self.patience);
        renewed.metadata.uid.clone_from(&self.lease.metadata.uid);
        renewed.metadata.resource_version.clone_from(&self.lease.metadata.resource_version);
        let answer = self.calls.replace(&renewed).await;
        if let Err(StoreError::Conflict) = &answer {
            // An answer to us may have been lost.
            let found: Option<Lease> = self.calls.get(&self.namespace, &self.name).await?;
            if let Some(found) = found.filter(|found| read_election(found).0 == holder) {
                self.lease = found;
                return Ok(());
            }
        }
        self.lease = answer?;
        Ok(())
    }
}
