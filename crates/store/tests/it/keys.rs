//! Who gets in, and for how long.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use oscar_engine::ports::buckets::{
    Bucket, Buckets as _, Grant, Keys, STAGING_BUCKET, Subscription, Uploads as _, Verb,
};
use oscar_model::identity::Owner;
use oscar_model::service::Visibility;
use oscar_store::{Options, Store};

use crate::client::Client;
use crate::support::{Flipped, Served, files_in, mk_bucket, mk_options, mk_subject, serve};

fn mk_grant(bucket: &str, prefix: &str, verbs: &[Verb]) -> Grant {
    Grant { bucket: bucket.to_owned(), prefix: prefix.to_owned(), verbs: verbs.to_vec() }
}

fn in_an_hour() -> SystemTime {
    SystemTime::now() + Duration::from_hours(1)
}

async fn mk_scoped(served: &Served, grants: &[Grant]) -> (Keys, Client) {
    let keys = served.store.scoped_key(grants, in_an_hour()).await.expect("a key");
    let client = Client::new(served.address, &keys);
    (keys, client)
}

async fn mk_user(served: &Served, name: &str) -> Client {
    let keys = served.store.user_keys(&Owner::User(mk_subject(name))).await.expect("keys");
    assert_eq!(keys.access_key, name);
    Client::new(served.address, &keys)
}

#[tokio::test]
async fn a_scoped_key_opens_its_scope_and_nothing_else() {
    let served = Served::start().await;
    served.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    served.store.ensure(&mk_bucket("other", Owner::Admin)).await.expect("made");
    let root = Client::root(served.address);
    assert_eq!(root.put("data", "in/file", "input").await.status, 200);
    assert_eq!(root.put("data", "secret", "no").await.status, 200);
    let grants = [
        mk_grant("data", "in/", &[Verb::Read, Verb::List]),
        mk_grant(STAGING_BUCKET, "job-1/", &[Verb::Write, Verb::Delete]),
    ];
    let (_, scoped) = mk_scoped(&served, &grants).await;
    assert_eq!(scoped.get("data", "in/file").await.text(), "input");
    assert!(scoped.list("data", "in/").await.text().contains("<Key>in/file</Key>"));
    assert_eq!(scoped.put(STAGING_BUCKET, "job-1/out", "output").await.status, 200);
    assert_eq!(scoped.delete(STAGING_BUCKET, "job-1/out").await.status, 204);
    for refused in [
        scoped.get("data", "secret").await,
        scoped.list("data", "").await,
        scoped.put("data", "in/file", "x").await,
        scoped.delete("data", "in/file").await,
        scoped.put(STAGING_BUCKET, "job-2/out", "x").await,
        scoped.get(STAGING_BUCKET, "job-1/out").await,
        scoped.list(STAGING_BUCKET, "job-1/").await,
        scoped.get("other", "k").await,
        scoped.get("no-such-bucket", "k").await,
        scoped.make_bucket("mine").await,
        scoped.remove_bucket("other").await,
    ] {
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.text().contains("<Code>AccessDenied</Code>"), "{}", refused.text());
    }
}

#[tokio::test]
async fn an_expired_or_revoked_key_opens_nothing() {
    let served = Served::start().await;
    served.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    let all = [mk_grant("data", "", &[Verb::Read, Verb::Write, Verb::List, Verb::Delete])];
    let expired = served.store.scoped_key(&all, SystemTime::now()).await.expect("a key");
    assert_eq!(Client::new(served.address, &expired).put("data", "k", "x").await.status, 403);
    let (keys, client) = mk_scoped(&served, &all).await;
    assert_eq!(client.put("data", "k", "x").await.status, 200);
    served.store.revoke(&keys.access_key).await.expect("revoked");
    assert_eq!(client.get("data", "k").await.status, 403);
    served.store.revoke(&keys.access_key).await.expect("revoking again is no error");
    served.store.tick_tidy().await.expect("tidied");
}

