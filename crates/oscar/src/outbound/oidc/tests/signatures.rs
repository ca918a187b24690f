//! What must be refused, whoever made it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};

use super::*;

#[tokio::test]
async fn tokens_of_every_accepted_algorithm_are_believed() {
    let mut world = World::new();
    let rsa =
        [Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];
    let pairs = rsa.map(|algorithm| KeyPair::mk_rsa("rsa", algorithm)).into_iter().chain([
        KeyPair::mk_es256("p"),
        KeyPair::mk_es384("q"),
        KeyPair::mk_eddsa("e"),
    ]);
    for pair in pairs {
        world.issuer = FakeIssuer::start(vec![pair.public()]);
        let user = world.identity().verify(&pair.sign(&world.claims())).await;
        let user = user.unwrap_or_else(|refusal| panic!("{}: {refusal}", pair.public()));
        assert_eq!(user.subject.as_str(), "alice");
        assert_eq!(user.name, "Alice A.");
        assert_eq!(user.issuer, world.issuer.url);
    }
}

#[tokio::test]
async fn a_token_that_was_touched_is_refused() {
    let world = World::new();
    let identity = world.identity();
    let token = world.token();
    let (message, signature) = token.rsplit_once('.').expect("three parts");
    let (header, _) = message.split_once('.').expect("three parts");
    let mut claims = world.claims();
    claims["sub"] = json!("mallory");
    let other_claims = URL_SAFE_NO_PAD.encode(claims.to_string());

    for forged in [
        format!("{header}.{other_claims}.{signature}"),
        format!("{message}."),
        format!("{message}.AAAA"),
        format!("{message}.{}", signature.chars().rev().collect::<String>()),
        format!("{token}A"),
    ] {
        let outcome = identity.verify(&forged).await;
        assert!(is_not_valid(&outcome), "{outcome:?}");
    }
    identity.verify(&token).await.expect("the token itself is good");
}

#[tokio::test]
async fn a_stranger_who_uses_the_name_of_a_key_is_refused() {
    let world = World::new();
    let stranger = KeyPair::mk_es256("stranger");
    let forged = stranger.sign_as(Some("first"), &world.claims());
    let identity = world.identity();
    assert!(is_not_valid(&identity.verify(&forged).await));
    assert_eq!(world.issuer.count(fake::KEYS), 1, "a wrong signature is no reason to read again");
}

#[tokio::test]
async fn no_signature_and_signatures_with_shared_secrets_are_refused() {
    let mut world = World::new();
    let pair = KeyPair::mk_rsa("rsa", Algorithm::RS256);
    world.issuer = FakeIssuer::start(vec![pair.public()]);
    let identity = world.identity();

    let none = json!({"alg": "none", "typ": "JWT", "kid": "rsa"}).to_string();
    let claims = world.claims().to_string();
    let unsigned = format!("{}.{}.", URL_SAFE_NO_PAD.encode(none), URL_SAFE_NO_PAD.encode(claims));
    assert!(is_not_valid(&identity.verify(&unsigned).await));

    let public = pair.public();
    let modulus = public["n"].as_str().expect("a modulus");
    let decoded = URL_SAFE_NO_PAD.decode(modulus).expect("base64");
    for secret in [modulus.as_bytes().to_vec(), decoded, public.to_string().into_bytes()] {
        let header = Header { kid: Some("rsa".to_owned()), ..Header::new(Algorithm::HS256) };
        let key = EncodingKey::from_secret(&secret);
        let token = jsonwebtoken::encode(&header, &world.claims(), &key).expect("a token");
        assert!(is_not_valid(&identity.verify(&token).await));
    }
}

#[tokio::test]
async fn an_algorithm_must_fit_the_key_it_is_used_with() {
    let world = World::new();
    // The published key is for RS256 only, and the token was signed by it with PS256.
    let published = KeyPair::mk_rsa("rsa", Algorithm::RS256);
    world.issuer.change(|conduct| conduct.keys = vec![published.public()]);
    let token = KeyPair::mk_rsa("rsa", Algorithm::PS256).sign(&world.claims());
    assert!(is_not_valid(&world.identity().verify(&token).await));
}

