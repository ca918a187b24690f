//! From the first submission to the last service.

use oscar_engine::tokens::AtIssuer;
use oscar_model::federation::record::GrantState;

use super::*;

#[tokio::test]
async fn a_new_token_is_tried_once_and_its_successor_is_kept() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    let submitted = submit(&tokens, "one", &given).await.expect("a good token");
    assert_eq!((submitted.state, submitted.warning), (GrantState::Valid, None));
    assert_eq!(submitted.id.len(), 64);
    let grant = world.stored(&submitted.id).await.expect("it is stored");
    assert_ne!(grant.token, given, "the successor");
    assert_eq!(grant.namespace, "oscar-svc-alice");

    tokens.mint(&submitted.id).await.expect("an access token");
    assert_eq!(world.issuers.refreshes(), 1, "the one that came with the trial is used");
    world.clock.advance(LIFETIME * 9 / 10 - 1);
    tokens.mint(&submitted.id).await.expect("an access token");
    assert_eq!(world.issuers.refreshes(), 1);
    world.clock.advance(1);
    tokens.mint(&submitted.id).await.expect("another access token");
    assert_eq!(world.issuers.refreshes(), 2, "a new one shortly before the end of the old one");
    let status = tokens.status(&submitted.id).await.expect("it is known");
    assert_eq!((status.age_seconds, status.refreshed), (270, Some(NOON + 270)));
    assert_eq!((status.issuer.as_str(), status.client.as_str()), (MemoryIssuers::ISSUER, MemoryIssuers::CLIENT));
    assert_eq!(world.acts().await, ["token-refreshed ok", "token-submitted ok", "token-refreshed ok"]);
}

#[tokio::test]
async fn the_same_value_submitted_twice_is_tried_once() {
    let world = World::new();
    let given = world.issuers.sign_in("alice");
    let first = submit(&world.tokens(), "one", &given).await.expect("a good token");
    // Also by a manager that has only what is stored.
    for _ in 0..3 {
        assert_eq!(submit(&world.tokens(), "one", &given).await.as_ref(), Ok(&first));
    }
    assert_eq!(world.issuers.refreshes(), 1);
    world.clock.advance(LIFETIME);
    world.tokens().mint(&first.id).await.expect("its successor is good");
}

#[tokio::test]
async fn two_services_share_a_token_and_the_last_one_ends_it() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    let first = submit(&tokens, "one", &given).await.expect("a good token");
    let second = submit(&tokens, "two", &given).await.expect("a good token");
    assert_eq!(first, second);
    assert_eq!(world.issuers.refreshes(), 1);

    tokens.release(&first.id, &service("one"), "alice").await.expect("released");
    tokens.release(&first.id, &service("one"), "alice").await.expect("twice does no harm");
    assert_eq!(world.issuers.revocations(), 0);
    world.clock.advance(LIFETIME);
    tokens.mint(&first.id).await.expect("the other one has it still");
    assert_eq!(tokens.by_holder(&service("one")).await.expect("an answer"), []);
    assert_eq!(tokens.by_holder(&service("two")).await.expect("an answer").len(), 1);

    tokens.release(&first.id, &service("two"), "alice").await.expect("released");
    assert_eq!(world.issuers.revocations(), 1);
    assert_eq!(world.revoked_by().await, "alice");
    assert_eq!(tokens.mint(&first.id).await, Err(TokenFailure::Unknown(first.id.clone())));
    assert_eq!(world.stored(&first.id).await, None);
    assert!(matches!(submit(&tokens, "one", &given).await, Err(TokenFailure::NotAccepted(_))));
}

#[tokio::test]
async fn a_token_of_another_owner_is_another_grant_and_of_no_use() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("bob");
    assert_eq!(submit(&tokens, "one", &given).await, Err(TokenFailure::SomebodyElse));
    assert_eq!(world.vault.grants().await.expect("memory does not fail"), []);
    assert!(world.acts().await[0].starts_with("token-refused the refresh token belongs to somebody else"));

    // One that could not be tried is found out when it is used, and is not kept.
    world.issuers.set_down(true);
    let given = world.issuers.sign_in("bob");
    let submitted = submit(&tokens, "one", &given).await.expect("it is taken");
    assert!(matches!(submitted.state, GrantState::NotVerified(_)), "{submitted:?}");
    world.issuers.set_down(false);
    world.clock.advance(60);
    assert_eq!(tokens.mint(&submitted.id).await, Err(TokenFailure::SomebodyElse));
    let grant = world.stored(&submitted.id).await.expect("it is stored");
    assert!(grant.token.is_blank() && matches!(grant.state, GrantState::SignInAgain(_)), "{grant:?}");
    assert!(matches!(tokens.mint(&submitted.id).await, Err(TokenFailure::SignInAgain(_))));
}

