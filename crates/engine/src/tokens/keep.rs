//! What is stored, and what should be.

use oscar_model::federation::record::{Grant, Holder};
use tokio::sync::OwnedMutexGuard;

use super::end::is_held;
use super::{Inner, TokenFailure};
use crate::ports::StoreError;
use crate::ports::vault::Claim;

/// Nobody else works with a grant, here or in another manager of this cluster.
pub(super) struct Turn {
    // Given back in this order.
    _claim: Claim,
    _lane: OwnedMutexGuard<()>,
}

impl Inner {
    pub(super) async fn turn(&self, id: &str) -> Result<Turn, TokenFailure> {
        let lane = self.turns.take(&id.to_owned()).await;
        Ok(Turn { _claim: self.vault.claim(id).await?, _lane: lane })
    }

    pub(super) async fn find(&self, id: &str) -> Result<Option<Grant>, TokenFailure> {
        if let Some(unsaved) = self.lock().unsaved.get(id) {
            return Ok(Some(unsaved.clone()));
        }
        Ok(self.vault.grant(id).await?)
    }

    pub(super) async fn load(&self, id: &str) -> Result<Grant, TokenFailure> {
        self.find(id).await?.ok_or_else(|| TokenFailure::Unknown(id.to_owned()))
    }

    /// What the vault does not take is kept until it does: it may be the only token that is
    /// still good.
    pub(super) async fn store(&self, grant: &Grant) -> Result<(), StoreError> {
        let stored = self.vault.put_grant(grant).await;
        let mut state = self.lock();
        match &stored {
            Ok(()) => state.unsaved.remove(&grant.id),
            Err(_) => state.unsaved.insert(grant.id.clone(), grant.clone()),
        };
        stored
    }

    /// Nothing is left of it here.
    pub(super) async fn remove(&self, id: &str) -> Result<(), StoreError> {
        self.forget_access(id);
        self.vault.remove_grant(id).await?;
        // Only now: what the vault has may be older than what it did not take.
        self.forget(id);
        Ok(())
    }

    /// No access token of it is used any more.
    pub(super) fn forget_access(&self, id: &str) {
        self.lock().cached.remove(id);
    }

    /// Nothing is left of it in memory.
    pub(super) fn forget(&self, id: &str) {
        let mut state = self.lock();
        state.cached.remove(id);
        state.troubles.remove(id);
        state.unsaved.remove(id);
    }

    pub(super) async fn all(&self) -> Result<Vec<Grant>, TokenFailure> {
        let stored = self.vault.grants().await?;
        let unsaved = self.lock().unsaved.clone();
        let newer = stored.into_iter().filter(|grant| !unsaved.contains_key(&grant.id));
        let mut all: Vec<Grant> = newer.chain(unsaved.values().cloned()).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }

    /// The newest first.
    pub(super) async fn held_by(&self, holder: &Holder) -> Result<Vec<Grant>, TokenFailure> {
        let mut held = self.all().await?;
        held.retain(|grant| is_held(grant, holder));
        held.sort_by_key(|grant| std::cmp::Reverse(grant.submitted));
        Ok(held)
    }
}
