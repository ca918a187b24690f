//! Tokens of the users of a story. What a cluster was given it keeps across crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use oscar_model::federation::record::GrantState;
use oscar_model::identity::{Principal, User};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;

use crate::ports::mint::{GrantStatus, Mint, Submission, Submitted};
use crate::testing::make::mk_user;

use super::executor::{Millis, Sim};

/// The refresh token of every user: it must be found nowhere but here.
pub(super) const PLANTED: &str = "planted-refresh-token";

/// How long an access token lasts.
const LIFETIME: Millis = 300_000;

/// Shown by whoever speaks for a user.
pub(super) fn bearer(sim: &Sim, user: &str) -> Secret {
    Secret::new(format!("access/{user}/{}", sim.millis() + LIFETIME))
}

/// Whose token it is, while it lasts.
pub(super) fn verify(sim: &Sim, token: &Secret) -> Option<Principal> {
    let mut parts = token.expose().split('/');
    let (kind, user, expires) = (parts.next()?, parts.next()?, parts.next()?);
    let good = kind == "access" && expires.parse::<Millis>().ok()? > sim.millis();
    good.then(|| Principal::User(user_named(user)))
}

pub(super) fn user_named(user: &str) -> User {
    mk_user(user)
}

pub(super) struct SimMint {
    sim: Arc<Sim>,
    /// Holders by owner: every user has one refresh token.
    holders: Mutex<BTreeMap<String, BTreeSet<ServiceName>>>,
}

impl SimMint {
    pub(super) fn new(sim: Arc<Sim>) -> Self {
        Self { sim, holders: Mutex::default() }
    }

    fn drop_holder(&self, grant: &str, service: &ServiceName) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(services) = holders.get_mut(grant) {
            services.remove(service);
        }
    }
}

#[async_trait]
impl Mint for SimMint {
    async fn mint(&self, grant: &str) -> Result<Secret, String> {
        Ok(bearer(&self.sim, grant))
    }

    async fn reveal(&self, _grant: &str) -> Result<Secret, String> {
        Ok(Secret::new(PLANTED))
    }

    async fn submit(&self, submission: Submission<'_>) -> Result<Submitted, String> {
        let grant = submission.owner.to_string();
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        holders.entry(grant.clone()).or_default().insert(submission.service.clone());
        Ok(Submitted { grant, warning: None })
    }

    async fn release(&self, grant: &str, service: &ServiceName, _actor: &str) {
        self.drop_holder(grant, service);
    }

    async fn abandon(&self, grant: &str, service: &ServiceName) {
        self.drop_holder(grant, service);
    }

    async fn revoke(&self, _service: &ServiceName, _actor: &str) -> Result<(), String> {
        Ok(())
    }

    async fn status(&self, _grant: &str) -> Option<GrantStatus> {
        Some(GrantStatus {
            state: GrantState::Valid,
            issuer: String::new(),
            client: String::new(),
            age: 0,
            refreshed: None,
            trouble: None,
            holders: 1,
        })
    }

    async fn tidy(&self) {}
}
