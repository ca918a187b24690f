//! Runs whose callers wait.

use std::sync::Arc;
use std::time::Duration;

use oscar_engine::jobs::{Answer, Dispatcher, RunFailure};
use oscar_engine::ports::runtime::{Exit, RunId, Runtime as _};
use oscar_engine::ports::usage::Amounts;
use oscar_engine::testing::conformance_usage::mk_everything;
use oscar_model::job::Need;
use tokio::task::JoinHandle;

use crate::world::{NOW, World, mk_ended, name, user};

pub(crate) type Caller = JoinHandle<Result<Answer, RunFailure>>;

async fn ask(dispatcher: Arc<Dispatcher>) -> Result<Answer, RunFailure> {
    dispatcher.invoke(&user("alice"), &name("a"), Arc::from(&b"in"[..])).await
}

/// Lets tasks go on until the condition holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came about: {what}");
}

/// A caller whose run was started.
pub(crate) async fn started(world: &World, dispatcher: &Arc<Dispatcher>) -> (Caller, RunId) {
    let before = world.runtime.orders().len();
    let caller = tokio::spawn(ask(dispatcher.clone()));
    for _ in 0..1000 {
        dispatcher.step().await.expect("ok");
        if let Some(order) = world.runtime.orders().get(before) {
            return (caller, order.run.clone());
        }
        tokio::task::yield_now().await;
    }
    panic!("it never started");
}

#[tokio::test]
async fn a_caller_gets_the_answer_of_his_run() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let (caller, run) = started(&world, &dispatcher).await;
    let order = world.order(&run);
    assert!(order.synchronous && order.store.keys.is_none() && *order.event == *b"in");
    world.runtime.answer(&run, mk_ended(Exit::Success, vec![]), b"out");
    world.wait(Duration::from_millis(7));
    // Told more than once: the answer stays until its caller has it.
    dispatcher.step().await.expect("ok");
    dispatcher.step().await.expect("ok");
    let answer = caller.await.expect("ran").expect("an answer");
    assert_eq!((answer.millis, answer.body.total()), (5, 3));
    assert_eq!(dispatcher.held(), Need::default(), "the room is free while the answer is read");
    assert_eq!(world.runtime.present().await.expect("read").len(), 1, "the answer is kept as long as it is read");
    assert_eq!(answer.body.whole().await.as_deref(), Ok(&b"out"[..]));
    assert_eq!(dispatcher.held(), Need::default());
    until("nothing is left of it", || world.runtime.alive().is_empty()).await;
    assert_eq!(used(&dispatcher).await, Amounts { synchronous: 1, core_millis: 7000, ..Amounts::default() });
}

#[tokio::test]
async fn a_script_that_fails_tells_its_caller_what_it_said() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let (caller, run) = started(&world, &dispatcher).await;
    world.runtime.answer(&run, mk_ended(Exit::Code(2), vec![]), b"no");
    dispatcher.step().await.expect("ok");
    let failure = caller.await.expect("ran").expect_err("it failed");
    assert_eq!(failure, RunFailure::Script { code: 2, output: b"no".to_vec() });
    let (caller, run) = started(&world, &dispatcher).await;
    world.runtime.vanish(&run);
    dispatcher.step().await.expect("ok");
    assert!(matches!(caller.await.expect("ran"), Err(RunFailure::Failed(_))));
    assert_eq!(dispatcher.held(), Need::default());
}

async fn used(dispatcher: &Dispatcher) -> Amounts {
    let used = dispatcher.usage(&mk_everything(0, NOW + 1000)).await.expect("read").expect("few");
    used.first().map(|sum| sum.amounts).unwrap_or_default()
}

#[tokio::test]
async fn what_was_held_is_counted_whatever_came_of_it() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    for (n, exit) in [Exit::Code(1), Exit::TimedOut, Exit::Failed("no".to_owned())].into_iter().enumerate() {
        let (caller, run) = started(&world, &dispatcher).await;
        world.wait(Duration::from_millis(10));
        world.runtime.answer(&run, mk_ended(exit, vec![]), b"no");
        dispatcher.step().await.expect("ok");
        assert!(caller.await.expect("ran").is_err());
        until("nothing is left of it", || world.runtime.alive().is_empty()).await;
        let expected = (n as u128 + 1) * 10_000;
        assert_eq!(used(&dispatcher).await.core_millis, expected);
    }
    let (caller, run) = started(&world, &dispatcher).await;
    world.wait(Duration::from_millis(70));
    caller.abort();
    until("its run ended", || !world.runtime.alive().contains(&run)).await;
    assert_eq!(used(&dispatcher).await, Amounts { synchronous: 4, core_millis: 100_000, ..Amounts::default() });
}

#[tokio::test]
async fn one_user_leaves_places_for_others() {
    let mut world = World::new().await;
    world.policy.most_waiting_runs = 8;
    world
        .serve("a", |definition| {
            definition.cpu = oscar_model::quantity::Quantity::from_millis(4000);
            definition.visibility = oscar_model::service::Visibility::Public;
        })
        .await;
    let dispatcher = world.started().await;
    let (runs, _) = started(&world, &dispatcher).await;
    let mut guests = Vec::new();
    for (who, most) in [("alice", 4), ("bob", 2), ("carol", 1), ("dave", 1), ("eve", 0)] {
        for n in 0..=most {
            let dispatcher = dispatcher.clone();
            let mut guest =
                Box::pin(async move { dispatcher.invoke(&user(who), &name("a"), Arc::from(&b"in"[..])).await });
            match futures::poll!(&mut guest) {
                std::task::Poll::Pending => guests.push(guest),
                std::task::Poll::Ready(refused) => {
                    assert_eq!((refused.err(), n), (Some(RunFailure::Busy), most), "{who}");
                }
            }
        }
    }
    assert_eq!(guests.len(), 8);
    runs.abort();
}

