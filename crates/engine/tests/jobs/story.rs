//! How jobs go when nothing but themselves goes wrong.

use std::sync::Arc;
use std::time::Duration;

use oscar_engine::Failure;
use oscar_engine::jobs::Call;
use oscar_engine::memory::When;
use oscar_engine::ports::buckets::{Buckets as _, ObjectEvent, Subscription, Uploads as _, Verb};
use oscar_engine::ports::jobs::Jobs as _;
use oscar_engine::ports::runtime::{Exit, Runtime as _};
use oscar_engine::testing::conformance_usage::runs;
use oscar_model::identity::Principal;
use oscar_model::job::{MOST_ATTEMPTS, Need, Phase};
use oscar_model::quantity::Quantity;

use crate::world::{NOW, World, call, keyed, mk_ended, name, reading, run, user};

#[tokio::test]
async fn a_job_runs_and_its_outputs_are_put_in_place_once() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    assert_eq!(world.job(&job).await.phase, Phase::Queued);
    dispatcher.step().await.expect("ok");
    assert_eq!(world.job(&job).await.phase, Phase::Starting);
    assert_eq!(dispatcher.held().cores, 1000);
    let attempt = run(&job, 1);
    let key = world.order(&attempt).store.keys.expect("it has a key").access_key;
    assert!(world.buckets.opens(&key, "oscar-staging", &format!("{job}/1/x"), Verb::Write));
    assert!(!world.buckets.opens(&key, "oscar-staging", &format!("{job}/2/x"), Verb::Write));
    assert!(!world.buckets.opens(&key, "results", "a/x", Verb::Write), "it cannot write in place itself");
    world.runtime.begin(&attempt);
    dispatcher.step().await.expect("ok");
    assert_eq!(world.job(&job).await.phase, Phase::Running);
    world.succeed(&attempt);
    dispatcher.step().await.expect("ok");
    dispatcher.step().await.expect("looking again changes nothing");

    let ended = world.job(&job).await;
    assert_eq!((ended.phase, ended.exit_code, ended.attempt), (Phase::Succeeded, Some(0), 1));
    assert_eq!(world.buckets.content("results", &format!("a/{job}.txt")).as_deref(), Some(&b"result"[..]));
    assert_eq!(world.buckets.moved().len(), 1);
    assert!(!world.buckets.is_open(&key));
    assert_eq!((dispatcher.held(), world.staged().await), (Need::default(), 0));
    assert_eq!(world.runtime.present().await, Ok(vec![]));
    assert_eq!(runs(&*world.jobs, 0, NOW + 10).await, 1);
}

#[tokio::test]
async fn a_script_that_fails_fails_its_job_and_leaves_nothing() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    let key = world.order(&run(&job, 1)).store.keys.expect("it has a key").access_key;
    world.buckets.put(&key, "oscar-staging", &format!("{job}/1/part"), b"x").expect("put");
    world.runtime.finish(&run(&job, 1), mk_ended(Exit::Code(3), vec![]));
    dispatcher.step().await.expect("ok");
    let ended = world.job(&job).await;
    assert_eq!((ended.phase, ended.exit_code), (Phase::Failed, Some(3)));
    assert_eq!((world.staged().await, world.buckets.moved().len()), (0, 0));
    assert!(!world.buckets.is_open(&key));
}

#[tokio::test]
async fn an_idempotency_key_is_one_job_with_one_body_of_one_user() {
    let world = World::new().await;
    world.serve("a", |definition| definition.visibility = oscar_model::service::Visibility::Public).await;
    let dispatcher = world.started().await;
    let first = dispatcher.submit(&user("alice"), keyed("a", "k")).await.expect("submitted");
    let again = dispatcher.submit(&user("alice"), keyed("a", "k")).await.expect("submitted");
    assert!(!first.known && again.known);
    assert_eq!(first.name, again.name);
    let other = Call { event: Arc::from(&b"{1}"[..]), ..keyed("a", "k") };
    let refused = dispatcher.submit(&user("alice"), other).await;
    assert_eq!(refused, Err(Failure::KeyReused(first.name.clone())));
    let of_bob = dispatcher.submit(&user("bob"), keyed("a", "k")).await.expect("submitted");
    assert!(!of_bob.known && of_bob.name != first.name, "a key is its user's own");
    dispatcher.step().await.expect("ok");
    assert_eq!(world.runtime.orders().len(), 2);
}

