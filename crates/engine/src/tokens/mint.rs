//! Access tokens from stored refresh tokens.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use oscar_model::federation::record::{Grant, GrantState, Seconds};
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;

use super::{Inner, MANAGER, TokenFailure, Tokens};
use crate::ports::issuers::{IssuerError, Minted, Terms};

/// An access token is not used in its last minute, or the last tenth of a short life: it has to be
/// good when it arrives.
const LAST_SECONDS: Seconds = 60;

/// After a failure that may pass, the issuer is left alone: this long, then twice as long, …
const FIRST_PAUSE: Seconds = 1;
const LONGEST_PAUSE: Seconds = 30;

pub(super) type Flight = Shared<BoxFuture<'static, Result<Secret, TokenFailure>>>;

pub(super) struct Cached {
    access: Secret,
    made: Seconds,
    until: Seconds,
}

impl Cached {
    /// One from the future was made before the clock was set back: not to be relied on.
    fn serves(&self, now: Seconds) -> bool {
        self.made <= now && now < self.until
    }
}

/// A failure that may pass.
pub(super) struct Trouble {
    pub(super) failure: TokenFailure,
    in_a_row: u32,
    since: Seconds,
}

impl Trouble {
    fn blocks(&self, now: Seconds) -> bool {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.in_a_row.min(10)).min(LONGEST_PAUSE);
        self.since <= now && now < self.since + pause
    }
}

/// Takes a flight off the board, also when it crashed.
struct Landing {
    inner: Arc<Inner>,
    id: String,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.inner.lock().flights.remove(&self.id);
    }
}

impl Tokens {
    /// An access token of the owner, good for a while.
    pub async fn mint(&self, grant_id: &str) -> Result<Secret, TokenFailure> {
        let flight = {
            let mut state = self.0.lock();
            if let Some(cached) = state.cached.get(grant_id).filter(|cached| cached.serves(self.0.now())) {
                return Ok(cached.access.clone());
            }
            if let Some(flight) = state.flights.get(grant_id) {
                flight.clone()
            } else {
                let flight = take_off(Landing { inner: Arc::clone(&self.0), id: grant_id.to_owned() });
                state.flights.insert(grant_id.to_owned(), flight.clone());
                flight
            }
        };
        flight.await
    }
}

/// The one refresh that everybody waits for who asks meanwhile.
fn take_off(landing: Landing) -> Flight {
    let task = tokio::spawn(async move { landing.inner.mint_now(&landing.id).await });
    async move { task.await.unwrap_or(Err(TokenFailure::Interrupted)) }.boxed().shared()
}

impl Inner {
    async fn mint_now(&self, id: &str) -> Result<Secret, TokenFailure> {
        let _turn = self.turn(id).await?;
        // Whoever stood before us may have made one.
        if let Some(cached) = self.lock().cached.get(id).filter(|cached| cached.serves(self.now())) {
            return Ok(cached.access.clone());
        }
        let mut grant = self.load(id).await?;
        if grant.ending.is_some() && grant.holders.is_empty() {
            return Err(TokenFailure::Unknown(id.to_owned()));
        }
        if grant.owner == Owner::Admin {
            let failure = TokenFailure::Administrator;
            self.record("token-refused", MANAGER, &grant, &grant.holders, &failure.to_string()).await;
            return Err(failure);
        }
        if let GrantState::SignInAgain(why) = &grant.state {
            return Err(TokenFailure::SignInAgain(why.clone()));
        }
        if let Some(trouble) = self.lock().troubles.get(id).filter(|trouble| trouble.blocks(self.now())) {
            return Err(trouble.failure.clone());
        }
        // A successor that the vault did not take is the only good one: it is stored before it
        // is used up.
        let unsaved = self.lock().unsaved.get(id).cloned();
        if let Some(unsaved) = unsaved {
            self.store(&unsaved).await?;
        }
        let minted = self.trade(&mut grant, MANAGER).await;
        self.settle(&grant, &minted).await?;
        Ok(minted?.access)
    }