#[tokio::test]
async fn no_more_wait_than_may() {
    let mut world = World::new().await;
    world.policy.most_waiting_runs = 1;
    world.serve("a", |definition| definition.cpu = oscar_model::quantity::Quantity::from_millis(4000)).await;
    let dispatcher = world.started().await;
    let (runs, _) = started(&world, &dispatcher).await;
    let mut waits = Box::pin(ask(dispatcher.clone()));
    assert!(futures::poll!(&mut waits).is_pending());
    let refused = ask(dispatcher.clone()).await.expect_err("no place");
    assert_eq!(refused, RunFailure::Busy);
    drop(waits);
    let mut next = Box::pin(ask(dispatcher.clone()));
    assert!(futures::poll!(&mut next).is_pending(), "the place of one who went away is free");
    runs.abort();
}

#[tokio::test]
async fn a_caller_who_goes_away_gives_his_room_back_and_ends_his_run() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let (caller, run) = started(&world, &dispatcher).await;
    assert_eq!(dispatcher.held().cores, 1000);
    caller.abort();
    assert!(caller.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(dispatcher.held(), Need::default());
    until("its run ended", || !world.runtime.alive().contains(&run)).await;
    dispatcher.step().await.expect("ok");
}

#[tokio::test]
async fn a_long_answer_is_read_piece_by_piece() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let (caller, run) = started(&world, &dispatcher).await;
    let long: Vec<u8> = (0..1_000_000u32).map(|n| u8::try_from(n % 251).expect("small")).collect();
    world.runtime.answer(&run, mk_ended(Exit::Success, vec![]), &long);
    dispatcher.step().await.expect("ok");
    let mut body = caller.await.expect("ran").expect("an answer").body;
    assert_eq!(body.total(), 1_000_000);
    let mut read = Vec::new();
    while let Some(piece) = body.next().await {
        let piece = piece.expect("read");
        assert!(piece.len() <= 256 << 10, "no more is held at a time");
        read.extend(piece);
    }
    assert!(read == long);
    drop(body);
    until("nothing is left of it", || world.runtime.was_fenced(&run)).await;
}

/// Otherwise its folder, with what the script was given, would be nobody's.
#[tokio::test]
async fn a_start_that_its_caller_leaves_is_finished_and_then_ended() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    world.runtime.start_slowly();
    let dispatcher = world.started().await;
    let mut caller = Box::pin(ask(dispatcher.clone()));
    for _ in 0..3 {
        assert!(futures::poll!(&mut caller).is_pending());
        dispatcher.step().await.expect("ok");
    }
    assert_eq!(world.runtime.orders().len(), 0, "it is on its way");
    assert!(futures::poll!(&mut caller).is_pending());
    drop(caller);
    until("it was started", || !world.runtime.orders().is_empty()).await;
    let run = world.runtime.orders()[0].run.clone();
    until("it was ended", || world.runtime.was_fenced(&run) && world.runtime.alive().is_empty()).await;
}

#[tokio::test]
async fn a_caller_who_goes_away_just_when_he_is_let_in_gives_his_room_back() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let mut waits = Box::pin(ask(dispatcher.clone()));
    assert!(futures::poll!(&mut waits).is_pending());
    dispatcher.step().await.expect("ok");
    assert_eq!(dispatcher.held().cores, 1000, "he was let in and does not know it yet");
    drop(waits);
    assert_eq!(dispatcher.held(), Need::default());
    assert!(world.runtime.orders().is_empty());
}

#[tokio::test]
async fn one_who_waits_too_long_for_room_is_told_so() {
    let mut world = World::new().await;
    world.policy.run_time_limit = Duration::from_millis(1);
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    // Nobody lets him in.
    assert_eq!(ask(dispatcher.clone()).await.expect_err("too late"), RunFailure::TimedOut(0));
    dispatcher.step().await.expect("ok");
    assert_eq!((dispatcher.held(), world.runtime.orders().len()), (Need::default(), 0));
}

#[tokio::test]
async fn what_never_fits_is_refused_at_once() {
    let world = World::new().await;
    world.serve("a", |definition| definition.cpu = oscar_model::quantity::Quantity::from_millis(9000)).await;
    let dispatcher = world.started().await;
    let refused = ask(dispatcher.clone()).await;
    assert_eq!(refused.expect_err("too large"), RunFailure::TooLarge);
}

#[tokio::test]
async fn a_run_that_a_dead_manager_left_is_ended_by_the_next() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let (caller, run) = started(&world, &dispatcher).await;
    let next = world.started().await;
    assert_eq!(next.held(), Need::default());
    next.tick_jobs().await.expect("ok");
    assert_eq!(world.runtime.present().await, Ok(vec![]), "{run:?}");
    assert_eq!(world.runtime.logged().await, Ok(vec![]), "nor a log");
    caller.abort();
}
