//! Asking an issuer about the holder of a token, for what the token itself does not say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use oscar_engine::ports::clock::Clock;
use oscar_engine::ports::identity::Refusal;
use reqwest::{StatusCode, Url};
use serde_json::{Map, Value};

use super::backoff::Backoff;
use super::cache::Memory;
use super::discovery::canonical;
use super::http::{ClaimsAnswer, HttpFailure, IssuerClient};
use super::kept::Kept;
use super::keys::{KeySet, Unproved, prove};
use super::settings::OidcSettings;
use super::token::Token;
use super::{TokenHash, unix_seconds};

pub(super) type Claims = Arc<Map<String, Value>>;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The issuer does not accept the token any more, or speaks of somebody else.
    Refused(String),
    Unavailable(String),
}

type Flight = Shared<BoxFuture<'static, Result<Answered, NoAnswer>>>;

/// An answer and the second until which it may be used.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub(super) claims: Claims,
    pub(super) until: u64,
}

/// One question.
pub(super) struct Question<'a> {
    pub(super) hash: TokenHash,
    pub(super) bearer: &'a str,
    pub(super) subject: &'a str,
    /// The second from which on the token is refused.
    pub(super) end: u64,
}

/// Asks once per token, whoever waits for the answer, and remembers it.
pub(super) struct Userinfo(Arc<Inner>);

struct Inner {
    client: IssuerClient,
    issuer: String,
    /// For answers that are signed.
    keys: Arc<Kept<KeySet>>,
    clock: Arc<dyn Clock>,
    leeway: u64,
    lifetime: Duration,
    refusal_lifetime: Duration,
    state: Mutex<State>,
}

struct State {
    answers: Memory<TokenHash, (Result<Answered, NoAnswer>, u64)>,
    flights: HashMap<TokenHash, Flight>,
    backoff: Backoff,
}

impl Userinfo {
    pub(super) fn new(client: IssuerClient, issuer: &str, keys: &Arc<Kept<KeySet>>, settings: &OidcSettings) -> Self {
        let state = State {
            answers: Memory::new(settings.remembered_tokens),
            flights: HashMap::new(),
            backoff: Backoff::new(settings.retry_first, settings.retry_max),
        };
        Self(Arc::new(Inner {
            client,
            issuer: issuer.to_owned(),
            keys: Arc::clone(keys),
            clock: Arc::clone(&settings.clock),
            leeway: settings.leeway.as_secs(),
            lifetime: settings.userinfo_lifetime,
            refusal_lifetime: settings.retry_max,
            state: Mutex::new(state),
        }))
    }

    pub(super) async fn ask(&self, url: &Url, question: Question<'_>) -> Result<Answered, NoAnswer> {
        let flight = {
            let mut state = self.0.lock();
            let now = self.0.clock.now();
            if let Some((answer, until)) = state.answers.get(&question.hash) {
                if unix_seconds(now) < until {
                    return answer;
                }
                state.answers.remove(&question.hash);
            }
            if let Some(flight) = state.flights.get(&question.hash) {
                flight.clone()
            } else if let Some(cause) = state.backoff.blocks(now) {
                return Err(NoAnswer::Unavailable(cause.to_owned()));
            } else {
                self.0.start(&mut state, url, &question)
            }
        };
        flight.await
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, state: &mut State, url: &Url, question: &Question<'_>) -> Flight {
        let inner = Arc::clone(self);
        let Question { hash, bearer, subject, end } = question;
        let (hash, end, url) = (*hash, *end, url.clone());
        let (bearer, subject) = ((*bearer).to_owned(), (*subject).to_owned());
        let flight = async move {
            let outcome = inner.read(&url, &bearer, &subject).await;
            inner.land(hash, end, outcome)
        }
        .boxed()
        .shared();
        state.flights.insert(hash, flight.clone());
        tokio::spawn(flight.clone());
        flight
    }

    async fn read(&self, url: &Url, bearer: &str, subject: &str) -> Result<Claims, NoAnswer> {
        let answer = self.client.get_claims(url, bearer).await.map_err(|failure| match failure {
            HttpFailure::Status { status, .. } if is_refusal(status) => {
                NoAnswer::Refused("its issuer does not accept it any more".to_owned())
            }
            other => NoAnswer::Unavailable(other.to_string()),
        })?;
        let claims = match answer {
            ClaimsAnswer::Json(Value::Object(claims)) => claims,
            ClaimsAnswer::Json(_) => return Err(NoAnswer::Unavailable(format!("{url} answered without claims"))),
            ClaimsAnswer::Jwt(signed) => self.open(url, &signed).await?,
        };
        if claims.get("sub").and_then(Value::as_str) != Some(subject) {
            return Err(NoAnswer::Refused("its issuer speaks of somebody else".to_owned()));
        }
        Ok(Arc::new(claims))
    }

    /// The claims of an answer that is signed. One that cannot be believed is no answer: the
    /// holder of the token has no part in it.
    async fn open(&self, url: &Url, signed: &str) -> Result<Map<String, Value>, NoAnswer> {
        let unusable =
            |why: &str| NoAnswer::Unavailable(format!("{url} answered with a JWT that is not usable: {why}"));
        let token = Token::take_apart(signed).map_err(|refusal| match refusal {
            Refusal::Malformed(why) | Refusal::NotValid(why) => unusable(&why),
            other => unusable(&other.to_string()),
        })?;
        prove(&self.keys, &token).await.map_err(|unproved| match unproved {
            Unproved::NotValid(why) => unusable(why),
            Unproved::Unavailable(cause) => NoAnswer::Unavailable(cause),
        })?;
        // Neither has to be there; what is there has to be right.
        if token.claims.contains_key("iss") && token.text("iss").map(canonical) != Some(canonical(&self.issuer)) {
            return Err(unusable("it is of another issuer"));
        }
        if token.claims.contains_key("exp") && !token.end(self.leeway).is_ok_and(|end| self.now() < end) {
            return Err(unusable("it has expired"));
        }
        Ok(token.claims)
    }

    fn now(&self) -> u64 {
        unix_seconds(self.clock.now())
    }

    fn clear(&self, state: &mut State) {
        if state.backoff.clear() {
            tracing::info!(issuer = %self.issuer, "userinfo endpoint answers again");
        }
    }

    fn land(&self, hash: TokenHash, end: u64, outcome: Result<Claims, NoAnswer>) -> Result<Answered, NoAnswer> {
        let mut state = self.lock();
        let now = self.clock.now();
        state.flights.remove(&hash);
        let until = |lifetime: Duration| unix_seconds(now).saturating_add(lifetime.as_secs()).min(end);
        match outcome {
            Ok(claims) => {
                self.clear(&mut state);
                let until = until(self.lifetime);
                let answered = Answered { claims, until };
                state.answers.put(hash, (Ok(answered.clone()), until));
                Ok(answered)
            }
            Err(NoAnswer::Refused(why)) => {
                self.clear(&mut state);
                let refused = NoAnswer::Refused(why);
                let until = until(self.refusal_lifetime);
                state.answers.put(hash, (Err(refused.clone()), until));
                Err(refused)
            }
            Err(NoAnswer::Unavailable(cause)) => {
                if state.backoff.fail(now, cause.clone()) {
                    tracing::warn!(issuer = %self.issuer, %cause, "userinfo endpoint cannot be read");
                }
                Err(NoAnswer::Unavailable(cause))
            }
        }
    }
}

fn is_refusal(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}
