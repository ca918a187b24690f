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

    /// Waits until no other process works with this grant: an issuer may end a whole family of
    /// tokens when one is traded twice. Within a process its callers take turns themselves, so a
    /// store that one process alone can open has nothing to do.
    async fn claim(&self, _id: &str) -> Result<Claim, StoreError> {
        Ok(Claim::default())
    }
}

/// A grant is ours until this is dropped.
#[derive(Default)]
pub struct Claim(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Claim {
    /// With what gives it back, without waiting.
    pub fn new(give_back: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(give_back)))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(give_back) = self.0.take() {
            give_back();
        }
    }
}