#[tokio::test]
async fn what_the_issuer_refuses_is_refused_or_stored_with_a_warning() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    world.use_elsewhere(&given).await.expect("it is good");
    let refused = submit(&tokens, "one", &given).await.expect_err("it was used before");
    assert!(refused.to_string().contains("sign in again"), "{refused}");
    assert_eq!(world.vault.grants().await.expect("memory does not fail"), []);

    let lenient =
        tokens.submit(&alice(), "", &service("one"), &given, None, false).await.expect("taken with a warning");
    assert!(matches!(lenient.state, GrantState::SignInAgain(_)), "{lenient:?}");
    assert!(lenient.warning.is_some_and(|text| text.contains("not accepted")));
    let before = world.issuers.refreshes();
    assert!(matches!(tokens.mint(&lenient.id).await, Err(TokenFailure::SignInAgain(_))));
    assert!(matches!(submit(&tokens, "two", &given).await, Err(TokenFailure::NotAccepted(_))));
    assert_eq!(world.issuers.refreshes(), before, "the issuer is not asked again");
}

#[tokio::test]
async fn what_cannot_be_tried_is_stored_with_the_reason() {
    let world = World::new();
    let tokens = world.tokens();
    let dummy = Secret::new("dummy-token");
    let submitted = submit(&tokens, "one", &dummy).await.expect("it is taken");
    let GrantState::NotVerified(why) = &submitted.state else { panic!("{submitted:?}") };
    assert!(why.contains("cannot be told"), "{why}");
    assert!(submitted.warning.is_some_and(|text| text.contains("not verified")));
    assert!(matches!(tokens.mint(&submitted.id).await, Err(TokenFailure::Issuer(_))));
    assert_eq!(world.issuers.refreshes(), 0);
    assert_eq!(submit(&tokens, "one", &Secret::default()).await, Err(TokenFailure::Blank));
}

#[tokio::test]
async fn an_issuer_that_is_down_is_left_alone_for_a_while_and_nothing_is_lost() {
    let world = World::new();
    let tokens = world.tokens();
    world.issuers.set_down(true);
    let given = world.issuers.sign_in("alice");
    let submitted = submit(&tokens, "one", &given).await.expect("it is taken");
    assert!(matches!(submitted.state, GrantState::NotVerified(_)), "{submitted:?}");
    for _ in 0..10 {
        assert!(matches!(tokens.mint(&submitted.id).await, Err(TokenFailure::Issuer(_))));
    }
    assert_eq!(world.issuers.refreshes(), 1);
    let trouble = tokens.status(&submitted.id).await.expect("it is known").trouble;
    assert!(trouble.is_some_and(|text| text.contains("cannot be reached")));
    world.clock.advance(1);
    assert!(tokens.mint(&submitted.id).await.is_err());
    world.clock.advance(1);
    assert!(tokens.mint(&submitted.id).await.is_err());
    assert_eq!(world.issuers.refreshes(), 2, "the pause grows");

    world.issuers.set_down(false);
    world.clock.advance(30);
    tokens.mint(&submitted.id).await.expect("it is asked again");
    let status = tokens.status(&submitted.id).await.expect("it is known");
    assert_eq!((status.state, status.trouble), (GrantState::Valid, None));
}

#[tokio::test]
async fn a_token_of_the_administrator_is_never_used() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("anybody");
    let submitted =
        tokens.submit(&Owner::Admin, "oscar-svc", &service("one"), &given, None, true).await.expect("it is taken");
    assert_eq!(submitted.state, GrantState::Valid);
    let warning = submitted.warning.expect("a warning");
    assert!(warning.contains("auth_user") && warning.contains("as a user"), "{warning}");
    assert_eq!(tokens.mint(&submitted.id).await, Err(TokenFailure::Administrator));
    assert_eq!(world.issuers.refreshes(), 1, "but for the trial");
    assert!(world.acts().await.last().is_some_and(|act| act.starts_with("token-refused")));
}

