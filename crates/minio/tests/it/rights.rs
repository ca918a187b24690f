//! Who gets in, with the keys of users and of jobs.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Bucket, Buckets as _, Grant, Presign, STAGING_BUCKET, Verb};
use oscar_minio::{MinioStore, Options};
use oscar_model::identity::Owner;
use oscar_model::service::Visibility;
use oscar_testkit::require;

use crate::scene::{Scene, mk_bucket, mk_options, mk_subject, root_keys};

fn user(name: &str) -> Owner {
    Owner::User(mk_subject(name))
}

fn mk_grant(bucket: &str, prefix: &str, verbs: &[Verb]) -> Grant {
    Grant { bucket: bucket.to_owned(), prefix: prefix.to_owned(), verbs: verbs.to_vec() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_open_their_own_buckets_and_what_is_shared_with_them() {
    let scene = require!(Scene::start().await);
    let Scene { store, client, .. } = &scene;
    store.ensure(&mk_bucket("adas", user("ada@x"))).await.expect("made");
    store.ensure(&mk_bucket("bobs", user("bob@x"))).await.expect("made");
    store.ensure(&mk_bucket("admins", Owner::Admin)).await.expect("made");
    let ada = store.user_keys(&user("ada@x")).await.expect("keys");
    let bob = store.user_keys(&user("bob@x")).await.expect("keys");
    let eve = store.user_keys(&user("eve@x")).await.expect("keys");
    assert_eq!(client.put(&ada, "adas", "k", "hers").await, 200);
    for (keys, bucket) in [(&bob, "adas"), (&eve, "adas"), (&ada, "bobs"), (&ada, "admins"), (&ada, STAGING_BUCKET)] {
        assert_ne!(client.put(keys, bucket, "x", "x").await, 200, "{} in {bucket}", keys.access_key);
        assert_ne!(client.get(keys, bucket, "k").await.0, 200, "{} in {bucket}", keys.access_key);
    }
    let set = async |visibility, allowed: &[&str]| {
        let allowed: Vec<_> = allowed.iter().map(|name| mk_subject(name)).collect();
        store.set_visibility("adas", visibility, &allowed).await.expect("set");
    };
    set(Visibility::Restricted, &["bob@x", "new@x"]).await;
    assert_eq!(client.get(&bob, "adas", "k").await, (200, b"hers".to_vec()));
    assert_eq!(client.put(&bob, "adas", "from-bob", "his").await, 200);
    assert_eq!(client.get(&eve, "adas", "k").await.0, 403);
    let new = store.user_keys(&user("new@x")).await.expect("keys");
    assert_eq!(client.get(&new, "adas", "k").await.0, 200, "one who was not there when it was shared");
    set(Visibility::Restricted, &["eve@x"]).await;
    assert_eq!((client.get(&bob, "adas", "k").await.0, client.get(&eve, "adas", "k").await.0), (403, 200));
    set(Visibility::Public, &[]).await;
    assert_eq!((client.get(&bob, "adas", "k").await.0, client.get(&eve, "adas", "k").await.0), (200, 200));
    let late = store.user_keys(&user("late@x")).await.expect("keys");
    assert_eq!(client.get(&late, "adas", "k").await.0, 200, "public is also for those who come later");
    set(Visibility::Private, &[]).await;
    for keys in [&bob, &eve, &new, &late] {
        assert_eq!(client.get(keys, "adas", "k").await.0, 403, "{}", keys.access_key);
    }
    assert_eq!(client.get(&ada, "adas", "k").await.0, 200);
    assert_eq!(client.on_bucket(&ada, "GET", "adas", "location", "").await, 200, "the owner may ask where it is");
    let tags = "<Tagging><TagSet><Tag><Key>owner</Key><Value>oscar</Value></Tag></TagSet></Tagging>";
    assert_eq!(client.on_bucket(&ada, "PUT", "adas", "tagging", tags).await, 403, "tags say whose it is");
    let silent = "<NotificationConfiguration></NotificationConfiguration>";
    assert_eq!(client.on_bucket(&ada, "PUT", "adas", "notification", silent).await, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_opens_to_nobody_by_what_was_before() {
    let scene = require!(Scene::start().await);
    let Scene { store, client, minio, .. } = &scene;
    let shared = Bucket {
        visibility: Visibility::Restricted,
        allowed_users: vec![mk_subject("bob@x")],
        ..mk_bucket("reused", user("ada@x"))
    };
    store.ensure(&shared).await.expect("made");
    let ada = store.user_keys(&user("ada@x")).await.expect("keys");
    let bob = store.user_keys(&user("bob@x")).await.expect("keys");
    assert_eq!(client.put(&bob, "reused", "k", "x").await, 200);
    // Behind the manager's back.
    let gone = minio.mc(&["rb", "--force", "store/reused"]);
    assert!(gone.status.success(), "{gone:?}");
    store.ensure(&mk_bucket("reused", user("eve@x"))).await.expect("the name is free");
    for keys in [&ada, &bob] {
        assert_eq!(client.put(keys, "reused", "k", "x").await, 403, "{}", keys.access_key);
    }
    let eve = store.user_keys(&user("eve@x")).await.expect("keys");
    assert_eq!(client.put(&eve, "reused", "k", "x").await, 200);
    let half = rusqlite::Connection::open(scene.scratch.path().join("manager/minio.db")).expect("the database");
    half.execute("INSERT INTO changing (bucket, owner) VALUES ('half', 'ada@x')", ()).expect("noted");
    // As a crash leaves it: made, and nobody's name on it.
    assert!(minio.mc(&["mb", "store/half"]).status.success());
    store.tick_catch_up().await.expect("looked");
    assert_eq!(store.ensure(&mk_bucket("half", user("eve@x"))).await, Err(StoreError::AlreadyExists));
    store.ensure(&mk_bucket("half", user("ada@x"))).await.expect("hers at last");
    assert_eq!(client.put(&ada, "half", "k", "x").await, 200);
    for (name, visibility) in [("readonly", Visibility::Restricted), ("ab", Visibility::Private)] {
        let refused = store.ensure(&Bucket { visibility, ..mk_bucket(name, Owner::Admin) }).await;
        assert!(matches!(refused, Err(StoreError::Forbidden(_))), "{name}: {refused:?}");
    }
    for name in ["all_users_group", "consoleAdmin", "a,b", "root-access"] {
        let refused = store.user_keys(&user(name)).await;
        assert!(matches!(refused, Err(StoreError::Forbidden(_))), "{name}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_a_job_opens_its_scope_until_it_is_revoked_or_over() {
    let scene = require!(Scene::start().await);
    let Scene { store, client, .. } = &scene;
    store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    let root = root_keys();
    for key in ["in/a", "in/b", "inside", "in*x", "inyx", "inyyx"] {
        assert_eq!(client.put(&root, "data", key, "x").await, 200);
    }
    let scope = [
        mk_grant("data", "in/a", &[Verb::Read]),
        mk_grant("data", "in*x", &[Verb::Read]),
        mk_grant(STAGING_BUCKET, "job-1/", &[Verb::Write]),
    ];
    let keys = store.scoped_key(&scope, SystemTime::now() + Duration::from_hours(1)).await.expect("a key");
    assert_eq!(client.get(&keys, "data", "in/a").await.0, 200);
    assert_eq!(client.get(&keys, "data", "in*x").await.0, 200, "a star is a name like any other");
    for key in ["in/b", "inside", "inyyx"] {
        assert_eq!(client.get(&keys, "data", key).await.0, 403, "{key}");
    }
    assert_eq!(client.put(&keys, STAGING_BUCKET, "job-1/out", "x").await, 200);
    assert_eq!(client.get(&keys, STAGING_BUCKET, "job-1/out").await.0, 403, "it may write and not read");
    for (bucket, key) in [(STAGING_BUCKET, "job-10/out"), (STAGING_BUCKET, "x"), ("data", "in/a"), ("data", "job-1/x")]
    {
        assert_eq!(client.put(&keys, bucket, key, "x").await, 403, "{bucket}/{key}");
    }
    assert_eq!(client.delete(&keys, "data", "in/a").await, 403);
    assert_eq!(client.on_bucket(&keys, "GET", "data", "location", "").await, 403);
    let elsewhere = scene.scratch.path().join("job");
    let as_job = MinioStore::open(Options { root: keys.clone(), ..mk_options(scene.minio.url(), &elsewhere) });
    let sibling = as_job.expect("opened").scoped_key(&scope, SystemTime::now() + Duration::from_hours(1)).await;
    assert!(matches!(sibling, Err(StoreError::Forbidden(_))), "it can make no other key: {sibling:?}");
    store.revoke(&keys.access_key).await.expect("revoked");
    assert_eq!(client.get(&keys, "data", "in/a").await.0, 403, "dead at the next request");

    // Shorter than MinIO itself can say.
    let short = store.scoped_key(&scope, SystemTime::now()).await.expect("a key");
    let long = store.scoped_key(&scope, SystemTime::now() + Duration::from_mins(5)).await.expect("a key");
    let next = store.tick_keys().await.expect("looked");
    assert!(next.is_some_and(|next| next > SystemTime::now()), "{next:?}");
    assert_eq!(client.get(&short, "data", "in/a").await.0, 403, "it is over");
    assert_eq!(client.get(&long, "data", "in/a").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_outlive_a_restart_and_are_sealed_on_disk() {
    let mut scene = require!(Scene::start().await);
    scene.store.ensure(&mk_bucket("data", user("ada@x"))).await.expect("made");
    let keys = scene.store.user_keys(&user("ada@x")).await.expect("keys");
    let bob = user("bob@x");
    let (first, second) = futures::join!(scene.store.user_keys(&bob), scene.store.user_keys(&bob));
    assert_eq!(first.expect("keys"), second.expect("keys"), "two at once get the same");
    scene.restart();
    assert_eq!(scene.store.user_keys(&user("ada@x")).await, Ok(keys.clone()));
    assert_eq!(scene.client.put(&keys, "data", "k", "x").await, 200);
    for file in std::fs::read_dir(scene.scratch.path().join("manager")).expect("the folder").flatten() {
        let content = std::fs::read(file.path()).expect("a file");
        let secret = keys.secret_key.expose().as_bytes();
        assert!(!content.windows(secret.len()).any(|window| window == secret), "a secret key is readable on disk");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_lets_its_holder_do_one_thing() {
    let scene = require!(Scene::start().await);
    scene.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    let wanted = Presign {
        bucket: "data".to_owned(),
        key: "in/signed ä+".to_owned(),
        upload: true,
        content_type: None,
        headers: BTreeMap::from([("x-amz-meta-colour".to_owned(), "red".to_owned())]),
        valid_for: Duration::from_mins(1),
    };
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let upload = scene.store.presign(&Owner::Admin, &wanted).await.expect("an address");
    let bare = http.put(&upload).body("signed").send().await.expect("an answer");
    assert!(bare.status().is_client_error(), "a header is missing, and it is {}", bare.status());
    let put = http.put(&upload).header("x-amz-meta-colour", "red").body("signed");
    assert_eq!(put.send().await.expect("an answer").status(), 200);
    let other = http.get(&upload).header("x-amz-meta-colour", "red");
    assert_eq!(other.send().await.expect("an answer").status(), 403);
    let download = scene
        .store
        .presign(&Owner::Admin, &Presign { upload: false, headers: BTreeMap::new(), ..wanted })
        .await
        .expect("an address");
    let answer = http.get(&download).send().await.expect("an answer");
    assert_eq!(answer.text().await.expect("a body"), "signed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_for_an_upload_copies_nothing() {
    let scene = require!(Scene::start().await);
    let (ada, bob) = (user("ada@x"), user("bob@x"));
    scene.store.ensure(&mk_bucket("adas", ada.clone())).await.expect("made");
    scene.store.ensure(&mk_bucket("bobs", bob.clone())).await.expect("made");
    let keys = scene.store.user_keys(&ada).await.expect("keys");
    assert_eq!(scene.client.put(&keys, "adas", "secret", "hers").await, 200);
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for signer in [&bob, &Owner::Admin] {
        let wanted = Presign {
            bucket: "bobs".to_owned(),
            key: "in/x".to_owned(),
            upload: true,
            content_type: None,
            headers: BTreeMap::new(),
            valid_for: Duration::from_mins(1),
        };
        let upload = scene.store.presign(signer, &wanted).await.expect("an address");
        let copy = http.put(&upload).header("x-amz-copy-source", "/adas/secret").send().await.expect("an answer");
        assert_eq!(copy.status(), 403, "by an address of {signer}");
        let put = http.put(&upload).body("his").send().await.expect("an answer");
        assert_eq!(put.status(), 200, "by an address of {signer}: {}", put.text().await.unwrap_or_default());
    }
}
