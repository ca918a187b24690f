//! What a job cannot help: a full disk, and a store that does not take its outputs.

use std::time::Duration;

use oscar_engine::memory::When;
use oscar_engine::ports::jobs::Jobs as _;
use oscar_engine::ports::runtime::Exit;
use oscar_model::job::{JobName, Need, Phase};

use crate::world::{World, call, mk_ended, name, run, user};

fn full() -> Exit {
    Exit::NoRoom("the disk is full".to_owned())
}

#[tokio::test]
async fn want_of_room_ends_no_job_before_its_time_limit() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let submit = async || dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    let (lucky, unlucky) = (submit().await, submit().await);
    let mut attempt = 0;
    while !world.job(&unlucky).await.phase.is_final() {
        attempt += 1;
        dispatcher.step().await.expect("ok");
        for job in [&lucky, &unlucky] {
            world.runtime.begin(&run(job, attempt));
            world.runtime.finish(&run(job, attempt), mk_ended(full(), vec![]));
        }
        dispatcher.step().await.expect("ok");
        assert_eq!(dispatcher.held(), Need::default());
        let job = world.job(&unlucky).await;
        assert!(job.story.len() < 7 && job.reason().starts_with("the disk is full"), "{job:?}");
        if attempt == 20 {
            assert_eq!(job.phase, Phase::Queued, "many more than may vanish");
            world.wait(Duration::from_mins(5));
            dispatcher.step().await.expect("ok");
            world.succeed(&run(&lucky, 21));
            dispatcher.step().await.expect("ok");
        }
        world.wait(Duration::from_mins(5));
    }
    assert_eq!(world.job(&lucky).await.phase, Phase::Succeeded);
    let job = world.job(&unlucky).await;
    assert_eq!((job.phase, job.reason()), (Phase::Failed, "the disk is full"));
    assert!(attempt > 200, "{attempt} attempts in a day");
}

#[tokio::test]
async fn a_job_that_waits_for_room_on_a_disk_can_be_cancelled() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    world.runtime.finish(&run(&job, 1), mk_ended(full(), vec![]));
    dispatcher.step().await.expect("ok");
    dispatcher.cancel(&user("alice"), &name("a"), &job).await.expect("cancelled");
    assert_eq!(world.job(&job).await.phase, Phase::Cancelled);
    world.wait(Duration::from_hours(1));
    dispatcher.step().await.expect("ok");
    assert_eq!(world.runtime.orders().len(), 1);
}

/// A job whose script has ended and whose outputs the store does not take.
async fn stuck(world: &World) -> (std::sync::Arc<oscar_engine::jobs::Dispatcher>, JobName) {
    world.serve("a", |definition| definition.cpu = oscar_model::quantity::Quantity::from_millis(4000)).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    world.succeed(&run(&job, 1));
    world.buckets.plant("commit", When::Before);
    assert!(dispatcher.step().await.is_err());
    (dispatcher, job)
}

#[tokio::test]
async fn outputs_that_cannot_be_put_in_place_hold_no_room() {
    let world = World::new().await;
    let (dispatcher, job) = stuck(&world).await;
    assert_eq!((dispatcher.held(), dispatcher.counts().await.expect("counted").1), (Need::default(), 0));
    let told = world.job(&job).await;
    assert!(told.phase == Phase::Running && told.reason().contains("could not be put in their place"), "{told:?}");
    // Nor with a manager that is started anew, and others start meanwhile.
    let next = world.started().await;
    assert_eq!(next.held(), Need::default());
    world.buckets.hang("commit");
    let mut tick = Box::pin(next.tick_jobs());
    assert!(futures::poll!(&mut tick).is_pending());
    let other = next.submit(&user("alice"), call("a")).await.expect("submitted").name;
    let mut step = Box::pin(next.step());
    while world.job(&other).await.phase == Phase::Queued {
        let _ = futures::poll!(&mut step);
    }
    assert_eq!(next.held().cores, 4000);
    world.buckets.let_go();
    let _ = futures::join!(tick, step);
    assert_eq!(world.job(&job).await.phase, Phase::Succeeded);
    assert_eq!(next.held().cores, 4000, "given back once");
}

#[tokio::test]
async fn outputs_that_cannot_be_put_in_place_can_be_given_up() {
    let world = World::new().await;
    let (dispatcher, job) = stuck(&world).await;
    world.buckets.hang("commit");
    let mut tick = Box::pin(dispatcher.tick_jobs());
    assert!(futures::poll!(&mut tick).is_pending(), "the store does not answer");
    let asked = async { dispatcher.cancel(&user("alice"), &name("a"), &job).await };
    let (_, asked) = futures::join!(tick, asked);
    assert!(asked.expect("asked").cancelling);
    // Also when the store does not take the key back.
    world.buckets.plant("revoke", When::Before);
    let _ = dispatcher.tick_jobs().await;
    let ended = world.job(&job).await;
    assert!(ended.phase == Phase::Cancelled && ended.reason().contains("stay there"), "{ended:?}");
    dispatcher.tick_jobs().await.expect("ok");
    assert!(!world.buckets.is_open(&ended.access_key));
    assert_eq!((world.buckets.moved().len(), world.staged().await), (0, 0));
    dispatcher.remove(&user("alice"), &name("a"), &job).await.expect("removed");
    assert_eq!(world.jobs.get(&job).await, Ok(None));
}

#[tokio::test]
async fn outputs_that_cannot_be_put_in_place_for_the_time_limit_fail_their_job() {
    let world = World::new().await;
    let (dispatcher, job) = stuck(&world).await;
    world.wait(Duration::from_hours(23));
    world.buckets.plant("commit", When::Before);
    assert!(dispatcher.tick_jobs().await.is_err());
    assert_eq!(world.job(&job).await.phase, Phase::Running);
    world.wait(Duration::from_hours(1));
    world.buckets.plant("commit", When::Before);
    dispatcher.tick_jobs().await.expect("dealt with");
    let ended = world.job(&job).await;
    assert_eq!((ended.phase, ended.exit_code), (Phase::Failed, Some(0)));
    assert!(ended.reason().contains("could not be put in their place"), "{ended:?}");
    assert_eq!(world.staged().await, 0);
}

/// Lets tasks go on until the job is there.
async fn until(world: &World, job: &JobName, phase: Phase) {
    for _ in 0..10_000 {
        if world.job(job).await.phase == phase {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came about: {:?}", world.job(job).await);
}

/// Room is given by one task: it must not wait for a store that does not answer.
#[tokio::test]
async fn a_store_that_does_not_answer_holds_up_nobody_elses_start() {
    let world = World::new().await;
    let (dispatcher, job) = stuck(&world).await;
    world.buckets.hang("commit");
    let worker = tokio::spawn({
        let dispatcher = dispatcher.clone();
        async move { dispatcher.run(|_| {}).await }
    });
    // Its first tick comes at once, and tries to put the outputs in their place.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let other = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    until(&world, &other, Phase::Starting).await;
    assert_eq!(world.job(&job).await.phase, Phase::Running);
    world.buckets.let_go();
    until(&world, &job, Phase::Succeeded).await;
    worker.abort();
}
