//! The end of a token, for one service or for all.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use oscar_model::federation::record::{Grant, GrantState, Holder, Seconds};
use oscar_model::secret::Secret;

use super::{Inner, MANAGER, TokenFailure, Tokens, undisturbed};
use crate::ports::issuers::IssuerError;

/// For how long a token waits for the service that it was given to.
const ABANDONED_AFTER: Seconds = 24 * 3600;

/// For how long an issuer that cannot be reached is told of the end of a token.
const TOLD_FOR: Seconds = 30 * 24 * 3600;

/// What became of a token that was revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// The id of the grant.
    pub id: String,
    pub at_issuer: AtIssuer,
    /// Those that had it too and have to be given another.
    pub others: BTreeSet<Holder>,
}

/// What the issuer did. Here nobody uses the token any more in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtIssuer {
    Revoked,
    /// It takes no tokens back: the token is good there until it expires.
    NotSupported,
    /// There was nothing left to revoke.
    Unneeded,
    /// It cannot be reached, and is told when it can.
    Later(String),
    Failed(String),
}

impl Tokens {
    /// A service needs its token no more. The last one to say so ends it, at the issuer too: when
    /// that cannot be reached, as soon as it can. Saying it twice does no harm.
    pub async fn release(&self, grant_id: &str, holder: &Holder, actor: &str) -> Result<(), TokenFailure> {
        let (inner, id, holder) = (Arc::clone(&self.0), grant_id.to_owned(), holder.clone());
        let actor = named(actor);
        undisturbed(async move {
            let _turn = inner.turn(&id).await?;
            let Some(mut grant) = inner.find(&id).await? else { return Ok(()) };
            let held = grant.holders.clone();
            let was = let_go(&mut grant, &holder);
            if grant.holders.is_empty() {
                inner.end(grant, &held, &actor).await?;
            } else if was {
                inner.store(&grant).await?;
            }
            Ok(())
        })
        .await
    }

    /// A service that a token was submitted for did not come about. The token stays for a day,
    /// because its owner will try again with the same text, and the issuer may not know that any
    /// more: it was rotated.
    pub async fn abandon(&self, grant_id: &str, holder: &Holder) -> Result<(), TokenFailure> {
        let (inner, id, holder) = (Arc::clone(&self.0), grant_id.to_owned(), holder.clone());
        undisturbed(async move {
            let _turn = inner.turn(&id).await?;
            let Some(mut grant) = inner.find(&id).await? else { return Ok(()) };
            if grant.holders.remove(&holder) {
                inner.store(&grant).await?;
            }
            Ok(())
        })
        .await
    }

    /// Ends every token of a service, for the other services that have it too: whoever revokes a
    /// token wants it to be good nowhere.
    pub async fn revoke(&self, holder: &Holder, actor: &str) -> Result<Vec<Revocation>, TokenFailure> {
        let mut revoked = Vec::new();
        for Grant { id, .. } in self.0.held_by(holder).await? {
            let (inner, holder, actor) = (Arc::clone(&self.0), holder.clone(), named(actor));
            let work = async move {
                let _turn = inner.turn(&id).await?;
                match inner.find(&id).await? {
                    Some(grant) if is_held(&grant, &holder) => inner.withdraw(grant, &holder, &actor).await.map(Some),
                    Some(_) | None => Ok(None),
                }
            };
            revoked.extend(undisturbed(work).await?);
        }
        Ok(revoked)
    }

    /// Ends tokens that nobody has needed for a day, and goes on with telling issuers of those that
    /// have ended. Answers how many are done. One that fails keeps no other waiting.
    pub async fn tick_abandoned(&self) -> Result<usize, TokenFailure> {
        let works = self.0.all().await?.into_iter().map(|Grant { id, .. }| {
            let inner = Arc::clone(&self.0);
            undisturbed(async move {
                let _turn = inner.turn(&id).await?;
                match inner.find(&id).await? {
                    Some(grant) if grant.ending.is_some() && inner.is_paused(&id) => Ok(false),
                    Some(grant) if grant.ending.is_some() || inner.is_abandoned(&grant) => {
                        let held = grant.holders.clone();
                        let at_issuer = inner.end(grant, &held, MANAGER).await?;
                        Ok(!matches!(at_issuer, AtIssuer::Later(_)))
                    }
                    Some(_) | None => Ok(false),
                }
            })
        });
        // An issuer that hangs takes a while for each of its tokens.
        let ended = stream::iter(works).buffer_unordered(ENDED_AT_ONCE);
        Ok(ended.filter(|done| std::future::ready(done.as_ref().is_ok_and(|done| *done))).count().await)
    }
}

