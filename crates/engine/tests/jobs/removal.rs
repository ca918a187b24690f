//! What becomes of jobs that nobody wants any more, and of what was made for their service.

use std::sync::Arc;
use std::time::Duration;

use oscar_engine::Failure;
use oscar_engine::jobs::Dispatcher;
use oscar_engine::memory::When;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Buckets as _, Uploads as _};
use oscar_engine::ports::jobs::Jobs as _;
use oscar_engine::ports::runtime::{Exit, LogQuery, Runtime as _};
use oscar_engine::ports::services::Services;
use oscar_engine::storage::Furnished;
use oscar_engine::testing::make::{mk_owner, mk_service};
use oscar_model::identity::{Owner, Subject};
use oscar_model::job::{JobName, Need, Phase};
use oscar_model::service::storage::{ProviderRef, StorageIo};
use oscar_model::service::{Isolation, Sensitive, Service, Visibility};

use crate::world::{World, call, mk_ended, name, run, user};

fn furnished(world: &World, dispatcher: &Arc<Dispatcher>) -> Furnished {
    Furnished::new(world.services.clone(), dispatcher.clone(), |trouble| panic!("{trouble}"))
}

async fn is_forgotten(world: &World, dispatcher: &Dispatcher, job: &JobName) {
    assert_eq!(world.jobs.get(job).await, Ok(None));
    assert_eq!(world.runtime.present().await, Ok(vec![]));
    let log = world.runtime.log(&run(job, 1), &LogQuery { limit: 10, ..LogQuery::default() }).await;
    assert!(log.is_err(), "its log is gone: {log:?}");
    assert_eq!((dispatcher.held(), world.staged().await), (Need::default(), 0));
}

#[tokio::test]
async fn a_service_that_goes_takes_its_jobs_with_it() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let running = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    world.runtime.begin(&run(&running, 1));
    world.runtime.say(&run(&running, 1), b"hello");
    let waiting = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    furnished(&world, &dispatcher).remove(&name("a"), None).await.expect("removed");
    assert_eq!(world.jobs.get(&waiting).await, Ok(None), "what waited is gone at once");
    assert!(world.runtime.was_told_to_end(&run(&running, 1)));
    world.runtime.finish(&run(&running, 1), mk_ended(Exit::Cancelled, vec![]));
    dispatcher.step().await.expect("ok");
    is_forgotten(&world, &dispatcher, &running).await;
}

#[tokio::test]
async fn a_removal_goes_on_without_its_caller_and_a_successor_keeps_its_jobs() {
    let world = World::new().await;
    world.serve("a", |definition| definition.output.clear()).await;
    let dispatcher = world.started().await;
    let furnished = furnished(&world, &dispatcher);
    for _ in 0..600 {
        dispatcher.submit(&user("alice"), call("a")).await.expect("submitted");
    }
    let name = name("a");
    let mut removing = furnished.remove(&name, None);
    assert!(futures::poll!(&mut removing).is_pending());
    drop(removing);
    while world.services.get(&name).await.expect("read").is_some() {
        tokio::task::yield_now().await;
    }
    // Made at once, also when not all of the former is gone yet.
    furnished.create(mk_service("a", &mk_owner("alice")), Sensitive::default()).await.expect("created");
    let next = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    let jobs = world.jobs.unfinished().await.expect("read");
    assert_eq!(jobs.iter().map(|job| &job.name).collect::<Vec<_>>(), [&next]);
}

#[tokio::test]
async fn a_bucket_goes_with_the_last_service_that_uses_it() {
    let world = World::new().await;
    let dispatcher = world.started().await;
    let furnished = furnished(&world, &dispatcher);
    for (service, path) in [("maker", "shared/a"), ("user", "shared/b")] {
        let mut service = mk_service(service, &mk_owner("alice"));
        service.definition.output = vec![mk_output(path)];
        furnished.create(service, Sensitive::default()).await.expect("created");
    }
    furnished.remove(&name("maker"), None).await.expect("removed");
    assert!(world.buckets.get("shared").await.expect("read").is_some(), "another service uses it");
    furnished.remove(&name("user"), None).await.expect("removed");
    assert_eq!(world.buckets.get("shared").await, Ok(None));
}

