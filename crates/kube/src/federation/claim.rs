//! Who works with a refresh token: of several managers of one cluster, one at a time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::vault::Claim;
use tokio::time::Instant;
use uuid::Uuid;

use crate::calls::Calls;
use crate::layout::federation::{build_election, claim_name, read_election};
use crate::mirror::stamp_of;
use crate::shelf::Stamp;

const POLL: Duration = Duration::from_millis(100);

/// Leases of grants. One is made when somebody begins and deleted when he is done.
pub(super) struct Claims {
    calls: Calls,
    namespace: String,
    /// A Lease that stood still for so long belongs to nobody any more. Trading a token takes less.
    patience: Duration,
    /// Since when each Lease of somebody else stands still, by our own clock.
    still: Mutex<HashMap<String, (Stamp, Instant)>>,
}

impl Claims {
    pub(super) fn new(calls: &Calls, namespace: &str, patience: Duration) -> Self {
        Self { calls: calls.clone(), namespace: namespace.to_owned(), patience, still: Mutex::default() }
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
        let (calls, namespace, stamp) = (self.calls.clone(), self.namespace.clone(), stamp_of(&lease.metadata));
        let runtime = tokio::runtime::Handle::current();
        Claim::new(move || {
            runtime.spawn(async move {
                match calls.delete::<Lease>(&namespace, &name, &stamp).await {
                    // Somebody took it for abandoned.
                    Ok(()) | Err(StoreError::NotFound | StoreError::Conflict) => {}
                    Err(error) => tracing::warn!(%error, "a Lease of a refresh token was not given back"),
                }
            });
        })
    }
}
