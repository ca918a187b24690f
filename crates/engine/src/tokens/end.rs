//! The end of a token, for one service or for all.

use std::collections::BTreeSet;
use std::sync::Arc;

use oscar_model::federation::record::{Grant, GrantState, Seconds};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;

use super::{Inner, MANAGER, TokenFailure, Tokens, undisturbed};

/// For how long a token waits for the service that it was given to.
const ABANDONED_AFTER: Seconds = 24 * 3600;

/// What became of a token that was revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// The id of the grant.
    pub id: String,
    pub at_issuer: AtIssuer,
    /// The services that had it too and have to be given another.
    pub others: BTreeSet<ServiceName>,
}

/// What the issuer did. Here the token is gone in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtIssuer {
    Revoked,
    /// It takes no tokens back: the token is good there until it expires.
    NotSupported,
    /// There was nothing left to revoke.
    Unneeded,
    Failed(String),
}

impl Tokens {
    /// A service needs its token no more. The last one to say so ends it, at the issuer too if that
    /// can be reached. Saying it twice does no harm.
    pub async fn release(&self, grant_id: &str, service: &ServiceName, actor: &str) -> Result<(), TokenFailure> {
        let (inner, id, service) = (Arc::clone(&self.0), grant_id.to_owned(), service.clone());
        let actor = named(actor);
        undisturbed(async move {
            let _turn = inner.turn(&id).await?;
            let Some(mut grant) = inner.find(&id).await? else { return Ok(()) };
            let held = grant.holders.clone();
            let was = grant.holders.remove(&service);
            if was {
                // Whoever finds it after a crash knows who still needs it.
                inner.store(&grant).await?;
            }
            if grant.holders.is_empty() {
                grant.holders = held;
                inner.finish(grant, &actor).await?;
            }
            Ok(())
        })
        .await
    }

    /// A service that a token was submitted for did not come about. The token stays for a day,
    /// because its owner will try again with the same text, and the issuer may not know that any
    /// more: it was rotated.
    pub async fn abandon(&self, grant_id: &str, service: &ServiceName) -> Result<(), TokenFailure> {
        let (inner, id, service) = (Arc::clone(&self.0), grant_id.to_owned(), service.clone());
        undisturbed(async move {
            let _turn = inner.turn(&id).await?;
            let Some(mut grant) = inner.find(&id).await? else { return Ok(()) };
            if grant.holders.remove(&service) {
                inner.store(&grant).await?;
            }
            Ok(())
        })
        .await
    }

    /// Ends every token of a service, for the other services that have it too: whoever revokes a
    /// token wants it to be good nowhere.
    pub async fn revoke(&self, service: &ServiceName, actor: &str) -> Result<Vec<Revocation>, TokenFailure> {
        let mut revoked = Vec::new();
        for Grant { id, .. } in self.0.held_by(service).await? {
            let (inner, service, actor) = (Arc::clone(&self.0), service.clone(), named(actor));
            let work = async move {
                let _turn = inner.turn(&id).await?;
                match inner.find(&id).await? {
                    Some(grant) if grant.holders.contains(&service) => {
                        inner.withdraw(grant, &service, &actor).await.map(Some)
                    }
                    Some(_) | None => Ok(None),
                }
            };
            revoked.extend(undisturbed(work).await?);
        }
        Ok(revoked)
    }

    /// Ends tokens that nobody has needed for a day. Answers how many.
    pub async fn tick_abandoned(&self) -> Result<usize, TokenFailure> {
        let mut ended = 0;
        for Grant { id, .. } in self.0.all().await? {
            let inner = Arc::clone(&self.0);
            let work = async move {
                let _turn = inner.turn(&id).await?;
                match inner.find(&id).await? {
                    Some(grant) if inner.is_abandoned(&grant) => inner.finish(grant, MANAGER).await.map(|_| true),
                    Some(_) | None => Ok(false),
                }
            };
            ended += usize::from(undisturbed(work).await?);
        }
        Ok(ended)
    }
}

/// Who acts, for the records.
fn named(actor: &str) -> String {
    if actor.is_empty() { MANAGER } else { actor }.to_owned()
}

impl Inner {
    fn is_abandoned(&self, grant: &Grant) -> bool {
        let used = grant.refreshed.unwrap_or(grant.submitted);
        grant.holders.is_empty() && self.now().saturating_sub(used) >= ABANDONED_AFTER
    }

    /// At the issuer first: a token that is forgotten here cannot be revoked any more.
    async fn finish(&self, grant: Grant, actor: &str) -> Result<AtIssuer, TokenFailure> {
        let at_issuer = self.give_back(grant.clone(), actor).await;
        self.remove(&grant.id).await?;
        Ok(at_issuer)
    }

    async fn withdraw(&self, mut grant: Grant, service: &ServiceName, actor: &str) -> Result<Revocation, TokenFailure> {
        let id = grant.id.clone();
        let mut others = grant.holders.clone();
        others.remove(service);
        let at_issuer = if others.is_empty() {
            self.finish(grant, actor).await?
        } else {
            let at_issuer = self.give_back(grant.clone(), actor).await;
            self.forget(&id);
            grant.token = Secret::default();
            grant.state = GrantState::SignInAgain(format!("it was revoked through the service {service}"));
            grant.holders = others.clone();
            self.store(&grant).await?;
            at_issuer
        };
        Ok(Revocation { id, at_issuer, others })
    }

    async fn give_back(&self, mut grant: Grant, actor: &str) -> AtIssuer {
        if grant.token.is_blank() {
            return AtIssuer::Unneeded;
        }
        let at_issuer = match self.terms(&mut grant) {
            Ok(terms) => match self.issuers.revoke(&terms, &grant.token).await {
                Ok(true) => AtIssuer::Revoked,
                Ok(false) => AtIssuer::NotSupported,
                Err(error) => AtIssuer::Failed(error.to_string()),
            },
            Err(error) => AtIssuer::Failed(error.to_string()),
        };
        let told = match &at_issuer {
            AtIssuer::Revoked | AtIssuer::Unneeded => "ok",
            AtIssuer::NotSupported => "forgotten here; the issuer takes no tokens back",
            AtIssuer::Failed(why) => why,
        };
        self.record("token-revoked", actor, &grant, told).await;
        at_issuer
    }
}
