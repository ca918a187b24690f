//! Other managers, as a coordinator needs them.

use async_trait::async_trait;
use oscar_model::federation::plan::Found;
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Principal;
use oscar_model::secret::Secret;
use oscar_model::service::Definition;

/// Calls to the clusters that members live on.
///
/// Contract:
/// - Every change carries its operation, and repeating one changes nothing more: an answer that
///   got lost is asked for again.
/// - [`Peers::undo`] takes back what that operation did at that member and nothing else; an
///   operation that never arrived is undone by doing nothing.
/// - [`PeerError::Unreachable`] means that the change may or may not have happened.
/// - No credential of the caller reaches another cluster than the one that is called.
#[async_trait]
pub trait Peers: Send + Sync {
    /// What is there under the member's name. What stands in the way is part of the answer.
    async fn look(&self, call: &Call<'_>, federation_id: &str) -> Found;

    /// Writes a replica: creates it, takes over a plain service of the owner's, or updates it.
    async fn deploy(&self, call: &Call<'_>, definition: &Definition, token: &Secret) -> Result<(), PeerError>;

    /// Removes a replica that this federation created, and gives an adopted one back.
    async fn withdraw(&self, call: &Call<'_>, federation_id: &str, operation: &str) -> Result<(), PeerError>;

    async fn undo(&self, call: &Call<'_>, operation: &str) -> Result<(), PeerError>;
}

/// Whom to call, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub member: &'a MemberId,
    /// The address of its cluster's manager.
    pub endpoint: &'a str,
    /// On whose behalf: the owner of the federation.
    pub owner: &'a Principal,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it refused: {0}")]
    Refused(String),
}
