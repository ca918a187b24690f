//! From the first submission to the last service.

use oscar_engine::ports::mint::{Claim, Submission};
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
    assert_eq!(revoked[0].others.iter().map(|other| other.service.as_str()).collect::<Vec<_>>(), ["two"]);
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
async fn an_issuer_that_is_down_is_told_of_the_end_of_a_token_when_it_is_back() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    let grant = submit(&tokens, "one", &given).await.expect("a good token");
    world.issuers.set_down(true);
    tokens.release(&grant.id, &service("one"), "").await.expect("released");
    assert!(world.acts().await.last().is_some_and(|act| act.contains("cannot be reached") && act.contains("again")));
    assert_eq!(world.revoked_by().await, "manager", "nobody asked for it");
    assert_eq!(tokens.mint(&grant.id).await, Err(TokenFailure::Unknown(grant.id.clone())), "nobody uses it");
    let acts = world.acts().await.len();
    // Also by a manager that has only what is stored.
    for _ in 0..5 {
        world.clock.advance(60);
        assert_eq!(world.tokens().tick_abandoned().await, Ok(0));
    }
    assert_eq!(world.acts().await.len(), acts, "what fails again is not written down again");

    world.issuers.set_down(false);
    world.clock.advance(60);
    assert_eq!(world.tokens().tick_abandoned().await, Ok(1));
    assert_eq!(world.stored(&grant.id).await, None);
    assert_eq!(world.acts().await.last().map(String::as_str), Some("token-revoked ok"));
    assert!(world.use_elsewhere(&given).await.is_none(), "it is good nowhere");
}

#[tokio::test]
async fn an_issuer_that_never_comes_back_is_given_up_on() {
    let world = World::new();
    let tokens = world.tokens();
    let grant = submit(&tokens, "one", &world.issuers.sign_in("alice")).await.expect("a good token");
    world.issuers.set_down(true);
    tokens.release(&grant.id, &service("one"), "").await.expect("released");
    world.clock.advance(30 * 24 * 3600);
    tokens.tick_abandoned().await.expect("ticked");
    assert_eq!(world.stored(&grant.id).await, None);
}

#[tokio::test]
async fn a_revocation_that_did_not_reach_the_issuer_does_later_and_nobody_uses_the_token_meanwhile() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    let grant = submit(&tokens, "one", &given).await.expect("a good token");
    submit(&tokens, "two", &given).await.expect("a good token");
    world.issuers.set_down(true);
    let revoked = tokens.revoke(&service("one"), "alice").await.expect("revoked");
    assert!(matches!(revoked[0].at_issuer, AtIssuer::Later(_)), "{revoked:?}");
    assert!(matches!(tokens.mint(&grant.id).await, Err(TokenFailure::SignInAgain(_))));
    world.issuers.set_down(false);
    world.clock.advance(60);
    assert_eq!(tokens.tick_abandoned().await, Ok(1));
    let left = world.stored(&grant.id).await.expect("the other one is to see why");
    assert!(left.token.is_blank() && left.ending.is_none(), "{left:?}");
    assert!(world.use_elsewhere(&given).await.is_none(), "it is good nowhere");
}

#[tokio::test]
async fn who_is_given_a_token_that_was_about_to_end_has_it() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    let grant = submit(&tokens, "one", &given).await.expect("a good token");
    world.issuers.set_down(true);
    tokens.release(&grant.id, &service("one"), "").await.expect("released");
    world.issuers.set_down(false);
    submit(&tokens, "two", &given).await.expect("it is known");
    world.clock.advance(LIFETIME);
    assert_eq!(tokens.tick_abandoned().await, Ok(0));
    tokens.mint(&grant.id).await.expect("it has not ended");
}

