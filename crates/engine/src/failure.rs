//! Why a use case did not do what it was asked.

use oscar_model::fault::Faults;
use oscar_model::name::ServiceName;

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
    #[error("the stored definition of {name} cannot be read: {cause}")]
    Unreadable { name: ServiceName, cause: String },
    /// Deploying replicas to other clusters is not part of this version.
    #[error(
        "this version does not deploy replicas to other clusters yet: leave `federation.members` away, or use \
         topology `none`"
    )]
    FederationUnavailable,
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
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
