//! Single failures of what jobs need, by name.

use std::time::Duration;

use oscar_engine::memory::When;
use oscar_engine::ports::runtime::Runtime as _;
use oscar_model::job::{Need, Phase};

use crate::world::{World, call, run, user};

#[tokio::test]
async fn what_cannot_be_started_at_all_fails_with_the_reason() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    world.runtime.plant("impossible", When::Before);
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    let ended = world.job(&job).await;
    assert_eq!((ended.phase, ended.reason()), (Phase::Failed, "its image is not there"));
    assert_eq!(dispatcher.held(), Need::default());
}

#[tokio::test]
async fn a_start_of_which_nothing_is_known_is_fenced_and_repeated() {
    for when in [When::Before, When::After] {
        let world = World::new().await;
        world.serve("a", |_| {}).await;
        let dispatcher = world.started().await;
        world.runtime.plant("start", when);
        let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
        dispatcher.step().await.expect("ok");
        world.wait(Duration::from_secs(1));
        dispatcher.step().await.expect("ok");
        assert_eq!(world.runtime.alive(), [run(&job, 2)], "{when:?}");
        assert_eq!(world.runtime.overlaps(), []);
        world.succeed(&run(&job, 2));
        dispatcher.step().await.expect("ok");
        assert_eq!(world.job(&job).await.phase, Phase::Succeeded);
    }
}

#[tokio::test]
async fn an_attempt_that_cannot_be_looked_at_is_not_given_up() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    world.succeed(&run(&job, 1));
    world.runtime.plant("observe", When::Before);
    assert!(dispatcher.step().await.is_err());
    assert_eq!(world.job(&job).await.attempt, 1);
    dispatcher.tick_jobs().await.expect("ok");
    assert_eq!(world.job(&job).await.phase, Phase::Succeeded);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_repeated_without_a_second_object() {
    for when in [When::Before, When::After] {
        let world = World::new().await;
        world.serve("a", |_| {}).await;
        let dispatcher = world.started().await;
        let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
        dispatcher.step().await.expect("ok");
        world.succeed(&run(&job, 1));
        world.buckets.plant("commit", when);
        assert!(dispatcher.step().await.is_err());
        assert!(!world.job(&job).await.phase.is_final());
        dispatcher.tick_jobs().await.expect("ok");
        assert_eq!(world.job(&job).await.phase, Phase::Succeeded);
        assert_eq!(world.buckets.moved().len(), 1);
    }
}

#[tokio::test]
async fn what_could_not_be_cleared_is_cleared_later() {
    for (port, call_name) in [("buckets", "discard"), ("runtime", "forget")] {
        let world = World::new().await;
        world.serve("a", |_| {}).await;
        let dispatcher = world.started().await;
        let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
        dispatcher.step().await.expect("ok");
        world.runtime.vanish(&run(&job, 1));
        if port == "buckets" {
            world.buckets.plant(call_name, When::Before);
        } else {
            world.runtime.plant(call_name, When::Before);
        }
        dispatcher.step().await.expect("ok");
        assert_eq!(world.runtime.present().await.map(|left| left.len()), Ok(1), "{call_name}");
        dispatcher.tick_jobs().await.expect("ok");
        assert_eq!(world.runtime.present().await, Ok(vec![]), "{call_name}");
        assert_eq!(world.job(&job).await.phase, Phase::Queued, "{call_name}");
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_made_now_is_made_later() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    world.buckets.plant("scoped_key", When::Before);
    assert!(dispatcher.step().await.is_err());
    assert_eq!((world.job(&job).await.phase, dispatcher.held()), (Phase::Queued, Need::default()));
    dispatcher.tick_jobs().await.expect("ok");
    dispatcher.step().await.expect("ok");
    assert_eq!(world.job(&job).await.phase, Phase::Starting);
}