/// Whoever closed a bucket does not find it open after a restart or an unrelated change.
#[tokio::test]
async fn a_bucket_is_opened_only_when_its_service_is() {
    let world = World::new().await;
    let dispatcher = world.started().await;
    let furnished = furnished(&world, &dispatcher);
    let mut service = mk_service("a", &mk_owner("alice"));
    service.definition.visibility = Visibility::Public;
    service.definition.output = vec![mk_output("open/out")];
    let mut stored = furnished.create(service.clone(), Sensitive::default()).await.expect("created");
    let visibility = async || world.buckets.get("open").await.expect("read").expect("there").visibility;
    assert_eq!(visibility().await, Visibility::Public);
    world.buckets.set_visibility("open", Visibility::Private, &[]).await.expect("closed");
    furnished.tick_storage().await.expect("looked after");
    service.definition.script = "true".to_owned();
    let revision = stored.revision.clone();
    stored = furnished.replace(service.clone(), Sensitive::default(), &revision).await.expect("replaced");
    assert_eq!(visibility().await, Visibility::Private, "nobody wanted it open again");
    service.definition.visibility = Visibility::Restricted;
    let revision = stored.revision.clone();
    furnished.replace(service, Sensitive::default(), &revision).await.expect("replaced");
    assert_eq!(visibility().await, Visibility::Restricted, "its service changed");
}

/// A definition stays as long as something of it does: it can be removed again, and nobody else
/// gets its name, and with it what it left.
#[tokio::test]
async fn a_removal_that_the_store_does_not_let_happen_can_be_repeated() {
    let world = World::new().await;
    let dispatcher = world.started().await;
    let furnished = furnished(&world, &dispatcher);
    let mut service = mk_service("a", &mk_owner("alice"));
    service.definition.input = vec![mk_output("mine/in")];
    furnished.create(service, Sensitive::default()).await.expect("created");
    for call in ["unsubscribe", "remove"] {
        world.buckets.plant(call, When::Before);
        assert!(matches!(furnished.remove(&name("a"), None).await, Err(StoreError::Unavailable(_))), "{call}");
        assert!(world.services.get(&name("a")).await.expect("read").is_some(), "{call}");
    }
    furnished.remove(&name("a"), None).await.expect("removed");
    assert_eq!(world.buckets.get("mine").await, Ok(None));
    assert_eq!(world.services.get(&name("a")).await.expect("read"), None);
}

fn mk_output(path: &str) -> StorageIo {
    StorageIo {
        provider_text: "minio.default".to_owned(),
        provider: ProviderRef::parse("minio.default").expect("valid"),
        path: path.to_owned(),
        suffix: vec![],
        prefix: vec![],
        options: String::new(),
    }
}

#[tokio::test]
async fn jobs_of_a_service_that_went_while_the_manager_was_killed_end_too() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let job = {
        let dispatcher = world.started().await;
        let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
        dispatcher.step().await.expect("ok");
        world.runtime.begin(&run(&job, 1));
        job
    };
    world.services.remove(&name("a"), None).await.expect("removed");
    let dispatcher = world.started().await;
    assert!(world.runtime.was_told_to_end(&run(&job, 1)));
    world.runtime.finish(&run(&job, 1), mk_ended(Exit::Cancelled, vec![]));
    dispatcher.step().await.expect("ok");
    is_forgotten(&world, &dispatcher, &job).await;
}

