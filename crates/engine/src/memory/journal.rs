use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use oscar_model::federation::record::{FederationRecord, Fence, Former, Operation, Seconds};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;

use crate::ports::StoreError;
use crate::ports::journal::Journal;

#[derive(Default)]
pub struct MemoryJournal {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    operations: BTreeMap<String, Operation>,
    federations: BTreeMap<(String, ServiceName), FederationRecord>,
    formers: BTreeMap<(ServiceName, String), Former>,
    fences: BTreeMap<(ServiceName, String), Fence>,
}

impl MemoryJournal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError> {
        self.state().operations.insert(operation.id.clone(), operation.clone());
        Ok(())
    }

    async fn remove_operation(&self, id: &str) -> Result<(), StoreError> {
        self.state().operations.remove(id);
        Ok(())
    }

    async fn operations(&self) -> Result<Vec<Operation>, StoreError> {
        let mut operations: Vec<_> = self.state().operations.values().cloned().collect();
        operations.sort_by(|a, b| (a.begun, &a.id).cmp(&(b.begun, &b.id)));
        Ok(operations)
    }

    async fn put_federation(&self, federation: &FederationRecord) -> Result<(), StoreError> {
        let key = (federation.federation_id.clone(), federation.own.service_name.clone());
        self.state().federations.insert(key, federation.clone());
        Ok(())
    }

    async fn federation(&self, service: &ServiceName) -> Result<Option<FederationRecord>, StoreError> {
        let state = self.state();
        let mut living = state.federations.values().filter(|record| record.deleted.is_none());
        Ok(living.find(|record| record.own.service_name == *service).cloned())
    }

    async fn federation_with_id(
        &self,
        federation_id: &str,
        service: &ServiceName,
    ) -> Result<Option<FederationRecord>, StoreError> {
        let key = (federation_id.to_owned(), service.clone());
        Ok(self.state().federations.get(&key).filter(|record| record.deleted.is_none()).cloned())
    }

    async fn federations(&self) -> Result<Vec<FederationRecord>, StoreError> {
        Ok(self.state().federations.values().cloned().collect())
    }

    async fn remove_federation(&self, federation_id: &str, service: &ServiceName) -> Result<(), StoreError> {
        self.state().federations.remove(&(federation_id.to_owned(), service.clone()));
        Ok(())
    }

    async fn keep_former(&self, former: &Former) -> Result<(), StoreError> {
        let key = (former.name.clone(), former.label.clone());
        self.state().formers.entry(key).or_insert_with(|| former.clone());
        Ok(())
    }

    async fn former(&self, name: &ServiceName, label: &str) -> Result<Option<Former>, StoreError> {
        Ok(self.state().formers.get(&(name.clone(), label.to_owned())).cloned())
    }

    async fn formers(&self) -> Result<Vec<(ServiceName, String)>, StoreError> {
        Ok(self.state().formers.keys().cloned().collect())
    }

    async fn forget_former(&self, name: &ServiceName, label: &str) -> Result<(), StoreError> {
        self.state().formers.remove(&(name.clone(), label.to_owned()));
        Ok(())
    }

    async fn put_fence(&self, fence: &Fence) -> Result<(), StoreError> {
        let key = (fence.service.clone(), fence.label());
        self.state().fences.insert(key, fence.clone());
        Ok(())
    }

    async fn fences(&self, service: &ServiceName) -> Result<Vec<Fence>, StoreError> {
        let state = self.state();
        Ok(state.fences.values().filter(|fence| fence.service == *service).cloned().collect())
    }

    async fn fences_of(&self, owner: &Owner) -> Result<Vec<Fence>, StoreError> {
        Ok(self.state().fences.values().filter(|fence| fence.owner == *owner).cloned().collect())
    }

    async fn forget_fences(&self, before: Seconds) -> Result<(), StoreError> {
        self.state().fences.retain(|_, fence| fence.since >= before);
        Ok(())
    }
}
