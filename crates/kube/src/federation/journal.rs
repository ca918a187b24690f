//! The journal: one Secret for each entry, in the manager's namespace.
//!
//! Of several managers the one that holds the Lease writes; another waits for a while to become it,
//! as it does in a roll-out or after a crash, and then says that it is not. A write carries the
//! number of the writer's Lease, and meets a greater one with a refusal: whoever was replaced without
//! noticing changes nothing that its successor wrote. And it changes only the state of an entry that
//! this manager has read or written last: what was read before the Lease changed hands is not written
//! over what the former holder did until then.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use oscar_api::federation::Kept;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::journal::Journal;
use oscar_model::federation::record::{FederationRecord, Fence, Former, Operation, Seconds};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;

use super::{KubeLease, TRIES, crowded, fitting};
use crate::calls::Calls;
use crate::layout::federation::{Kind, build_entry, entry_name, entry_prefix, read_epoch, read_record};
use crate::mirror::stamp_of;
use crate::options::Options;
use crate::shelf::Stamp;

pub(crate) struct KubeJournal {
    calls: Calls,
    namespace: String,
    lease: Arc<KubeLease>,
    /// Writes of this manager take turns: they would only meet at the apiserver.
    turn: tokio::sync::Mutex<()>,
    /// Which state of each entry this manager knows.
    known: Mutex<HashMap<String, Known>>,
}

/// A state of an entry.
struct Known {
    stamp: Stamp,
    /// Whether this manager wrote it.
    ours: bool,
}

/// Which entry.
#[derive(Clone, Copy)]
struct Entry<'a> {
    kind: Kind,
    key: &'a [&'a str],
}

impl Entry<'_> {
    fn name(&self) -> String {
        entry_name(self.kind, self.key)
    }
}

impl KubeJournal {
    pub(crate) fn new(calls: &Calls, options: &Options, lease: &Arc<KubeLease>) -> Self {
        let (turn, known) = (tokio::sync::Mutex::default(), Mutex::default());
        Self { calls: calls.clone(), namespace: options.namespace.clone(), lease: lease.clone(), turn, known }
    }

    fn build(&self, entry: Entry<'_>, service: &ServiceName, record: &impl Kept) -> Result<Secret, StoreError> {
        let what = format!("the {} of service '{service}'", entry.kind.as_str());
        let bytes = fitting(&what, record.to_bytes())?;
        Ok(build_entry(&self.namespace, entry.kind, entry.key, service.as_str(), self.lease.epoch(), bytes))
    }

    async fn put(&self, entry: Entry<'_>, service: &ServiceName, record: &impl Kept) -> Result<(), StoreError> {
        let name = entry.name();
        // What the caller has read was read by now, and not while it waits.
        let read = self.known().get(&name).map(|known| known.stamp.clone());
        self.lease.in_charge().await?;
        let _turn = self.turn.lock().await;
        let base = match self.known().get(&name) {
            // One of ours was before us in the queue.
            Some(known) if known.ours => Some(known.stamp.clone()),
            Some(_) => read,
            // We know of nothing, or have removed it since.
            None => None,
        };
        let mut secret = self.build(entry, service, record)?;
        for _ in 0..TRIES {
            let found = self.find(entry).await?;
            let changed = base.is_some() && base != found.as_ref().map(|found| stamp_of(&found.metadata));
            // The same may be there because an answer to us was lost.
            if changed && found.as_ref().is_none_or(|found| found.data != secret.data) {
                self.forget(&name);
                tracing::warn!(entry = name, "another manager has changed this entry of the journal meanwhile");
                return Err(StoreError::Conflict);
            }
            secret.metadata.uid = found.as_ref().and_then(|found| found.metadata.uid.clone());
            secret.metadata.resource_version = found.as_ref().and_then(|found| found.metadata.resource_version.clone());
            let written =
                if found.is_some() { self.calls.replace(&secret).await } else { self.calls.create(&secret).await };
            match written {
                Ok(written) => {
                    self.know(&written, true);
                    return Ok(());
                }
                // It came or went in between.
                Err(StoreError::Conflict | StoreError::AlreadyExists) => {}
                Err(StoreError::NotFound) if found.is_some() => {}
                Err(error) => {
                    // It may have been written all the same: the next write is of whatever is there.
                    self.forget(&name);
                    return Err(self.homeless(error));
                }
            }
        }
        Err(crowded(&format!("Secret {}/{name}", self.namespace)))
    }

