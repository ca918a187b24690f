use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use oscar_model::name::ServiceName;

use crate::ports::StoreError;
use crate::ports::journal::{FederationRecord, Former, Journal, Operation};

#[derive(Default)]
pub struct MemoryJournal {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    operations: BTreeMap<String, Operation>,
    federations: BTreeMap<String, FederationRecord>,
    formers: BTreeMap<(ServiceName, String), Former>,
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
        Ok(self.state().operations.values().cloned().collect())
    }

    async fn put_federation(&self, federation: &FederationRecord) -> Result<(), StoreError> {
        self.state().federations.insert(federation.federation_id.clone(), federation.clone());
        Ok(())
    }

    async fn federation(&self, coordinator: &ServiceName) -> Result<Option<FederationRecord>, StoreError> {
        let state = self.state();
        let living = state.federations.values().find(|record| record.coordinator == *coordinator && !record.deleted);
        Ok(living.cloned())
    }

    async fn federations(&self) -> Result<Vec<FederationRecord>, StoreError> {
        Ok(self.state().federations.values().cloned().collect())
    }

    async fn remove_federation(&self, federation_id: &str) -> Result<(), StoreError> {
        self.state().federations.remove(federation_id);
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

    async fn forget_former(&self, name: &ServiceName, label: &str) -> Result<(), StoreError> {
        self.state().formers.remove(&(name.clone(), label.to_owned()));
        Ok(())
    }
}
