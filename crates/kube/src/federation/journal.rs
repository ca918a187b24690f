//! The journal: one Secret for each entry, in the manager's namespace.
//!
//! A write carries the number of the writer's Lease, and meets a greater one with a refusal:
//! whoever was replaced without noticing changes nothing that its successor wrote.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use oscar_api::federation::Kept;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::journal::Journal;
use oscar_model::federation::record::{FederationRecord, Fence, Former, Operation, Seconds};
use oscar_model::name::ServiceName;

use super::{KubeLease, TRIES, crowded, fitting};
use crate::calls::Calls;
use crate::layout::federation::{Kind, build_entry, entry_name, read_epoch, read_record};
use crate::mirror::stamp_of;
use crate::options::Options;

pub(crate) struct KubeJournal {
    calls: Calls,
    namespace: String,
    lease: Arc<KubeLease>,
    /// Writes of this manager take turns: they would only meet at the apiserver.
    turn: tokio::sync::Mutex<()>,
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
        let turn = tokio::sync::Mutex::default();
        Self { calls: calls.clone(), namespace: options.namespace.clone(), lease: lease.clone(), turn }
    }

    fn build(&self, entry: Entry<'_>, service: &ServiceName, record: &impl Kept) -> Result<Secret, StoreError> {
        let what = format!("the {} of service '{service}'", entry.kind.as_str());
        let bytes = fitting(&what, record.to_bytes())?;
        Ok(build_entry(&self.namespace, entry.kind, entry.key, service.as_str(), self.lease.epoch(), bytes))
    }

    async fn put(&self, entry: Entry<'_>, service: &ServiceName, record: &impl Kept) -> Result<(), StoreError> {
        let mut secret = self.build(entry, service, record)?;
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let found = self.find(entry).await?;
            secret.metadata.uid = found.as_ref().and_then(|found| found.metadata.uid.clone());
            secret.metadata.resource_version = found.as_ref().and_then(|found| found.metadata.resource_version.clone());
            let written =
                if found.is_some() { self.calls.replace(&secret).await } else { self.calls.create(&secret).await };
            match written {
                Ok(_) => return Ok(()),
                // It came or went in between.
                Err(StoreError::Conflict | StoreError::AlreadyExists) => {}
                Err(StoreError::NotFound) if found.is_some() => {}
                Err(error) => return Err(self.homeless(error)),
            }
        }
        Err(crowded(&format!("Secret {}/{}", self.namespace, entry.name())))
    }

    async fn remove(&self, entry: Entry<'_>) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let Some(found) = self.find(entry).await? else { return Ok(()) };
            let stamp = stamp_of(&found.metadata);
            match self.calls.delete::<Secret>(&self.namespace, &entry.name(), &stamp).await {
                Ok(()) | Err(StoreError::NotFound) => return Ok(()),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(crowded(&format!("Secret {}/{}", self.namespace, entry.name())))
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

    /// Every readable entry. One that is not keeps no other from being worked on.
    async fn all<T: Kept>(&self, kind: Kind) -> Result<Vec<T>, StoreError> {
        let found: Vec<Secret> = self.calls.list(&self.namespace, &kind.selector(None)).await?;
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
        let which = Kind::Federation.selector(Some(service.as_str()));
        let found: Vec<Secret> = self.calls.list(&self.namespace, &which).await?;
        // Whether a broken one lives cannot be told, so it counts.
        let records: Vec<FederationRecord> = found.iter().map(read).collect::<Result<_, _>>()?;
        Ok(records.into_iter().find(|record| record.deleted.is_none()))
    }

    async fn federations(&self) -> Result<Vec<FederationRecord>, StoreError> {
        self.all(Kind::Federation).await
    }

    async fn remove_federation(&self, federation_id: &str, service: &ServiceName) -> Result<(), StoreError> {
        self.remove(Entry { kind: Kind::Federation, key: &[federation_id, service.as_str()] }).await
    }

    async fn keep_former(&self, former: &Former) -> Result<(), StoreError> {
        let entry = Entry { kind: Kind::Former, key: &[former.name.as_str(), &former.label] };
        match self.calls.create(&self.build(entry, &former.name, former)?).await {
            // The first of one label wins.
            Ok(_) | Err(StoreError::AlreadyExists) => Ok(()),
            Err(error) => Err(self.homeless(error)),
        }
    }

    async fn former(&self, name: &ServiceName, label: &str) -> Result<Option<Former>, StoreError> {
        let entry = Entry { kind: Kind::Former, key: &[name.as_str(), label] };
        let found: Option<Secret> = self.calls.get(&self.namespace, &entry.name()).await?;
        found.as_ref().map(read).transpose()
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
        let which = Kind::Fence.selector(Some(service.as_str()));
        let found: Vec<Secret> = self.calls.list(&self.namespace, &which).await?;
        // One that cannot be read may be the one that counts.
        found.iter().map(read).collect()
    }

    async fn forget_fences(&self, before: Seconds) -> Result<(), StoreError> {
        let standing: Vec<Fence> = self.all(Kind::Fence).await?;
        for fence in standing.iter().filter(|fence| fence.since < before) {
            self.remove(Entry { kind: Kind::Fence, key: &[fence.service.as_str(), &fence.label()] }).await?;
        }
        Ok(())
    }
}
