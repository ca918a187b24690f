//! Identity providers, as far as refresh tokens need them.

use async_trait::async_trait;
use oscar_model::federation::record::Seconds;
use oscar_model::secret::Secret;

/// Contract:
/// - A refresh token goes to the token endpoint that discovery names for an issuer which the
///   operator listed, and nowhere else; no redirect is followed with it.
/// - A call is made once: a refresh that may have happened is not repeated, because a rotating
///   issuer would take the repetition for theft.
/// - Nothing in an error contains a token.
#[async_trait]
pub trait Issuers: Send + Sync {
    /// Whose token it is: read from the token itself when it is a JWT, else from the bearer that
    /// it came with, else what the operator configured.
    fn terms(&self, token: &Secret, bearer: Option<&Secret>) -> Result<Terms, IssuerError>;

    async fn refresh(&self, terms: &Terms, token: &Secret) -> Result<Minted, IssuerError>;

    /// RFC 7009, where the issuer can. `Ok(false)` when it cannot.
    async fn revoke(&self, terms: &Terms, token: &Secret) -> Result<bool, IssuerError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub issuer: String,
    pub client: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    pub access: Secret,
    pub expires: Seconds,
    /// The refresh token that replaces the one that was used.
    pub rotated: Option<Secret>,
    /// The `sub` of the access token, when it can be read.
    pub subject: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssuerError {
    /// `invalid_grant`: the owner has to sign in again.
    #[error("the issuer no longer accepts the refresh token: {0}")]
    InvalidGrant(String),
    #[error("'{0}' is not listed as an authorized issuer")]
    NotListed(String),
    #[error("whose refresh token it is cannot be told: {0}")]
    Untold(String),
    #[error("the issuer cannot be reached: {0}")]
    Unreachable(String),
    #[error("the issuer refused: {0}")]
    Refused(String),
}

impl IssuerError {
    /// The same refusal, when it is known to be about the token and not about the request.
    #[must_use]
    pub fn ending_the_grant(self) -> Self {
        match self {
            Self::Refused(why) => Self::InvalidGrant(why),
            other => other,
        }
    }
}
