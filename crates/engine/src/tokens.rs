//! Refresh tokens of owners: kept once, traded in one at a time, given back at the end.
//!
//! A token is stored once for all services that were given the same one. Many issuers accept a
//! refresh token once and answer with its successor; a second use then looks like theft and ends
//! the owner's session. So a token that came back is stored before the access token beside it is
//! used, what was begun is finished even when its caller has gone away, and what was submitted
//! before is not tried again.
//!
//! No value of a token is in an error, a status or an audit record.

mod as_mint;
mod end;
mod failure;
mod keep;
mod kept;
mod mint;
mod submit;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use oscar_model::federation::record::{AuditRecord, Grant, GrantState, Holder, Seconds};

use crate::ports::audit::Audit;
use crate::ports::clock::Clock;
use crate::ports::issuers::Issuers;
use crate::ports::vault::Vault;
use crate::turns::Turns;

pub use end::{AtIssuer, Revocation};
pub use failure::TokenFailure;
pub use submit::Submitted;

use mint::{Cached, Flight, Trouble};

/// Who asks when nobody did: in audit records.
pub(crate) const MANAGER: &str = "manager";

/// The refresh tokens of this manager. Clones are the same.
#[derive(Clone)]
pub struct Tokens(Arc<Inner>);

struct Inner {
    vault: Arc<dyn Vault>,
    issuers: Arc<dyn Issuers>,
    clock: Arc<dyn Clock>,
    audit: Arc<dyn Audit>,
    /// Whoever reads a grant to change it stands in its queue.
    turns: Turns<String>,
    state: Mutex<State>,
}

/// By the id of the grant.
#[derive(Default)]
struct State {
    cached: HashMap<String, Cached>,
    flights: HashMap<String, Flight>,
    troubles: HashMap<String, Trouble>,
    /// What the vault did not take; it is newer than what is there.
    unsaved: HashMap<String, Grant>,
}

/// What may be told about a stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenStatus {
    pub id: String,
    pub state: GrantState,
    /// Since it was submitted.
    pub age_seconds: Seconds,
    pub issuer: String,
    pub client: String,
    pub refreshed: Option<Seconds>,
    /// Why the last attempt failed, when it may work later.
    pub trouble: Option<String>,
    pub holders: BTreeSet<Holder>,
}

impl Tokens {
    pub fn new(vault: Arc<dyn Vault>, issuers: Arc<dyn Issuers>, clock: Arc<dyn Clock>, audit: Arc<dyn Audit>) -> Self {
        let (turns, state) = (Turns::default(), Mutex::default());
        Self(Arc::new(Inner { vault, issuers, clock, audit, turns, state }))
    }

    pub async fn status(&self, grant_id: &str) -> Result<TokenStatus, TokenFailure> {
        let grant = self.0.load(grant_id).await?;
        Ok(self.0.describe(grant))
    }

    /// What a service was given, the newest first. It is more than one only while one is being
    /// replaced.
    pub async fn by_holder(&self, holder: &Holder) -> Result<Vec<TokenStatus>, TokenFailure> {
        let held = self.0.held_by(holder).await?;
        Ok(held.into_iter().map(|grant| self.0.describe(grant)).collect())
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Seconds {
        self.clock.now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn describe(&self, grant: Grant) -> TokenStatus {
        let trouble = self.lock().troubles.get(&grant.id).map(|trouble| trouble.failure.to_string());
        let age_seconds = self.now().saturating_sub(grant.submitted);
        let Grant { id, state, issuer, client, refreshed, holders, .. } = grant;
        TokenStatus { id, state, age_seconds, issuer, client, refreshed, trouble, holders }
    }

    async fn record(&self, act: &str, actor: &str, grant: &Grant, held: &BTreeSet<Holder>, outcome: &str) {
        let services: BTreeSet<&str> = held.iter().map(|holder| holder.service.as_str()).collect();
        let services: Vec<&str> = services.into_iter().collect();
        let record = AuditRecord {
            at: self.now(),
            actor: actor.to_owned(),
            owner: grant.owner.as_str().to_owned(),
            act: act.to_owned(),
            service: services.join(", "),
            target: grant.issuer.clone(),
            outcome: outcome.to_owned(),
        };
        self.audit.append(record).await;
    }
}

/// Goes on when its caller has gone away.
async fn undisturbed<T: Send + 'static>(
    work: impl Future<Output = Result<T, TokenFailure>> + Send + 'static,
) -> Result<T, TokenFailure> {
    tokio::spawn(work).await.unwrap_or(Err(TokenFailure::Interrupted))
}
