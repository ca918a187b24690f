//! A token that somebody gave to a service.

use std::collections::BTreeSet;
use std::sync::Arc;

use oscar_model::federation::record::{Grant, GrantState, Holder};
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use sha2::{Digest, Sha256};

use super::kept::is_kept_only;
use super::{Inner, TokenFailure, Tokens, undisturbed};
use crate::ports::issuers::{IssuerError, Terms};
use crate::ports::mint::Submission;

/// Of a token that is only kept so far.
pub(super) const NOT_TRIED: &str = "it was not tried yet";

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// The id of the grant.
    pub id: String,
    pub state: GrantState,
    /// What the owner should know, though the token was taken.
    pub warning: Option<String>,
}

impl Tokens {
    /// Gives a token to a service, besides what the service may have already.
    ///
    /// The same value of the same owner is one grant, however often it is submitted: only the first
    /// time the issuer is asked. `bearer` is the access token that it came with. A token that the
    /// issuer refuses is a failure when `strict`, and otherwise stored with a warning.
    pub async fn submit(
        &self,
        owner: &Owner,
        namespace: &str,
        holder: &Holder,
        token: &Secret,
        bearer: Option<&Secret>,
        strict: bool,
    ) -> Result<Submitted, TokenFailure> {
        self.give(Submission { actor: owner.as_str(), owner, namespace, holder, token, bearer, strict }).await
    }

    /// The same for whoever brings it.
    pub(super) async fn give(&self, submission: Submission<'_>) -> Result<Submitted, TokenFailure> {
        let (grant, untold) = self.0.draft(&submission)?;
        let Submission { actor, holder, strict, .. } = submission;
        let (inner, holder, actor) = (Arc::clone(&self.0), holder.clone(), actor.to_owned());
        undisturbed(async move {
            let _turn = inner.turn(&grant.id).await?;
            match inner.find(&grant.id).await? {
                Some(known) => inner.share(known, holder, &actor, strict).await,
                None => inner.admit(grant, untold, &actor, strict).await,
            }
        })
        .await
    }

    /// Gives a token to a service in the place of what it has. What it had stays when the new one
    /// is refused.
    pub async fn replace(
        &self,
        owner: &Owner,
        namespace: &str,
        holder: &Holder,
        token: &Secret,
        bearer: Option<&Secret>,
    ) -> Result<Submitted, TokenFailure> {
        let submitted = self.submit(owner, namespace, holder, token, bearer, true).await?;
        for former in self.0.held_by(holder).await? {
            if former.id != submitted.id {
                self.release(&former.id, holder, owner.as_str()).await?;
            }
        }
        Ok(submitted)
    }
}

impl Inner {
    /// What would be stored, and why its issuer cannot be told, if it cannot.
    pub(super) fn draft(&self, submission: &Submission<'_>) -> Result<(Grant, Option<IssuerError>), TokenFailure> {
        let Submission { owner, namespace, holder, token, bearer, .. } = *submission;
        if token.is_blank() {
            return Err(TokenFailure::Blank);
        }
        let (terms, untold) = match self.issuers.terms(token, bearer) {
            Ok(terms) => (terms, None),
            Err(error) => {
                let issuer = if let IssuerError::NotListed(issuer) = &error { issuer.clone() } else { String::new() };
                (Terms { issuer, client: String::new() }, Some(error))
            }
        };
        let grant = Grant {
            id: grant_id(owner, &terms, token),
            owner: owner.clone(),
            namespace: namespace.to_owned(),
            issuer: terms.issuer,
            client: terms.client,
            token: token.clone(),
            state: GrantState::NotVerified(NOT_TRIED.to_owned()),
            submitted: self.now(),
            refreshed: None,
            holders: BTreeSet::from([holder.clone()]),
            given: self.now(),
            ending: None,
        };
        Ok((grant, untold))
    }

    /// One more service has a token that is known already.
    async fn share(
        &self,
        mut grant: Grant,
        holder: Holder,
        actor: &str,
        strict: bool,
    ) -> Result<Submitted, TokenFailure> {
        if let (true, GrantState::SignInAgain(why)) = (strict, &grant.state) {
            return Err(TokenFailure::NotAccepted(why.clone()));
        }
        if is_kept_only(&grant) {
            return self.try_kept(grant, holder, actor, strict).await;
        }
        self.give_to(&mut grant, holder).await?;
        self.record("token-submitted", actor, &grant, &grant.holders, "ok, known already").await;
        Ok(submitted(&grant))
    }

    /// Who is given a token that was about to end brings it back, unless it was revoked.
    pub(super) async fn give_to(&self, grant: &mut Grant, holder: Holder) -> Result<(), TokenFailure> {
        let revoked = matches!(grant.state, GrantState::SignInAgain(_));
        let ended = grant.ending.take_if(|_| !revoked).is_some();
        if grant.holders.insert(holder) || ended {
            grant.given = self.now();
            self.store(grant).await?;
        }
        Ok(())
    }

    /// Tries a new token once.
    pub(super) async fn admit(
        &self,
        mut grant: Grant,
        untold: Option<IssuerError>,
        actor: &str,
        strict: bool,
    ) -> Result<Submitted, TokenFailure> {
        let outcome = match untold {
            Some(error) => Err(TokenFailure::Issuer(error)),
            None => self.trade(&mut grant, actor).await,
        };
        match &outcome {
            Err(failure @ (TokenFailure::SomebodyElse | TokenFailure::Nobody)) => return Err(failure.clone()),
            Err(TokenFailure::SignInAgain(why)) if strict => return Err(TokenFailure::NotAccepted(why.clone())),
            Ok(_) | Err(TokenFailure::SignInAgain(_)) => self.settle(&grant, &outcome).await?,
            Err(failure) => {
                grant.state = GrantState::NotVerified(failure.to_string());
                self.store(&grant).await?;
            }
        }
        let submitted = submitted(&grant);
        let told = submitted.warning.as_deref().unwrap_or("ok");
        self.record("token-submitted", actor, &grant, &grant.holders, told).await;
        Ok(submitted)
    }
}

pub(super) fn submitted(grant: &Grant) -> Submitted {
    let warning = match (&grant.owner, &grant.state) {
        (Owner::Admin, _) => Some(TokenFailure::Administrator.to_string()),
        (Owner::User(_), GrantState::Valid) => None,
        (Owner::User(_), GrantState::NotVerified(why)) => Some(format!("the refresh token was not verified: {why}")),
        (Owner::User(_), GrantState::SignInAgain(why)) => Some(TokenFailure::NotAccepted(why.clone()).to_string()),
    };
    Submitted { id: grant.id.clone(), state: grant.state.clone(), warning }
}

/// Each part with its length before it: no two lists of parts are the same text.
fn grant_id(owner: &Owner, terms: &Terms, token: &Secret) -> String {
    let mut hash = Sha256::new();
    for part in [owner.as_str(), &terms.issuer, &terms.client, token.expose()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