    async fn remove(&self, entry: Entry<'_>) -> Result<(), StoreError> {
        self.lease.in_charge().await?;
        let _turn = self.turn.lock().await;
        let name = entry.name();
        for _ in 0..TRIES {
            let Some(found) = self.find(entry).await? else { return Ok(()) };
            let stamp = stamp_of(&found.metadata);
            match self.calls.delete::<Secret>(&self.namespace, &name, &stamp).await {
                Ok(()) | Err(StoreError::NotFound) => {
                    self.forget(&name);
                    return Ok(());
                }
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(crowded(&format!("Secret {}/{name}", self.namespace)))
    }

    /// What is stored, unless a later holder of the Lease wrote it.
    async fn find(&self, entry: Entry<'_>) -> Result<Option<Secret>, StoreError> {
        let found: Option<Secret> = self.calls.get(&self.namespace, &entry.name()).await?;
        match found {
            Some(found) if read_epoch(&found.metadata) > self.lease.epoch() => {
                tracing::warn!(entry = entry.name(), "another manager has taken over this entry of the journal");
                Err(StoreError::Conflict)
            }
            found => Ok(found),
        }
    }

    fn know(&self, secret: &Secret, ours: bool) {
        let (name, stamp) = (secret.metadata.name.clone().unwrap_or_default(), stamp_of(&secret.metadata));
        let mut known = self.known();
        match known.get_mut(&name) {
            Some(known) if known.stamp == stamp => known.ours |= ours,
            _ => drop(known.insert(name, Known { stamp, ours })),
        }
    }

    fn forget(&self, name: &str) {
        self.known().remove(name);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn get(&self, entry: Entry<'_>) -> Result<Option<Secret>, StoreError> {
        let found: Option<Secret> = self.calls.get(&self.namespace, &entry.name()).await?;
        if let Some(found) = &found {
            self.know(found, false);
        }
        Ok(found)
    }

    /// Entries of a kind, of one service or of all.
    async fn list(&self, kind: Kind, service: Option<&ServiceName>) -> Result<Vec<Secret>, StoreError> {
        let which = kind.selector(service.map(ServiceName::as_str));
        let found: Vec<Secret> = self.calls.list(&self.namespace, &which).await?;
        if service.is_none() {
            // What others have removed is not remembered for ever.
            let names: HashSet<_> = found.iter().filter_map(|secret| secret.metadata.name.as_deref()).collect();
            let of_kind = entry_prefix(kind);
            self.known()
                .retain(|name, known| known.ours || !name.starts_with(&of_kind) || names.contains(name.as_str()));
        }
        for secret in &found {
            self.know(secret, false);
        }
        Ok(found)
    }

    /// Every readable entry. One that is not keeps no other from being worked on.
    async fn all<T: Kept>(&self, kind: Kind) -> Result<Vec<T>, StoreError> {
        let found = self.list(kind, None).await?;
        let read = found.iter().filter_map(|secret| {
            let record = read::<T>(secret);
            if let Err(error) = &record {
                let name = secret.metadata.name.as_deref();
                tracing::error!(name, %error, "an entry of the journal cannot be read");
            }
            record.ok()
        });
        Ok(read.collect())
    }

    fn homeless(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::NotFound => {
                StoreError::Unavailable(format!("the namespace '{}' does not exist", self.namespace))
            }
            other => other,
        }
    }
}

fn read<T: Kept>(secret: &Secret) -> Result<T, StoreError> {
    let broken = |cause: &str| {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        StoreError::Broken(format!("Secret {name}: {cause}"))
    };
    let bytes = read_record(secret).ok_or_else(|| broken("it has no record"))?;
    T::from_bytes(bytes).map_err(|cause| broken(&cause))
}

#[async_trait]
impl Journal for KubeJournal {
    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError> {
        let entry = Entry { kind: Kind::Operation, key: &[&operation.id] };
        self.put(entry, &operation.coordinator, operation).await
    }

    async fn remove_operation(&self, id: &str) -> Result<(), StoreError> {
        self.remove(Entry { kind: Kind::Operation, key: &[id] }).await
    }

    async fn operations(&self) -> Result<Vec<Operation>, StoreError> {
        let mut operations: Vec<Operation> = self.all(Kind::Operation).await?;
        operations.sort_by(|a, b| (a.begun, &a.id).cmp(&(b.begun, &b.id)));
        Ok(operations)
    }

    async fn put_federation(&self, federation: &FederationRecord) -> Result<(), StoreError> {
        let service = &federation.own.service_name;
        let entry = Entry { kind: Kind::Federation, key: &[&federation.federation_id, service.as_str()] };
        self.put(entry, service, federation).await
    }

    async fn federation(&self, service: &ServiceName) -> Result<Option<FederationRecord>, StoreError> {
        let found = self.list(Kind::Federation, Some(service)).await?;
        // Whether a broken one lives cannot be told, so it counts.
        let records: Vec<FederationRecord> = found.iter().map(read).collect::<Result<_, _>>()?;
        Ok(records.into_iter().find(|record| record.deleted.is_none()))
    }

    async fn federation_with_id(
        &self,
        federation_id: &str,
        service: &ServiceName,
    ) -> Result<Option<FederationRecord>, StoreError> {
        let entry = Entry { kind: Kind::Federation, key: &[federation_id, service.as_str()] };
        let record: Option<FederationRecord> = self.get(entry).await?.as_ref().map(read).transpose()?;
        Ok(record.filter(|record| record.deleted.is_none()))
    }

    async fn federations(&self) -> Result<Vec<FederationRecord>, StoreError> {
        self.all(Kind::Federation).await
    }

    async fn remove_federation(&self, federation_id: &str, service: &ServiceName) -> Result<(), StoreError> {
        self.remove(Entry { kind: Kind::Federation, key: &[federation_id, service.as_str()] }).await
    }

    async fn keep_former(&self, former: &Former) -> Result<(), StoreError> {
        let entry = Entry { kind: Kind::Former, key: &[former.name.as_str(), &former.label] };
        self.lease.in_charge().await?;
        match self.calls.create(&self.build(entry, &former.name, former)?).await {
            // The first of one label wins.
            Ok(_) | Err(StoreError::AlreadyExists) => Ok(()),
            Err(error) => Err(self.homeless(error)),
        }
    }

    async fn former(&self, name: &ServiceName, label: &str) -> Result<Option<Former>, StoreError> {
        let entry = Entry { kind: Kind::Former, key: &[name.as_str(), label] };
        self.get(entry).await?.as_ref().map(read).transpose()
    }

    async fn formers(&self) -> Result<Vec<(ServiceName, String)>, StoreError> {
        let formers: Vec<Former> = self.all(Kind::Former).await?;
        Ok(formers.into_iter().map(|former| (former.name, former.label)).collect())
    }

    async fn forget_former(&self, name: &ServiceName, label: &str) -> Result<(), StoreError> {
        self.remove(Entry { kind: Kind::Former, key: &[name.as_str(), label] }).await
    }

    async fn put_fence(&self, fence: &Fence) -> Result<(), StoreError> {
        let entry = Entry { kind: Kind::Fence, key: &[fence.service.as_str(), &fence.label()] };
        self.put(entry, &fence.service, fence).await
    }

    async fn fences(&self, service: &ServiceName) -> Result<Vec<Fence>, StoreError> {
        let found = self.list(Kind::Fence, Some(service)).await?;
        // One that cannot be read may be the one that counts.
        found.iter().map(read).collect()
    }

    async fn fences_of(&self, owner: &Owner) -> Result<Vec<Fence>, StoreError> {
        let standing: Vec<Fence> = self.all(Kind::Fence).await?;
        Ok(standing.into_iter().filter(|fence| fence.owner == *owner).collect())
    }

    async fn forget_fences(&self, before: Seconds) -> Result<(), StoreError> {
        let standing: Vec<Fence> = self.all(Kind::Fence).await?;
        for fence in standing.iter().filter(|fence| fence.since < before) {
            self.remove(Entry { kind: Kind::Fence, key: &[fence.service.as_str(), &fence.label()] }).await?;
        }
        Ok(())
    }
}