#[tokio::test]
async fn an_upload_that_is_told_twice_makes_one_job() {
    let world = World::new().await;
    world.serve_uploads("a").await;
    let dispatcher = world.started().await;
    world.buckets.upload("inbox", "in/x", b"1", "alice");
    world.buckets.upload("inbox", "elsewhere/x", b"1", "alice");
    let events = world.buckets.next(10).await.expect("told");
    let [event] = &events[..] else { panic!("one is waited for: {events:?}") };
    let first = dispatcher.object_created(event, Arc::from(&b"{}"[..])).await.expect("ok").expect("a job");
    let again = dispatcher.object_created(event, Arc::from(&b"{}"[..])).await.expect("ok").expect("a job");
    assert_eq!(first, again);
    world.buckets.settle(&[event.id]).await.expect("settled");
    world.buckets.upload("inbox", "in/x", b"2", "alice");
    let event = &world.buckets.next(10).await.expect("told")[0];
    let second = dispatcher.object_created(event, Arc::from(&b"{}"[..])).await.expect("ok").expect("a job");
    assert_ne!(first, second, "another version is another job");
    assert_eq!(world.jobs.unfinished().await.expect("read").len(), 2);
    dispatcher.step().await.expect("ok");
    let key = world.order(&run(&first, 1)).store.keys.expect("it has a key").access_key;
    assert!(world.buckets.opens(&key, "inbox", "in/x", Verb::Read));
    assert!(!world.buckets.opens(&key, "inbox", "elsewhere/x", Verb::Read));
}

/// A subscription may outlive what it was made for: the service that has the name now, and
/// the bucket that has the name now, are others.
#[tokio::test]
async fn an_upload_starts_only_what_waits_for_it_and_is_read_only_in_its_owners_bucket() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let stale = Subscription { bucket: "inbox".to_owned(), prefix: "in/".to_owned(), service: "a".to_owned() };
    world.buckets.subscribe(&stale).await.expect("subscribed");
    let dispatcher = world.started().await;
    world.buckets.upload("inbox", "in/x", b"1", "alice");
    let event = world.buckets.next(1).await.expect("told").remove(0);
    let job = dispatcher.object_created(&event, Arc::from(&b"{}"[..])).await;
    assert_eq!(job, Ok(None), "its definition names no such input");
    world.buckets.settle(&[event.id]).await.expect("settled");

    world.serve_uploads("b").await;
    world.buckets.upload("inbox", "in/y", b"1", "alice");
    let events = world.buckets.next(9).await.expect("told");
    let event = events.iter().find(|event| event.service == "b").expect("told");
    let job = dispatcher.object_created(event, Arc::from(&b"{}"[..])).await.expect("ok").expect("a job");
    world.buckets.remove("inbox").await.expect("removed");
    world.ensure_bucket("inbox", "mallory").await;
    dispatcher.step().await.expect("ok");
    let ended = world.job(&job).await;
    assert_eq!(ended.phase, Phase::Failed, "{ended:?}");
    assert!(world.runtime.orders().is_empty());
}

#[tokio::test]
async fn a_job_that_waits_is_cancelled_at_once_and_never_starts() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    let ended = dispatcher.cancel(&user("alice"), &name("a"), &job).await.expect("cancelled");
    assert_eq!(ended.phase, Phase::Cancelled);
    dispatcher.step().await.expect("ok");
    assert!(world.runtime.orders().is_empty());
    let over = dispatcher.cancel(&user("alice"), &name("a"), &job).await;
    assert_eq!(over, Err(Failure::JobOver(job)));
}

#[tokio::test]
async fn a_job_that_runs_is_told_to_end_and_is_cancelled_once_it_has() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    world.runtime.begin(&run(&job, 1));
    dispatcher.step().await.expect("ok");
    let asked = dispatcher.cancel(&user("alice"), &name("a"), &job).await.expect("asked");
    assert_eq!((asked.phase, asked.cancelling), (Phase::Running, true));
    assert!(world.runtime.was_told_to_end(&run(&job, 1)));
    dispatcher.tick_jobs().await.expect("ok");
    assert_eq!(dispatcher.held().cores, 1000, "it holds its room until it has ended");
    // It ended well before it heard: it is cancelled all the same.
    world.succeed(&run(&job, 1));
    dispatcher.step().await.expect("ok");
    assert_eq!(world.job(&job).await.phase, Phase::Cancelled);
    assert_eq!((world.buckets.moved().len(), world.staged().await), (0, 0));
    assert_eq!(dispatcher.held(), Need::default());
}

#[tokio::test]
async fn nobody_else_ends_a_job() {
    let world = World::new().await;
    world.serve("a", |definition| definition.visibility = oscar_model::service::Visibility::Public).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    let refused = dispatcher.cancel(&user("bob"), &name("a"), &job).await;
    assert_eq!(refused, Err(Failure::NoJob(job)));
}

