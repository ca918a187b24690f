//! Callers who go away, stores that fail, managers that die.

use oscar_model::federation::record::GrantState;

use super::*;

/// Waits until the issuer was asked this often.
async fn asked(world: &World, times: usize) {
    while world.issuers.refreshes() < times {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_callers_at_once_make_one_refresh() {
    let world = World::new();
    let tokens = world.tokens();
    let grant = submit(&tokens, "one", &world.issuers.sign_in("alice")).await.expect("a good token");
    for round in 1..=5 {
        world.clock.advance(LIFETIME);
        let held = world.issuers.hold_answers().await;
        let callers: Vec<_> = (0..100)
            .map(|_| {
                let (tokens, id) = (tokens.clone(), grant.id.clone());
                tokio::spawn(async move { tokens.mint(&id).await })
            })
            .collect();
        asked(&world, round + 1).await;
        drop(held);
        let mut minted = Vec::new();
        for caller in callers {
            minted.push(caller.await.expect("no panic").expect("an access token"));
        }
        minted.dedup();
        assert_eq!((minted.len(), world.issuers.refreshes()), (1, round + 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_submissions_at_once_try_the_token_once() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    let callers: Vec<_> = (0..100)
        .map(|number| {
            let (tokens, given) = (tokens.clone(), given.clone());
            tokio::spawn(async move { submit(&tokens, &format!("service-{number}"), &given).await })
        })
        .collect();
    let mut ids = Vec::new();
    for caller in callers {
        ids.push(caller.await.expect("no panic").expect("a good token").id);
    }
    ids.dedup();
    assert_eq!((ids.len(), world.issuers.refreshes()), (1, 1));
    let grant = world.stored(&ids[0]).await.expect("it is stored");
    assert_eq!(grant.holders.len(), 100);
}

#[tokio::test]
async fn a_caller_who_goes_away_loses_no_successor() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    let id = submit(&tokens, "one", &given).await.expect("a good token").id;
    let fresh = world.issuers.sign_in("alice");
    world.clock.advance(LIFETIME);
    let held = world.issuers.hold_answers().await;
    let (minting, submitting) = (tokens.clone(), tokens.clone());
    let (known, new) = (id.clone(), fresh.clone());
    let callers = [
        tokio::spawn(async move { minting.mint(&known).await.is_ok() }),
        tokio::spawn(async move { submit(&submitting, "two", &new).await.is_ok() }),
    ];
    asked(&world, 3).await;
    for caller in callers {
        caller.abort();
        assert!(caller.await.is_err_and(|gone| gone.is_cancelled()), "the answer is held back");
    }
    drop(held);
    // Nobody waits now. A later caller stands in the same queue, and the successors are there.
    tokens.mint(&id).await.expect("an access token");
    submit(&tokens, "two", &fresh).await.expect("it is known");
    assert_eq!(world.issuers.refreshes(), 3);
    world.clock.advance(LIFETIME);
    tokens.mint(&id).await.expect("the successor is good");
}

#[tokio::test]
async fn a_successor_that_cannot_be_stored_is_not_used_and_not_lost() {
    let world = World::new();
    let tokens = world.tokens();
    let grant = submit(&tokens, "one", &world.issuers.sign_in("alice")).await.expect("a good token");
    world.clock.advance(LIFETIME);
    world.vault.behave(Conduct::Fails);
    for _ in 0..5 {
        assert!(matches!(tokens.mint(&grant.id).await, Err(TokenFailure::Store(_))));
    }
    assert_eq!(world.issuers.refreshes(), 2, "nothing is traded in that was not stored");
    world.vault.behave(Conduct::Stores);
    tokens.mint(&grant.id).await.expect("an access token");
    world.clock.advance(LIFETIME);
    world.tokens().mint(&grant.id).await.expect("the successor is stored");
}

#[tokio::test]
async fn a_store_that_fails_costs_nothing_where_tokens_are_not_rotated() {
    let world = World::new();
    world.issuers.keep_tokens();
    let tokens = world.tokens();
    let grant = submit(&tokens, "one", &world.issuers.sign_in("alice")).await.expect("a good token");
    world.clock.advance(LIFETIME);
    world.vault.behave(Conduct::Fails);
    tokens.mint(&grant.id).await.expect("an access token");
}

#[tokio::test]
async fn a_submission_that_cannot_be_stored_can_be_repeated() {
    let world = World::new();
    let tokens = world.tokens();
    let given = world.issuers.sign_in("alice");
    world.vault.behave(Conduct::Fails);
    assert!(matches!(submit(&tokens, "one", &given).await, Err(TokenFailure::Store(_))));
    world.vault.behave(Conduct::Stores);
    let grant = submit(&tokens, "two", &given).await.expect("it is known");
    world.clock.advance(LIFETIME);
    world.tokens().mint(&grant.id).await.expect("the successor is stored");
    assert_eq!(world.issuers.refreshes(), 2);
}

/// The manager dies between the answer of the issuer and the store.
#[test]
fn an_answer_that_is_lost_becomes_sign_in_again_and_no_loop() {
    let world = World::new();
    let mk_runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");

    let dying = mk_runtime();
    let id = dying.block_on(async {
        let tokens = world.tokens();
        let grant = submit(&tokens, "one", &world.issuers.sign_in("alice")).await.expect("a good token");
        world.clock.advance(LIFETIME);
        world.vault.behave(Conduct::Hangs);
        let (minting, id) = (tokens.clone(), grant.id.clone());
        tokio::spawn(async move { minting.mint(&id).await });
        asked(&world, 2).await;
        grant.id
    });
    drop(dying);

    world.vault.behave(Conduct::Stores);
    mk_runtime().block_on(async {
        let tokens = world.tokens();
        for _ in 0..10 {
            let outcome = tokens.mint(&id).await;
            assert!(matches!(outcome, Err(TokenFailure::SignInAgain(_))), "{outcome:?}");
            world.clock.advance(60);
        }
        assert_eq!(world.issuers.refreshes(), 3, "once more, and then never again");
        let outcome = world.tokens().mint(&id).await;
        assert!(matches!(outcome, Err(TokenFailure::SignInAgain(_))), "also after another start: {outcome:?}");
        assert_eq!(world.issuers.refreshes(), 3);
        let status = tokens.status(&id).await.expect("it is known");
        assert!(matches!(status.state, GrantState::SignInAgain(_)));

        let again = world.issuers.sign_in("alice");
        let replaced = tokens.replace(&alice(), "", &service("one"), &again, None).await.expect("a good token");
        tokens.mint(&replaced.id).await.expect("the owner has signed in again");
    });
}
