//! The stores of a cluster as its manager meets them: any call may be its last, and the ledger
//! sees every change.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use oscar_model::federation::record::{FederationRecord, Fence, Former, Operation, Seconds};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::service::{Sensitive, Service};

use crate::ports::StoreError;
use crate::ports::journal::Journal;
use crate::ports::services::{Entry, Revision, Scope, Services, Stored};

use super::executor::Life;
use super::ground::{Ground, Site};

pub(super) struct SimServices {
    pub(super) ground: Arc<Ground>,
    pub(super) life: Life,
}

impl SimServices {
    fn site(&self) -> &Site {
        &self.ground.sites[self.life.site]
    }

    async fn step(&self) {
        self.ground.step(self.life).await;
    }

    fn written(&self) {
        self.site().writes.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Services for SimServices {
    async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError> {
        self.step().await;
        let created = self.site().services.create(service, sensitive).await;
        if let Ok(stored) = &created {
            self.written();
            self.ground.tell(|| format!("c{} stores {} (new)", self.life.site, stored.service.name()));
            self.ground.ledger().created(self.life.site, &stored.service);
        }
        self.step().await;
        created
    }

    async fn replace(
        &self,
        service: Service,
        sensitive: Sensitive,
        expected: &Revision,
    ) -> Result<Arc<Stored>, StoreError> {
        self.step().await;
        let replaced = self.site().services.replace(service, sensitive, expected).await;
        if let Ok(stored) = &replaced {
            self.written();
            self.ground.tell(|| format!("c{} stores {}", self.life.site, stored.service.name()));
            self.ground.ledger().replaced(self.life.site, &stored.service);
        }
        self.step().await;
        replaced
    }

    async fn remove(&self, name: &ServiceName, expected: Option<&Revision>) -> Result<(), StoreError> {
        self.step().await;
        let removed = self.site().services.remove(name, expected).await;
        if removed.is_ok() {
            self.written();
            self.ground.tell(|| format!("c{} removes {name}", self.life.site));
            self.ground.ledger().removed(self.life.site, name);
        }
        self.step().await;
        removed
    }

    async fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError> {
        self.step().await;
        self.site().services.get(name).await
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<Entry>, StoreError> {
        self.step().await;
        self.site().services.list(scope).await
    }

    async fn reveal(&self, name: &ServiceName) -> Result<Sensitive, StoreError> {
        self.step().await;
        self.site().services.reveal(name).await
    }
}

pub(super) struct SimJournal {
    pub(super) ground: Arc<Ground>,
    pub(super) life: Life,
}

impl SimJournal {
    fn site(&self) -> &Site {
        &self.ground.sites[self.life.site]
    }

    async fn write<T>(&self, what: impl FnOnce() -> String + Send, work: impl Future<Output = T> + Send) -> T {
        self.ground.step(self.life).await;
        let done = work.await;
        self.site().writes.fetch_add(1, Ordering::Relaxed);
        self.ground.tell(|| format!("c{} writes down {}", self.life.site, what()));
        self.ground.step(self.life).await;
        done
    }

    async fn read<T>(&self, work: impl Future<Output = T> + Send) -> T {
        self.ground.step(self.life).await;
        work.await
    }

    async fn has_former(&self, name: &ServiceName, label: &str) -> bool {
        self.site().journal.former(name, label).await.is_ok_and(|former| former.is_some())
    }
}

#[async_trait]
impl Journal for SimJournal {
    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError> {
        let what = || format!("operation {} ({:?})", short(&operation.id), operation.phase);
        self.write(what, self.site().journal.put_operation(operation)).await
    }

    async fn remove_operation(&self, id: &str) -> Result<(), StoreError> {
        let what = || format!("that operation {} has ended", short(id));
        self.write(what, self.site().journal.remove_operation(id)).await
    }

    async fn operations(&self) -> Result<Vec<Operation>, StoreError> {
        self.read(self.site().journal.operations()).await
    }

    async fn put_federation(&self, federation: &FederationRecord) -> Result<(), StoreError> {
        let what = || describe(federation);
        self.write(what, self.site().journal.put_federation(federation)).await
    }

    async fn federation(&self, service: &ServiceName) -> Result<Option<FederationRecord>, StoreError> {
        self.read(self.site().journal.federation(service)).await
    }

    async fn federation_with_id(
        &self,
        federation_id: &str,
        service: &ServiceName,
    ) -> Result<Option<FederationRecord>, StoreError> {
        self.read(self.site().journal.federation_with_id(federation_id, service)).await
    }

    async fn federations(&self) -> Result<Vec<FederationRecord>, StoreError> {
        self.read(self.site().journal.federations()).await
    }

    async fn remove_federation(&self, federation_id: &str, service: &ServiceName) -> Result<(), StoreError> {
        let what = || format!("that {service} is in federation {} no more", short(federation_id));
        self.write(what, self.site().journal.remove_federation(federation_id, service)).await
    }

    async fn keep_former(&self, former: &Former) -> Result<(), StoreError> {
        let what = || format!("what {} was before {}", former.name, short(&former.label));
        self.write(what, self.site().journal.keep_former(former)).await
    }

    async fn former(&self, name: &ServiceName, label: &str) -> Result<Option<Former>, StoreError> {
        self.read(self.site().journal.former(name, label)).await
    }

    async fn formers(&self) -> Result<Vec<(ServiceName, String)>, StoreError> {
        self.read(self.site().journal.formers()).await
    }

    async fn forget_former(&self, name: &ServiceName, label: &str) -> Result<(), StoreError> {
        if !self.has_former(name, label).await {
            // Nothing is written for nothing.
            return self.read(self.site().journal.forget_former(name, label)).await;
        }
        let what = || format!("that what {name} was before {} is not needed", short(label));
        self.write(what, self.site().journal.forget_former(name, label)).await
    }

    async fn put_fence(&self, fence: &Fence) -> Result<(), StoreError> {
        let what = || format!("that {} takes no more of {:?}", fence.service, fence.against);
        self.write(what, self.site().journal.put_fence(fence)).await
    }

    async fn fences(&self, service: &ServiceName) -> Result<Vec<Fence>, StoreError> {
        self.read(self.site().journal.fences(service)).await
    }

    async fn fences_of(&self, owner: &Owner) -> Result<Vec<Fence>, StoreError> {
        self.read(self.site().journal.fences_of(owner)).await
    }

    async fn forget_fences(&self, before: Seconds) -> Result<(), StoreError> {
        self.read(self.site().journal.forget_fences(before)).await
    }
}

/// Ids are long; their beginnings differ.
pub(super) fn short(id: &str) -> &str {
    let end = id.find(':').map_or(8, |colon| colon + 9);
    id.get(..end).unwrap_or(id)
}

fn describe(record: &FederationRecord) -> String {
    let members: Vec<String> = record.membership.members().map(|(id, _)| id.to_string()).collect();
    let leaving: Vec<String> = record.leaving.keys().map(ToString::to_string).collect();
    let ended = if record.deleted.is_some() { ", deleted" } else { "" };
    format!(
        "federation {} of {}{ended}: members [{}] at {}, leaving [{}]",
        short(&record.federation_id),
        record.own,
        members.join(" "),
        record.membership.time(),
        leaving.join(" ")
    )
}
