//! Who did what for whom elsewhere.

use async_trait::async_trait;
use oscar_model::federation::record::AuditRecord;

use super::StoreError;

/// Contract: appending never makes the act itself fail; what cannot be stored is at least in the
/// log. No record holds a credential.
#[async_trait]
pub trait Audit: Send + Sync {
    async fn append(&self, record: AuditRecord);

    /// The newest first.
    async fn recent(&self, most: usize) -> Result<Vec<AuditRecord>, StoreError>;
}