#[tokio::test]
async fn a_token_is_replaced_when_the_new_one_is_good() {
    let world = World::new();
    let tokens = world.tokens();
    let (old, new) = (world.issuers.sign_in("alice"), world.issuers.sign_in("alice"));
    let replace =
        async |token: &Secret| tokens.replace(&alice(), "oscar-svc-alice", &service("one"), token, None).await;
    let first = submit(&tokens, "one", &old).await.expect("a good token");

    let foreign = world.issuers.sign_in("bob");
    assert_eq!(replace(&foreign).await, Err(TokenFailure::SomebodyElse));
    tokens.mint(&first.id).await.expect("the old one is there still");
    assert_eq!(replace(&old).await.as_ref(), Ok(&first), "by itself");
    assert_eq!(world.issuers.revocations(), 0);

    let second = replace(&new).await.expect("a good token");
    assert_ne!(first.id, second.id);
    assert_eq!(world.issuers.revocations(), 1);
    tokens.mint(&second.id).await.expect("an access token");
    let held = tokens.by_holder(&service("one")).await.expect("an answer");
    assert_eq!(held.iter().map(|status| &status.id).collect::<Vec<_>>(), [&second.id]);
}

#[tokio::test]
async fn a_token_that_is_revoked_is_good_nowhere() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    let grant = submit(&tokens, "one", &given).await.expect("a good token");
    submit(&tokens, "two", &given).await.expect("a good token");

    let revoked = tokens.revoke(&service("one"), "cluster_admin").await.expect("revoked");
    assert_eq!(revoked.len(), 1);
    assert_eq!(revoked[0].at_issuer, AtIssuer::Revoked);
    assert_eq!(world.revoked_by().await, "cluster_admin", "not the owner, for whom it was done");
    assert_eq!(revoked[0].others.iter().map(ServiceName::as_str).collect::<Vec<_>>(), ["two"]);
    let Err(TokenFailure::SignInAgain(why)) = tokens.mint(&grant.id).await else { panic!("it is of no use") };
    assert!(why.contains("revoked through the service one"), "{why}");
    assert!(world.stored(&grant.id).await.is_some_and(|grant| grant.token.is_blank()));

    let revoked = tokens.revoke(&service("two"), "alice").await.expect("revoked");
    assert_eq!((revoked[0].at_issuer.clone(), revoked[0].others.len()), (AtIssuer::Unneeded, 0));
    assert_eq!(world.stored(&grant.id).await, None);
    assert_eq!(tokens.revoke(&service("two"), "alice").await, Ok(Vec::new()));
    assert_eq!(world.acts().await.iter().filter(|act| *act == "token-revoked ok").count(), 1);
}

#[tokio::test]
async fn a_token_is_forgotten_though_its_issuer_is_down() {
    let world = World::new();
    let tokens = world.tokens();
    let grant = submit(&tokens, "one", &world.issuers.sign_in("alice")).await.expect("a good token");
    world.issuers.set_down(true);
    tokens.release(&grant.id, &service("one"), "").await.expect("released");
    assert_eq!(world.stored(&grant.id).await, None);
    assert!(world.acts().await.last().is_some_and(|act| act.contains("cannot be reached")));
    assert_eq!(world.revoked_by().await, "manager", "nobody asked for it");
}

#[tokio::test]
async fn a_create_that_failed_can_be_repeated_with_the_same_token_for_a_day() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    let grant = submit(&tokens, "one", &given).await.expect("a good token");
    tokens.abandon(&grant.id, &service("one")).await.expect("abandoned");
    assert_eq!(submit(&tokens, "one", &given).await.as_ref(), Ok(&grant));
    tokens.abandon(&grant.id, &service("one")).await.expect("abandoned");
    world.clock.advance(24 * 3600 - 1);
    assert_eq!(tokens.tick_abandoned().await, Ok(0));
    world.clock.advance(1);
    assert_eq!(tokens.tick_abandoned().await, Ok(1));
    assert_eq!((world.stored(&grant.id).await, world.issuers.revocations()), (None, 1));
}
