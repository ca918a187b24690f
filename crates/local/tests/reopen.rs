//! What was acknowledged is there after the store was opened again.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use futures::future::join_all;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::journal::Journal as _;
use oscar_engine::ports::services::{Entry, Scope, Services as _};
use oscar_engine::ports::settings::Settings as _;
use oscar_engine::ports::users::Users as _;
use oscar_engine::ports::vault::Vault as _;
use oscar_engine::testing::conformance_federation::{mk_grant, mk_operation};
use oscar_engine::testing::make::{mk_owner, mk_secretive, mk_service};
use oscar_local::{LocalStore, Options};
use oscar_model::identity::Owner;
use oscar_model::service::Sensitive;

const DATA: &str = "OSCAR_TEST_DATA";

fn open(folder: &Path) -> Arc<LocalStore> {
    LocalStore::open(folder, Options::default()).expect("opened")
}

async fn all(store: &LocalStore) -> Vec<Entry> {
    store.list(&Scope::All).await.expect("listed")
}

#[tokio::test]
async fn everything_is_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let id = store.instance_id().to_owned();
    let admin = store.ensure(&Owner::Admin, "").await.expect("a home");
    assert_eq!(admin.namespace, Options::default().namespace);
    let owner = mk_owner("someone@egi.eu");
    let home = store.ensure(&owner, "Someone").await.expect("a home");
    let (mut secretive, sensitive) = mk_secretive("secretive", &owner);
    secretive.namespace.clone_from(&home.namespace);
    secretive.definition.script = "#!/bin/sh\n\techo 'ünïcode' \\ \"quoted\"\r\n".to_owned();
    let name = secretive.name().clone();
    store.create(secretive, sensitive.clone()).await.expect("created");
    store.create(mk_service("plain", &Owner::Admin), Sensitive::default()).await.expect("created");
    let repositories = vec!["ghcr.io/grycap".to_owned(), "docker.io".to_owned()];
    store.set_image_repositories(repositories.clone()).await.expect("stored");
    let before = all(&store).await;
    store.close().await.expect("closed");
    assert!(!folder.path().join("oscar.db-wal").exists(), "the one file is everything");

    let store = open(folder.path());
    assert_eq!(store.instance_id(), id, "the id is permanent");
    assert_eq!(all(&store).await, before);
    assert_eq!(store.reveal(&name).await, Ok(sensitive));
    assert_eq!(store.ensure(&Owner::Admin, "").await, Ok(admin));
    assert_eq!(store.ensure(&owner, "").await, Ok(home));
    assert_eq!(store.image_repositories().await, Ok(repositories));
}

#[tokio::test]
async fn a_revision_is_never_used_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        let store = open(folder.path());
        let service = mk_service("again", &Owner::Admin);
        let created = store.create(service.clone(), Sensitive::default()).await.expect("created");
        assert!(seen.insert(created.revision.to_string()), "{seen:?}");
        let replaced = store.replace(service, Sensitive::default(), &created.revision).await.expect("replaced");
        assert!(seen.insert(replaced.revision.to_string()), "{seen:?}");
        let stale = store.remove(created.service.name(), Some(&created.revision)).await;
        assert_eq!(stale, Err(StoreError::Conflict));
        store.remove(created.service.name(), Some(&replaced.revision)).await.expect("removed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_creates_at_once_are_all_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let tasks = (0..500).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let (service, sensitive) = mk_secretive(&format!("many-{n}"), &Owner::Admin);
            store.create(service, sensitive).await
        })
    });
    let created: Vec<_> = join_all(tasks).await.into_iter().map(|task| task.expect("ran").expect("created")).collect();
    let revisions: BTreeSet<_> = created.iter().map(|stored| stored.revision.to_string()).collect();
    assert_eq!(revisions.len(), 500, "each has a revision of its own");
    let before = all(&store).await;
    drop(store);

    let store = open(folder.path());
    assert_eq!(all(&store).await, before);
    for stored in created {
        assert_eq!(store.get(stored.service.name()).await, Ok(Some(stored.clone())));
        let sensitive = store.reveal(stored.service.name()).await.expect("revealed");
        assert_eq!(sensitive.environment["PASSWORD"].expose(), "planted-password");
    }
}

