//! Who starts, and with what, when services are limited or changed while their jobs wait.

use std::sync::Arc;

use oscar_engine::jobs::{Answer, Dispatcher, RunFailure};
use oscar_engine::ports::runtime::Exit;
use oscar_model::job::Phase;
use oscar_model::quantity::Quantity;

use crate::world::{World, call, mk_ended, name, run, user};

async fn ask(dispatcher: &Arc<Dispatcher>, service: &str) -> Result<Answer, RunFailure> {
    dispatcher.invoke(&user("alice"), &name(service), Arc::from(&b"in"[..])).await
}

#[tokio::test]
async fn a_service_at_its_limit_holds_up_no_other_of_its_user() {
    let world = World::new().await;
    world.serve("capped", |definition| definition.total_cpu = Some(Quantity::from_millis(1000))).await;
    world.serve("other", |_| {}).await;
    let dispatcher = world.started().await;
    for _ in 0..80 {
        dispatcher.submit(&user("alice"), call("capped")).await.expect("submitted");
    }
    let job = dispatcher.submit(&user("alice"), call("other")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    assert_eq!(world.job(&job).await.phase, Phase::Starting);
    assert_eq!(dispatcher.held().cores, 2000);
    // Whoever waits for an answer is held up no more.
    let mut caller = Box::pin(ask(&dispatcher, "other"));
    assert!(futures::poll!(&mut caller).is_pending());
    dispatcher.step().await.expect("ok");
    assert_eq!(dispatcher.held().cores, 3000);
}

#[tokio::test]
async fn a_limit_that_is_raised_is_raised_for_what_waits() {
    let world = World::new().await;
    world.serve("a", |definition| definition.total_cpu = Some(Quantity::from_millis(1000))).await;
    let dispatcher = world.started().await;
    for _ in 0..5 {
        dispatcher.submit(&user("alice"), call("a")).await.expect("submitted");
    }
    dispatcher.step().await.expect("ok");
    assert_eq!(dispatcher.held().cores, 1000);
    world.change("a", |definition| definition.total_cpu = Some(Quantity::from_millis(3000))).await;
    dispatcher.tick_jobs().await.expect("ok");
    dispatcher.step().await.expect("ok");
    assert_eq!(dispatcher.held().cores, 3000);
}

#[tokio::test]
async fn a_job_holds_what_its_service_needs_when_it_starts() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name);
    }
    // No tick in between: what is held must not be what was known before.
    world.change("a", |definition| definition.memory = Quantity::from_bytes(1 << 29)).await;
    dispatcher.step().await.expect("ok");
    dispatcher.step().await.expect("ok");
    assert_eq!((world.runtime.alive().len(), dispatcher.held().bytes), (2, 1 << 30));
    assert_eq!(world.job(&jobs[0]).await.need.bytes, 1 << 29, "it is stored with the start");
    assert_eq!(world.started().await.held().bytes, 1 << 30, "also for a manager that is started anew");
    for job in &jobs[..2] {
        world.runtime.finish(&run(job, 1), mk_ended(Exit::Code(1), vec![]));
    }
    dispatcher.step().await.expect("ok");
    dispatcher.step().await.expect("ok");
    assert_eq!((world.runtime.alive(), dispatcher.held().bytes), (vec![run(&jobs[2], 1)], 1 << 29));
}

#[tokio::test]
async fn a_caller_whose_service_is_changed_while_he_waits_holds_what_it_needs_then() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let mut caller = Box::pin(ask(&dispatcher, "a"));
    assert!(futures::poll!(&mut caller).is_pending());
    world.change("a", |definition| definition.cpu = Quantity::from_millis(3000)).await;
    for _ in 0..3 {
        dispatcher.step().await.expect("ok");
        assert!(futures::poll!(&mut caller).is_pending());
        tokio::task::yield_now().await;
    }
    let orders = world.runtime.orders();
    assert_eq!(orders.len(), 1);
    assert_eq!(orders[0].service.definition.cpu, Quantity::from_millis(3000));
    assert_eq!(dispatcher.held().cores, 3000);
}
