//! Why a use case did not do what it was asked.

use oscar_model::fault::Faults;
use oscar_model::federation::topology::MemberId;
use oscar_model::job::JobName;
use oscar_model::name::ServiceName;

use crate::federate::{CreateFailure, MemberOutcome};
use crate::ports::StoreError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the definition is not valid: {0}")]
    Invalid(Faults),
    #[error("A service with the provided name already exists: {0}")]
    Exists(ServiceName),
    #[error("there is no service named {0}")]
    NotFound(ServiceName),
    /// It is there, but not for this caller. Upstream tells so too, and nobody mistakes the
    /// name for a free one.
    #[error("the service {0} belongs to somebody else and is not shown to you")]
    NotVisible(ServiceName),
    #[error("only its owner or the administrator may change the service {0}")]
    NotOwner(ServiceName),
    #[error("only the administrator may do this")]
    NotAdministrator,
    /// The caller named a revision that is no longer the current one.
    #[error("the service {0} was changed since you read it; read it again and repeat your change")]
    RevisionMismatch(ServiceName),
    /// Nobody who wrote this change can have known of theirs.
    #[error("members of {0} were changed elsewhere meanwhile; read it again and repeat your change")]
    MembersChanged(ServiceName),
    #[error("the stored definition of {name} cannot be read: {cause}")]
    Unreadable { name: ServiceName, cause: String },
    /// Nothing was touched anywhere.
    #[error("{undertaking}: {}", sentence(outcomes))]
    Obstacles { undertaking: Undertaking, outcomes: Vec<MemberOutcome> },
    /// What had been done was taken back, except at those that are left.
    #[error("the federation was not created: {}; {}", sentence(failed), rollback(left))]
    RolledBack { failed: Vec<MemberOutcome>, left: Vec<MemberOutcome> },
    /// It is a replica: its coordinator decides about it.
    #[error(
        "the service {service} is a replica of {coordinator}: change it there, or take it out of the federation with \
         `?detach=true`"
    )]
    Replica { service: ServiceName, coordinator: String },
    #[error("plain endpoints and storage providers are changed at the coordinator of {service}, {coordinator}")]
    AtCoordinator { service: ServiceName, coordinator: MemberId },
    #[error("the coordinator {coordinator} must know first, and does not answer: {cause}")]
    CoordinatorSilent { coordinator: MemberId, cause: String },
    #[error("other members hang below {0}: remove them too, or say `\"reparent\": true`")]
    InnerNode(String),
    #[error("the service {0} is not in that federation")]
    OtherFederation(ServiceName),
    /// A service token reaches only what the operator vouches for.
    #[error(
        "with a service token only clusters of the operator's registry can be changed, and {0} is not in it: sign in as \
         the owner"
    )]
    NotInRegistry(String),
    #[error("the refresh token cannot be used: {0}")]
    RefreshToken(String),
    /// What a coordinator sent was taken back or let go before it arrived.
    #[error("the service {0} has left that federation, or what was sent was taken back, before it arrived")]
    TooLate(ServiceName),
    #[error("the service {0} is in no federation")]
    NoFederation(ServiceName),
    #[error("there is no job named {0}")]
    NoJob(JobName),
    #[error("the job {0} has said nothing yet")]
    NoLog(JobName),
    #[error("the job {0} has ended already")]
    JobOver(JobName),
    #[error("this Idempotency-Key was used for the job {0}, with another body")]
    KeyReused(JobName),
    #[error("there is no bucket named {0}")]
    NoBucket(String),
    #[error("the bucket {0} exists already")]
    BucketExists(String),
    #[error("only its owner or the administrator may change the bucket {0}")]
    NotBucketOwner(String),
    #[error("the service {service} uses the bucket {bucket}: remove the service first")]
    BucketInUse { bucket: String, service: ServiceName },
    /// This manager keeps definitions only.
    #[error("this manager runs no jobs: {0}")]
    NoJobs(&'static str),
    #[error("what runs jobs failed: {0}")]
    Runtime(String),
    /// A fault of the manager itself.
    #[error("this should not happen: {0}")]
    Impossible(String),
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}

/// What members stood in the way of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undertaking {
    Create,
    /// Of a federation that is there.
    Change,
}

impl std::fmt::Display for Undertaking {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Create => "the federation was not created, and nothing was changed",
            Self::Change => "the members were not changed",
        })
    }
}

impl Failure {
    /// What a store says of one service, in the words of its caller.
    pub(crate) fn of_service(error: StoreError, name: &ServiceName) -> Self {
        match error {
            StoreError::AlreadyExists => Self::Exists(name.clone()),
            StoreError::NotFound => Self::NotFound(name.clone()),
            StoreError::Conflict => Self::RevisionMismatch(name.clone()),
            StoreError::Broken(cause) => Self::Unreadable { name: name.clone(), cause },
            other => Self::Store(other),
        }
    }
}

impl From<CreateFailure> for Failure {
    fn from(failure: CreateFailure) -> Self {
        match failure {
            CreateFailure::Obstacles(outcomes) => Self::Obstacles { undertaking: Undertaking::Create, outcomes },
            CreateFailure::RolledBack { failed, left } => Self::RolledBack { failed, left },
            CreateFailure::Local(failure) => failure,
        }
    }
}

/// Members with what is wrong with each.
fn sentence(outcomes: &[MemberOutcome]) -> String {
    outcomes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn rollback(left: &[MemberOutcome]) -> String {
    if left.is_empty() {
        return "everything that had been done was taken back".to_owned();
    }
    let left = sentence(left);
    format!("what had been done was taken back except at these members, where it is tried until it succeeds: {left}")
}
