//! Whatever goes wrong at whichever call, before or after its effect: every job that was
//! acknowledged ends, its outputs are put in place once, and nothing stays held.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oscar_engine::Failure;
use oscar_engine::jobs::Dispatcher;
use oscar_engine::memory::When;
use oscar_engine::ports::buckets::Uploads as _;
use oscar_engine::ports::jobs::Jobs as _;
use oscar_engine::ports::runtime::{Exit, Observed, Runtime as _};
use oscar_engine::testing::conformance_usage::runs;
use oscar_model::job::{JobName, Need, Phase};

use crate::fragile::{Fragile, Fuse, Mishap};
use crate::world::{World, keyed, mk_ended, name, user};

/// What is submitted by call, each to a service of its own whose script does what the name says.
const CALLED: [&str; 4] = ["succeeds", "fails", "vanishes", "cancelled"];
const UPLOADED: &str = "uploaded";
const NEVER: usize = usize::MAX;
/// Far more than any of these stories takes.
const MOST_ROUNDS: usize = 100;

/// What those outside the manager know; it outlives every manager.
#[derive(Default)]
struct Outside {
    acknowledged: BTreeMap<String, JobName>,
    is_cancel_acknowledged: bool,
    managers: usize,
}

impl Outside {
    /// Does again what was not acknowledged.
    async fn act(&mut self, world: &World, dispatcher: &Arc<Dispatcher>) {
        for service in CALLED {
            if !self.acknowledged.contains_key(service)
                && let Ok(submitted) = dispatcher.submit(&user("alice"), keyed(service, "the key")).await
            {
                self.acknowledged.insert(service.to_owned(), submitted.name);
            }
        }
        for event in world.buckets.next(10).await.expect("told") {
            if let Ok(Some(job)) = dispatcher.object_created(&event, Arc::from(&b"{}"[..])).await {
                self.acknowledged.insert(UPLOADED.to_owned(), job);
                world.buckets.settle(&[event.id]).await.expect("settled");
            }
        }
        // Not before it runs; a caller who got no answer asks again, also when it has ended.
        let has_begun = |job: &JobName| world.runtime.orders().iter().any(|order| order.run.job == *job);
        if let Some(job) = self.acknowledged.get("cancelled")
            && !self.is_cancel_acknowledged
            && has_begun(job)
        {
            let asked = dispatcher.cancel(&user("alice"), &name("cancelled"), job).await;
            self.is_cancel_acknowledged = matches!(asked, Ok(_) | Err(Failure::JobOver(_)));
        }
    }

    async fn is_over(&self, world: &World) -> bool {
        self.acknowledged.len() == CALLED.len() + 1
            && self.is_cancel_acknowledged
            && world.jobs.unfinished().await.expect("read").is_empty()
            && world.runtime.present().await.expect("read").is_empty()
    }
}

/// Scripts go on, whether there is a manager or not.
async fn scripts_go_on(world: &World) {
    for run in world.runtime.alive() {
        let service = world.order(&run).service.name().to_string();
        let attempts = world.runtime.orders().iter().filter(|order| order.run.job == run.job).count();
        match service.as_str() {
            _ if world.runtime.observe(&run).await == Ok(Observed::Starting) => world.runtime.begin(&run),
            "fails" => world.runtime.finish(&run, mk_ended(Exit::Code(3), vec![])),
            "vanishes" if attempts == 1 => world.runtime.vanish(&run),
            "cancelled" if world.runtime.was_told_to_end(&run) => {
                world.runtime.finish(&run, mk_ended(Exit::Cancelled, vec![]));
            }
            "cancelled" => {}
            _ => world.succeed(&run),
        }
    }
}

async fn live(world: &World, dispatcher: &Arc<Dispatcher>, outside: &mut Outside) {
    while dispatcher.recover().await.is_err() {}
    for _ in 0..MOST_ROUNDS {
        if outside.is_over(world).await {
            return;
        }
        outside.act(world, dispatcher).await;
        // What could not be done is tried again.
        let _ = dispatcher.step().await;
        let _ = dispatcher.tick_jobs().await;
        scripts_go_on(world).await;
        world.wait(Duration::from_mins(1));
    }
    panic!("it does not come to an end: {:?}", world.jobs.unfinished().await);
}

