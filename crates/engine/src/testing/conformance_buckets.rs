//! What the contracts of [`Buckets`] and [`Uploads`] promise, asked of any adapter.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use oscar_model::identity::{Owner, Subject};
use oscar_model::service::Visibility;

use super::make::mk_owner;
use crate::ports::StoreError;
use crate::ports::buckets::{
    Bucket, Buckets, Grant, JOB_METADATA, Keys, Move, ObjectEvent, STAGING_BUCKET, Subscription, Uploads, Verb,
};

/// The side of a store that its clients see.
#[async_trait]
pub trait Client: Send + Sync {
    /// Whether an object could be written with these keys; with the administrator's when there
    /// are none.
    async fn put(&self, keys: Option<&Keys>, bucket: &str, key: &str, body: &str) -> bool;

    /// What is there, as the administrator sees it.
    async fn content(&self, bucket: &str, key: &str) -> Option<String>;
}

/// A store with both its sides.
pub struct Store {
    pub buckets: Arc<dyn Buckets>,
    pub uploads: Arc<dyn Uploads>,
    pub client: Arc<dyn Client>,
}

/// Something that was told and does not come is waited for this long.
const PATIENCE: Duration = Duration::from_mins(1);

pub fn mk_bucket(name: &str, owner: &Owner) -> Bucket {
    Bucket {
        name: name.to_owned(),
        owner: owner.clone(),
        visibility: Visibility::Private,
        allowed_users: vec![],
        from_service: None,
    }
}

/// Everything that the contracts say and that one process can see.
pub async fn buckets(store: &Store) {
    ownership(store).await;
    visibility(store).await;
    listing(store).await;
    keys(store).await;
    events(store).await;
    moves(store).await;
}

async fn ownership(store: &Store) {
    let (alice, bob) = (mk_owner("alice-of-buckets@x"), mk_owner("bob-of-buckets@x"));
    let buckets = &*store.buckets;
    assert_eq!(buckets.get("c-owned").await, Ok(None));
    let wanted = Bucket { from_service: Some("c-service".to_owned()), ..mk_bucket("c-owned", &alice) };
    buckets.ensure(&wanted).await.expect("made");
    assert_eq!(buckets.get("c-owned").await, Ok(Some(wanted.clone())));
    buckets.ensure(&wanted).await.expect("again is the same");
    assert_eq!(buckets.ensure(&mk_bucket("c-owned", &bob)).await, Err(StoreError::AlreadyExists));
    assert_eq!(buckets.ensure(&mk_bucket("c-owned", &Owner::Admin)).await, Err(StoreError::AlreadyExists));
    assert_eq!(buckets.get("c-owned").await, Ok(Some(wanted.clone())), "untouched");
    buckets.release("c-owned").await.expect("released");
    let released = Bucket { from_service: None, ..wanted };
    assert_eq!(buckets.get("c-owned").await, Ok(Some(released)));
    buckets.ensure(&mk_bucket("c-other", &Owner::Admin)).await.expect("made");
    assert!(store.client.put(None, "c-owned", "k", "x").await);
    buckets.remove("c-owned").await.expect("removed with what is in it");
    assert_eq!(buckets.get("c-owned").await, Ok(None));
    assert_eq!(buckets.remove("c-owned").await, Err(StoreError::NotFound));
    assert_eq!(buckets.release("c-owned").await, Err(StoreError::NotFound));
    assert_eq!(buckets.set_visibility("c-owned", Visibility::Public, &[]).await, Err(StoreError::NotFound));
    assert!(buckets.get("c-other").await.expect("asked").is_some(), "others are left alone");
    buckets.ensure(&mk_bucket("c-owned", &bob)).await.expect("the name is free again");
    assert_eq!(store.client.content("c-owned", "k").await, None, "and the bucket is empty");
    buckets.remove("c-owned").await.expect("removed");
    buckets.remove("c-other").await.expect("removed");
}

