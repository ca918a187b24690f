//! Who a bearer token belongs to.

use async_trait::async_trait;
use oscar_model::identity::User;

/// Turns a bearer token into the person it was issued to.
///
/// Contract: a token is accepted only when a listed issuer signed it with one of its
/// published keys, it is valid now (within a small leeway), and its holder is in an
/// accepted group when groups are required. Nothing in a refusal contains the token.
/// An issuer that cannot be reached refuses its own tokens ([`Refusal::Unavailable`])
/// and nobody else's.
#[async_trait]
pub trait Identity: Send + Sync {
    async fn verify(&self, bearer: &str) -> Result<User, Refusal>;
}

/// Why a bearer token was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the bearer token is not a JSON web token: {0}")]
    Malformed(String),
    #[error("'{0}' is not listed as an authorized issuer")]
    IssuerNotListed(String),
    /// Signature, expiry, audience, algorithm. The text is for the log and the caller.
    #[error("the bearer token was refused: {0}")]
    NotValid(String),
    #[error("you are in none of the groups that this cluster accepts ({0})")]
    NoAcceptedGroup(String),
    /// The issuer could not be asked; trying again later may help.
    #[error("the identity provider '{issuer}' cannot be reached: {cause}")]
    Unavailable { issuer: String, cause: String },
    /// Bearer tokens are switched off in this cluster.
    #[error("this cluster accepts no bearer tokens of users")]
    SwitchedOff,
}

/// The adapter of a cluster without an identity provider.
pub struct NoIdentity;

#[async_trait]
impl Identity for NoIdentity {
    async fn verify(&self, _bearer: &str) -> Result<User, Refusal> {
        Err(Refusal::SwitchedOff)
    }
}
