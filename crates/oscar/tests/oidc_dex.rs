//! The OIDC adapter against a real identity provider.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use oscar::outbound::oidc::{GroupSource, IssuerSettings, OidcIdentity, OidcSettings};
use oscar_engine::ports::clock::Clock;
use oscar_engine::ports::identity::{Identity, Refusal};
use oscar_testkit::{Dex, DexConfig, Tokens};

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);

struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

fn mk_settings(dex: &Dex) -> OidcSettings {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let issuer = IssuerSettings {
        audience: Some(dex.client_id().to_owned()),
        groups: GroupSource::Claim("groups".to_owned()),
        ..IssuerSettings::new(dex.issuer())
    };
    // Forced readings and retries may be close together: nobody else uses this issuer.
    OidcSettings {
        unknown_key_pause: Duration::from_millis(50),
        retry_first: Duration::from_millis(50),
        retry_max: Duration::from_millis(200),
        ..OidcSettings::new(vec![issuer], Arc::new(WallClock))
    }
}

fn mk_identity(settings: OidcSettings) -> Arc<OidcIdentity> {
    Arc::new(OidcIdentity::new(settings).expect("the settings fit dex"))
}

/// The kit talks to dex with blocking calls.
async fn token(dex: &Arc<Dex>, user: &'static str) -> Tokens {
    let dex = Arc::clone(dex);
    tokio::task::spawn_blocking(move || dex.token(user)).await.expect("dex gives tokens")
}

async fn key_ids(dex: &Arc<Dex>) -> Vec<String> {
    let dex = Arc::clone(dex);
    tokio::task::spawn_blocking(move || dex.key_ids()).await.expect("dex shows its keys")
}

async fn at_rest(dex: &Arc<Dex>, action: fn(&Dex)) {
    let dex = Arc::clone(dex);
    tokio::task::spawn_blocking(move || action(&dex)).await.expect("dex obeys");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_tokens_are_accepted_and_real_groups_decide() {
    let dex = Arc::new(oscar_testkit::require!(Dex::start(&DexConfig::default())));
    let (alice, bob) = (token(&dex, "alice").await, token(&dex, "bob").await);

    let mut settings = mk_settings(&dex);
    settings.accepted_groups = vec!["vo-a".to_owned()];
    let identity = mk_identity(settings.clone());
    for bearer in [&alice.access, &alice.id] {
        let user = identity.verify(bearer).await.expect("alice is in the accepted group");
        assert_eq!(user.subject.as_str(), alice.subject());
        assert_eq!((user.name.as_str(), &user.groups[..]), ("alice", &["vo-a".to_owned()][..]));
        assert_eq!(user.issuer, dex.issuer());
    }
    let nobody = Err(Refusal::NoAcceptedGroup("vo-a".to_owned()));
    assert_eq!(identity.verify(&bob.access).await, nobody);
    assert!(matches!(identity.verify(&alice.refresh).await, Err(Refusal::Malformed(_))));

    // dex has no such claim in its tokens, so it is asked, and does not know it either.
    settings.issuers[0].groups = GroupSource::Auto;
    assert_eq!(mk_identity(settings.clone()).verify(&alice.access).await, nobody);

    settings.issuers[0].audience = Some("somebody-else".to_owned());
    assert!(matches!(mk_identity(settings).verify(&alice.access).await, Err(Refusal::NotValid(_))));

    let health = identity.health().await;
    assert!(health.len() == 1 && health[0].reachable && health[0].keys > 0, "{health:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_that_stops_and_comes_back_with_other_keys_is_followed() {
    let dex = Arc::new(oscar_testkit::require!(Dex::start(&DexConfig::default())));
    let before = token(&dex, "alice").await;
    let identity = mk_identity(mk_settings(&dex));
    identity.verify(&before.access).await.expect("a good token");

    at_rest(&dex, Dex::stop).await;
    identity.verify(&before.access).await.expect("known keys serve without their issuer");
    identity.verify(&before.id).await.expect("known keys serve without their issuer");
    let late = mk_identity(mk_settings(&dex));
    assert!(matches!(late.verify(&before.access).await, Err(Refusal::Unavailable { .. })));

    at_rest(&dex, Dex::start_again).await;
    let after = token(&dex, "alice").await;
    identity.verify(&after.access).await.expect("the new key is looked for");
    assert!(matches!(identity.verify(&before.access).await, Err(Refusal::NotValid(_))));

    let deadline = Instant::now() + LIMIT;
    while let Err(refusal) = late.verify(&after.access).await {
        assert!(matches!(refusal, Refusal::Unavailable { .. }), "{refusal}");
        assert!(Instant::now() < deadline, "it never noticed that the issuer is back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_valid_token_is_refused_while_signing_keys_rotate() {
    let config = DexConfig { signing_keys: Duration::from_secs(1), tokens: Duration::from_mins(10) };
    let dex = Arc::new(oscar_testkit::require!(Dex::start(&config)));
    let identity = mk_identity(mk_settings(&dex));
    let first = token(&dex, "alice").await;
    identity.verify(&first.access).await.expect("a good token");
    let at_first = key_ids(&dex).await;

    let mut verified = 0_u64;
    let deadline = Instant::now() + LIMIT;
    loop {
        let rotated = key_ids(&dex).await.iter().any(|kid| !at_first.contains(kid));
        let fresh = token(&dex, "bob").await;
        let several = [&fresh.access, &fresh.id, &first.access, &first.id].map(|bearer| identity.verify(bearer));
        for outcome in futures::future::join_all(several).await {
            outcome.unwrap_or_else(|refusal| panic!("after {verified} tokens, rotated: {rotated}: {refusal}"));
            verified += 1;
        }
        // The last round was signed with a key that did not exist in the first one.
        if rotated {
            break;
        }
        assert!(Instant::now() < deadline, "dex never rotated its keys");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    oscar_testkit::count("tokens verified across a key rotation", verified);
}
