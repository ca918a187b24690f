use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use oscar_model::federation::record::{AuditRecord, Grant};

use crate::ports::StoreError;
use crate::ports::audit::Audit;
use crate::ports::vault::Vault;

#[derive(Default)]
pub struct MemoryVault {
    grants: Mutex<BTreeMap<String, Grant>>,
}

#[async_trait]
impl Vault for MemoryVault {
    async fn put_grant(&self, grant: &Grant) -> Result<(), StoreError> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).insert(grant.id.clone(), grant.clone());
        Ok(())
    }

    async fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        Ok(self.grants.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned())
    }

    async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        Ok(self.grants.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect())
    }

    async fn remove_grant(&self, id: &str) -> Result<(), StoreError> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        Ok(())
    }
}

#[derive(Default)]
pub struct MemoryAudit {
    records: Mutex<VecDeque<AuditRecord>>,
}

/// Enough to look back; older ones are forgotten.
const MOST_RECORDS: usize = 10_000;

#[async_trait]
impl Audit for MemoryAudit {
    async fn append(&self, record: AuditRecord) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.push_front(record);
        records.truncate(MOST_RECORDS);
    }

    async fn recent(&self, most: usize) -> Result<Vec<AuditRecord>, StoreError> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(records.iter().take(most).cloned().collect())
    }
}
