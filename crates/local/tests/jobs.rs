//! Jobs on a data folder: what was acknowledged is there, and is there once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use futures::future::join_all;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::jobs::{Accepted, JobQuery, Jobs as _, NewJob, Removal, Whose};
use oscar_engine::testing::conformance_jobs::{self, mk_job, mk_new, mk_success, pages};
use oscar_engine::testing::conformance_usage::{mk_everything, mk_usage, runs};
use oscar_engine::testing::make::mk_owner;
use oscar_local::{LocalStore, Options};
use oscar_model::job::{Event, Job, Phase};
use oscar_model::name::ServiceName;
use rusqlite::Connection;

const DATA: &str = "OSCAR_TEST_DATA";
const ACKNOWLEDGED: &str = "acknowledged";

fn open(folder: &Path) -> Arc<LocalStore> {
    LocalStore::open(folder, Options::default()).expect("opened")
}

fn mk_store() -> (tempfile::TempDir, Arc<LocalStore>) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    (folder, store)
}

fn service(name: &str) -> ServiceName {
    ServiceName::parse(name).expect("a name")
}

async fn accept(store: &LocalStore, job: &Job) {
    assert_eq!(store.accept(mk_new(job, None)).await, Ok(Accepted::New));
}

async fn cancel(store: &LocalStore, job: &Job, at: u64) {
    store.save(&job.apply(Event::Cancel { by: "x".to_owned() }, at).expect("cancelled")).await.expect("saved");
}

