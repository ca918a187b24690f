//! What a manager must remember of federations across a crash.

use std::collections::BTreeMap;

use async_trait::async_trait;
use oscar_model::federation::membership::Membership;
use oscar_model::federation::plan::Step;
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;
use oscar_model::service::{Sensitive, Service};

use super::StoreError;

/// Contract: what was put is durable when the call returns, and is read back as it was put.
#[async_trait]
pub trait Journal: Send + Sync {
    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError>;

    async fn remove_operation(&self, id: &str) -> Result<(), StoreError>;

    /// Operations that have not ended, oldest first.
    async fn operations(&self) -> Result<Vec<Operation>, StoreError>;

    async fn put_federation(&self, federation: &FederationRecord) -> Result<(), StoreError>;

    async fn federation(&self, coordinator: &ServiceName) -> Result<Option<FederationRecord>, StoreError>;

    async fn federations(&self) -> Result<Vec<FederationRecord>, StoreError>;

    async fn remove_federation(&self, federation_id: &str) -> Result<(), StoreError>;

    /// Keeps what was there before an operation. The first of one label wins: a repeated
    /// operation must not overwrite what it replaced itself.
    async fn keep_former(&self, former: &Former) -> Result<(), StoreError>;

    async fn former(&self, name: &ServiceName, label: &str) -> Result<Option<Former>, StoreError>;

    async fn forget_former(&self, name: &ServiceName, label: &str) -> Result<(), StoreError>;
}

/// A create that is under way: all or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub id: String,
    pub federation_id: String,
    pub coordinator: ServiceName,
    /// On whose behalf the members are called.
    pub owner: Principal,
    pub phase: Phase,
    pub steps: Vec<Step>,
    pub endpoints: BTreeMap<MemberId, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Forward,
    /// Something failed; what was done is being taken back.
    Back,
}

/// A federation as its coordinator knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederationRecord {
    pub federation_id: String,
    pub coordinator: ServiceName,
    pub owner: Principal,
    pub membership: Membership,
    /// Members that are to be removed, with where they are.
    pub leaving: BTreeMap<MemberId, String>,
    /// The coordinator is gone; what is left is removing its members.
    pub deleted: bool,
}

/// What stood under a name before something was written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Former {
    pub name: ServiceName,
    /// The operation, or `adopted:<federation id>` for what is given back at the end.
    pub label: String,
    /// Nothing, when nothing was there.
    pub service: Option<(Service, Sensitive)>,
}
