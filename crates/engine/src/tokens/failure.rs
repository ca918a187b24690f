use crate::ports::StoreError;
use crate::ports::issuers::IssuerError;

/// Why there is no token. No text holds one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenFailure {
    #[error("the refresh token is blank")]
    Blank,
    /// A token that was given just now.
    #[error("the refresh token is not accepted: {0}; sign in again and give the new one")]
    NotAccepted(String),
    #[error("the refresh token belongs to somebody else than the owner of the service")]
    SomebodyElse,
    /// Its access tokens would be refused elsewhere too.
    #[error("whose the refresh token is cannot be verified: the access tokens of its issuer name nobody")]
    Nobody,
    /// A token that was stored before.
    #[error("the stored refresh token is no longer accepted: {0}; the owner has to sign in again and give a new one")]
    SignInAgain(String),
    #[error(
        "a service of the administrator is not represented at other clusters by a refresh token: give \
         `clusters.<id>.auth_user` and `clusters.<id>.auth_password`, or create the service as a user"
    )]
    Administrator,
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    #[error("there is no stored refresh token with the id {0}")]
    Unknown(String),
    #[error("the manager was stopped meanwhile")]
    Interrupted,
    #[error("the store of refresh tokens failed: {0}")]
    Store(#[from] StoreError),
}

impl TokenFailure {
    /// Whether the same token can never work again.
    pub(super) fn ends_grant(&self) -> bool {
        matches!(self, Self::SignInAgain(_) | Self::SomebodyElse | Self::Nobody)
    }
}
