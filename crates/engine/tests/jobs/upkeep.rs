//! What is dealt with beside giving room: what an earlier manager left, and what nobody needs.

use std::sync::Arc;

use oscar_engine::jobs::{Answer, Dispatcher, RunFailure};
use oscar_engine::memory::When;
use oscar_engine::ports::jobs::Jobs as _;
use oscar_engine::ports::runtime::{Exit, Runtime as _};
use oscar_model::job::{Event, JobName, Need, Phase};

use crate::world::{World, call, mk_ended, name, run, user};

async fn ask(dispatcher: Arc<Dispatcher>) -> Result<Answer, RunFailure> {
    dispatcher.invoke(&user("alice"), &name("a"), Arc::from(&b"in"[..])).await
}

/// A manager that died with a synchronous run; its name.
async fn died_with_a_run(world: &World) -> JobName {
    let dispatcher = world.started().await;
    let mut caller = Box::pin(ask(dispatcher.clone()));
    while world.runtime.orders().is_empty() {
        assert!(futures::poll!(&mut caller).is_pending());
        dispatcher.step().await.expect("ok");
        tokio::task::yield_now().await;
    }
    // Whoever dies says no goodbye.
    std::mem::forget(caller);
    world.runtime.orders()[0].run.job.clone()
}

#[tokio::test]
async fn a_manager_serves_before_it_has_ended_what_was_left() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    died_with_a_run(&world).await;
    world.runtime.hang("fence");
    let next = world.started().await;
    let mut tick = Box::pin(next.tick_jobs());
    assert!(futures::poll!(&mut tick).is_pending(), "what does not end is waited for");
    let job = next.submit(&user("alice"), call("a")).await.expect("submitted").name;
    next.step().await.expect("ok");
    assert_eq!(world.job(&job).await.phase, Phase::Starting);
    world.runtime.let_go();
    tick.await.expect("ok");
    assert_eq!(world.runtime.present().await, Ok(vec![run(&job, 1)]));
}

#[tokio::test]
async fn what_was_left_is_looked_for_until_it_is_found() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let left = died_with_a_run(&world).await;
    for _ in 0..3 {
        world.runtime.plant("present", When::Before);
    }
    let next = world.started().await;
    for _ in 0..2 {
        assert!(next.tick_jobs().await.is_err());
        assert_eq!(world.runtime.alive(), [run(&left, 1)]);
    }
    next.tick_jobs().await.expect("ok");
    assert_eq!(world.runtime.present().await, Ok(vec![]));
}

#[tokio::test]
async fn no_attempt_begins_before_the_former_is_over() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    // As a manager would leave it that took the attempt for gone.
    let vanished = Event::Vanish { attempt: 1, reason: String::new() };
    let queued = world.job(&job).await.apply(vanished, 0).expect("vanished");
    world.jobs.save(&queued).await.expect("saved");
    let next = world.started().await;
    world.wait(std::time::Duration::from_mins(1));
    world.runtime.plant("fence", When::Before);
    assert!(next.step().await.is_err());
    assert_eq!((world.runtime.alive(), next.held()), (vec![run(&job, 1)], Need::default()));
    next.tick_jobs().await.expect("ok");
    next.step().await.expect("ok");
    assert_eq!((world.runtime.alive(), world.runtime.overlaps()), (vec![run(&job, 2)], vec![]));
}

#[tokio::test]
async fn logs_of_what_is_gone_are_removed() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let mut jobs = Vec::new();
    for _ in 0..2 {
        jobs.push(dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name);
    }
    dispatcher.step().await.expect("ok");
    world.runtime.finish(&run(&jobs[0], 1), mk_ended(Exit::Code(1), vec![]));
    dispatcher.step().await.expect("ok");
    world.runtime.plant("remove_logs", When::Before);
    dispatcher.remove(&user("alice"), &name("a"), &jobs[0]).await.expect("removed");
    assert_eq!(world.runtime.logged().await.map(|logged| logged.len()), Ok(2), "it could not be removed");
    dispatcher.tick_jobs().await.expect("ok");
    assert_eq!(world.runtime.logged().await, Ok(vec![jobs[1].clone()]));

    // A manager that is killed in between leaves it to the next.
    let stray = run(&JobName::parse("a-stray").expect("a name"), 1);
    world.runtime.say(&stray, b"hello");
    let next = world.started().await;
    let mut caller = Box::pin(ask(next.clone()));
    while world.runtime.orders().len() < 3 {
        assert!(futures::poll!(&mut caller).is_pending());
        next.step().await.expect("ok");
        tokio::task::yield_now().await;
    }
    let synchronous = world.runtime.orders()[2].run.job.clone();
    world.runtime.plant("logged", When::Before);
    assert!(next.tick_jobs().await.is_err());
    next.tick_jobs().await.expect("ok");
    let mut kept = vec![jobs[1].clone(), synchronous];
    kept.sort();
    assert_eq!(world.runtime.logged().await, Ok(kept), "of what runs they stay");
}
