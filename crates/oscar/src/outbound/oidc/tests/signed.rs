//! Userinfo that is answered as a signed JWT.

use fake::{Mischief, USERINFO};

use super::*;

fn mk_answer() -> Value {
    json!({"sub": "alice", "name": "Alice B.", "groups": ["staff"]})
}

impl World {
    fn answer_signed(&self, jwt: String) {
        self.issuer.change(|conduct| conduct.signed_userinfo = Some(jwt));
    }
}

#[tokio::test]
async fn a_signed_answer_is_read_when_a_key_of_the_issuer_signed_it() {
    let world = World::new();
    let rights = [
        mk_answer(),
        json!({"iss": world.issuer.url, "aud": "some-client", "sub": "alice", "groups": "staff", "exp": NOON + 60}),
        json!({"iss": format!("{}/", world.issuer.url), "sub": "alice", "groups": ["staff"], "exp": NOON - 29}),
        // Longer than any token may be.
        json!({"sub": "alice", "groups": ["staff"], "more": "x".repeat(64 * 1024)}),
    ];
    for (round, claims) in rights.iter().enumerate() {
        world.answer_signed(world.key.sign(claims));
        let token = world.token_with("jti", json!(round));
        let user = world.identity_for("staff").verify(&token).await.expect("she is staff");
        assert_eq!(user.groups, ["staff"]);
    }
}

#[tokio::test]
async fn a_signed_answer_that_cannot_be_believed_lets_nobody_in() {
    let world = World::new();
    let stranger = KeyPair::mk_es256("stranger");
    let mut impostor = KeyPair::mk_es256("impostor");
    impostor.kid = world.key.kid;
    let good = world.key.sign(&mk_answer());
    let (head, signature) = good.rsplit_once('.').expect("a JWT");
    let claims = head.split('.').nth(1).expect("claims");
    let with = |name: &str, value: Value| {
        let mut claims = mk_answer();
        claims[name] = value;
        world.key.sign(&claims)
    };
    for (why, jwt) in [
        ("no key of the issuer", stranger.sign(&mk_answer())),
        ("another key of the same name", impostor.sign(&mk_answer())),
        ("no signature", format!("{head}.")),
        ("none", format!("eyJhbGciOiJub25lIn0.{claims}.")),
        ("other claims", format!("{}.{}.{signature}", head.split('.').next().expect("a head"), "eyJzdWIiOiJhbGljZSJ9")),
        ("five parts", format!("{good}.a.b")),
        ("no JWT", "alice".to_owned()),
        ("another issuer", with("iss", json!("https://elsewhere.example"))),
        ("an issuer that is no text", with("iss", json!(7))),
        ("expired", with("exp", json!(NOON - 30))),
        ("an expiry that is no number", with("exp", json!("tomorrow"))),
    ] {
        world.answer_signed(jwt);
        let outcome = world.identity_for("staff").verify(&world.token()).await;
        assert!(is_unavailable(&outcome), "{why}: {outcome:?}");
        assert!(cause(&outcome).contains("JWT"), "{why}: {outcome:?}");
        assert!(!cause(&outcome).contains(signature), "{why}: nothing of it is repeated");
    }
}

#[tokio::test]
async fn a_signed_answer_about_somebody_else_is_refused() {
    let world = World::new();
    world.answer_signed(world.key.sign(&json!({"sub": "bob", "groups": ["staff"]})));
    assert!(is_not_valid(&world.identity_for("staff").verify(&world.token()).await));
}

#[tokio::test]
async fn an_answer_signed_with_a_new_key_makes_the_keys_be_read_again() {
    let world = World::new();
    let identity = world.identity_for("staff");
    let token = world.token_with("groups", json!(["staff"]));
    identity.verify(&token).await.expect("the keys are read");
    let new = KeyPair::mk_es256("second");
    let keys = vec![world.key.public(), new.public()];
    world.issuer.change(|conduct| {
        conduct.keys = keys;
        conduct.signed_userinfo = Some(new.sign(&mk_answer()));
    });
    identity.verify(&world.token()).await.expect("the new key is found");
}

#[tokio::test]
async fn it_recovers_when_the_issuer_does() {
    let world = World::new();
    world.issuer.misbehave(USERINFO, Mischief::Status(502));
    world.answer_signed(world.key.sign(&mk_answer()));
    let identity = world.identity_for("staff");
    assert!(is_unavailable(&identity.verify(&world.token()).await));
    world.issuer.behave();
    world.clock.advance(Duration::from_secs(5));
    identity.verify(&world.token()).await.expect("she is staff");
}
