//! The promises of the store while the disk is full or read-only.

use futures::future::join_all;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Scope, Services as _};
use oscar_engine::ports::settings::Settings as _;
use oscar_engine::ports::users::Users as _;
use oscar_engine::testing::make::{mk_owner, mk_secretive, mk_service};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::service::{Sensitive, Service};
use rusqlite::ffi;

use super::{Fault, Gate, Pragma, mk_store};
use crate::state::{LocalStore, Options};

const NO_LIMIT: i64 = 1 << 30;

fn mk_large(name: &str) -> Service {
    let mut service = mk_service(name, &Owner::Admin);
    service.definition.script = "x".repeat(100_000);
    service
}

async fn pages(store: &LocalStore) -> i64 {
    store.read(|sql| sql.query_row("PRAGMA page_count", (), |row| row.get(0))).await.expect("counted")
}

fn name_of(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("a name")
}

#[tokio::test]
async fn a_full_disk_refuses_what_does_not_fit_and_keeps_the_rest() {
    let (folder, store) = mk_store();
    let kept = store.create(mk_large("kept"), Sensitive::default()).await.expect("created");
    let limit = pages(&store).await + 4;
    store.submit(Pragma("max_page_count", limit)).await.expect("limited");

    let (mut secretive, sensitive) = mk_secretive("refused", &Owner::Admin);
    secretive.definition.script = "x".repeat(100_000);
    let refused = store.create(secretive, sensitive).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert_eq!(store.get(&name_of("refused")).await, Ok(None));
    assert_eq!(store.reveal(&name_of("refused")).await, Err(StoreError::NotFound));
    let mut larger = mk_large("kept");
    larger.definition.script = "y".repeat(200_000);
    let unchanged = store.replace(larger, Sensitive::default(), &kept.revision).await;
    assert!(matches!(unchanged, Err(StoreError::Full(_))), "{unchanged:?}");
    assert_eq!(store.get(&name_of("kept")).await, Ok(Some(kept.clone())), "what was there is as it was");

    store.submit(Pragma("max_page_count", NO_LIMIT)).await.expect("there is room again");
    let late = store.create(mk_large("late"), Sensitive::default()).await.expect("it goes on");
    assert_ne!(late.revision, kept.revision);
    drop(store);
    let store = LocalStore::open(folder.path(), Options::default()).expect("opened again");
    let listed = store.list(&Scope::All).await.expect("listed");
    assert_eq!(listed.iter().map(oscar_engine::ports::services::Entry::name).collect::<Vec<_>>(), ["kept", "late"]);
    assert_eq!(store.get(&name_of("kept")).await, Ok(Some(kept)));
}

#[tokio::test]
async fn one_that_does_not_fit_keeps_no_other_out() {
    let (_folder, store) = mk_store();
    let old = store.create(mk_large("old"), Sensitive::default()).await.expect("created");
    store.submit(Pragma("max_page_count", pages(&store).await + 4)).await.expect("limited");

    let (opener, gate) = Gate::new();
    let (_, large, small, removed, ()) = tokio::join!(
        store.submit(gate),
        store.create(mk_large("large"), Sensitive::default()),
        store.create(mk_service("small", &Owner::Admin), Sensitive::default()),
        store.remove(old.service.name(), Some(&old.revision)),
        async { drop(opener) },
    );
    assert!(matches!(large, Err(StoreError::Full(_))), "{large:?}");
    assert!(small.is_ok() && removed.is_ok(), "{small:?} {removed:?}");
    store.create(mk_large("large"), Sensitive::default()).await.expect("there is room again");
}

#[tokio::test]
async fn a_database_that_may_not_be_written_answers_everybody_and_changes_nothing() {
    let (_folder, store) = mk_store();
    store.create(mk_service("kept", &Owner::Admin), Sensitive::default()).await.expect("created");
    store.submit(Pragma("query_only", 1)).await.expect("made read-only");

    let refusals = (0..20).map(|n| {
        let service = mk_service(&format!("refused-{n}"), &Owner::Admin);
        store.create(service, Sensitive::default())
    });
    for refused in join_all(refusals).await {
        assert!(matches!(refused, Err(StoreError::Forbidden(_))), "{refused:?}");
    }
    let removed = store.remove(&name_of("kept"), None).await;
    assert!(matches!(removed, Err(StoreError::Forbidden(_))), "{removed:?}");
    assert!(matches!(store.ensure(&mk_owner("somebody"), "").await, Err(StoreError::Forbidden(_))));
    let repositories = vec!["ghcr.io".to_owned()];
    assert!(matches!(store.set_image_repositories(repositories).await, Err(StoreError::Forbidden(_))));
    assert_eq!(store.list(&Scope::All).await.expect("listed").len(), 1);
    assert_eq!(store.image_repositories().await, Ok(vec![]));
}

#[tokio::test]
async fn a_failing_disk_fails_the_whole_batch_and_nothing_else() {
    type Kind = fn(&StoreError) -> bool;
    let kinds: [(i32, Kind); 3] = [
        (ffi::SQLITE_IOERR_FSYNC, |error| matches!(error, StoreError::Unavailable(_))),
        (ffi::SQLITE_READONLY, |error| matches!(error, StoreError::Forbidden(_))),
        (ffi::SQLITE_BUSY, |error| matches!(error, StoreError::Unavailable(_))),
    ];
    for (code, is_kind) in kinds {
        let (folder, store) = mk_store();
        let kept = store.create(mk_service("kept", &Owner::Admin), Sensitive::default()).await.expect("created");
        let (opener, gate) = Gate::new();
        let (_, before, fault, after, ()) = tokio::join!(
            store.submit(gate),
            store.create(mk_service("before", &Owner::Admin), Sensitive::default()),
            store.submit(Fault(code)),
            store.remove(kept.service.name(), None),
            async { drop(opener) },
        );
        for error in [before.expect_err("failed"), fault.expect_err("failed"), after.expect_err("failed")] {
            assert!(is_kind(&error), "{code}: {error:?}");
        }
        assert_eq!(store.get(&name_of("before")).await, Ok(None));
        assert_eq!(store.get(&name_of("kept")).await, Ok(Some(kept.clone())));

        let again = store.create(mk_service("before", &Owner::Admin), Sensitive::default()).await.expect("it goes on");
        assert_ne!(again.revision, kept.revision);
        drop(store);
        let store = LocalStore::open(folder.path(), Options::default()).expect("opened again");
        assert_eq!(store.list(&Scope::All).await.expect("listed").len(), 2);
    }
}
