use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use oscar_model::secret::Secret;

use crate::ports::clock::Clock;
use crate::ports::issuers::{IssuerError, Issuers, Minted, Terms};

/// One issuer with one client. It treats a refresh token that comes a second time as stolen: then
/// no token of that sign-in is good any more.
pub struct MemoryIssuers {
    clock: Arc<dyn Clock>,
    /// How long access tokens are good.
    lifetime: u64,
    state: Mutex<State>,
    gate: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    keeps: bool,
    down: bool,
    /// By number; the number is the first part of each of its tokens.
    sign_ins: BTreeMap<usize, SignIn>,
    refreshes: usize,
    revocations: usize,
}

struct SignIn {
    subject: String,
    /// The number of the refresh token that is good.
    current: usize,
    over: bool,
}

impl MemoryIssuers {
    pub const ISSUER: &'static str = "https://issuer.example";
    pub const CLIENT: &'static str = "oscar";

    /// Rotates refresh tokens; see [`Self::keep_tokens`].
    pub fn new(clock: Arc<dyn Clock>, lifetime: u64) -> Self {
        Self { clock, lifetime, state: Mutex::default(), gate: tokio::sync::Mutex::default() }
    }

    /// From now on a refresh token stays good when it is used.
    pub fn keep_tokens(&self) {
        self.lock().keeps = true;
    }

    /// A fresh refresh token.
    pub fn sign_in(&self, subject: &str) -> Secret {
        let mut state = self.lock();
        let number = state.sign_ins.len();
        state.sign_ins.insert(number, SignIn { subject: subject.to_owned(), current: 0, over: false });
        mk_token(number, 0)
    }

    /// While it is down it cannot be reached.
    pub fn set_down(&self, down: bool) {
        self.lock().down = down;
    }

    /// Answers are held back as long as the guard lives; what was asked is done all the same.
    pub async fn hold_answers(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.gate.lock().await
    }

    /// How often it was asked for a new access token.
    pub fn refreshes(&self) -> usize {
        self.lock().refreshes
    }

    pub fn revocations(&self) -> usize {
        self.lock().revocations
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trade(&self, token: &Secret) -> Result<Minted, IssuerError> {
        let now = self.clock.now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut state = self.lock();
        state.refreshes += 1;
        if state.down {
            return Err(IssuerError::Unreachable("it is down".to_owned()));
        }
        let (keeps, refreshes) = (state.keeps, state.refreshes);
        let invalid = |why: &str| Err(IssuerError::InvalidGrant(why.to_owned()));
        let Some((sign_in, number)) = find(&state, token) else { return invalid("unknown token") };
        let Some(known) = state.sign_ins.get_mut(&sign_in).filter(|known| !known.over) else {
            return invalid("the session is over");
        };
        if number != known.current {
            known.over = true;
            return invalid("the token was used before");
        }
        if !keeps {
            known.current += 1;
        }
        Ok(Minted {
            access: Secret::new(format!("access-token-{sign_in}-{refreshes}")),
            expires: now + self.lifetime,
            rotated: (!keeps).then(|| mk_token(sign_in, known.current)),
            subject: Some(known.subject.clone()),
        })
    }
}

#[async_trait]
impl Issuers for MemoryIssuers {
    /// Its own tokens tell whose they are; for others a bearer has to.
    fn terms(&self, token: &Secret, bearer: Option<&Secret>) -> Result<Terms, IssuerError> {
        if bearer.is_none() && !token.expose().starts_with(PREFIX) {
            return Err(IssuerError::Untold("it is no token of this issuer".to_owned()));
        }
        Ok(Terms { issuer: Self::ISSUER.to_owned(), client: Self::CLIENT.to_owned() })
    }

    async fn refresh(&self, _terms: &Terms, token: &Secret) -> Result<Minted, IssuerError> {
        let answer = self.trade(token);
        drop(self.gate.lock().await);
        answer
    }

    async fn revoke(&self, _terms: &Terms, token: &Secret) -> Result<bool, IssuerError> {
        let mut state = self.lock();
        state.revocations += 1;
        if state.down {
            return Err(IssuerError::Unreachable("it is down".to_owned()));
        }
        if let Some((sign_in, _)) = find(&state, token)
            && let Some(known) = state.sign_ins.get_mut(&sign_in)
        {
            known.over = true;
        }
        Ok(true)
    }
}

const PREFIX: &str = "refresh-token-";

fn mk_token(sign_in: usize, number: usize) -> Secret {
    Secret::new(format!("{PREFIX}{sign_in}-{number}"))
}

/// The sign-in and the number of a token.
fn find(state: &State, token: &Secret) -> Option<(usize, usize)> {
    let (sign_in, number) = token.expose().strip_prefix(PREFIX)?.split_once('-')?;
    let found = (sign_in.parse().ok()?, number.parse().ok()?);
    state.sign_ins.contains_key(&found.0).then_some(found)
}
