//! The adapter against issuers that misbehave on purpose.

mod fake;
mod issuers;
mod kept;
mod keys;
mod people;
mod refresh;
mod signatures;
mod signed;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use oscar_engine::ports::clock::Clock;
use serde_json::{Value, json};

use super::*;
use fake::FakeIssuer;
use keys::KeyPair;

/// Stands still until it is told to go on.
struct TestClock(Mutex<SystemTime>);

impl TestClock {
    fn advance(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for TestClock {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NOON: u64 = 1_800_000_000;
const HOUR: u64 = 3600;

/// One issuer with one key, and the clock that everybody follows.
struct World {
    issuer: FakeIssuer,
    key: KeyPair,
    clock: Arc<TestClock>,
}

impl World {
    fn new() -> Self {
        let key = KeyPair::mk_es256("first");
        let issuer = FakeIssuer::start(vec![key.public()]);
        Self { issuer, key, clock: mk_clock() }
    }

    fn settings(&self) -> OidcSettings {
        mk_settings(&[&self.issuer], &self.clock)
    }

    fn identity(&self) -> OidcIdentity {
        OidcIdentity::new(self.settings()).expect("settings that work")
    }

    /// An identity that accepts one group, which the issuer keeps in the claim `groups`.
    fn identity_for(&self, group: &str) -> OidcIdentity {
        let mut settings = self.settings();
        settings.issuers[0].groups = GroupSource::Claim("groups".to_owned());
        settings.accepted_groups = vec![group.to_owned()];
        OidcIdentity::new(settings).expect("settings that work")
    }

    fn claims(&self) -> Value {
        mk_claims(&self.issuer)
    }

    fn token(&self) -> String {
        self.key.sign(&self.claims())
    }

    fn token_with(&self, claim: &str, value: Value) -> String {
        let mut claims = self.claims();
        claims[claim] = value;
        self.key.sign(&claims)
    }
}

fn mk_clock() -> Arc<TestClock> {
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(NOON);
    Arc::new(TestClock(Mutex::new(noon)))
}

fn mk_claims(issuer: &FakeIssuer) -> Value {
    json!({"iss": issuer.url, "sub": "alice", "name": "Alice A.", "exp": NOON + HOUR})
}

/// Waits are short; time-outs are long enough to be no part of a test that is not about them.
fn mk_settings(issuers: &[&FakeIssuer], clock: &Arc<TestClock>) -> OidcSettings {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listed = issuers.iter().map(|issuer| IssuerSettings::new(&issuer.url)).collect();
    let clock: Arc<dyn Clock> = Arc::<TestClock>::clone(clock);
    OidcSettings {
        connect_timeout: Duration::from_secs(20),
        request_timeout: Duration::from_secs(20),
        unknown_key_pause: Duration::from_millis(20),
        patience: Duration::from_secs(20),
        ..OidcSettings::new(listed, clock)
    }
}

fn is_unavailable<T>(outcome: &Result<T, Refusal>) -> bool {
    matches!(outcome, Err(Refusal::Unavailable { .. }))
}

fn cause<T>(outcome: &Result<T, Refusal>) -> &str {
    match outcome {
        Err(Refusal::Unavailable { cause, .. }) => cause,
        _ => "",
    }
}

fn is_not_valid<T>(outcome: &Result<T, Refusal>) -> bool {
    matches!(outcome, Err(Refusal::NotValid(_)))
}

/// Gives up only when a test is stuck for good.
async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !reached() {
        assert!(tokio::time::Instant::now() < deadline, "waited in vain for: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