#[tokio::test]
async fn a_job_that_is_removed_while_it_runs_is_forgotten_once_it_has_ended() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    world.runtime.begin(&run(&job, 1));
    dispatcher.remove(&user("alice"), &name("a"), &job).await.expect("told to end");
    // Also by a manager that was started meanwhile.
    let dispatcher = world.started().await;
    world.runtime.finish(&run(&job, 1), mk_ended(Exit::Cancelled, vec![]));
    dispatcher.step().await.expect("ok");
    is_forgotten(&world, &dispatcher, &job).await;
}

#[tokio::test]
async fn the_log_of_the_attempt_before_is_kept() {
    let world = World::new().await;
    world.serve("a", |_| {}).await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    let query = LogQuery { limit: 100, ..LogQuery::default() };
    for (attempt, text) in [(1, "first"), (2, "second")] {
        dispatcher.step().await.expect("ok");
        world.runtime.say(&run(&job, attempt), text.as_bytes());
        let before = dispatcher.log(&user("alice"), &name("a"), &job, &query, true).await;
        match before {
            Err(Failure::NoLog(_)) => assert_eq!(attempt, 1),
            Ok(before) => assert_eq!((before.text.as_slice(), before.is_last), (&b"first"[..], true)),
            Err(failure) => panic!("{failure}"),
        }
        let present = dispatcher.log(&user("alice"), &name("a"), &job, &query, false).await.expect("there");
        assert_eq!(present.text, text.as_bytes());
        world.runtime.vanish(&run(&job, attempt));
        dispatcher.step().await.expect("ok");
        world.wait(Duration::from_mins(1));
    }
}

fn mk_isolated(users: &[&str]) -> Service {
    let mut service = mk_service("plants", &mk_owner("alice"));
    let place = |path: &str| StorageIo {
        provider_text: "minio.default".to_owned(),
        provider: ProviderRef::parse("minio.default").expect("valid"),
        path: path.to_owned(),
        suffix: vec![],
        prefix: vec![],
        options: String::new(),
    };
    service.definition.isolation = Isolation::User;
    service.definition.visibility = Visibility::Restricted;
    service.definition.allowed_users = users.iter().map(|&user| user.to_owned()).collect();
    service.definition.input = vec![place("plants/in")];
    service.definition.output = vec![place("plants/out")];
    service
}

#[tokio::test]
async fn each_user_of_an_isolated_service_has_a_bucket_of_his_own() {
    let world = World::new().await;
    let dispatcher = world.started().await;
    let furnished = furnished(&world, &dispatcher);
    let stored = furnished.create(mk_isolated(&["bob", "carol"]), Sensitive::default()).await.expect("created");
    let [bob, carol] = ["bob", "carol"].map(|user| Subject::parse(user).expect("valid"));
    let seen = async |who: &Subject| {
        let buckets = world.buckets.list(&Owner::User(who.clone())).await.expect("listed");
        buckets.into_iter().map(|bucket| bucket.name).collect::<Vec<_>>()
    };
    assert_eq!(seen(&bob).await, ["plants", "plants-bob"]);
    assert_eq!(seen(&carol).await, ["plants", "plants-carol"]);
    world.buckets.upload("plants-bob", "in/x", b"1", "bob");
    let events = world.buckets.next(10).await.expect("told");
    assert_eq!(events.len(), 1, "it starts the service");
    let job = dispatcher.object_created(&events[0], Arc::from(&b"{}"[..])).await.expect("ok").expect("a job");
    assert_eq!(world.job(&job).await.phase, Phase::Queued);

    let revision = stored.revision.clone();
    furnished.replace(mk_isolated(&["carol"]), Sensitive::default(), &revision).await.expect("replaced");
    assert_eq!(seen(&bob).await, Vec::<String>::new(), "he is no user any more");
    assert!(world.buckets.get("plants-bob").await.expect("read").is_some(), "what he left is kept");
    furnished.remove(&name("plants"), None).await.expect("removed");
    assert_eq!(seen(&carol).await, Vec::<String>::new());
}