#[tokio::test]
async fn jobs_conform() {
    let (_folder, store) = mk_store();
    conformance_jobs::jobs(store.jobs()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_conform_on_several_threads() {
    let (_folder, store) = mk_store();
    conformance_jobs::jobs(store.jobs()).await;
}

#[tokio::test]
async fn everything_is_as_it_was_after_opening_again() {
    let (folder, store) = mk_store();
    let (waits, ended) = (mk_job("s", "waits", Some(&mk_owner("alice@x")), 10), mk_job("s", "ended", None, 11));
    store.accept(mk_new(&waits, Some("key"))).await.expect("accepted");
    accept(&store, &ended).await;
    let steps = mk_success(&ended, 20);
    for step in &steps {
        store.save(step).await.expect("saved");
    }
    store.note_usage(&mk_usage("s", &mk_owner("alice@x"), "", 9)).await.expect("noted");
    let used = store.usage(&mk_everything(0, 10)).await;
    let counts = store.counts().await;
    drop(store);

    let store = open(folder.path());
    assert_eq!(store.get(&waits.name).await, Ok(Some(waits.clone())));
    assert_eq!(store.get(&ended.name).await, Ok(steps.last().cloned()));
    assert_eq!(store.unfinished().await, Ok(vec![waits.clone()]));
    assert_eq!(store.event(&waits.name).await.as_deref(), Ok(format!("event of {}", waits.name).as_bytes()));
    assert_eq!(store.counts().await, counts);
    assert_eq!(runs(&*store, 0, 10).await, 1);
    assert_eq!(store.usage(&mk_everything(0, 10)).await, used);
    let again = store.accept(mk_new(&mk_job("s", "again", None, 30), Some("key"))).await;
    assert!(matches!(again, Ok(Accepted::Known { job, .. }) if job.name == waits.name));
    assert_eq!(store.save(&steps[1]).await, Err(StoreError::Conflict), "a stale version");
}

#[tokio::test]
async fn a_manager_that_was_killed_lost_no_job_that_it_had_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "child_accepts_and_dies", "--ignored"])
        .env(DATA, folder.path())
        .output()
        .expect("ran");
    assert!(!child.status.success(), "it was to die: {child:?}");

    let store = open(folder.path());
    let acknowledged = fs::read_to_string(folder.path().join(ACKNOWLEDGED)).expect("the child wrote it");
    let kept: BTreeSet<_> =
        store.unfinished().await.expect("read").iter().map(|job| job.name.as_str().to_owned()).collect();
    assert_eq!(acknowledged.lines().count(), 64);
    for name in acknowledged.lines() {
        assert!(kept.contains(name), "{name} was acknowledged");
    }
    for job in store.unfinished().await.expect("read") {
        assert!(store.event(&job.name).await.is_ok(), "no job without its event");
    }
    let counted: u64 = store.counts().await.expect("counted").iter().map(|(_, count)| count).sum();
    assert_eq!(counted, kept.len() as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs as the child of another test"]
async fn child_accepts_and_dies() {
    let Some(folder) = std::env::var_os(DATA) else { return };
    let folder = Path::new(&folder);
    let store = open(folder);
    let (sender, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..256 {
        let (store, sender) = (store.clone(), sender.clone());
        tokio::spawn(async move {
            let job = mk_job("s", &n.to_string(), None, n);
            accept(&store, &job).await;
            let _ = sender.send(job.name.to_string());
        });
    }
    let mut names = Vec::new();
    while names.len() < 64 {
        names.extend(acknowledged.recv().await);
    }
    fs::write(folder.join(ACKNOWLEDGED), names.join("\n")).expect("written");
    // Others are on their way.
    std::process::abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_from_many_tasks_is_one_job() {
    let (_folder, store) = mk_store();
    let tasks = (0..200u64).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let key = format!("key-{}", n % 4);
            store.accept(mk_new(&mk_job("s", &n.to_string(), None, n), Some(&key))).await.expect("answered")
        })
    });
    let outcomes: Vec<_> = join_all(tasks).await.into_iter().map(|task| task.expect("ran")).collect();
    assert_eq!(outcomes.iter().filter(|accepted| **accepted == Accepted::New).count(), 4);
    let known: BTreeSet<_> = outcomes
        .iter()
        .filter_map(|accepted| if let Accepted::Known { job, .. } = accepted { Some(job.name.clone()) } else { None })
        .collect();
    assert_eq!(known.len(), 4);
    assert_eq!(store.unfinished().await.expect("read").len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_save_the_same_step_one_succeeds() {
    let (_folder, store) = mk_store();
    let job = mk_job("s", "1", None, 1);
    accept(&store, &job).await;
    let [by_alice, by_bob] = ["alice", "bob"].map(|by| job.apply(Event::Cancel { by: by.to_owned() }, 2).expect("ok"));
    let outcomes = tokio::join!(store.save(&by_alice), store.save(&by_bob));
    let stored = store.get(&job.name).await.expect("read").expect("there");
    match outcomes {
        (Ok(()), Err(StoreError::Conflict)) => assert_eq!(stored, by_alice),
        (Err(StoreError::Conflict), Ok(())) => assert_eq!(stored, by_bob),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_show_each_job_once_while_others_come_and_go() {
    let (_folder, store) = mk_store();
    let old: Vec<_> = (0..100).map(|n| mk_job("s", &format!("old-{n}"), None, n)).collect();
    for job in &old {
        accept(&store, job).await;
    }
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..200 {
                let job = mk_job("s", &format!("new-{n}"), None, n);
                accept(&store, &job).await;
                cancel(&store, &job, n).await;
                store.remove(&Removal::One(job.name)).await.expect("removed");
            }
        })
    };
    let is_old = |job: &Job| job.name.as_str().starts_with("s-old");
    loop {
        let done = writer.is_finished();
        let shown: Vec<_> =
            pages(&*store, &service("s"), &Whose::Everybody, 7).await.into_iter().flat_map(|page| page.jobs).collect();
        let mut seen: Vec<_> = shown.into_iter().filter(is_old).collect();
        seen.reverse();
        assert_eq!(seen, old);
        if done {
            break;
        }
    }
    writer.await.expect("ran");
}

#[tokio::test]
async fn a_service_with_many_ended_jobs_is_emptied_and_others_are_not() {
    let (_folder, store) = mk_store();
    let made: Vec<_> = (0..1203).map(|n| mk_job("many", &n.to_string(), None, n)).collect();
    join_all(made.iter().map(|job| accept(&store, job))).await;
    join_all(made[1..].iter().map(|job| cancel(&store, job, 9))).await;
    let other = mk_job("other", "1", None, 1);
    accept(&store, &other).await;
    cancel(&store, &other, 9).await;
    let all = Removal::OfService { service: service("many"), whose: Whose::Everybody, succeeded_only: false };
    assert_eq!(store.remove(&all).await.map(|gone| gone.len()), Ok(1202));
    assert_eq!(store.unfinished().await, Ok(vec![made[0].clone()]));
    let left = store.counts().await.expect("counted");
    assert!(left.contains(&(Phase::Accepted, 1)) && left.contains(&(Phase::Cancelled, 1)), "{left:?}");
}

