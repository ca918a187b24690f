//! Groups, names, and what is remembered about people.

use fake::{Mischief, USERINFO};

use super::*;

#[tokio::test]
async fn without_accepted_groups_everybody_with_a_good_token_is_welcome() {
    let world = World::new();
    for groups in [vec![], vec![String::new()], vec![" ".to_owned()]] {
        let settings = OidcSettings { accepted_groups: groups, ..world.settings() };
        let identity = OidcIdentity::new(settings).expect("settings that work");
        let user = identity.verify(&world.token()).await.expect("everybody is welcome");
        assert!(user.groups.is_empty());
    }
    assert_eq!(world.issuer.count(USERINFO), 0);
}

/// The same `sub` at two issuers is one person, unless the operator tells them apart.
#[tokio::test]
async fn people_of_two_issuers_are_told_apart_by_a_suffix() {
    let (here, there) = (World::new(), World::new());
    let mut settings = mk_settings(&[&here.issuer, &there.issuer], &here.clock);
    let subject = async |identity: &OidcIdentity, token: String| {
        identity.verify(&token).await.map(|user| user.subject.as_str().to_owned())
    };
    let identity = OidcIdentity::new(settings.clone()).expect("settings that work");
    assert_eq!(subject(&identity, there.token()).await, subject(&identity, here.token()).await);

    settings.issuers[1].subject_suffix = "@there".to_owned();
    // Also when the issuer has to be asked, who knows nothing of a suffix.
    settings.issuers[1].groups = GroupSource::Claim("groups".to_owned());
    settings.accepted_groups = vec!["staff".to_owned()];
    there.issuer.change(|conduct| conduct.userinfo = json!({"sub": "alice", "groups": ["staff"]}));
    let identity = OidcIdentity::new(settings.clone()).expect("settings that work");
    assert_eq!(subject(&identity, there.token()).await.as_deref(), Ok("alice@there"));
    settings.accepted_groups.clear();
    let identity = OidcIdentity::new(settings).expect("settings that work");
    assert_eq!(subject(&identity, here.token()).await.as_deref(), Ok("alice"));
    let posing = here.token_with("sub", json!("alice@there"));
    assert!(is_not_valid(&identity.verify(&posing).await), "she is the other issuer's");
    assert!(is_not_valid(&identity.verify(&there.token_with("sub", json!(" "))).await), "a suffix alone is nobody");
}

#[tokio::test]
async fn groups_in_the_token_need_no_further_question() {
    let world = World::new();
    let identity = world.identity_for("staff");
    let token = world.token_with("groups", json!(["guests", "staff"]));
    let user = identity.verify(&token).await.expect("she is staff");
    assert_eq!(user.groups, ["guests", "staff"]);

    for groups in [json!([]), json!(["guests"]), json!(["Staff", "staffs"])] {
        assert_eq!(
            identity.verify(&world.token_with("groups", groups)).await,
            Err(Refusal::NoAcceptedGroup("staff".to_owned()))
        );
    }
    assert_eq!(world.issuer.count(USERINFO), 0, "the token says it all");
}

#[tokio::test]
async fn groups_that_are_not_in_the_token_are_asked_for_once() {
    let world = World::new();
    world.issuer.change(|conduct| {
        conduct.userinfo = json!({"sub": "alice", "name": "Alice\u{7} B.", "groups": ["staff"]});
    });
    let identity = world.identity_for("staff");
    let token = world.token();
    let first = futures::future::join_all((0..20).map(|_| identity.verify(&token)));
    for outcome in first.await {
        let user = outcome.expect("she is staff");
        assert_eq!((user.name.as_str(), &user.groups[..]), ("Alice B.", &["staff".to_owned()][..]));
    }
    identity.verify(&token).await.expect("she still is");
    let asked = world.issuer.requests(USERINFO);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].authorization, Some(format!("Bearer {token}")));

    let other = world.token_with("jti", json!("another token"));
    identity.verify(&other).await.expect("she is staff");
    assert_eq!(world.issuer.count(USERINFO), 2, "answers belong to tokens");
}

#[tokio::test]
async fn an_answer_about_groups_is_not_used_for_ever() {
    let world = World::new();
    let answer = |groups: Value| {
        world.issuer.change(|conduct| {
            conduct.userinfo = json!({"sub": "alice", "groups": groups});
        });
    };
    answer(json!(["staff"]));
    let identity = world.identity_for("staff");
    let token = world.token_with("exp", json!(NOON + 100 * HOUR));
    identity.verify(&token).await.expect("she is staff");
    answer(json!([]));
    identity.verify(&token).await.expect("nobody told us yet");
    world.clock.advance(Duration::from_secs(HOUR));
    assert_eq!(
        identity.verify(&token).await,
        Err(Refusal::NoAcceptedGroup("staff".to_owned())),
        "a long-lived token does not keep her in the group"
    );
}

