//! Other managers, as a coordinator needs them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use oscar_model::federation::expand::Audience;
use oscar_model::federation::membership::Membership;
use oscar_model::federation::plan::{Found, Step};
use oscar_model::federation::record::{Contact, Credential, Seconds};
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;

/// Calls to the clusters that members live on.
///
/// Contract:
/// - Every change carries its operation, and repeating one changes nothing more: an answer that
///   got lost is asked for again.
/// - [`Peers::undo`] takes back what that operation did at that member and nothing else; an
///   operation that never arrived is undone by doing nothing, and where it could still arrive
///   that is said.
/// - [`PeerError::Unreachable`] means that the change may or may not have happened.
/// - What was taken back for good or withdrawn is not written by a deploy that arrives later.
/// - The credential of a call reaches the cluster that is called and no other.
/// - Each call ends within a time that the adapter bounds.
#[async_trait]
pub trait Peers: Send + Sync {
    /// What is there under the member's name. What stands in the way is part of the answer.
    async fn look(&self, call: &Call<'_>, federation_id: &str) -> Sighting;

    /// Writes a replica: creates it, takes over a plain service of the owner's, or updates it.
    /// `step.definition` is what is written.
    async fn deploy(&self, call: &Call<'_>, step: &Step, token: &Secret) -> Result<(), PeerError>;

    /// Removes a replica that this federation created, and gives an adopted one back.
    async fn withdraw(
        &self,
        call: &Call<'_>,
        step: &Step,
        federation_id: &str,
        operation: &str,
    ) -> Result<(), PeerError>;

    async fn undo(&self, call: &Call<'_>, step: &Step, operation: &str) -> Result<Undone, PeerError>;

    /// Gives a member of our kind its key, under the owner's credential.
    async fn join(&self, call: &Call<'_>, invitation: &Invitation) -> Result<(), PeerError>;

    /// Exchanges what both know, under the member's key.
    async fn sync(&self, call: &Call<'_>, exchange: &Exchange) -> Result<Exchange, PeerError>;
}

/// How an operation was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// Nothing of it is there, and nothing of it will be.
    ForGood,
    /// Nothing of it is there; what is still under way would be taken when it arrives.
    Absent,
}

/// Whom to call, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub member: &'a MemberId,
    pub contact: &'a Contact,
    /// On whose behalf: the owner of the federation.
    pub owner: &'a Owner,
    pub credential: &'a Credential,
    /// How much the coordinator knew: what it sent earlier and arrives later counts for nothing.
    pub time: u64,
}

/// What was found, and what kind of manager answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    pub found: Found,
    /// Nothing, when nobody answered.
    pub audience: Option<Audience>,
}

/// What a coordinator tells a new member of our kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    pub federation_id: String,
    /// The member as the federation names it.
    pub member: MemberId,
    pub coordinator: MemberId,
    /// The address of the coordinator's manager.
    pub endpoint: String,
    pub key: Secret,
    pub exchange: Exchange,
}

/// What members of our kind tell each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchange {
    pub federation_id: String,
    /// Who is speaking: the instance id of its manager.
    pub instance: String,
    pub membership: Membership,
    /// How the coordinator sees each member; blank from a worker.
    pub states: BTreeMap<MemberId, MemberState>,
}

/// How a member is, as its coordinator knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberState {
    pub condition: Condition,
    /// What went wrong last, blank when nothing did.
    pub trouble: String,
    /// When it answered last.
    pub seen: Option<Seconds>,
    /// The instance id of its manager, when it is of our kind.
    pub instance: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    InSync,
    /// It has not been told yet.
    Pending,
    /// Somebody changed it; it is being corrected.
    Drifted,
    Unreachable,
    /// It answered that it will not.
    Refused,
    /// Nobody can speak for the owner until he signs in again.
    Blocked,
}

impl Condition {
    pub const ALL: [Self; 6] =
        [Self::InSync, Self::Pending, Self::Drifted, Self::Unreachable, Self::Refused, Self::Blocked];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::InSync => "in-sync",
            Self::Pending => "pending",
            Self::Drifted => "drifted",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Blocked => "blocked",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| condition.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it refused the credentials: {0}")]
    Credentials(String),
    #[error("it refused: {0}")]
    Refused(String),
}

/// The adapter of a manager that calls nobody.
pub struct NoPeers;

const NOBODY: &str = "this manager calls no other";

#[async_trait]
impl Peers for NoPeers {
    async fn look(&self, _call: &Call<'_>, _federation_id: &str) -> Sighting {
        Sighting { found: Found::Unreachable(NOBODY.to_owned()), audience: None }
    }

    async fn deploy(&self, _call: &Call<'_>, _step: &Step, _token: &Secret) -> Result<(), PeerError> {
        Err(PeerError::Unreachable(NOBODY.to_owned()))
    }

    async fn withdraw(
        &self,
        _call: &Call<'_>,
        _step: &Step,
        _federation_id: &str,
        _operation: &str,
    ) -> Result<(), PeerError> {
        Err(PeerError::Unreachable(NOBODY.to_owned()))
    }

    async fn undo(&self, _call: &Call<'_>, _step: &Step, _operation: &str) -> Result<Undone, PeerError> {
        Err(PeerError::Unreachable(NOBODY.to_owned()))
    }

    async fn join(&self, _call: &Call<'_>, _invitation: &Invitation) -> Result<(), PeerError> {
        Err(PeerError::Unreachable(NOBODY.to_owned()))
    }

    async fn sync(&self, _call: &Call<'_>, _exchange: &Exchange) -> Result<Exchange, PeerError> {
        Err(PeerError::Unreachable(NOBODY.to_owned()))
    }
}
