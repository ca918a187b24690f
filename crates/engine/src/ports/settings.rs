//! Settings that the administrator changes while the manager runs.

use async_trait::async_trait;

use super::StoreError;

/// Contract: a change that returned `Ok` is durable and seen by every later read.
#[async_trait]
pub trait Settings: Send + Sync {
    /// The repositories that images may come from; none allows all.
    async fn image_repositories(&self) -> Result<Vec<String>, StoreError>;

    async fn set_image_repositories(&self, repositories: Vec<String>) -> Result<(), StoreError>;
}