async fn mk_world() -> World {
    let world = World::new().await;
    for service in CALLED {
        world.serve(service, |_| {}).await;
    }
    world.serve_uploads(UPLOADED).await;
    world.buckets.upload("inbox", "in/x", b"1", "alice");
    world
}

fn fragile(world: &World, fuse: &Arc<Fuse>) -> Arc<Dispatcher> {
    world.dispatcher_on(
        Arc::new(Fragile { inner: world.jobs.clone(), fuse: fuse.clone() }),
        Arc::new(Fragile { inner: world.runtime.clone(), fuse: fuse.clone() }),
        Arc::new(Fragile { inner: world.buckets.clone(), fuse: fuse.clone() }),
    )
}

/// The whole story with one mishap; how many calls it took.
async fn tell(at: usize, when: When, mishap: Mishap) -> usize {
    let world = mk_world().await;
    let mut outside = Outside::default();
    let fuse = Fuse::new(at, when, mishap);
    loop {
        // The second one finds the same fuse burnt.
        let fuse = if outside.managers == 0 { fuse.clone() } else { Fuse::new(NEVER, when, mishap) };
        let dispatcher = fragile(&world, &fuse);
        outside.managers += 1;
        let is_over = tokio::select! {
            () = live(&world, &dispatcher, &mut outside) => true,
            () = fuse.death() => false,
        };
        if is_over {
            let calls = fuse.calls();
            fuse.disarm();
            check(&world, &dispatcher, &outside).await;
            return calls;
        }
    }
}

async fn check(world: &World, dispatcher: &Dispatcher, outside: &Outside) {
    let mut moved = world.buckets.moved();
    for (service, job) in &outside.acknowledged {
        let job = world.job(job).await;
        let expected = match service.as_str() {
            "fails" => Phase::Failed,
            "cancelled" => Phase::Cancelled,
            _ => Phase::Succeeded,
        };
        assert_eq!(job.phase, expected, "{job:?}");
        let mine: Vec<_> = moved.extract_if(.., |one| one.job == job.name.as_str()).collect();
        if expected == Phase::Succeeded {
            let [one] = &mine[..] else { panic!("put in place once: {mine:?}") };
            assert!(one.from_key.starts_with(&format!("{}/{}/", job.name, job.attempt)), "{one:?}");
            assert!(world.buckets.content(&one.to_bucket, &one.to_key).is_some());
        } else {
            assert!(mine.is_empty(), "{mine:?}");
        }
        assert!(!world.buckets.is_open(&job.access_key), "{job:?}");
    }
    assert!(moved.is_empty(), "of no job: {moved:?}");
    let counts = world.jobs.counts().await.expect("counted");
    assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 5, "no job was made twice: {counts:?}");
    for order in world.runtime.orders() {
        let key = order.store.keys.expect("each has one").access_key;
        assert!(!world.buckets.is_open(&key), "the key of {:?}", order.run);
    }
    assert_eq!(dispatcher.held(), Need::default());
    assert_eq!(dispatcher.counts().await.expect("counted").1, 0);
    assert_eq!(world.runtime.overlaps(), [], "two attempts of one job at once");
    assert_eq!(world.staged().await, 0);
    assert!(runs(&*world.jobs, 0, u64::MAX).await <= 5, "each counts once at most");
}

async fn at_every_call(when: When, mishap: Mishap) {
    let calls = tell(NEVER, when, mishap).await;
    assert!(calls > 50, "the story is long enough to be worth it: {calls}");
    for at in 0..calls {
        println!("{mishap:?} {when:?} call {at}");
        tell(at, when, mishap).await;
    }
}

#[tokio::test]
async fn a_crash_before_any_call_loses_nothing() {
    at_every_call(When::Before, Mishap::Crash).await;
}

#[tokio::test]
async fn a_crash_after_any_call_loses_nothing() {
    at_every_call(When::After, Mishap::Crash).await;
}

#[tokio::test]
async fn an_error_before_any_call_loses_nothing() {
    at_every_call(When::Before, Mishap::Error).await;
}

#[tokio::test]
async fn an_error_after_any_call_loses_nothing() {
    at_every_call(When::After, Mishap::Error).await;
}
