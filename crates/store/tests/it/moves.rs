//! Staged outputs get to their places once.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Buckets as _, JOB_METADATA, Move, STAGING_BUCKET, Subscription, Uploads as _};
use oscar_model::identity::Owner;
use oscar_store::Store;

use crate::client::Client;
use crate::support::{Served, mk_bucket, mk_subject, serve};

fn mk_move(job: &str, from: &str, to: &str) -> Move {
    Move {
        from_bucket: STAGING_BUCKET.to_owned(),
        from_key: from.to_owned(),
        to_bucket: "data".to_owned(),
        to_key: to.to_owned(),
        job: job.to_owned(),
    }
}

async fn prepare(store: &Store) {
    store.ensure(&mk_bucket("data", Owner::User(mk_subject("ada")))).await.expect("made");
    let waiting = Subscription { bucket: "data".to_owned(), prefix: "out/".to_owned(), service: "next".to_owned() };
    store.subscribe(&waiting).await.expect("subscribed");
}

async fn stage(store: &Store, key: &str, body: impl Into<Bytes>) {
    store.put_bytes(STAGING_BUCKET, key, body.into(), "text/plain").await.expect("staged");
}

#[tokio::test]
async fn a_commit_moves_all_and_is_heard_of_once() {
    let served = Served::start().await;
    let store = &served.store;
    prepare(store).await;
    let large = Bytes::from(vec![3; 300_000]);
    stage(store, "job-1/a", "small").await;
    stage(store, "job-1/b", large.clone()).await;
    let moves = [
        mk_move("job-1", "job-1/a", "out/a"),
        mk_move("job-1", "job-1/b", "out/b"),
        mk_move("job-1", "job-1/b", "out/copy"),
    ];
    store.commit(&moves).await.expect("committed");
    let root = Client::root(served.address);
    assert_eq!(root.get("data", "out/a").await.text(), "small");
    assert_eq!(root.get("data", "out/b").await.body, large);
    assert_eq!(root.get("data", "out/copy").await.body, large);
    let stat = store.stat("data", "out/a").await.expect("asked").expect("there");
    assert_eq!(stat.user_metadata, BTreeMap::from([(JOB_METADATA.to_owned(), "job-1".to_owned())]));
    assert_eq!(stat.content_type, "text/plain");
    assert_eq!(store.usage(STAGING_BUCKET).await.expect("usage").objects, 0);
    assert_eq!(store.usage("data").await.expect("usage").bytes, 5 + 2 * 300_000);
    let events = store.next(10).await.expect("events");
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| event.principal == "ada" && event.user_metadata[JOB_METADATA] == "job-1"));

    store.commit(&moves).await.expect("again is no error");
    stage(store, "job-1/a", "small").await;
    store.commit(&moves[..1]).await.expect("a second attempt that made the same");
    assert_eq!(store.stat("data", "out/a").await.expect("asked"), Some(stat), "the object is the first one");
    assert_eq!(store.next(10).await.expect("events").len(), 3, "nobody hears of it twice");
    assert_eq!(store.usage(STAGING_BUCKET).await.expect("usage").objects, 0);

    assert_eq!(store.count_objects().await, Ok(Some(3)));
    root.delete("data", "out/a").await;
    assert_eq!(store.count_objects().await, Ok(Some(2)));
    store.put_bytes("data", "out/b", "replaced".into(), "").await.expect("put");
    store.commit(&moves).await.expect("what was moved once counts as moved, whatever happened since");
    assert_eq!(store.stat("data", "out/a").await.expect("asked"), None);
    assert_eq!(root.get("data", "out/b").await.text(), "replaced");
    served.wait_for_files(1).await;
    root.delete("data", "out/copy").await;
    served.wait_for_files(0).await;
}

#[tokio::test]
async fn a_commit_that_cannot_be_made_moves_nothing() {
    let served = Served::start().await;
    let store = &served.store;
    prepare(store).await;
    stage(store, "job/a", "a").await;
    assert_eq!(store.count_objects().await, Ok(Some(0)), "what is staged does not count");
    let missing = [mk_move("job", "job/a", "out/a"), mk_move("job", "job/none", "out/none")];
    assert_eq!(store.commit(&missing).await, Err(StoreError::NotFound));
    let nowhere = Move { to_bucket: "no-such".to_owned(), ..mk_move("job", "job/a", "out/a") };
    assert_eq!(store.commit(&[mk_move("job", "job/a", "out/a"), nowhere]).await, Err(StoreError::NotFound));
    let itself = Move { to_bucket: STAGING_BUCKET.to_owned(), ..mk_move("job", "job/a", "job/a") };
    assert!(store.commit(&[itself]).await.is_err());
    assert!(store.commit(&[mk_move("job", "job/a", "out/../a")]).await.is_err());
    assert_eq!(store.stat("data", "out/a").await.expect("asked"), None);
    assert!(store.next(10).await.expect("events").is_empty());
    assert!(store.stat(STAGING_BUCKET, "job/a").await.expect("asked").is_some());
    store.commit(&[]).await.expect("nothing is easily moved");
}