    /// Stores what a trade made of a grant. Only then the access token may be used.
    pub(super) async fn settle(
        &self,
        grant: &Grant,
        minted: &Result<Minted, TokenFailure>,
    ) -> Result<(), TokenFailure> {
        match minted {
            Ok(minted) => {
                let stored = self.store(grant).await;
                // Without a successor nothing is lost that could not be found out again.
                if minted.rotated.is_some() {
                    stored?;
                }
                if grant.owner != Owner::Admin {
                    let (access, made) = (minted.access.clone(), self.now());
                    let margin = LAST_SECONDS.min(minted.expires.saturating_sub(made) / 10);
                    let cached = Cached { access, made, until: minted.expires.saturating_sub(margin) };
                    self.lock().cached.insert(grant.id.clone(), cached);
                }
            }
            Err(failure) if failure.ends_grant() => {
                self.forget(&grant.id);
                // Kept in memory when it cannot be stored; the issuer would say it again.
                let _ = self.store(grant).await;
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Asks the issuer, once, and writes into the grant what follows. Nothing is stored yet.
    pub(super) async fn trade(&self, grant: &mut Grant, actor: &str) -> Result<Minted, TokenFailure> {
        let answer = match self.terms(grant) {
            Ok(terms) => self.issuers.refresh(&terms, &grant.token).await,
            Err(error) => Err(error),
        };
        let outcome = apply(grant, answer, self.now());
        self.note(&grant.id, outcome.as_ref().err());
        let act = match &outcome {
            Err(failure) if failure.ends_grant() => "token-refused",
            Ok(_) | Err(_) => "token-refreshed",
        };
        let told = outcome.as_ref().map_or_else(ToString::to_string, |_| "ok".to_owned());
        self.record(act, actor, grant, &grant.holders, &told).await;
        outcome
    }

    /// An issuer that could not be told at first may be listed now.
    pub(super) fn terms(&self, grant: &mut Grant) -> Result<Terms, IssuerError> {
        if grant.issuer.is_empty() || grant.client.is_empty() {
            let Terms { issuer, client } = self.issuers.terms(&grant.token, None)?;
            (grant.issuer, grant.client) = (issuer, client);
        }
        Ok(Terms { issuer: grant.issuer.clone(), client: grant.client.clone() })
    }

    /// The issuer was asked a moment ago and could not answer.
    pub(super) fn is_paused(&self, id: &str) -> bool {
        self.lock().troubles.get(id).is_some_and(|trouble| trouble.blocks(self.now()))
    }

    pub(super) fn note(&self, id: &str, failure: Option<&TokenFailure>) {
        let mut state = self.lock();
        match failure {
            Some(failure @ TokenFailure::Issuer(_)) => {
                let in_a_row = state.troubles.get(id).map_or(0, |before| before.in_a_row.saturating_add(1));
                let trouble = Trouble { failure: failure.clone(), in_a_row, since: self.now() };
                state.troubles.insert(id.to_owned(), trouble);
            }
            _ => {
                state.troubles.remove(id);
            }
        }
    }
}

fn apply(grant: &mut Grant, answer: Result<Minted, IssuerError>, now: Seconds) -> Result<Minted, TokenFailure> {
    match answer {
        Ok(minted) => {
            if let Err(failure) = check_subject(&grant.owner, minted.subject.as_deref()) {
                // What belongs to somebody else is not kept.
                grant.token = Secret::default();
                grant.state = GrantState::SignInAgain(failure.to_string());
                return Err(failure);
            }
            if let Some(rotated) = &minted.rotated {
                grant.token = rotated.clone();
            }
            grant.state = GrantState::Valid;
            grant.refreshed = Some(now);
            Ok(minted)
        }
        Err(IssuerError::InvalidGrant(why)) => {
            grant.state = GrantState::SignInAgain(why.clone());
            Err(TokenFailure::SignInAgain(why))
        }
        Err(error) => Err(TokenFailure::Issuer(error)),
    }
}

/// The administrator is nobody whom an issuer knows.
fn check_subject(owner: &Owner, found: Option<&str>) -> Result<(), TokenFailure> {
    match (owner, found) {
        (Owner::User(subject), Some(found)) if subject.as_str() != found => Err(TokenFailure::SomebodyElse),
        (Owner::User(_), None) => Err(TokenFailure::Nobody),
        (Owner::User(_), Some(_)) | (Owner::Admin, _) => Ok(()),
    }
}