async fn visibility(store: &Store) {
    let (alice, bob) = (mk_owner("alice-of-buckets@x"), mk_owner("bob-of-buckets@x"));
    let buckets = &*store.buckets;
    let names = async |viewer: &Owner| -> BTreeSet<String> {
        let seen = buckets.list(viewer).await.expect("listed");
        seen.into_iter().map(|bucket| bucket.name).filter(|name| name.starts_with("c-seen")).collect()
    };
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    buckets.ensure(&mk_bucket("c-seen-1", &alice)).await.expect("made");
    buckets.ensure(&mk_bucket("c-seen-2", &Owner::Admin)).await.expect("made");
    assert_eq!(names(&alice).await, set(&["c-seen-1"]));
    assert_eq!(names(&bob).await, set(&[]), "there is no default that opens a bucket");
    assert_eq!(names(&Owner::Admin).await, set(&["c-seen-1", "c-seen-2"]));
    let bobs = [Subject::parse("bob-of-buckets@x").expect("a subject")];
    buckets.set_visibility("c-seen-1", Visibility::Restricted, &bobs).await.expect("set");
    let restricted = buckets.get("c-seen-1").await.expect("asked").expect("there");
    assert_eq!((restricted.visibility, &restricted.allowed_users[..]), (Visibility::Restricted, &bobs[..]));
    assert_eq!(names(&bob).await, set(&["c-seen-1"]));
    assert_eq!(names(&mk_owner("eve-of-buckets@x")).await, set(&[]));
    buckets.set_visibility("c-seen-1", Visibility::Public, &[]).await.expect("set");
    assert_eq!(names(&mk_owner("eve-of-buckets@x")).await, set(&["c-seen-1"]));
    buckets.set_visibility("c-seen-1", Visibility::Private, &[]).await.expect("set");
    assert_eq!(names(&bob).await, set(&[]));
    assert_eq!(buckets.get("c-seen-1").await, Ok(Some(mk_bucket("c-seen-1", &alice))));
    for name in ["c-seen-1", "c-seen-2"] {
        buckets.remove(name).await.expect("removed");
    }
}

async fn listing(store: &Store) {
    let buckets = &*store.buckets;
    assert_eq!(buckets.objects("c-listed", None, 10).await, Err(StoreError::NotFound));
    assert_eq!(buckets.ensure_folder("c-listed", "in").await, Err(StoreError::NotFound));
    buckets.ensure(&mk_bucket("c-listed", &Owner::Admin)).await.expect("made");
    assert_eq!(buckets.objects("c-listed", None, 10).await.map(|page| page.objects.len()), Ok(0));
    buckets.ensure_folder("c-listed", "in").await.expect("made");
    buckets.ensure_folder("c-listed", "/in/").await.expect("the same");
    let keys = ["a b+c", "in/1", "in/2", "ä*?", "z"];
    for key in keys {
        assert!(store.client.put(None, "c-listed", key, "12345").await, "{key}");
    }
    let (mut page, mut seen) = (None, Vec::new());
    loop {
        let read = buckets.objects("c-listed", page.as_deref(), 2).await.expect("a page");
        assert!(read.objects.len() <= 2);
        seen.extend(read.objects.into_iter().map(|object| (object.key, object.bytes)));
        page = read.next;
        if page.is_none() {
            break;
        }
    }
    let mut wanted: Vec<_> = keys.iter().map(|&key| (key.to_owned(), 5)).chain([("in/".to_owned(), 0)]).collect();
    wanted.sort();
    assert_eq!(seen, wanted, "ascending, each once");
    buckets.discard("c-listed", "in/").await.expect("discarded");
    buckets.discard("c-listed", "in/").await.expect("again");
    buckets.discard("c-nowhere", "in/").await.expect("nothing is there");
    let left = buckets.objects("c-listed", None, 10).await.expect("a page").objects;
    assert_eq!(left.len(), 3);
    buckets.remove("c-listed").await.expect("removed");
}

