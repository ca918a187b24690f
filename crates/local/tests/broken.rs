//! A definition that cannot be read breaks no other.

use std::path::Path;

use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Revision, Scope, Services as _};
use oscar_engine::testing::make::{mk_secretive, mk_service};
use oscar_local::{LocalStore, Options};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::service::Sensitive;
use rusqlite::Connection;
use tempfile::TempDir;

fn spoil(folder: &Path, sql: &str) {
    let connection = Connection::open(folder.join("oscar.db")).expect("opened");
    assert!(connection.execute(sql, ()).expect("changed") > 0, "it spoils something: {sql}");
}

/// A store with a good service, and one whose row was changed by `sql`.
async fn mk_spoiled(sql: &str) -> (TempDir, std::sync::Arc<LocalStore>) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
    let (service, sensitive) = mk_secretive("bad", &Owner::Admin);
    store.create(service, sensitive).await.expect("created");
    store.create(mk_service("good", &Owner::Admin), Sensitive::default()).await.expect("created");
    store.close().await.expect("closed");
    spoil(folder.path(), sql);
    let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
    (folder, store)
}

fn name_of(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("a name")
}

#[tokio::test]
async fn what_cannot_be_read_is_listed_as_broken_and_can_be_removed() {
    let spoils = [
        "UPDATE services SET config = '{\"name\": ' WHERE name = 'bad'",
        "UPDATE services SET config = '' WHERE name = 'bad'",
        "UPDATE services SET config = CAST(x'7b22fffe227d' AS TEXT) WHERE name = 'bad'",
        "UPDATE services SET script = CAST(x'fffe' AS TEXT) WHERE name = 'bad'",
        "UPDATE services SET config = (SELECT config FROM services WHERE name = 'good') WHERE name = 'bad'",
    ];
    for sql in spoils {
        let (folder, store) = mk_spoiled(sql).await;
        let listed = store.list(&Scope::All).await.expect("listed");
        let [Entry::Broken { name, namespace, cause }, Entry::Good(good)] = listed.as_slice() else {
            panic!("{sql}: {listed:?}")
        };
        assert_eq!((name.as_str(), namespace.as_str()), ("bad", "oscar-svc"));
        assert!(!cause.is_empty() && !cause.contains("planted"), "{cause}");
        assert_eq!(good.service.name().as_str(), "good");
        assert!(matches!(store.get(&name_of("bad")).await, Err(StoreError::Broken(_))), "{sql}");

        let again = mk_service("bad", &Owner::Admin);
        assert_eq!(store.create(again.clone(), Sensitive::default()).await, Err(StoreError::AlreadyExists));
        let replaced = store.replace(again.clone(), Sensitive::default(), &Revision::new("1")).await;
        assert!(matches!(replaced, Err(StoreError::Broken(_))), "{sql}: {replaced:?}");
        store.remove(&name_of("bad"), None).await.expect("a broken one can be removed");
        assert_eq!(store.reveal(&name_of("bad")).await, Err(StoreError::NotFound), "with its secrets");
        store.create(again, Sensitive::default()).await.expect("its name is free");
        drop(store);
        let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
        assert_eq!(store.reveal(&name_of("bad")).await, Ok(Sensitive::default()));
    }
}

#[tokio::test]
async fn a_successor_in_the_same_batch_is_not_broken() {
    let (_folder, store) = mk_spoiled("UPDATE services SET config = '' WHERE name = 'bad'").await;
    let bad = name_of("bad");
    let mut changed = mk_service("bad", &Owner::Admin);
    changed.definition.image = "changed".to_owned();
    // Two revisions were given out before, so the successor has the third.
    let (unknown, third) = (Revision::new("of-a-broken-one"), Revision::new("3"));
    let (removed, created, replaced) = tokio::join!(
        store.remove(&bad, Some(&unknown)),
        store.create(mk_service("bad", &Owner::Admin), Sensitive::default()),
        store.replace(changed.clone(), Sensitive::default(), &third),
    );
    removed.expect("removed");
    assert_eq!(created.expect("created").revision, third);
    assert_eq!(replaced.expect("replaced").service, changed);
    assert_eq!(store.get(&bad).await.expect("readable").expect("there").service, changed);
}