#[tokio::test]
async fn the_number_of_a_forgotten_job_is_not_given_out_again() {
    let (folder, store) = mk_store();
    let first = mk_job("s", "1", None, 1);
    accept(&store, &first).await;
    accept(&store, &mk_job("s", "2", None, 1)).await;
    let query = JobQuery { service: service("s"), whose: Whose::Everybody, page: None, limit: 1 };
    let next = store.page(&query).await.expect("a page").next;
    for job in store.unfinished().await.expect("read") {
        cancel(&store, &job, 2).await;
    }
    let all = Removal::OfService { service: service("s"), whose: Whose::Everybody, succeeded_only: false };
    store.remove(&all).await.expect("removed");
    drop(store);
    let store = open(folder.path());
    accept(&store, &mk_job("s", "3", None, 3)).await;
    let rest = store.page(&JobQuery { page: next, ..query }).await.expect("a page");
    assert_eq!((rest.jobs, rest.next), (vec![], None), "a new job does not appear on an old page");
}

#[tokio::test]
async fn an_event_is_not_readable_in_the_file() {
    let (folder, store) = mk_store();
    let job = mk_job("s", "1", None, 1);
    let event: Arc<[u8]> = Arc::from(&b"a planted confidence"[..]);
    store.accept(NewJob { job: job.clone(), event: event.clone(), once: None }).await.expect("accepted");
    assert_eq!(store.event(&job.name).await, Ok(event));
    store.close().await.expect("closed");
    let file = fs::read(folder.path().join("oscar.db")).expect("read");
    assert!(!file.windows(7).any(|window| window == b"planted"));
}

#[tokio::test]
async fn a_job_that_cannot_be_read_hides_no_other() {
    let (folder, store) = mk_store();
    let (broken, good) = (mk_job("s", "broken", None, 1), mk_job("s", "good", None, 1));
    accept(&store, &broken).await;
    accept(&store, &good).await;
    drop(store);
    let connection = Connection::open(folder.path().join("oscar.db")).expect("opened");
    connection.execute("UPDATE jobs SET record = '{\"form\":1}' WHERE name = 's-broken'", ()).expect("broken");
    drop(connection);
    let store = open(folder.path());
    assert!(matches!(store.get(&broken.name).await, Err(StoreError::Broken(_))));
    assert_eq!(store.unfinished().await, Ok(vec![good.clone()]));
    let shown = pages(&*store, &service("s"), &Whose::Everybody, 1).await;
    assert_eq!(shown.into_iter().flat_map(|page| page.jobs).collect::<Vec<_>>(), vec![good]);
}

#[tokio::test]
async fn what_ran_long_ago_is_forgotten_bit_by_bit() {
    const DAY: u64 = 24 * 3600 * 1000;
    let (_folder, store) = mk_store();
    let usage = |at| mk_usage("s", &mk_owner("alice@x"), "alice@x", at);
    for n in 0..20 {
        store.note_usage(&usage(n)).await.expect("noted");
    }
    store.note_usage(&usage(400 * DAY)).await.expect("noted");
    assert_eq!(runs(&*store, 0, u64::MAX).await, 21, "four hundred days are kept");
    let mut kept = Vec::new();
    for _ in 0..4 {
        store.note_usage(&usage(401 * DAY)).await.expect("noted");
        kept.push(runs(&*store, 0, DAY).await);
    }
    assert_eq!(kept, [12, 4, 0, 0]);
}

/// Asserts nothing about time. Run with `cargo test --release -p oscar-local --test jobs -- --ignored --nocapture durable`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn durable_accepts_per_second() {
    for callers in [1u64, 16, 64, 256] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on a real disk");
        let store = open(folder.path());
        let each = 20_000 / callers.max(16);
        let begin = std::time::Instant::now();
        let tasks = (0..callers).map(|caller| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..each {
                    let job = mk_job("s", &format!("{caller}-{n}"), None, n);
                    let key = format!("key-{caller}-{n}");
                    store.accept(mk_new(&job, Some(&key))).await.expect("accepted");
                }
            })
        });
        join_all(tasks).await;
        let made = u32::try_from(callers * each).expect("a small number");
        println!("{callers:>4} callers: {:>8.0} durable accepts/s", f64::from(made) / begin.elapsed().as_secs_f64());
    }
}