#[tokio::test]
async fn a_federation_that_ends_late_takes_nothing_from_its_successor_of_the_same_name() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    let name = ServiceName::parse("one").expect("a name");
    let (first, second) = (Holder::new(&name, "first"), Holder::new(&name, "second"));
    let grant = tokens.submit(&alice(), "", &first, &given, None, true).await.expect("a good token");
    tokens.submit(&alice(), "", &second, &given, None, true).await.expect("it is known");
    tokens.release(&grant.id, &first, "").await.expect("released");
    tokens.release(&grant.id, &first, "").await.expect("twice does no harm");
    assert_eq!(world.issuers.revocations(), 0);
    world.clock.advance(LIFETIME);
    tokens.mint(&grant.id).await.expect("the successor has it");
    tokens.release(&grant.id, &second, "").await.expect("released");
    assert_eq!((world.stored(&grant.id).await, world.issuers.revocations()), (None, 1));
}

#[tokio::test]
async fn a_holder_that_was_written_down_by_name_alone_is_let_go_by_its_federation() {
    let world = World::new();
    let tokens = world.tokens();
    let grant = submit(&tokens, "one", &world.issuers.sign_in("alice")).await.expect("a good token");
    let mut older = world.stored(&grant.id).await.expect("it is stored");
    older.holders = [Holder::from(service("one").service)].into();
    world.vault.put_grant(&older).await.expect("put");
    assert_eq!(tokens.by_holder(&service("one")).await.expect("an answer").len(), 1);
    tokens.release(&grant.id, &service("one"), "alice").await.expect("released");
    assert_eq!((world.stored(&grant.id).await, world.issuers.revocations()), (None, 1));
}

#[tokio::test]
async fn what_is_only_kept_is_neither_tried_nor_revoked() {
    let world = World::new();
    let tokens = world.tokens();
    let (given, other) = (world.issuers.sign_in("alice"), world.issuers.sign_in("alice"));
    let (owner, holder) = (alice(), service("one"));
    let keep = async |token: &Secret| {
        let (actor, namespace) = ("alice", "oscar-svc-alice");
        let submission =
            Submission { actor, owner: &owner, namespace, holder: &holder, token, bearer: None, strict: true };
        tokens.keep(submission).await.expect("kept");
    };
    keep(&given).await;
    keep(&other).await;
    assert_eq!(world.vault.grants().await.expect("memory does not fail").len(), 1, "one in the place of the other");
    tokens.discard(&owner, &holder.service, None).await.expect("discarded");
    assert_eq!(world.vault.grants().await, Ok(vec![]));
    assert_eq!((world.issuers.refreshes(), world.issuers.revocations()), (0, 0), "it may be in use elsewhere");

    keep(&given).await;
    world.clock.advance(2 * 24 * 3600);
    assert_eq!(tokens.tick_abandoned().await, Ok(0), "its service is there");
    let claim = Claim { actor: "alice", owner: &owner, holder: &holder, strict: true };
    let claimed = tokens.claim(claim).await.expect("a good token").expect("it was kept");
    assert_eq!((claimed.state, world.issuers.refreshes()), (GrantState::Valid, 1));
    tokens.mint(&claimed.id).await.expect("an access token");
    tokens.discard(&owner, &holder.service, None).await.expect("discarded");
    tokens.release(&claimed.id, &holder, "alice").await.expect("released");
    assert_eq!((world.stored(&claimed.id).await, world.issuers.revocations()), (None, 1));
}

#[tokio::test]
async fn a_kept_token_that_the_issuer_refuses_stays_as_it_was_kept() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    world.use_elsewhere(&given).await.expect("it is good");
    let (owner, holder) = (alice(), service("one"));
    let submission = Submission {
        actor: "alice",
        owner: &owner,
        namespace: "",
        holder: &holder,
        token: &given,
        bearer: None,
        strict: true,
    };
    tokens.keep(submission).await.expect("kept");
    let before = world.vault.grants().await;
    let claim = Claim { actor: "alice", owner: &owner, holder: &holder, strict: true };
    assert!(matches!(tokens.claim(claim).await, Err(TokenFailure::NotAccepted(_))));
    assert_eq!(world.vault.grants().await, before);
    let lenient = tokens.claim(Claim { strict: false, ..claim }).await.expect("an answer").expect("it was kept");
    assert!(lenient.warning.is_some_and(|text| text.contains("not accepted")));
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