#[tokio::test]
async fn what_a_dead_attempt_left_is_discarded() {
    let served = Served::start().await;
    let store = &served.store;
    for number in 0..450 {
        stage(store, &format!("job-1/{number}"), vec![0; if number % 100 == 0 { 100_000 } else { 10 }]).await;
    }
    stage(store, "job-10/kept", "x").await;
    store.discard(STAGING_BUCKET, "job-1/").await.expect("discarded");
    store.discard(STAGING_BUCKET, "job-1/").await.expect("again");
    store.discard("no-such-bucket", "x").await.expect("nothing is there");
    assert_eq!(store.usage(STAGING_BUCKET).await.expect("usage").objects, 1);
    served.wait_for_files(0).await;
}

const FOLDER: &str = "OSCAR_STORE_COMMITTER_FOLDER";

/// Does nothing unless a test started this program to commit until it is killed.
#[test]
fn commits_when_it_is_the_child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (store, _) = serve(Path::new(&folder)).await;
        for number in 0.. {
            let (moves, sizes) = job(number);
            for (one, size) in moves.iter().zip(sizes) {
                stage(&store, &one.from_key, vec![1; size]).await;
            }
            println!("\nstaged {number}");
            store.commit(&moves).await.expect("committed");
            println!("\ncommitted {number}");
        }
    });
}

fn job(number: u32) -> ([Move; 2], [usize; 2]) {
    let name = format!("job-{number}");
    let one = |output: &str| mk_move(&name, &format!("{name}/{output}"), &format!("out/{name}/{output}"));
    ([one("small"), one("large")], [100, 100_000])
}

#[test]
fn a_commit_that_was_killed_is_finished_by_the_next_one() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    for round in 0u64..6 {
        let folder = tempfile::TempDir::new().expect("a folder");
        runtime.block_on(async {
            let (store, _) = serve(folder.path()).await;
            prepare(&store).await;
            store.close().await;
        });
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["moves::commits_when_it_is_the_child", "--exact", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the child starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines().map_while(Result::ok);
        let (mut staged, mut committed) = (None, None);
        for line in lines {
            staged = line.strip_prefix("staged ").and_then(|number| number.parse().ok()).or(staged);
            committed = line.strip_prefix("committed ").and_then(|number| number.parse().ok()).or(committed);
            // Now and then right after a job was staged, now and then after it was committed.
            let seen = if round % 2 == 0 { staged } else { committed };
            if seen >= Some(2 + round) {
                break;
            }
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        runtime.block_on(check_after_kill(folder.path(), staged.unwrap_or(0), committed));
    }
}

async fn check_after_kill(folder: &Path, staged: u64, committed: Option<u64>) {
    let (store, _) = serve(folder).await;
    let last = u32::try_from(staged).expect("few jobs");
    for number in 0..=last {
        let (moves, sizes) = job(number);
        let mut present = 0;
        for one in &moves {
            present += usize::from(store.stat("data", &one.to_key).await.expect("asked").is_some());
        }
        assert!(present == 0 || present == 2, "job {number} was committed by halves");
        assert!(
            present == 2 || committed.is_none_or(|committed| u64::from(number) > committed),
            "job {number} is lost"
        );
        store.commit(&moves).await.expect("the rest of it, if any");
        for (one, size) in moves.iter().zip(sizes) {
            let stat = store.stat("data", &one.to_key).await.expect("asked").expect("there");
            assert_eq!(stat.bytes, size as u64);
            assert_eq!(store.stat(STAGING_BUCKET, &one.from_key).await.expect("asked"), None);
        }
    }
    let events = store.next(10_000).await.expect("events");
    for number in 0..=last {
        for one in job(number).0 {
            let told = events.iter().filter(|event| event.key == one.to_key).count();
            assert_eq!(told, 1, "{}", one.to_key);
        }
    }
    store.close().await;
}
