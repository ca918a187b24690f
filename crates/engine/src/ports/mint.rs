//! Tokens of owners, made from the refresh tokens that they left here.

use async_trait::async_trait;
use oscar_model::federation::record::{GrantState, Holder, Seconds};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;

/// Contract: errors are sentences for the owner and hold no token.
#[async_trait]
pub trait Mint: Send + Sync {
    /// An access token of the grant's owner, good for at least the next half minute.
    async fn mint(&self, grant: &str) -> Result<Secret, String>;

    /// The refresh token itself, for the one case in which its owner chose to share it.
    async fn reveal(&self, grant: &str) -> Result<Secret, String>;

    /// Stores a refresh token for a service, once for all services that were given the same one.
    /// A new one is tried; with `strict` one that its issuer refuses is not stored.
    async fn submit(&self, submission: Submission<'_>) -> Result<Submitted, String>;

    /// The service no longer needs it. The last one revokes it, at its issuer as soon as that
    /// answers; `actor` is who saw to that, blank when nobody did.
    async fn release(&self, grant: &str, holder: &Holder, actor: &str);

    /// The federation that it was submitted for did not come about: its owner may try again with
    /// the same text.
    async fn abandon(&self, grant: &str, holder: &Holder);

    /// Revokes what the service has, for every service that has it too.
    async fn revoke(&self, holder: &Holder, actor: &str) -> Result<(), String>;

    /// Stores the refresh token of a service that is in no federation, in the place of the one that
    /// was kept for it. It is neither tried nor used before the service is in one.
    async fn keep(&self, submission: Submission<'_>) -> Result<(), String>;

    /// What was kept for a service is needed now: tried, and given to it in its federation. Nothing
    /// when nothing was kept.
    async fn claim(&self, claim: Claim<'_>) -> Result<Option<Submitted>, String>;

    /// What was kept for a service is not needed any more. It is forgotten here and not revoked:
    /// nobody here has used it.
    async fn discard(&self, owner: &Owner, service: &ServiceName);

    /// Everybody who has a refresh token.
    async fn held(&self) -> Vec<Held>;

    /// Writes down that somebody has one, where it is not.
    async fn hold(&self, grant: &str, holder: &Holder);

    async fn status(&self, grant: &str) -> Option<GrantStatus>;

    /// Ends what nobody needs any more.
    async fn tidy(&self);
}

#[derive(Debug, Clone, Copy)]
pub struct Submission<'a> {
    /// Who brings it: the owner, or somebody for him.
    pub actor: &'a str,
    pub owner: &'a Owner,
    pub namespace: &'a str,
    pub holder: &'a Holder,
    pub token: &'a Secret,
    /// The token of the call that brought it.
    pub bearer: Option<&'a Secret>,
    pub strict: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    pub actor: &'a str,
    pub owner: &'a Owner,
    /// Whom it is given to.
    pub holder: &'a Holder,
    pub strict: bool,
}

/// Somebody has a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub grant: String,
    pub owner: Owner,
    pub holder: Holder,
    /// It was given to nobody later than this.
    pub since: Seconds,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    pub grant: String,
    pub warning: Option<String>,
}

/// What may be said of a stored refresh token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantStatus {
    pub state: GrantState,
    pub issuer: String,
    pub client: String,
    /// Seconds since it was submitted.
    pub age: Seconds,
    /// When it was used last.
    pub refreshed: Option<Seconds>,
    /// Why the last attempt failed, when it may work later.
    pub trouble: Option<String>,
    /// How many services use it.
    pub holders: usize,
}

/// The adapter of a manager that keeps no refresh tokens.
pub struct NoMint;

const NONE_KEPT: &str = "this manager keeps no refresh tokens";

#[async_trait]
impl Mint for NoMint {
    async fn mint(&self, _grant: &str) -> Result<Secret, String> {
        Err(NONE_KEPT.to_owned())
    }

    async fn reveal(&self, _grant: &str) -> Result<Secret, String> {
        Err(NONE_KEPT.to_owned())
    }

    async fn submit(&self, _submission: Submission<'_>) -> Result<Submitted, String> {
        Err(NONE_KEPT.to_owned())
    }

    async fn release(&self, _grant: &str, _holder: &Holder, _actor: &str) {}

    async fn abandon(&self, _grant: &str, _holder: &Holder) {}

    async fn revoke(&self, _holder: &Holder, _actor: &str) -> Result<(), String> {
        Err(NONE_KEPT.to_owned())
    }

    async fn keep(&self, _submission: Submission<'_>) -> Result<(), String> {
        Err(NONE_KEPT.to_owned())
    }

    async fn claim(&self, _claim: Claim<'_>) -> Result<Option<Submitted>, String> {
        Ok(None)
    }

    async fn discard(&self, _owner: &Owner, _service: &ServiceName) {}

    async fn held(&self) -> Vec<Held> {
        Vec::new()
    }

    async fn hold(&self, _grant: &str, _holder: &Holder) {}

    async fn status(&self, _grant: &str) -> Option<GrantStatus> {
        None
    }

    async fn tidy(&self) {}
}
