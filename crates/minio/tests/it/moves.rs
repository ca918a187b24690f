//! Staged outputs get to their places once, whatever happens in between.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Buckets as _, JOB_METADATA, Move, STAGING_BUCKET, Subscription, Verb};
use oscar_engine::ports::buckets::{Grant, Keys};
use oscar_engine::testing::conformance_buckets::told;
use oscar_model::identity::Owner;
use oscar_testkit::require;

use crate::scene::{Client, Scene, mk_bucket, mk_store, mk_subject, root_keys};

fn mk_move(job: &str, from: &str, to: &str) -> Move {
    Move {
        from_bucket: STAGING_BUCKET.to_owned(),
        from_key: from.to_owned(),
        to_bucket: "data".to_owned(),
        to_key: to.to_owned(),
        job: job.to_owned(),
    }
}

async fn prepare(scene: &Scene) -> Keys {
    scene.store.ensure(&mk_bucket("data", Owner::User(mk_subject("ada@x")))).await.expect("made");
    let waiting = Subscription { bucket: "data".to_owned(), prefix: "out/".to_owned(), service: "next".to_owned() };
    scene.store.subscribe(&waiting).await.expect("subscribed");
    let scope = [Grant { bucket: STAGING_BUCKET.to_owned(), prefix: String::new(), verbs: vec![Verb::Write] }];
    let expires = std::time::SystemTime::now() + std::time::Duration::from_hours(1);
    scene.store.scoped_key(&scope, expires).await.expect("a key")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_file_goes_to_several_places_and_belongs_to_their_owner() {
    let scene = require!(Scene::start().await);
    let keys = prepare(&scene).await;
    let Scene { store, client, .. } = &scene;
    assert_eq!(client.put(&keys, STAGING_BUCKET, "job-1/a", "content").await, 200);
    let moves = [mk_move("job-1", "job-1/a", "out/a"), mk_move("job-1", "job-1/a", "out/copy")];
    store.commit(&moves).await.expect("moved");
    for key in ["out/a", "out/copy"] {
        assert_eq!(client.get(&root_keys(), "data", key).await, (200, b"content".to_vec()));
    }
    let events = told(store, "next", 2).await;
    assert!(events.iter().all(|event| event.principal == "ada@x" && event.source_ip.is_empty()), "{events:?}");
    assert!(events.iter().all(|event| event.user_metadata[JOB_METADATA] == "job-1"));
    // A second attempt that made the same.
    assert_eq!(client.put(&keys, STAGING_BUCKET, "job-1/a", "content").await, 200);
    store.commit(&moves).await.expect("nothing is left to do");
    assert_eq!(client.get(&root_keys(), STAGING_BUCKET, "job-1/a").await.0, 404, "what was staged again is gone");
    assert_eq!(told(store, "next", 2).await, events);
}

/// A name that no disk takes: trying again would be for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_store_will_never_take_is_the_end_also_after_the_first() {
    let scene = require!(Scene::start().await);
    let keys = prepare(&scene).await;
    let Scene { store, client, .. } = &scene;
    for name in ["job-1/0", "job-1/1"] {
        assert_eq!(client.put(&keys, STAGING_BUCKET, name, "content").await, 200);
    }
    let moves =
        [mk_move("job-1", "job-1/0", "out/0"), mk_move("job-1", "job-1/1", &format!("out/{}", "b".repeat(300)))];
    for round in 0..2 {
        let refused = store.commit(&moves).await;
        let Err(StoreError::Forbidden(sentence)) = refused else { panic!("{round}: {refused:?}") };
        assert!(sentence.starts_with("some are in their place, but "), "{sentence}");
    }
    assert_eq!(client.get(&root_keys(), "data", "out/0").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_output_is_copied_in_parts() {
    let mut scene = require!(Scene::start().await);
    let keys = prepare(&scene).await;
    let limit = 5 << 20;
    scene.store = mk_store(scene.minio.url(), scene.scratch.path(), Some(limit));
    scene.door.open(&scene.store);
    let Scene { store, client, .. } = &scene;
    let size = usize::try_from(2 * limit + 12_345).expect("small enough");
    let body: Vec<u8> = (0..size).map(|n| u8::try_from(n % 251).expect("below 251")).collect();
    assert_eq!(client.put(&keys, STAGING_BUCKET, "job-2/large", body.clone()).await, 200);
    let moves = [mk_move("job-2", "job-2/large", "out/large")];
    store.commit(&moves).await.expect("moved");
    store.commit(&moves).await.expect("again");
    let (status, read) = client.get(&root_keys(), "data", "out/large").await;
    assert_eq!(status, 200);
    assert!(read == body, "{} bytes of {size}", read.len());
    let events = told(store, "next", 1).await;
    assert_eq!((events.len(), events[0].bytes), (1, size as u64));
    assert_eq!(events[0].user_metadata[JOB_METADATA], "job-2");
}

const URL: &str = "OSCAR_MINIO_COMMITTER_URL";
const FOLDER: &str = "OSCAR_MINIO_COMMITTER_FOLDER";

/// Does nothing unless a test started this program to commit until it is killed.
#[tokio::test]
async fn commits_when_it_is_the_child() {
    let (Ok(url), Some(folder)) = (std::env::var(URL), std::env::var_os(FOLDER)) else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store = mk_store(&url, Path::new(&folder), None);
    let client = Client::new(&url);
    for number in 0.. {
        for one in job(number) {
            assert_eq!(client.put(&root_keys(), STAGING_BUCKET, &one.from_key, vec![1; 100]).await, 200);
        }
        println!("\nstaged {number}");
        store.commit(&job(number)).await.expect("committed");
        println!("\ncommitted {number}");
    }
}

fn job(number: u64) -> Vec<Move> {
    let name = format!("job-{number}");
    let one = |output: u32| mk_move(&name, &format!("{name}/{output}"), &format!("out/{name}/{output}"));
    (0..6).map(one).collect()
}

/// Whether a child got as far as having every output of this job at one place or the other.
async fn is_staged_or_placed(client: &Client, number: u64) -> bool {
    let root = root_keys();
    for one in job(number) {
        let staged = client.get(&root, STAGING_BUCKET, &one.from_key).await.0 == 200;
        if !staged && client.get(&root, "data", &one.to_key).await.0 != 200 {
            return false;
        }
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_was_killed_is_finished_by_the_next_one() {
    let mut scene = require!(Scene::start().await);
    prepare(&scene).await;
    let rounds = 8;
    let mut last = 0;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["moves::commits_when_it_is_the_child", "--exact", "--nocapture", "--test-threads=1"])
            .env(URL, scene.minio.url())
            .env(FOLDER, scene.scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the child starts");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        // Each time a little further into the copies of a job.
        let (goal, output) = (last + 2, usize::try_from(round % 6).expect("below six"));
        let staged = tokio::task::spawn_blocking(move || {
            let mut lines = lines.lines().map_while(Result::ok);
            assert!(lines.any(|line| line == format!("staged {goal}")), "the child ended");
            lines
        });
        // Kept open: a child that nobody reads would end before it is killed.
        let _output = staged.await.expect("staged");
        while scene.client.get(&root_keys(), "data", &job(goal)[output].to_key).await.0 != 200 {
            tokio::task::yield_now().await;
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        last = goal;
        while is_staged_or_placed(&scene.client, last + 1).await {
            last += 1;
        }
        scene.restart();
        scene.door.open(&scene.store);
        for number in 0..=last {
            scene.store.commit(&job(number)).await.expect("the rest of it, if any");
        }
    }
    for number in 0..=last {
        for one in job(number) {
            assert_eq!(scene.client.get(&root_keys(), "data", &one.to_key).await.1, vec![1; 100], "{}", one.to_key);
            assert_eq!(scene.client.get(&root_keys(), STAGING_BUCKET, &one.from_key).await.0, 404);
        }
    }
    assert_eq!(scene.client.put(&root_keys(), "data", "out/last", "x").await, 200);
    let wanted = usize::try_from(last + 1).expect("few") * 6 + 1;
    let events = told(&scene.store, "next", wanted).await;
    let mut keys: Vec<_> = events.iter().map(|event| event.key.clone()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!((events.len(), keys.len()), (wanted, wanted), "each output was told once");
    oscar_testkit::count("commits killed", rounds);
}