/// How many issuers are told at the same time.
const ENDED_AT_ONCE: usize = 16;

/// Who acts, for the records.
fn named(actor: &str) -> String {
    if actor.is_empty() { MANAGER } else { actor }.to_owned()
}

/// In which federation its service is was not always written down.
pub(super) fn is_held(grant: &Grant, holder: &Holder) -> bool {
    grant.holders.contains(holder) || grant.holders.contains(&Holder::from(holder.service.clone()))
}

fn let_go(grant: &mut Grant, holder: &Holder) -> bool {
    grant.holders.remove(holder) || grant.holders.remove(&Holder::from(holder.service.clone()))
}

impl Inner {
    fn is_abandoned(&self, grant: &Grant) -> bool {
        let used = grant.refreshed.unwrap_or(grant.submitted).max(grant.given);
        grant.holders.is_empty() && self.now().saturating_sub(used) >= ABANDONED_AFTER
    }

    /// Nobody uses it from now on. At the issuer first: a token that is forgotten here cannot be
    /// revoked any more. `held` are those who had it.
    async fn end(&self, mut grant: Grant, held: &BTreeSet<Holder>, actor: &str) -> Result<AtIssuer, TokenFailure> {
        self.forget_access(&grant.id);
        let begun = grant.ending;
        let since = *grant.ending.get_or_insert_with(|| self.now());
        if begun.is_none() {
            // Whoever finds it after a crash goes on.
            self.store(&grant).await?;
        }
        let at_issuer = self.give_back(&mut grant, begun.is_some(), held, actor).await;
        if matches!(at_issuer, AtIssuer::Later(_)) && self.now().saturating_sub(since) < TOLD_FOR {
            return Ok(at_issuer);
        }
        if grant.holders.is_empty() {
            self.remove(&grant.id).await?;
        } else {
            // The others have to be told that they need another one.
            (grant.token, grant.ending) = (Secret::default(), None);
            self.store(&grant).await?;
        }
        Ok(at_issuer)
    }

    async fn withdraw(&self, mut grant: Grant, holder: &Holder, actor: &str) -> Result<Revocation, TokenFailure> {
        let (id, held) = (grant.id.clone(), grant.holders.clone());
        let_go(&mut grant, holder);
        let others = grant.holders.clone();
        if !others.is_empty() {
            let why = format!("it was revoked through the service {}", holder.service);
            grant.state = GrantState::SignInAgain(why);
        }
        let at_issuer = self.end(grant, &held, actor).await?;
        Ok(Revocation { id, at_issuer, others })
    }

    /// What is tried again and fails again is not written down each time.
    async fn give_back(&self, grant: &mut Grant, again: bool, held: &BTreeSet<Holder>, actor: &str) -> AtIssuer {
        if grant.token.is_blank() {
            return AtIssuer::Unneeded;
        }
        let revoked = match self.terms(grant) {
            Ok(terms) => self.issuers.revoke(&terms, &grant.token).await,
            Err(error) => Err(error),
        };
        let failure = revoked.as_ref().err().map(|error| TokenFailure::Issuer(error.clone()));
        self.note(&grant.id, failure.as_ref());
        let at_issuer = match revoked {
            Ok(true) => AtIssuer::Revoked,
            Ok(false) => AtIssuer::NotSupported,
            Err(error @ IssuerError::Unreachable(_)) => AtIssuer::Later(error.to_string()),
            Err(error) => AtIssuer::Failed(error.to_string()),
        };
        let told = match &at_issuer {
            AtIssuer::Revoked | AtIssuer::Unneeded => "ok".to_owned(),
            AtIssuer::NotSupported => "forgotten here; the issuer takes no tokens back".to_owned(),
            AtIssuer::Later(_) if again => return at_issuer,
            AtIssuer::Later(why) => format!("{why}; it is tried again"),
            AtIssuer::Failed(why) => why.clone(),
        };
        self.record("token-revoked", actor, grant, held, &told).await;
        at_issuer
    }
}
