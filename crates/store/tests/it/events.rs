//! Objects that arrive are heard of.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use oscar_engine::ports::buckets::{Buckets as _, ObjectEvent, Presign, Subscription, Uploads as _};
use oscar_model::identity::Owner;
use oscar_model::service::Visibility;
use oscar_store::Store;

use crate::client::{Client, send};
use crate::support::{ROOT, Served, mk_bucket, mk_subject, serve};

fn mk_subscription(prefix: &str, service: &str) -> Subscription {
    Subscription { bucket: "data".to_owned(), prefix: prefix.to_owned(), service: service.to_owned() }
}

async fn waiting(store: &Store) -> Vec<ObjectEvent> {
    store.next(1000).await.expect("events")
}

async fn settle_all(store: &Store) {
    let ids: Vec<u64> = waiting(store).await.iter().map(|event| event.id).collect();
    store.settle(&ids).await.expect("settled");
    assert!(waiting(store).await.is_empty());
}

#[tokio::test]
async fn an_upload_is_told_to_those_who_wait_for_it() {
    let served = Served::start().await;
    let store = &served.store;
    store.ensure(&mk_bucket("data", Owner::User(mk_subject("ada@example.org")))).await.expect("made");
    for (prefix, service) in [("in/", "one"), ("in/deep/", "two"), ("out/", "three")] {
        store.subscribe(&mk_subscription(prefix, service)).await.expect("subscribed");
    }
    store.subscribe(&mk_subscription("in/", "one")).await.expect("twice is once");
    store.ensure_folder("data", "in").await.expect("a folder");
    store.ensure_folder("data", "/in/").await.expect("the same folder");
    assert!(waiting(store).await.is_empty(), "a folder is no upload");

    let keys = store.user_keys(&Owner::User(mk_subject("ada@example.org"))).await.expect("keys");
    let ada = Client::new(served.address, &keys);
    assert_eq!(ada.put("data", "elsewhere", "x").await.status, 200);
    assert_eq!(ada.put("data", "in", "x").await.status, 200);
    assert_eq!(ada.put("data", "in/a b.txt", "hello").await.status, 200);
    let events = waiting(store).await;
    let stat = store.stat("data", "in/a b.txt").await.expect("asked").expect("there");
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((event.service.as_str(), event.bucket.as_str(), event.key.as_str()), ("one", "data", "in/a b.txt"));
    assert_eq!((event.bytes, event.etag.as_str()), (5, "5d41402abc4b2a76b9719d911017c592"));
    assert_eq!((&event.version, event.time), (&stat.version, stat.modified));
    assert_eq!((event.principal.as_str(), event.source_ip.as_str()), ("ada@example.org", "127.0.0.1"));
    settle_all(store).await;

    assert_eq!(ada.put("data", "in/deep/b", "1").await.status, 200);
    assert_eq!(ada.put("data", "in/deep/b", "2").await.status, 200);
    let events = waiting(store).await;
    let told: Vec<&str> = events.iter().map(|event| event.service.as_str()).collect();
    assert_eq!(told.iter().filter(|service| **service == "one").count(), 2, "{told:?}");
    assert_eq!(told.len(), 4, "each service hears of each version once");
    let versions: BTreeSet<&str> = events.iter().map(|event| event.version.as_str()).collect();
    assert_eq!(versions.len(), 2);
    assert!(events.is_sorted_by_key(|event| event.id), "the oldest first");
    store.settle(&[events[0].id, 999_999]).await.expect("settled");
    assert_eq!(waiting(store).await, events[1..]);
    assert_eq!(store.next(2).await.expect("events"), events[1..3]);

    store.unsubscribe(&mk_subscription("in/deep/", "two")).await.expect("unsubscribed");
    assert!(waiting(store).await.iter().all(|event| event.service == "one"), "what nobody wants is not kept");
    store.remove("data").await.expect("removed");
    assert!(waiting(store).await.is_empty());
    store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    store.put_bytes("data", "in/x", "x".into(), "text/plain").await.expect("put");
    assert!(waiting(store).await.is_empty(), "a new bucket of that name starts nothing of the old one");
}

#[tokio::test]
async fn every_way_of_making_an_object_is_an_upload() {
    let served = Served::start().await;
    let store = &served.store;
    store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    store.subscribe(&mk_subscription("in/", "s")).await.expect("subscribed");
    let root = Client::root(served.address);
    let upload = root.begin_upload("data", "in/parts").await;
    let etag = root.put_part("data", "in/parts", &upload, b"part").await;
    assert!(waiting(store).await.is_empty(), "a part is no object");
    assert_eq!(root.complete("data", "in/parts", &upload, &etag).await.status, 200);
    assert_eq!(root.complete("data", "in/parts", &upload, &etag).await.status, 200);
    store.put_bytes("data", "in/own", "x".into(), "a/b").await.expect("put");
    let wanted = Presign {
        bucket: "data".to_owned(),
        key: "in/signed ä".to_owned(),
        upload: true,
        content_type: None,
        headers: std::collections::BTreeMap::new(),
        valid_for: std::time::Duration::from_mins(1),
    };
    let url = store.presign(&Owner::Admin, &wanted).await.expect("an address");
    let body = http_body_util::Full::from("signed");
    let answer = send(served.address, http::Method::PUT, &url, None, body).await.expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let events = waiting(store).await;
    let keys: Vec<&str> = events.iter().map(|event| event.key.as_str()).collect();
    assert_eq!(keys, ["in/parts", "in/own", "in/signed ä"]);
    assert!(events.iter().all(|event| event.principal == ROOT));
    store.set_visibility("data", Visibility::Public, &[]).await.expect("changed");
    let ada = Owner::User(mk_subject("ada"));
    let url = store.presign(&ada, &Presign { key: "in/hers".to_owned(), ..wanted.clone() }).await.expect("an address");
    let put = |url: String| async move {
        let body = http_body_util::Full::from("signed");
        send(served.address, http::Method::PUT, &url, None, body).await.expect("an answer").status
    };
    assert_eq!(put(url).await, 200);
    assert_eq!(waiting(store).await.last().map(|event| event.principal.clone()), Some("ada".to_owned()));
    store.set_visibility("data", Visibility::Private, &[]).await.expect("changed");
    let url = store.presign(&ada, &wanted).await.expect("an address");
    assert_eq!(put(url).await, 403, "it is good for what she may do now");
    assert_eq!(events[1].content_type, "a/b");
}

#[tokio::test]
async fn events_wait_for_the_next_start() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (store, address) = serve(folder.path()).await;
    store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    store.subscribe(&mk_subscription("in/", "s")).await.expect("subscribed");
    assert_eq!(Client::root(address).put("data", "in/a", "x").await.status, 200);
    let before = waiting(&store).await;
    store.close().await;
    let (store, address) = serve(folder.path()).await;
    store.arrival().await;
    assert_eq!(waiting(&store).await, before);
    settle_all(&store).await;
    assert!(store.arrival().now_or_never().is_none(), "nothing came");
    let (answer, ()) = futures::join!(async { Client::root(address).put("data", "in/b", "x").await }, store.arrival());
    assert_eq!(answer.status, 200);
    assert_eq!(Client::root(address).put("data", "in/c", "x").await.status, 200);
    assert!(store.arrival().now_or_never().is_some(), "what came while nobody listened is not missed");
    assert_eq!(waiting(&store).await.len(), 2);
}
