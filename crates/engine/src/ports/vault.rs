//! Where refresh tokens are kept, apart from everything else.

use async_trait::async_trait;
use oscar_model::federation::record::Grant;

use super::StoreError;

/// Contract: what was put is durable when the call returns; at rest it is readable by nobody but
/// the manager, and it is in no definition, pod, environment or list of other secrets.
#[async_trait]
pub trait Vault: Send + Sync {
    async fn put_grant(&self, grant: &Grant) -> Result<(), StoreError>;

    async fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError>;

    /// Every grant, by id.
    async fn grants(&self) -> Result<Vec<Grant>, StoreError>;

    async fn remove_grant(&self, id: &str) -> Result<(), StoreError>;
}