#[tokio::test]
async fn an_attempt_that_vanished_is_repeated_and_in_the_end_given_up() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    for attempt in 1..=3 {
        dispatcher.step().await.expect("ok");
        let key = world.order(&run(&job, attempt)).store.keys.expect("it has a key").access_key;
        world.runtime.begin(&run(&job, attempt));
        world.runtime.vanish(&run(&job, attempt));
        dispatcher.step().await.expect("ok");
        assert!(!world.buckets.is_open(&key));
        assert_eq!(dispatcher.held(), Need::default());
        world.wait(Duration::from_mins(1));
    }
    assert_eq!(world.job(&job).await.phase, Phase::Lost);
    dispatcher.step().await.expect("ok");
    assert_eq!(world.runtime.orders().len(), 3);
}

#[tokio::test]
async fn there_is_a_growing_pause_between_attempts_that_cannot_begin() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let job = world.started().await.submit(&user("alice"), call("a")).await.expect("submitted").name;
    let mut pauses = Vec::new();
    for attempt in 1..=MOST_ATTEMPTS {
        // A manager that was started anew waits just as long.
        let dispatcher = world.started().await;
        world.runtime.plant("start", When::Before);
        let mut seconds = 0;
        while world.job(&job).await.attempt < attempt {
            dispatcher.step().await.expect("ok");
            world.wait(Duration::from_secs(1));
            seconds += 1;
        }
        pauses.push(seconds - 1);
    }
    assert_eq!(pauses, [0, 0, 1, 3, 7, 15, 31, 63, 127, 255]);
    assert_eq!(world.job(&job).await.phase, Phase::Lost);
}

#[tokio::test]
async fn while_nothing_can_begin_jobs_wait_without_an_attempt() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    for _ in 0..5 {
        world.runtime.plant("ready", When::Before);
        assert!(dispatcher.step().await.is_err());
        world.runtime.plant("ready", When::Before);
        let told = dispatcher.tick_jobs().await.expect_err("the operator is told");
        assert!(told.to_string().contains("planted in ready"), "{told}");
    }
    assert_eq!((world.job(&job).await.attempt, dispatcher.held()), (0, Need::default()));
    dispatcher.step().await.expect("ok");
    dispatcher.tick_jobs().await.expect("nothing to tell any more");
    assert_eq!(world.job(&job).await.phase, Phase::Starting);
}

#[tokio::test]
async fn an_attempt_that_ended_for_want_of_room_is_repeated() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    world.runtime.finish(&run(&job, 1), mk_ended(Exit::NoRoom("the disk is full".to_owned()), vec![]));
    dispatcher.step().await.expect("ok");
    assert_eq!((world.job(&job).await.phase, world.job(&job).await.reason()), (Phase::Queued, "the disk is full"));
    world.wait(Duration::from_secs(1));
    dispatcher.step().await.expect("ok");
    world.succeed(&run(&job, 2));
    dispatcher.step().await.expect("ok");
    assert_eq!(world.job(&job).await.phase, Phase::Succeeded);
}

#[tokio::test]
async fn what_an_attempt_of_before_says_is_not_listened_to() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    let former = world.order(&run(&job, 1));
    world.runtime.vanish(&run(&job, 1));
    dispatcher.step().await.expect("ok");
    assert!(world.runtime.was_fenced(&run(&job, 1)), "its supervisor may be on its way");
    world.wait(Duration::from_secs(1));
    dispatcher.step().await.expect("ok");
    assert_eq!(world.job(&job).await.attempt, 2);
    let key = former.store.keys.expect("it had a key").access_key;
    let late = world.buckets.put(&key, "oscar-staging", &format!("{job}/1/late"), b"x");
    assert!(late.is_err(), "its key opens nothing any more");
    world.succeed(&run(&job, 2));
    dispatcher.step().await.expect("ok");
    let ended = world.job(&job).await;
    assert_eq!((ended.phase, ended.attempt), (Phase::Succeeded, 2));
    let moved = world.buckets.moved();
    assert!(moved.len() == 1 && moved[0].from_key.starts_with(&format!("{job}/2/")), "{moved:?}");
}