#[tokio::test]
async fn a_closed_store_reads_from_its_index_and_refuses_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let stored = store.create(mk_service("there", &Owner::Admin), Sensitive::default()).await.expect("created");
    store.close().await.expect("closed");
    store.close().await.expect("closing twice is closing once");
    assert_eq!(store.get(stored.service.name()).await, Ok(Some(stored.clone())));
    let refused = store.remove(stored.service.name(), None).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(matches!(store.reveal(stored.service.name()).await, Err(StoreError::Unavailable(_))));

    let next = open(folder.path());
    assert_eq!(all(&next).await.len(), 1, "the folder is free for the next, while the first value lives");
}

#[tokio::test]
async fn a_manager_that_was_killed_lost_nothing_it_had_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "child_writes_and_dies", "--ignored"])
        .env(DATA, folder.path())
        .output()
        .expect("ran");
    assert!(!child.status.success(), "it was to die: {child:?}");

    let store = open(folder.path());
    assert_eq!(all(&store).await.len(), 50);
    let name = mk_service("last", &Owner::Admin).name().clone();
    assert_eq!(store.reveal(&name).await.expect("revealed").environment.len(), 1);
    assert_eq!(store.operations().await, Ok(vec![mk_operation("op", 1)]));
    assert_eq!(store.grants().await, Ok(vec![mk_grant("grant", &Owner::Admin, "oscar-svc")]));
}

#[tokio::test]
#[ignore = "runs as the child of another test"]
async fn child_writes_and_dies() {
    let Some(folder) = std::env::var_os(DATA) else { return };
    let store = open(Path::new(&folder));
    for n in 0..49 {
        let service = mk_service(&format!("many-{n}"), &Owner::Admin);
        store.create(service, Sensitive::default()).await.expect("created");
    }
    let (last, sensitive) = mk_secretive("last", &Owner::Admin);
    store.create(last, sensitive).await.expect("created");
    store.put_operation(&mk_operation("op", 1)).await.expect("put");
    store.put_grant(&mk_grant("grant", &Owner::Admin, "oscar-svc")).await.expect("put");
    std::process::abort();
}

/// The kernel refuses to let a file grow: writes fail for real, in the middle of a batch.
#[cfg(unix)]
#[tokio::test]
async fn a_disk_that_fails_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "trap '' XFSZ; ulimit -f 512; exec \"$0\" --exact child_writes_until_it_cannot --ignored";
    let child = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().expect("this test"))
        .env(DATA, folder.path())
        .output()
        .expect("ran");
    assert!(child.status.success(), "{child:?}");

    let store = open(folder.path());
    let acknowledged = std::fs::read_to_string(folder.path().join("acknowledged")).expect("the child wrote it");
    let kept: BTreeSet<_> = all(&store).await.iter().map(|entry| entry.name().to_owned()).collect();
    for name in acknowledged.lines() {
        assert!(kept.contains(name), "{name} was acknowledged");
    }
    store.create(mk_service("after", &Owner::Admin), Sensitive::default()).await.expect("it goes on");
}

#[cfg(unix)]
#[tokio::test]
#[ignore = "runs as the child of another test"]
async fn child_writes_until_it_cannot() {
    let Some(folder) = std::env::var_os(DATA) else { return };
    let folder = Path::new(&folder);
    let store = open(folder);
    let mut acknowledged = Vec::new();
    for round in 0.. {
        let tries = (0..8).map(|n| {
            let mut service = mk_service(&format!("s-{round}-{n}"), &Owner::Admin);
            service.definition.script = "x".repeat(20_000);
            store.create(service, Sensitive::default())
        });
        let outcomes = join_all(tries).await;
        let failures: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).cloned().collect();
        acknowledged.extend(outcomes.into_iter().flatten());
        if !failures.is_empty() {
            let is_known = |error: &StoreError| matches!(error, StoreError::Unavailable(_) | StoreError::Full(_));
            assert!(failures.iter().all(is_known), "{failures:?}");
            break;
        }
    }
    assert!(!acknowledged.is_empty());
    assert_eq!(all(&store).await.len(), acknowledged.len(), "readers see what was acknowledged, and no more");
    let names: Vec<_> = acknowledged.iter().map(|stored| stored.service.name().as_str()).collect();
    std::fs::write(folder.join("acknowledged"), names.join("\n")).expect("there is room for a small file");
    std::process::exit(0);
}