#[tokio::test]
async fn a_token_without_the_name_of_its_key_is_tried_with_all() {
    let world = World::new();
    let other = KeyPair::mk_eddsa("other");
    world.issuer.change(|conduct| conduct.keys.insert(0, other.public()));
    let identity = world.identity();
    let anonymous = world.key.sign_as(None, &world.claims());
    identity.verify(&anonymous).await.expect("one of the keys fits");

    let stranger = KeyPair::mk_es256("stranger").sign_as(None, &world.claims());
    assert!(is_not_valid(&identity.verify(&stranger).await));
}

#[tokio::test]
async fn an_issuer_that_is_not_listed_is_named_in_the_refusal() {
    let world = World::new();
    let identity = world.identity();
    let token = world.token_with("iss", json!("https://elsewhere.example"));
    assert_eq!(identity.verify(&token).await, Err(Refusal::IssuerNotListed("https://elsewhere.example".to_owned())));
    let long = world.token_with("iss", json!(format!("x\n{}", "y".repeat(5000))));
    match identity.verify(&long).await {
        Err(Refusal::IssuerNotListed(named)) => {
            assert_eq!(named.len(), LONGEST_QUOTE);
            assert!(named.starts_with("xy"));
        }
        other => panic!("{other:?}"),
    }
    let absent = world.token_with("iss", json!(null));
    assert_eq!(identity.verify(&absent).await, Err(Refusal::IssuerNotListed(String::new())));
    assert_eq!(world.issuer.count(fake::DISCOVERY), 0, "strangers cost no request");
}

#[tokio::test]
async fn a_slash_at_the_end_of_an_issuer_makes_no_difference() {
    let world = World::new();
    let mut settings = world.settings();
    settings.issuers[0].url.push('/');
    let identity = OidcIdentity::new(settings).expect("settings that work");
    identity.verify(&world.token()).await.expect("without the slash");
    let slashed = world.token_with("iss", json!(format!("{}/", world.issuer.url)));
    identity.verify(&slashed).await.expect("with the slash");
}

#[tokio::test]
async fn time_and_audience_are_respected() {
    let world = World::new();
    let mut settings = world.settings();
    settings.issuers[0].audience = Some("oscar".to_owned());
    let identity = OidcIdentity::new(settings).expect("settings that work");
    let mk = |aud: &str, nbf: u64, exp: u64| {
        let mut claims = world.claims();
        claims["aud"] = json!([aud]);
        claims["nbf"] = json!(nbf);
        claims["exp"] = json!(exp);
        world.key.sign(&claims)
    };
    identity.verify(&mk("oscar", NOON, NOON + 1)).await.expect("valid now");
    identity.verify(&mk("oscar", NOON + 30, NOON - 29)).await.expect("within the leeway");
    for bad in [
        mk("other", NOON, NOON + 1),
        mk("oscar", NOON + 31, NOON + HOUR),
        mk("oscar", 0, NOON - 30),
        world.token_with("exp", json!(null)),
    ] {
        assert!(is_not_valid(&identity.verify(&bad).await));
    }
}

#[tokio::test]
async fn a_subject_that_cannot_be_a_user_is_refused() {
    let world = World::new();
    let identity = world.identity();
    for sub in [json!(null), json!(""), json!("cluster_admin"), json!(7), json!("a\u{0}b")] {
        assert!(is_not_valid(&identity.verify(&world.token_with("sub", sub)).await));
    }
}

#[tokio::test]
async fn no_refusal_contains_the_token() {
    let world = World::new();
    let identity = world.identity_for("staff");
    let good = world.token();
    let stranger = KeyPair::mk_es256("stranger");
    let tokens = [
        good.clone(),
        format!("{good}A"),
        good.replace('.', ""),
        stranger.sign(&world.claims()),
        stranger.sign_as(Some("first"), &world.claims()),
        world.token_with("exp", json!(1)),
        world.token_with("groups", json!(["other"])),
    ];
    for mischief in [None, Some(fake::Mischief::Status(500)), Some(fake::Mischief::Drop)] {
        if let Some(mischief) = mischief {
            world.issuer.misbehave(fake::USERINFO, mischief);
        }
        for token in &tokens {
            world.clock.advance(Duration::from_secs(10));
            let refusal = identity.verify(token).await.expect_err("nobody is in the group");
            let said = format!("{refusal} {refusal:?}");
            for part in token.split('.').filter(|part| part.len() > 8) {
                assert!(!said.contains(part), "{said}");
            }
        }
    }
}