/// What happens to a body, too large for memory, that is under way while `meanwhile` is done.
async fn interrupted(served: &Served, client: &Client, size: usize, meanwhile: impl Future<Output = ()>) -> u16 {
    let (sender, receiver) = futures::channel::mpsc::unbounded();
    let half = Bytes::from(vec![7; size / 2]);
    sender.unbounded_send(half.clone()).expect("sent");
    let upload = client.put_stream("data", "in/late", size as u64 / 2 * 2, receiver);
    let rest = async {
        // The store has let the request in and taken the first half when its file is there.
        while files_in(served.folder.path()) == 0 {
            tokio::task::yield_now().await;
        }
        meanwhile.await;
        sender.unbounded_send(half.clone()).expect("sent");
        drop(sender);
    };
    let (answer, ()) = futures::join!(upload, rest);
    answer.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_revoked_during_an_upload_leaves_no_object() {
    let served = Served::start().await;
    served.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    let waiting = Subscription { bucket: "data".to_owned(), prefix: "in/".to_owned(), service: "s".to_owned() };
    served.store.subscribe(&waiting).await.expect("subscribed");
    for size in [6 * 1024 * 1024, 9 * 1024 * 1024] {
        let (keys, client) = mk_scoped(&served, &[mk_grant("data", "in/", &[Verb::Write])]).await;
        let revoke = async { served.store.revoke(&keys.access_key).await.expect("revoked") };
        assert_eq!(interrupted(&served, &client, size, revoke).await, 403, "{size} bytes");
        assert_eq!(served.store.stat("data", "in/late").await.expect("asked"), None);
        assert!(served.store.next(10).await.expect("events").is_empty());
        let (_, client) = mk_scoped(&served, &[mk_grant("data", "in/", &[Verb::Write])]).await;
        assert_eq!(interrupted(&served, &client, size, async {}).await, 200, "the same without revoking");
        assert_eq!(served.store.next(10).await.expect("events").len(), 1);
        Client::root(served.address).delete("data", "in/late").await;
        let ids: Vec<u64> = served.store.next(10).await.expect("events").iter().map(|event| event.id).collect();
        served.store.settle(&ids).await.expect("settled");
        served.wait_for_files(0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_closed_during_an_upload_gets_no_object() {
    let served = Served::start().await;
    let public = Bucket { visibility: Visibility::Public, ..mk_bucket("data", Owner::Admin) };
    served.store.ensure(&public).await.expect("made");
    let bob = mk_user(&served, "bob").await;
    let close = async { served.store.set_visibility("data", Visibility::Private, &[]).await.expect("closed") };
    assert_eq!(interrupted(&served, &bob, 6 * 1024 * 1024, close).await, 403);
    assert_eq!(served.store.stat("data", "in/late").await.expect("asked"), None);
}

#[tokio::test]
async fn a_key_that_is_revoked_before_an_upload_in_parts_is_completed_leaves_no_object() {
    let served = Served::start().await;
    served.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    let (keys, client) = mk_scoped(&served, &[mk_grant("data", "", &[Verb::Write])]).await;
    let upload = client.begin_upload("data", "k").await;
    let etag = client.put_part("data", "k", &upload, b"the part").await;
    served.store.revoke(&keys.access_key).await.expect("revoked");
    assert_eq!(client.complete("data", "k", &upload, &etag).await.status, 403);
    assert_eq!(served.store.stat("data", "k").await.expect("asked"), None);
    let done = Client::root(served.address).complete("data", "k", &upload, &etag).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(Client::root(served.address).get("data", "k").await.text(), "the part");
}

#[tokio::test]
async fn a_download_ends_when_its_key_is_revoked() {
    let served = Served::start().await;
    served.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    let size = 64 * 1024 * 1024;
    served.store.put_bytes("data", "k", Bytes::from(vec![1; size]), "").await.expect("put");
    let (keys, client) = mk_scoped(&served, &[mk_grant("data", "", &[Verb::Read])]).await;
    let mut body = client.open("data", "k").await.into_body();
    let first = body.frame().await.expect("a frame").expect("bytes");
    served.store.revoke(&keys.access_key).await.expect("revoked");
    let mut taken = first.into_data().expect("data").len();
    while let Some(Ok(frame)) = body.frame().await {
        taken += frame.into_data().map_or(0, |data| data.len());
    }
    assert!(taken < size, "{taken} of {size} bytes came");
}

#[tokio::test]
async fn users_have_their_buckets_and_those_that_were_opened_to_them() {
    let served = Served::start().await;
    let (ada, bob) = (mk_user(&served, "ada@example.org").await, mk_user(&served, "bob").await);
    assert_eq!(ada.make_bucket("adas").await.status, 200);
    assert_eq!(bob.make_bucket("adas").await.status, 409);
    let made = served.store.get("adas").await.expect("asked").expect("there");
    assert_eq!(made, mk_bucket("adas", Owner::User(mk_subject("ada@example.org"))));
    assert_eq!(ada.put("adas", "k", "hers").await.status, 200);
    for refused in [bob.get("adas", "k").await, bob.put("adas", "k", "x").await, bob.list("adas", "").await] {
        assert_eq!(refused.status, 403);
    }
    let set = async |visibility, allowed: &[_]| {
        served.store.set_visibility("adas", visibility, allowed).await.expect("set");
    };
    set(Visibility::Restricted, &[mk_subject("eve")]).await;
    assert_eq!(bob.get("adas", "k").await.status, 403);
    set(Visibility::Restricted, &[mk_subject("bob")]).await;
    assert_eq!(bob.get("adas", "k").await.text(), "hers");
    set(Visibility::Public, &[]).await;
    assert_eq!(bob.put("adas", "from-bob", "his").await.status, 200);
    assert_eq!(bob.delete("adas", "k").await.status, 204);
    assert_eq!(bob.remove_bucket("adas").await.status, 403);
    let names = async |owner: &Owner| -> Vec<String> {
        served.store.list(owner).await.expect("listed").into_iter().map(|bucket| bucket.name).collect()
    };
    assert_eq!(names(&Owner::User(mk_subject("bob"))).await, ["adas"]);
    set(Visibility::Private, &[]).await;
    assert!(names(&Owner::User(mk_subject("bob"))).await.is_empty());
    assert_eq!(names(&Owner::Admin).await, ["adas"], "the staging bucket is nobody's to see");
    assert_eq!(ada.delete("adas", "from-bob").await.status, 204);
    let subscription = Subscription { bucket: "adas".to_owned(), prefix: "in/".to_owned(), service: "s".to_owned() };
    served.store.subscribe(&subscription).await.expect("subscribed");
    let in_use = ada.remove_bucket("adas").await;
    assert_eq!(in_use.status, 409, "somebody else could make one of this name");
    assert!(in_use.text().contains("BucketInUse"), "{}", in_use.text());
    served.store.unsubscribe(&subscription).await.expect("unsubscribed");
    assert_eq!(ada.remove_bucket("adas").await.status, 204);
    assert_eq!(ada.put(STAGING_BUCKET, "k", "x").await.status, 403);
}

#[tokio::test]
async fn keys_outlive_a_restart_and_are_sealed_on_disk() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (store, _) = serve(folder.path()).await;
    let ada = Owner::User(mk_subject("ada"));
    let keys = store.user_keys(&ada).await.expect("keys");
    let bob = Owner::User(mk_subject("bob"));
    let (first, second) = futures::join!(store.user_keys(&bob), store.user_keys(&bob));
    assert_eq!(first.expect("keys"), second.expect("keys"), "two at once get the same");
    assert_eq!(store.user_keys(&ada).await.expect("keys"), keys);
    store.ensure(&mk_bucket("data", ada.clone())).await.expect("made");
    let scoped = store.scoped_key(&[mk_grant("data", "", &[Verb::Write])], in_an_hour()).await.expect("a key");
    let gone = store.scoped_key(&[mk_grant("data", "", &[Verb::Write])], in_an_hour()).await.expect("a key");
    store.revoke(&gone.access_key).await.expect("revoked");
    store.close().await;
    let database = std::fs::read(folder.path().join("objects.db")).expect("the database");
    for secret in [&keys.secret_key, &scoped.secret_key] {
        let secret = secret.expose().as_bytes();
        assert!(!database.windows(secret.len()).any(|window| window == secret), "a secret key is readable on disk");
    }
    let (again, address) = serve(folder.path()).await;
    assert_eq!(again.user_keys(&ada).await.expect("keys"), keys);
    assert_eq!(Client::new(address, &keys).put("data", "k", "x").await.status, 200);
    assert_eq!(Client::new(address, &scoped).put("data", "k", "x").await.status, 200);
    assert_eq!(Client::new(address, &gone).put("data", "k", "x").await.status, 403);
    again.close().await;

    // The operator lost the key of the data folder and gave up what it sealed.
    let options = mk_options(folder.path(), "http://127.0.0.1:9");
    let other = Store::open(Options { seal: Arc::new(Flipped(0x11)), ..options }).await.expect("opened");
    let made = other.user_keys(&ada).await.expect("new keys");
    assert_eq!(made.access_key, keys.access_key);
    assert_ne!(made.secret_key, keys.secret_key);
    assert_eq!(other.user_keys(&ada).await.expect("keys"), made);
}

#[tokio::test]
async fn nobody_can_call_himself_the_administrator() {
    let served = Served::start().await;
    for name in [crate::support::ROOT, "oscar-manager"] {
        assert!(served.store.user_keys(&Owner::User(mk_subject(name))).await.is_err(), "{name}");
    }
}