#[tokio::test]
async fn userinfo_about_somebody_else_is_refused() {
    let world = World::new();
    let identity = world.identity_for("staff");
    for (round, sub) in [json!("bob"), json!(null), json!(["alice"])].iter().enumerate() {
        world.issuer.change(|conduct| {
            conduct.userinfo = json!({"sub": sub, "groups": ["staff"]});
        });
        let token = world.token_with("jti", json!(round));
        assert!(is_not_valid(&identity.verify(&token).await));
    }
}

#[tokio::test]
async fn a_token_that_its_issuer_revoked_is_not_asked_about_with_every_request() {
    let world = World::new();
    world.issuer.misbehave(USERINFO, Mischief::Status(401));
    let identity = world.identity_for("staff");
    for _ in 0..10 {
        assert!(is_not_valid(&identity.verify(&world.token()).await));
    }
    assert_eq!(world.issuer.count(USERINFO), 1);
}

#[tokio::test]
async fn userinfo_that_fails_makes_the_issuer_unavailable_for_a_while() {
    for mischief in [
        Mischief::Drop,
        Mischief::Status(502),
        Mischief::Redirect,
        Mischief::Huge,
        Mischief::Endless,
        Mischief::Garbage,
    ] {
        let world = World::new();
        world.issuer.change(|conduct| {
            conduct.userinfo = json!({"sub": "alice", "groups": ["staff"]});
        });
        world.issuer.misbehave(USERINFO, mischief);
        let identity = world.identity_for("staff");
        for _ in 0..5 {
            let outcome = identity.verify(&world.token()).await;
            assert!(is_unavailable(&outcome), "{mischief:?}: {outcome:?}");
        }
        assert_eq!(world.issuer.count(USERINFO), 1, "{mischief:?}");
        assert_eq!(world.issuer.count("/userinfo-moved"), 0);
        world.issuer.behave();
        world.clock.advance(Duration::from_secs(5));
        identity.verify(&world.token()).await.expect("it recovers by itself");
    }
}

#[tokio::test]
async fn an_issuer_without_userinfo_has_the_groups_of_its_tokens_only() {
    let world = World::new();
    world.issuer.change(|conduct| conduct.discovery["userinfo_endpoint"] = json!(null));
    let identity = world.identity_for("staff");
    assert_eq!(identity.verify(&world.token()).await, Err(Refusal::NoAcceptedGroup("staff".to_owned())));
    let token = world.token_with("groups", json!("staff"));
    identity.verify(&token).await.expect("the token says so");
}

#[tokio::test]
async fn the_groups_of_known_federations_are_found_without_configuration() {
    for (endpoint, claims) in [
        ("/realms/egi/auth", json!({"entitlements": ["urn:mace:egi.eu:group:Staff:role=member#x"]})),
        ("/realms/ai4eosc/auth", json!({"realm_access": {"roles": ["staff"]}})),
        ("/authorize", json!({"group_membership": ["staff"]})),
    ] {
        let world = World::new();
        world.issuer.change(|conduct| {
            let url = format!("{}{endpoint}", world.issuer.url);
            conduct.discovery["authorization_endpoint"] = json!(url);
            conduct.userinfo = claims.clone();
            conduct.userinfo["sub"] = json!("alice");
        });
        let settings = OidcSettings { accepted_groups: vec!["staff".to_owned()], ..world.settings() };
        let identity = OidcIdentity::new(settings).expect("settings that work");
        let user = identity.verify(&world.token()).await.expect("she is staff");
        assert_eq!(user.groups, ["staff"], "{endpoint}");
    }
}

#[tokio::test]
async fn a_remembered_token_stops_working_when_it_expires() {
    let world = World::new();
    let identity = world.identity();
    let token = world.token();
    identity.verify(&token).await.expect("a good token");
    world.clock.advance(Duration::from_secs(HOUR + 29));
    identity.verify(&token).await.expect("within the leeway");
    world.clock.advance(Duration::from_secs(1));
    assert!(is_not_valid(&identity.verify(&token).await));
}

#[tokio::test]
async fn more_tokens_than_can_be_remembered_still_work() {
    let world = World::new();
    let settings = OidcSettings { remembered_tokens: 4, ..world.settings() };
    let identity = OidcIdentity::new(settings).expect("settings that work");
    let tokens: Vec<_> = (0..12).map(|round| world.token_with("jti", json!(round))).collect();
    for token in tokens.iter().chain(&tokens) {
        identity.verify(token).await.expect("a good token");
    }
}
