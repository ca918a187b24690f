//! No upload is missed: neither while the manager is down, nor when nobody tells of it.

use std::time::Duration;

use oscar_engine::ports::buckets::{Buckets as _, Notices as _, Subscription, Uploads as _};
use oscar_engine::testing::conformance_buckets::told;
use oscar_model::identity::Owner;
use oscar_testkit::require;

use crate::scene::{Scene, mk_bucket, mk_subject, root_keys};

async fn prepare(scene: &Scene) -> Subscription {
    scene.store.ensure(&mk_bucket("data", Owner::User(mk_subject("ada@x")))).await.expect("made");
    let waiting = Subscription { bucket: "data".to_owned(), prefix: "in/".to_owned(), service: "s".to_owned() };
    scene.store.subscribe(&waiting).await.expect("subscribed");
    waiting
}

/// The object's name, of everything that was told.
async fn keys_told(scene: &Scene, least: usize) -> Vec<String> {
    let mut keys: Vec<_> = told(&scene.store, "s", least).await.into_iter().map(|event| event.key).collect();
    keys.sort();
    keys
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_told_waits_in_the_stores_queue_and_is_told_once() {
    let mut scene = require!(Scene::start().await);
    prepare(&scene).await;
    scene.door.close();
    for n in 0..5 {
        assert_eq!(scene.client.put(&root_keys(), "data", &format!("in/{n}"), "x").await, 200);
    }
    let limit = Duration::from_mins(1);
    let door = scene.door.clone();
    let knocked = tokio::task::spawn_blocking(move || {
        oscar_testkit::eventually("the store to knock", limit, || (door.knocks() > 0).then_some(()));
    });
    knocked.await.expect("it knocked");
    scene.restart();
    scene.door.open(&scene.store);
    assert_eq!(keys_told(&scene, 5).await, ["in/0", "in/1", "in/2", "in/3", "in/4"]);
    scene.store.tick_catch_up().await.expect("looked");
    assert_eq!(keys_told(&scene, 5).await.len(), 5, "what was told is not found again");
    let events = told(&scene.store, "s", 5).await;
    assert!(events.iter().all(|event| event.principal == "root-access" && event.source_ip == "127.0.0.1"));
    let ids: Vec<u64> = events.iter().map(|event| event.id).collect();
    scene.store.settle(&ids).await.expect("settled");
    scene.store.tick_catch_up().await.expect("looked");
    assert!(told(&scene.store, "s", 0).await.is_empty(), "nor when it was settled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_told_of_is_found() {
    let mut scene = require!(Scene::start_with(false).await);
    let waiting = prepare(&scene).await;
    scene.store.ensure_folder("data", "in/deep").await.expect("made");
    let keys = ["in/a b+ä", "in/deep/c", "elsewhere/d", "in/e"];
    for key in keys {
        assert_eq!(scene.client.put(&root_keys(), "data", key, "hello").await, 200);
    }
    scene.restart();
    scene.store.tick_catch_up().await.expect("looked");
    assert_eq!(keys_told(&scene, 3).await, ["in/a b+ä", "in/deep/c", "in/e"], "a folder is no upload");
    let events = told(&scene.store, "s", 3).await;
    assert!(events.iter().all(|event| event.bytes == 5 && event.principal == "ada@x"), "{events:?}");
    scene.store.tick_catch_up().await.expect("looked");
    assert_eq!(told(&scene.store, "s", 3).await, events, "once");
    assert_eq!(scene.client.put(&root_keys(), "data", "in/e", "again").await, 200);
    scene.store.tick_catch_up().await.expect("looked");
    assert_eq!(told(&scene.store, "s", 4).await.len(), 4, "another write is another upload");
    scene.store.unsubscribe(&waiting).await.expect("unsubscribed");
    scene.store.tick_catch_up().await.expect("looked");
    assert!(told(&scene.store, "s", 0).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_found_is_not_told_again_when_the_webhook_comes_late() {
    let mut scene = require!(Scene::start().await);
    prepare(&scene).await;
    scene.door.close();
    assert_eq!(scene.client.put(&root_keys(), "data", "in/late", "x").await, 200);
    scene.restart();
    scene.store.tick_catch_up().await.expect("looked");
    let found = told(&scene.store, "s", 1).await;
    assert_eq!(found.len(), 1);
    scene.door.open(&scene.store);
    assert_eq!(scene.client.put(&root_keys(), "data", "in/after", "x").await, 200);
    loop {
        let all = told(&scene.store, "s", 2).await;
        if all.iter().any(|event| event.key == "in/after") {
            assert_eq!(all.len(), 2, "{all:?}");
            break;
        }
    }
    assert!(scene.store.take(b"{\"Records\":[{}]}").await.is_ok(), "nonsense is dropped, and holds nothing up");
    assert!(scene.store.is_from_store(crate::scene::TOKEN) && !scene.store.is_from_store("webhook-secres"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_nobody_told_of_are_all_found() {
    let scene = require!(Scene::start_with(false).await);
    prepare(&scene).await;
    let versioned = scene.minio.mc(&["version", "enable", "store/data"]);
    assert!(versioned.status.success(), "{versioned:?}");
    for body in ["one", "two", "three"] {
        assert_eq!(scene.client.put(&root_keys(), "data", "in/v", body).await, 200);
    }
    scene.store.tick_catch_up().await.expect("looked");
    let events = told(&scene.store, "s", 3).await;
    let mut versions: Vec<_> = events.iter().map(|event| event.version.clone()).collect();
    versions.sort();
    versions.dedup();
    assert_eq!((events.len(), versions.len()), (3, 3), "{events:?}");
    scene.store.remove("data").await.expect("removed with all versions");
}