async fn keys(store: &Store) {
    let (buckets, client) = (&*store.buckets, &*store.client);
    buckets.ensure(&mk_bucket("c-scoped", &Owner::Admin)).await.expect("made");
    buckets.ensure(&mk_bucket("c-closed", &Owner::Admin)).await.expect("made");
    let grant = |bucket: &str, prefix: &str, verbs: &[Verb]| Grant {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        verbs: verbs.to_vec(),
    };
    let expires = SystemTime::now() + Duration::from_hours(1);
    let scope = [grant("c-scoped", "out/", &[Verb::Write]), grant("c-closed", "read/", &[Verb::Read])];
    let keys = buckets.scoped_key(&scope, expires).await.expect("a key");
    let other = buckets.scoped_key(&scope[..1], expires).await.expect("another");
    assert_ne!(keys.access_key, other.access_key);
    assert!(client.put(Some(&keys), "c-scoped", "out/a", "x").await);
    for (bucket, key) in [("c-scoped", "in/a"), ("c-scoped", "ou"), ("c-closed", "out/a"), ("c-closed", "read/a")] {
        assert!(!client.put(Some(&keys), bucket, key, "x").await, "{bucket}/{key} is outside");
        assert_eq!(client.content(bucket, key).await, None);
    }
    buckets.revoke(&keys.access_key).await.expect("revoked");
    assert!(!client.put(Some(&keys), "c-scoped", "out/b", "x").await, "it opens nothing any more");
    assert!(client.put(Some(&other), "c-scoped", "out/c", "x").await, "the other one does");
    buckets.revoke(&keys.access_key).await.expect("again is no error");
    buckets.revoke("OSCAR-never-was").await.expect("nor is an unknown one");
    let alice = mk_owner("alice-of-buckets@x");
    let mine = buckets.user_keys(&alice).await.expect("keys");
    assert_eq!(mine.access_key, "alice-of-buckets@x");
    assert_eq!(buckets.user_keys(&alice).await, Ok(mine.clone()), "they stay the same");
    assert_ne!(buckets.user_keys(&mk_owner("bob-of-buckets@x")).await, Ok(mine));
    for name in ["c-scoped", "c-closed"] {
        buckets.remove(name).await.expect("removed");
    }
}

/// As many events of these services as there should be; all that there are by then.
pub async fn told(uploads: &dyn Uploads, service: &str, least: usize) -> Vec<ObjectEvent> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let all = uploads.next(10_000).await.expect("events");
        let of_service: Vec<_> = all.into_iter().filter(|event| event.service == service).collect();
        if of_service.len() >= least {
            return of_service;
        }
        let came = tokio::time::timeout_at(deadline, uploads.arrival()).await;
        assert!(came.is_ok(), "{service}: {} of {least} events came", of_service.len());
    }
}

fn subscription(bucket: &str, prefix: &str, service: &str) -> Subscription {
    Subscription { bucket: bucket.to_owned(), prefix: prefix.to_owned(), service: service.to_owned() }
}

async fn settle(uploads: &dyn Uploads, events: &[ObjectEvent]) {
    let ids: Vec<u64> = events.iter().map(|event| event.id).collect();
    uploads.settle(&ids).await.expect("settled");
}

async fn events(store: &Store) {
    let Store { buckets, uploads, client } = store;
    buckets.ensure(&mk_bucket("c-told", &Owner::Admin)).await.expect("made");
    let one = subscription("c-told", "in/", "c-one");
    buckets.subscribe(&one).await.expect("subscribed");
    buckets.subscribe(&one).await.expect("twice is once");
    assert!(client.put(None, "c-told", "elsewhere/a", "x").await);
    assert!(client.put(None, "c-told", "in/a b+ä", "hello").await);
    let first = told(&**uploads, "c-one", 1).await;
    let [event] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!((event.bucket.as_str(), event.key.as_str(), event.bytes), ("c-told", "in/a b+ä", 5));
    assert_eq!(told(&**uploads, "c-one", 1).await, first, "again until it is settled");
    assert!(client.put(None, "c-told", "in/a b+ä", "other").await);
    let second = told(&**uploads, "c-one", 2).await;
    assert_eq!(second.len(), 2, "each write of an object once");
    assert_ne!(second[0].version, second[1].version);
    settle(&**uploads, &second[..1]).await;
    assert_eq!(told(&**uploads, "c-one", 1).await, second[1..]);
    uploads.settle(&[u64::MAX >> 1]).await.expect("unknown ids are no error");
    let two = subscription("c-told", "", "c-two");
    buckets.subscribe(&two).await.expect("subscribed");
    assert!(client.put(None, "c-told", "in/both", "x").await);
    assert_eq!(told(&**uploads, "c-two", 1).await.len(), 1);
    assert_eq!(told(&**uploads, "c-one", 2).await.len(), 2, "one event per service");
    buckets.unsubscribe(&one).await.expect("unsubscribed");
    buckets.unsubscribe(&one).await.expect("again is no error");
    assert!(told(&**uploads, "c-one", 0).await.is_empty(), "what nobody settled goes with it");
    assert!(client.put(None, "c-told", "in/late", "x").await);
    let both = told(&**uploads, "c-two", 2).await;
    assert!(told(&**uploads, "c-one", 0).await.is_empty());
    settle(&**uploads, &both).await;
    buckets.unsubscribe(&two).await.expect("unsubscribed");
    buckets.remove("c-told").await.expect("removed");
}

