//! What a user has in this cluster.

use async_trait::async_trait;
use oscar_model::identity::Owner;

use super::StoreError;

/// Gives owners a place of their own at their first contact.
///
/// Contract: idempotent; concurrent calls for one owner make one place; two owners never
/// share one. A call that failed half-way is finished by the next one.
#[async_trait]
pub trait Users: Send + Sync {
    /// Asked with every request of a user, so what is known is answered without a call; and what
    /// somebody deleted meanwhile is made again.
    async fn ensure(&self, owner: &Owner, display_name: &str) -> Result<Home, StoreError>;

    /// The place that [`Users::ensure`] would answer now. Makes nothing.
    async fn look(&self, owner: &Owner) -> Result<Home, StoreError>;
}

/// Where an owner's things live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    pub namespace: String,
}