#[tokio::test]
async fn nobody_reads_the_bucket_of_another_by_naming_it_in_an_event() {
    let world = World::new().await;
    world.serve("a", |definition| definition.visibility = oscar_model::service::Visibility::Public).await;
    world.ensure_bucket("of-bob", "bob").await;
    let dispatcher = world.started().await;
    let refused = dispatcher.submit(&user("alice"), reading("a", "of-bob")).await.expect("submitted").name;
    let allowed = dispatcher.submit(&user("bob"), reading("a", "of-bob")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    let job = world.job(&refused).await;
    assert_eq!(job.phase, Phase::Failed);
    assert!(job.reason().contains("may not read the bucket of-bob"), "{}", job.reason());
    let orders = world.runtime.orders();
    assert_eq!(orders.iter().map(|order| &order.run.job).collect::<Vec<_>>(), [&allowed]);
    let key = &orders[0].store.keys.as_ref().expect("it has a key").access_key;
    assert!(world.buckets.opens(key, "of-bob", "in/a", Verb::Read));
    assert!(!world.buckets.opens(key, "of-bob", "other", Verb::Read));
    assert_eq!(dispatcher.held().cores, 1000, "the refused one holds nothing");
}

#[tokio::test]
async fn what_a_job_writes_again_starts_nothing_again() {
    let world = World::new().await;
    world.serve_uploads("a").await;
    let dispatcher = world.started().await;
    world.buckets.upload("inbox", "in/x", b"1", "alice");
    let first = world.buckets.next(1).await.expect("told").remove(0);
    let told = async |version: &str, job: Option<&str>| {
        let event = ObjectEvent { version: version.to_owned(), job: job.map(str::to_owned), ..first.clone() };
        dispatcher.object_created(&event, Arc::from(&b"{}"[..])).await.expect("ok").expect("a job")
    };
    let once = told("1", Some("before-1")).await;
    assert_eq!(told("2", Some("before-1")).await, once, "its attempt was repeated");
    assert_ne!(told("3", Some("before-2")).await, once, "another job left it");
    assert_ne!(told("4", None).await, told("5", None).await, "users may change their files");
}

#[tokio::test]
async fn the_token_of_a_service_opens_no_more_than_its_buckets() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let token = Principal::ServiceToken(name("a"));
    let mut jobs = Vec::new();
    // Her own, but not this service's; the outputs of others; what the service writes to.
    for bucket in ["inbox", "oscar-staging", "results"] {
        jobs.push(dispatcher.submit(&token, reading("a", bucket)).await.expect("submitted").name);
    }
    dispatcher.step().await.expect("ok");
    for job in &jobs[..2] {
        let job = world.job(job).await;
        assert_eq!(job.phase, Phase::Failed);
        assert!(job.reason().contains("may not read the bucket"), "{}", job.reason());
    }
    let started: Vec<_> = world.runtime.orders().into_iter().map(|order| order.run.job).collect();
    assert_eq!(started, jobs[2..]);
}

#[tokio::test]
async fn nothing_is_written_to_a_bucket_that_has_become_somebody_elses() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    world
        .serve("direct", |definition| {
            definition.annotations.insert("oscar.grycap/outputs".to_owned(), "direct".to_owned());
        })
        .await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    world.buckets.remove("results").await.expect("removed");
    world.ensure_bucket("results", "bob").await;
    world.succeed(&run(&job, 1));
    dispatcher.step().await.expect("ok");
    let direct = dispatcher.submit(&user("alice"), call("direct")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    for name in [&job, &direct] {
        let job = world.job(name).await;
        assert_eq!(job.phase, Phase::Failed);
        assert!(job.reason().contains("the bucket results belongs to somebody else now"), "{}", job.reason());
    }
    assert!(world.buckets.moved().is_empty());
    assert_eq!(world.buckets.content("results", &format!("a/{job}.txt")), None);
}

#[tokio::test]
async fn runs_of_a_service_hold_no_more_than_its_total() {
    let world = World::new().await;
    world.serve("a", |definition| definition.total_cpu = Some(Quantity::from_millis(2000))).await;
    world.serve("b", |_| {}).await;
    let dispatcher = world.started().await;
    for _ in 0..4 {
        dispatcher.submit(&user("alice"), call("a")).await.expect("submitted");
    }
    let other = dispatcher.submit(&user("alice"), call("b")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    let alive = world.runtime.alive();
    assert_eq!(alive.len(), 3);
    assert!(alive.contains(&run(&other, 1)));
    let first = alive.iter().find(|run| run.job != other).expect("one of a").clone();
    world.succeed(&first);
    dispatcher.step().await.expect("ok");
    dispatcher.step().await.expect("ok");
    assert_eq!(world.runtime.alive().len(), 3, "the next of a");
    assert_eq!(dispatcher.held().cores, 3000);
}

#[tokio::test]
async fn the_jobs_of_a_service_that_was_removed_do_not_start() {
    use oscar_engine::ports::services::Services as _;
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    world.services.remove(&name("a"), None).await.expect("removed");
    dispatcher.step().await.expect("ok");
    assert_eq!(world.job(&job).await.phase, Phase::Failed);
    assert_eq!(dispatcher.held(), Need::default());
}