async fn moves(store: &Store) {
    let Store { buckets, uploads, client } = store;
    buckets.ensure(&mk_bucket("c-moved", &mk_owner("alice-of-buckets@x"))).await.expect("made");
    buckets.subscribe(&subscription("c-moved", "out/", "c-next")).await.expect("subscribed");
    let scope = [Grant { bucket: STAGING_BUCKET.to_owned(), prefix: "c-job/".to_owned(), verbs: vec![Verb::Write] }];
    let keys = buckets.scoped_key(&scope, SystemTime::now() + Duration::from_hours(1)).await.expect("a key");
    let one = |from: &str, to: &str| Move {
        from_bucket: STAGING_BUCKET.to_owned(),
        from_key: format!("c-job/{from}"),
        to_bucket: "c-moved".to_owned(),
        to_key: format!("out/{to}"),
        job: "c-job".to_owned(),
    };
    assert!(client.put(Some(&keys), STAGING_BUCKET, "c-job/a", "first").await);
    assert!(client.put(Some(&keys), STAGING_BUCKET, "c-job/b", "second").await);
    let elsewhere = Move { to_bucket: "c-nowhere".to_owned(), ..one("b", "b") };
    assert_eq!(buckets.commit(&[one("a", "a"), one("none", "c")]).await, Err(StoreError::NotFound));
    assert_eq!(buckets.commit(&[one("a", "a"), elsewhere]).await, Err(StoreError::NotFound));
    assert_eq!(client.content("c-moved", "out/a").await, None, "nothing was moved");
    let both = [one("a", "a"), one("b", "b ä")];
    buckets.commit(&both).await.expect("moved");
    buckets.commit(&both).await.expect("again changes nothing");
    assert_eq!(client.content("c-moved", "out/a").await.as_deref(), Some("first"));
    assert_eq!(client.content("c-moved", "out/b ä").await.as_deref(), Some("second"));
    assert_eq!(client.content(STAGING_BUCKET, "c-job/a").await, None);
    assert_eq!(told(&**uploads, "c-next", 2).await.len(), 2);
    assert!(client.put(None, "c-moved", "out/a", "replaced").await);
    buckets.commit(&both).await.expect("what was moved once counts as moved");
    assert_eq!(client.content("c-moved", "out/a").await.as_deref(), Some("replaced"));
    // The last one: whatever was told before it is there, too.
    assert!(client.put(None, "c-moved", "out/last", "x").await);
    let all = loop {
        let all = told(&**uploads, "c-next", 4).await;
        if all.iter().any(|event| event.key == "out/last") {
            break all;
        }
    };
    assert_eq!(all.len(), 4, "nobody hears of a move twice: {all:?}");
    let made: Vec<_> = all.iter().filter(|event| event.user_metadata.contains_key(JOB_METADATA)).collect();
    assert_eq!(made.len(), 2);
    assert!(made.iter().all(|event| event.user_metadata[JOB_METADATA] == "c-job"));
    settle(&**uploads, &all).await;
    buckets.commit(&[]).await.expect("nothing is easily moved");
    buckets.revoke(&keys.access_key).await.expect("revoked");
    buckets.remove("c-moved").await.expect("removed");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryBuckets;

    #[async_trait]
    impl Client for MemoryBuckets {
        async fn put(&self, keys: Option<&Keys>, bucket: &str, key: &str, body: &str) -> bool {
            if let Some(keys) = keys {
                return MemoryBuckets::put(self, &keys.access_key, bucket, key, body.as_bytes()).is_ok();
            }
            self.upload(bucket, key, body.as_bytes(), "root");
            true
        }

        async fn content(&self, bucket: &str, key: &str) -> Option<String> {
            MemoryBuckets::content(self, bucket, key).map(|body| String::from_utf8_lossy(&body).into_owned())
        }
    }

    #[tokio::test]
    async fn memory_conforms() {
        let memory = Arc::new(MemoryBuckets::default());
        buckets(&Store { buckets: memory.clone(), uploads: memory.clone(), client: memory }).await;
    }
}
