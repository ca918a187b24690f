//! Users by the tokens of `OpenID Connect` issuers.
//!
//! A token is believed when a listed issuer signed it with a key that it publishes now,
//! and when it says nothing that speaks against it (time, audience, groups). What issuers
//! publish is read when the first token needs it, kept, and read again; an issuer that is
//! down costs its own users only, and comes back without a restart. Tokens are remembered
//! by their hash until they expire or their key is withdrawn.
//!
//! Refresh tokens are traded in by [`OidcIssuers`], which reads the same descriptions.
//!
//! Nothing here stores or prints a token.

mod backoff;
mod cache;
mod discovery;
mod groups;
mod http;
mod issuer;
mod kept;
mod keys;
mod refresh;
mod settings;
mod standing;
mod token;
mod unverified;
mod userinfo;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use oscar_engine::ports::clock::Clock;
use oscar_engine::ports::identity::{Identity, Refusal};
use oscar_model::identity::User;
use sha2::{Digest, Sha256};

use cache::Memory;
use issuer::{Issuer, Vouched};
use token::Token;

pub use groups::GroupSource;
pub use refresh::OidcIssuers;
pub use settings::{ClientSettings, IssuerSettings, OidcSettings, SettingsError, check_issuers};

/// Stands for a token wherever one would have to be kept.
type TokenHash = [u8; 32];

/// The longest piece of a stranger's text that is repeated to anybody.
const LONGEST_QUOTE: usize = 200;

/// Verifies bearer tokens of the listed issuers.
pub struct OidcIdentity {
    issuers: Vec<Issuer>,
    accepted_groups: Vec<String>,
    leeway: u64,
    clock: Arc<dyn Clock>,
    remembered: Mutex<Memory<TokenHash, Remembered>>,
}

#[derive(Clone)]
struct Remembered {
    issuer: usize,
    vouched: Arc<Vouched>,
}

/// How an issuer is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerHealth {
    pub issuer: String,
    /// Whether the last attempt to read from it succeeded.
    pub reachable: bool,
    /// How many of its keys can be used; they may be old ones while it is unreachable.
    pub keys: usize,
    pub last_error: Option<String>,
}

impl OidcIdentity {
    /// Checks the settings. No issuer is contacted before it is needed.
    pub fn new(settings: OidcSettings) -> Result<Self, SettingsError> {
        let mut issuers: Vec<Issuer> = Vec::new();
        for listed in &settings.issuers {
            let issuer = Issuer::new(listed, &settings)?;
            if issuers.iter().any(|other| other.is(issuer.url())) {
                return Err(SettingsError::Twice(issuer.url().to_owned()));
            }
            issuers.push(issuer);
        }
        if issuers.is_empty() {
            return Err(SettingsError::NoIssuer);
        }
        Ok(Self {
            issuers,
            accepted_groups: settings.named_groups(),
            leeway: settings.leeway.as_secs(),
            remembered: Mutex::new(Memory::new(settings.remembered_tokens)),
            clock: settings.clock,
        })
    }

    /// The state of every issuer, in the order of the settings. Reads what was not read yet.
    pub async fn health(&self) -> Vec<IssuerHealth> {
        futures::future::join_all(self.issuers.iter().map(Issuer::health)).await
    }

    /// What an earlier request found out, if it still holds.
    async fn recall(&self, hash: &TokenHash) -> Result<Option<User>, Refusal> {
        let Some(Remembered { issuer, vouched }) = self.memory().get(hash) else {
            return Ok(None);
        };
        let in_time = self.now() < vouched.until;
        if in_time && self.issuers[issuer].publishes(&vouched.key).await? {
            return Ok(Some(vouched.user.clone()));
        }
        self.memory().remove(hash);
        Ok(None)
    }

    async fn examine(&self, bearer: &str, hash: TokenHash) -> Result<User, Refusal> {
        let token = Token::parse(bearer)?;
        let iss = token.text("iss").unwrap_or_default();
        let Some(index) = self.issuers.iter().position(|issuer| issuer.is(iss)) else {
            return Err(Refusal::IssuerNotListed(quote(iss)));
        };
        let issuer = &self.issuers[index];
        token.check(self.now(), self.leeway, issuer.audience())?;
        let key = issuer.prove(&token).await?;

        let end = token.end(self.leeway)?;
        let groups_matter = !self.accepted_groups.is_empty();
        let (user, until) = issuer.describe(&token, hash, end, groups_matter).await?;
        let vouched = Vouched { user: user.clone(), key, until }.into();
        self.memory().put(hash, Remembered { issuer: index, vouched });
        Ok(user)
    }

    fn check_groups(&self, user: &User) -> Result<(), Refusal> {
        let accepted = &self.accepted_groups;
        if accepted.is_empty() || user.groups.iter().any(|group| accepted.contains(group)) {
            Ok(())
        } else {
            Err(Refusal::NoAcceptedGroup(accepted.join(", ")))
        }
    }

    fn now(&self) -> u64 {
        unix_seconds(self.clock.now())
    }

    fn memory(&self) -> MutexGuard<'_, Memory<TokenHash, Remembered>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Identity for OidcIdentity {
    async fn verify(&self, bearer: &str) -> Result<User, Refusal> {
        let hash: TokenHash = Sha256::digest(bearer).into();
        let user = match self.recall(&hash).await? {
            Some(user) => user,
            None => self.examine(bearer, hash).await?,
        };
        self.check_groups(&user)?;
        Ok(user)
    }
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn quote(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(LONGEST_QUOTE).collect()
}
