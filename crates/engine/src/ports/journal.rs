//! What a manager must remember of federations across a crash.

use async_trait::async_trait;
use oscar_model::federation::record::{FederationRecord, Fence, Former, Operation, Seconds};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;

use super::StoreError;

/// Contract: what was put is durable when the call returns, and is read back as it was put.
/// What is kept holds credentials, so it is not readable at rest by anybody but the manager. Where
/// several managers share one journal, one of them writes; and a write that would undo another
/// manager's, which the caller cannot have read, is a `Conflict`.
#[async_trait]
pub trait Journal: Send + Sync {
    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError>;

    async fn remove_operation(&self, id: &str) -> Result<(), StoreError>;

    /// Operations that have not ended, oldest first.
    async fn operations(&self) -> Result<Vec<Operation>, StoreError>;

    /// One record per federation and service here: `own.service_name`.
    async fn put_federation(&self, federation: &FederationRecord) -> Result<(), StoreError>;

    /// The federation that a living service takes part in.
    async fn federation(&self, service: &ServiceName) -> Result<Option<FederationRecord>, StoreError>;

    /// The same by its id: for who knows it already, and may be anybody.
    async fn federation_with_id(
        &self,
        federation_id: &str,
        service: &ServiceName,
    ) -> Result<Option<FederationRecord>, StoreError>;

    /// Every federation, the deleted ones too.
    async fn federations(&self) -> Result<Vec<FederationRecord>, StoreError>;

    async fn remove_federation(&self, federation_id: &str, service: &ServiceName) -> Result<(), StoreError>;

    /// Keeps what was there before an operation. The first of one label wins: a repeated
    /// operation must not overwrite what it replaced itself.
    async fn keep_former(&self, former: &Former) -> Result<(), StoreError>;

    async fn former(&self, name: &ServiceName, label: &str) -> Result<Option<Former>, StoreError>;

    /// The name and the label of everything that is kept: a crash may have left what nobody will
    /// ask for.
    async fn formers(&self) -> Result<Vec<(ServiceName, String)>, StoreError>;

    async fn forget_former(&self, name: &ServiceName, label: &str) -> Result<(), StoreError>;

    /// One of each service and label: the last put counts.
    async fn put_fence(&self, fence: &Fence) -> Result<(), StoreError>;

    async fn fences(&self, service: &ServiceName) -> Result<Vec<Fence>, StoreError>;

    /// Those of an owner, of whatever service.
    async fn fences_of(&self, owner: &Owner) -> Result<Vec<Fence>, StoreError>;

    /// Forgets the fences that were put up before a time.
    async fn forget_fences(&self, before: Seconds) -> Result<(), StoreError>;
}
