//! Issuers that come, go, lie, and change their keys.

use fake::{DISCOVERY, KEYS, Mischief, USERINFO};

use super::*;

#[tokio::test]
async fn nothing_is_read_before_it_is_needed_and_then_it_is_kept() {
    let world = World::new();
    let identity = world.identity();
    assert_eq!(world.issuer.count(DISCOVERY), 0);
    for round in 0..5 {
        let token = world.token_with("jti", json!(round));
        identity.verify(&token).await.expect("a good token");
    }
    assert_eq!((world.issuer.count(DISCOVERY), world.issuer.count(KEYS)), (1, 1));
    assert_eq!(world.issuer.count(USERINFO), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_first_requests_share_one_reading() {
    let world = World::new();
    let identity = Arc::new(world.identity());
    world.issuer.misbehave(DISCOVERY, Mischief::Hang);
    let requests: Vec<_> = (0..50)
        .map(|round| {
            let identity = Arc::clone(&identity);
            let token = world.token_with("jti", json!(round));
            tokio::spawn(async move { identity.verify(&token).await })
        })
        .collect();
    until("the issuer is asked", || world.issuer.count(DISCOVERY) > 0).await;
    world.issuer.behave();
    for request in requests {
        request.await.expect("no panic").expect("a good token");
    }
    assert_eq!((world.issuer.count(DISCOVERY), world.issuer.count(KEYS)), (1, 1));
}

#[tokio::test]
async fn an_issuer_that_was_down_at_the_start_works_once_it_is_up() {
    let key = KeyPair::mk_es256("first");
    let issuer = FakeIssuer::reserve(vec![key.public()], None);
    let clock = mk_clock();
    let identity = OidcIdentity::new(mk_settings(&[&issuer], &clock)).expect("settings that work");
    let token = key.sign(&mk_claims(&issuer));
    assert!(is_unavailable(&identity.verify(&token).await));

    issuer.open();
    assert!(is_unavailable(&identity.verify(&token).await), "it is not asked again at once");
    assert_eq!(issuer.count(DISCOVERY), 0);

    clock.advance(Duration::from_secs(5));
    identity.verify(&token).await.expect("it is asked again after a while");
}

#[tokio::test]
async fn a_request_that_was_given_up_leaves_nothing_stuck() {
    let world = World::new();
    let identity = Arc::new(world.identity());
    world.issuer.misbehave(KEYS, Mischief::Hang);
    let (asking, token) = (Arc::clone(&identity), world.token());
    let first = tokio::spawn(async move { asking.verify(&token).await });
    until("the keys are asked for", || world.issuer.count(KEYS) > 0).await;
    first.abort();
    assert!(first.await.expect_err("it was given up").is_cancelled());
    world.issuer.behave();
    identity.verify(&world.token()).await.expect("the reading went on without it");
    assert_eq!(world.issuer.count(KEYS), 1);
}

#[tokio::test]
async fn a_silent_issuer_costs_one_timeout_and_not_one_per_request() {
    let world = World::new();
    let mut settings = world.settings();
    settings.request_timeout = Duration::from_millis(100);
    let identity = OidcIdentity::new(settings).expect("settings that work");
    world.issuer.misbehave(KEYS, Mischief::Hang);
    for _ in 0..20 {
        let outcome = identity.verify(&world.token()).await;
        assert!(is_unavailable(&outcome), "{outcome:?}");
    }
    assert_eq!(world.issuer.count(KEYS), 1);
}

#[tokio::test]
async fn answers_that_are_no_answers_make_the_issuer_unavailable() {
    for path in [DISCOVERY, KEYS] {
        for mischief in [
            Mischief::Drop,
            Mischief::Status(500),
            Mischief::Status(404),
            Mischief::Redirect,
            Mischief::Huge,
            Mischief::Endless,
            Mischief::Garbage,
        ] {
            let world = World::new();
            world.issuer.misbehave(path, mischief);
            let identity = world.identity();
            let outcome = identity.verify(&world.token()).await;
            assert!(is_unavailable(&outcome), "{path} {mischief:?}: {outcome:?}");
            if matches!(mischief, Mischief::Huge | Mischief::Endless) {
                assert!(cause(&outcome).contains("more than"), "{path} {mischief:?}: {outcome:?}");
            }
            assert_eq!(world.issuer.count(&format!("{path}-moved")), 0);

            world.issuer.behave();
            world.clock.advance(Duration::from_secs(5));
            identity.verify(&world.token()).await.expect("it recovers by itself");
        }
    }
}

#[tokio::test]
async fn a_description_that_is_not_about_this_issuer_or_not_safe_is_refused() {
    for (field, value) in [
        ("issuer", json!("https://elsewhere.example")),
        ("issuer", json!(null)),
        ("jwks_uri", json!("http://192.0.2.1/keys")),
        ("jwks_uri", json!("file:///etc/passwd")),
        ("jwks_uri", json!("/keys")),
        ("userinfo_endpoint", json!("http://192.0.2.1/userinfo")),
    ] {
        let world = World::new();
        world.issuer.change(|conduct| conduct.discovery[field] = value.clone());
        let outcome = world.identity().verify(&world.token()).await;
        assert!(is_unavailable(&outcome), "{field} {value}: {outcome:?}");
        assert_eq!(world.issuer.count(KEYS), 0);
    }
}

#[tokio::test]
async fn keys_that_moved_are_found_through_the_description() {
    let world = World::new();
    let identity = world.identity();
    world.issuer.change(|conduct| {
        conduct.discovery["jwks_uri"] = json!(format!("{}/old-keys", world.issuer.url));
    });
    assert!(is_unavailable(&identity.verify(&world.token()).await));
    world.issuer.change(|conduct| {
        conduct.discovery["jwks_uri"] = json!(format!("{}{KEYS}", world.issuer.url));
    });
    world.clock.advance(Duration::from_secs(5));
    identity.verify(&world.token()).await.expect("the description was read again");
}

#[tokio::test]
async fn a_dead_issuer_does_not_delay_the_users_of_another() {
    let (dead, alive) = (World::new(), World::new());
    dead.issuer.misbehave(DISCOVERY, Mischief::Hang);
    let settings = mk_settings(&[&dead.issuer, &alive.issuer], &alive.clock);
    let identity = Arc::new(OidcIdentity::new(settings).expect("settings that work"));
    let (asking, token) = (Arc::clone(&identity), dead.token());
    let waiting = tokio::spawn(async move { asking.verify(&token).await });
    until("the dead issuer is asked", || dead.issuer.count(DISCOVERY) > 0).await;

    let user = identity.verify(&alive.token()).await.expect("the other issuer is well");
    assert_eq!(user.issuer, alive.issuer.url);
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test]
async fn a_token_of_one_issuer_is_not_proved_by_the_keys_of_another() {
    let (mine, other) = (World::new(), World::new());
    let settings = mk_settings(&[&mine.issuer, &other.issuer], &mine.clock);
    let identity = OidcIdentity::new(settings).expect("settings that work");
    let stolen = KeyPair::mk_es256("theirs");
    other.issuer.change(|conduct| conduct.keys = vec![stolen.public()]);
    assert!(is_not_valid(&identity.verify(&stolen.sign(&mine.claims())).await));
}

#[tokio::test]
async fn a_new_key_is_found_at_once_and_an_old_one_ends_with_its_lifetime() {
    let world = World::new();
    let identity = world.identity();
    let old = world.token();
    identity.verify(&old).await.expect("the old key");

    let second = KeyPair::mk_es256("second");
    world.issuer.change(|conduct| conduct.keys.push(second.public()));
    let new = second.sign(&world.claims());
    identity.verify(&new).await.expect("the new key is looked for");
    identity.verify(&old).await.expect("the old key is still published");
    assert_eq!(world.issuer.count(KEYS), 2);

    world.issuer.change(|conduct| conduct.keys = vec![second.public()]);
    identity.verify(&old).await.expect("nobody told us yet");
    world.clock.advance(Duration::from_mins(10));
    assert!(is_not_valid(&identity.verify(&old).await), "remembered, but its key is gone");
    identity.verify(&new).await.expect("the new key stays");
}

#[tokio::test]
async fn a_new_key_is_found_for_a_token_that_does_not_name_it() {
    let world = World::new();
    let identity = world.identity();
    identity.verify(&world.token()).await.expect("the old key");
    let second = KeyPair::mk_es256("second");
    world.issuer.change(|conduct| conduct.keys = vec![second.public()]);
    identity.verify(&second.sign_as(None, &world.claims())).await.expect("the new key is looked for");
}

#[tokio::test]
async fn the_lifetime_that_an_issuer_names_is_respected_within_bounds() {
    for (said, expected) in [("max-age=0", 60), ("no-store", 60), ("max-age=300", 300), ("max-age=99999999", 86_400)] {
        let world = World::new();
        world.issuer.change(|conduct| conduct.cache_control = Some(said));
        let identity = world.identity();
        let token = world.token_with("exp", json!(NOON + 100 * HOUR));
        identity.verify(&token).await.expect("a good token");
        world.clock.advance(Duration::from_secs(expected - 1));
        identity.verify(&token).await.expect("a good token");
        assert_eq!(world.issuer.count(KEYS), 1, "{said}");
        world.clock.advance(Duration::from_secs(1));
        identity.verify(&token).await.expect("a good token");
        assert_eq!(world.issuer.count(KEYS), 2, "{said}");
    }
}

#[tokio::test]
async fn old_keys_serve_while_the_issuer_is_down_but_not_for_ever() {
    let world = World::new();
    let identity = world.identity();
    let token = world.token_with("exp", json!(NOON + 100 * HOUR));
    identity.verify(&token).await.expect("a good token");
    world.issuer.misbehave(KEYS, Mischief::Drop);
    world.issuer.misbehave(DISCOVERY, Mischief::Drop);

    for _ in 0..3 {
        world.clock.advance(Duration::from_mins(20));
        let fresh = world.token_with("jti", json!(world.issuer.count(KEYS)));
        identity.verify(&fresh).await.expect("the old keys serve");
        identity.verify(&token).await.expect("the old keys serve");
    }
    let [health] = &identity.health().await[..] else { panic!("one issuer") };
    assert!(!health.reachable && health.keys == 1 && health.last_error.is_some(), "{health:?}");

    world.clock.advance(Duration::from_mins(10));
    assert!(is_unavailable(&identity.verify(&token).await));
    world.issuer.behave();
    world.clock.advance(Duration::from_secs(5));
    identity.verify(&token).await.expect("it is back");
}

#[tokio::test]
async fn nobody_waits_for_an_issuer_that_hangs_while_old_keys_serve() {
    let world = World::new();
    let mut settings = world.settings();
    settings.patience = Duration::from_millis(20);
    let identity = OidcIdentity::new(settings).expect("settings that work");
    identity.verify(&world.token()).await.expect("a good token");
    world.issuer.misbehave(KEYS, Mischief::Hang);
    world.clock.advance(Duration::from_mins(15));
    // The time-out of the hanging request is far longer than a test may run.
    identity.verify(&world.token()).await.expect("the old keys serve");
}

#[tokio::test]
async fn forged_key_names_do_not_become_a_storm_of_requests() {
    let world = World::new();
    let identity = world.identity();
    identity.verify(&world.token()).await.expect("a good token");
    let stranger = KeyPair::mk_es256("stranger");
    let forged: Vec<_> =
        (0..200).map(|round| stranger.sign_as(Some(&format!("forged-{round}")), &world.claims())).collect();
    let attack = futures::future::join_all(forged.iter().map(|token| identity.verify(token)));
    for outcome in attack.await {
        assert!(is_not_valid(&outcome), "{outcome:?}");
    }
    assert!(world.issuer.count(KEYS) <= 4, "{} readings", world.issuer.count(KEYS));
    assert_eq!(world.issuer.count(DISCOVERY), 1);
}

#[tokio::test]
async fn a_new_key_is_found_in_the_middle_of_an_attack() {
    let world = World::new();
    let identity = Arc::new(world.identity());
    let stranger = KeyPair::mk_es256("stranger");
    let (asking, claims) = (Arc::clone(&identity), world.claims());
    let attack = tokio::spawn(async move {
        for round in 0_u32.. {
            let forged = stranger.sign_as(Some(&format!("forged-{round}")), &claims);
            assert!(is_not_valid(&asking.verify(&forged).await));
        }
    });
    for kid in ["second", "third", "fourth", "fifth"] {
        let seen = world.issuer.count(KEYS);
        until("the attack goes on", || world.issuer.count(KEYS) > seen).await;
        let key = KeyPair::mk_es256(kid);
        world.issuer.change(|conduct| conduct.keys.push(key.public()));
        identity.verify(&key.sign(&world.claims())).await.expect("a good token is never too early");
    }
    assert!(!attack.is_finished(), "no forged token was accepted");
    attack.abort();
}

#[tokio::test]
async fn health_tells_the_issuers_apart() {
    let (well, sick) = (World::new(), World::new());
    sick.issuer.misbehave(DISCOVERY, Mischief::Status(503));
    let settings = mk_settings(&[&well.issuer, &sick.issuer], &well.clock);
    let health = OidcIdentity::new(settings).expect("settings that work").health().await;
    let good = IssuerHealth { issuer: well.issuer.url.clone(), reachable: true, keys: 1, last_error: None };
    assert_eq!(health[0], good);
    assert_eq!((health[1].reachable, health[1].keys), (false, 0));
    assert!(health[1].last_error.as_ref().is_some_and(|error| error.contains("503")));
}

/// A server certificate for this host and the authority that signed it, as PEM.
fn mk_tls() -> (tokio_rustls::TlsAcceptor, Vec<u8>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mk_key = || rcgen::KeyPair::generate().expect("a key");
    let mut authority = rcgen::CertificateParams::new(vec![]).expect("no names");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let (authority_key, server_key) = (mk_key(), mk_key());
    let root = authority.self_signed(&authority_key).expect("an authority");
    let signer = rcgen::Issuer::new(authority, authority_key);
    let server = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    let server = server.signed_by(&server_key, &signer).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(server_key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![server.der().clone()], key)
        .expect("the key fits the certificate");
    (Arc::new(config).into(), root.pem().into_bytes())
}

#[tokio::test]
async fn an_authority_of_ones_own_can_be_trusted() {
    let (tls, authority) = mk_tls();
    let key = KeyPair::mk_es256("first");
    let issuer = FakeIssuer::reserve(vec![key.public()], Some(tls));
    issuer.open();
    let token = key.sign(&mk_claims(&issuer));
    let mut settings = mk_settings(&[&issuer], &mk_clock());
    let wary = OidcIdentity::new(settings.clone()).expect("settings that work");
    assert!(is_unavailable(&wary.verify(&token).await));
    assert_eq!(issuer.count(DISCOVERY), 0);

    settings.extra_roots = Some(authority);
    let trusting = OidcIdentity::new(settings.clone()).expect("settings that work");
    trusting.verify(&token).await.expect("the authority is known");

    issuer.change(|conduct| conduct.discovery["jwks_uri"] = json!(issuer.url.replace("https", "http")));
    let downgraded = OidcIdentity::new(settings).expect("settings that work");
    let outcome = downgraded.verify(&token).await;
    assert!(cause(&outcome).contains("jwks_uri"), "not even on this host: {outcome:?}");
}

#[test]
fn settings_that_cannot_work_are_refused_at_once() {
    let clock = mk_clock();
    let attempt = |issuers: &[&str]| {
        let mut settings = mk_settings(&[], &clock);
        settings.issuers = issuers.iter().map(|url| IssuerSettings::new(*url)).collect();
        OidcIdentity::new(settings).map(|_| ())
    };
    assert_eq!(attempt(&[]), Err(SettingsError::NoIssuer));
    assert!(attempt(&["https://login.example/realms/egi"]).is_ok());
    assert!(attempt(&["http://localhost:5556/dex", "http://[::1]:5556"]).is_ok());
    for bad in [
        "",
        "login.example",
        "http://login.example",
        "ftp://127.0.0.1",
        "https://user:password@login.example",
        "https://login.example/?realm=egi",
    ] {
        let outcome = attempt(&[bad]);
        assert!(matches!(outcome, Err(SettingsError::Issuer { .. })), "{bad}: {outcome:?}");
    }
    assert!(matches!(attempt(&["https://login.example", "https://login.example/"]), Err(SettingsError::Twice(_))));

    let mut settings = mk_settings(&[], &clock);
    settings.issuers = vec![IssuerSettings::new("http://login.example")];
    settings.allow_plain_http = true;
    assert!(OidcIdentity::new(settings.clone()).is_ok());
    settings.extra_roots = Some(b"nothing".to_vec());
    assert!(matches!(OidcIdentity::new(settings), Err(SettingsError::ExtraRoots(_))));
}
