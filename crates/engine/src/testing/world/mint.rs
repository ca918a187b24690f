//! Tokens of the users of a story. What a cluster was given it keeps across crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use oscar_model::federation::record::{GrantState, Holder};
use oscar_model::identity::{Owner, Principal, User};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;

use crate::ports::mint::{Claim, GrantStatus, Held, Mint, Submission, Submitted};
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
    holders: Mutex<BTreeMap<String, BTreeSet<Holder>>>,
}

impl SimMint {
    pub(super) fn new(sim: Arc<Sim>) -> Self {
        Self { sim, holders: Mutex::default() }
    }

    fn drop_holder(&self, grant: &str, holder: &Holder) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holders) = holders.get_mut(grant) {
            holders.remove(holder);
        }
    }

    fn add_holder(&self, grant: &str, holder: &Holder) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        holders.entry(grant.to_owned()).or_default().insert(holder.clone());
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
        self.add_holder(&grant, submission.holder);
        Ok(Submitted { grant, warning: None })
    }

    async fn release(&self, grant: &str, holder: &Holder, _actor: &str) {
        self.drop_holder(grant, holder);
    }

    async fn abandon(&self, grant: &str, holder: &Holder) {
        self.drop_holder(grant, holder);
    }

    async fn revoke(&self, _holder: &Holder, _actor: &str) -> Result<(), String> {
        Ok(())
    }

    async fn keep(&self, submission: Submission<'_>) -> Result<(), String> {
        self.add_holder(&submission.owner.to_string(), &Holder::from(submission.holder.service.clone()));
        Ok(())
    }

    async fn claim(&self, claim: Claim<'_>) -> Result<Option<Submitted>, String> {
        let (grant, outside) = (claim.owner.to_string(), Holder::from(claim.holder.service.clone()));
        let holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner).get(&grant).cloned();
        if !holders.unwrap_or_default().contains(&outside) {
            return Ok(None);
        }
        self.add_holder(&grant, claim.holder);
        Ok(Some(Submitted { grant, warning: None }))
    }

    async fn discard(&self, owner: &Owner, service: &ServiceName) {
        self.drop_holder(owner.as_str(), &Holder::from(service.clone()));
    }

    async fn held(&self) -> Vec<Held> {
        let holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        let since = self.sim.millis() / 1000;
        let of = |(grant, held): (&String, &BTreeSet<Holder>)| {
            let owner = Owner::parse(grant).unwrap_or(Owner::Admin);
            let mk =
                |holder: &Holder| Held { grant: grant.clone(), owner: owner.clone(), holder: holder.clone(), since };
            held.iter().map(mk).collect::<Vec<_>>()
        };
        holders.iter().flat_map(of).collect()
    }

    async fn hold(&self, grant: &str, holder: &Holder) {
        self.drop_holder(grant, &Holder::from(holder.service.clone()));
        self.add_holder(grant, holder);
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
