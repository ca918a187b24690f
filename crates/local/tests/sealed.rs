//! Nothing secret lies about in the data folder, and the key is looked after.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use oscar_engine::ports::StoreError;
use oscar_engine::ports::audit::Audit as _;
use oscar_engine::ports::journal::Journal as _;
use oscar_engine::ports::services::Services as _;
use oscar_engine::ports::vault::Vault as _;
use oscar_engine::testing::conformance_federation::{mk_federation, mk_grant, mk_grant_id, mk_operation};
use oscar_engine::testing::make::{mk_owner, mk_secretive, mk_service};
use oscar_local::{LocalStore, OpenError, Options};
use oscar_model::federation::record::{AuditRecord, Former};
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::Sensitive;
use rusqlite::Connection;

fn open(folder: &Path) -> Result<Arc<LocalStore>, OpenError> {
    LocalStore::open(folder, Options::default())
}

fn with_key(folder: &Path, byte: u8) -> Result<Arc<LocalStore>, OpenError> {
    LocalStore::open(folder, Options { key: Some([byte; 32]), ..Options::default() })
}

/// The files of the folder that contain the text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("a file").path();
        let content = fs::read(&path).expect("read");
        if content.windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Puts a planted value wherever one can be.
async fn plant(store: &LocalStore) {
    let (service, sensitive) = mk_secretive("secretive", &Owner::Admin);
    store.create(service.clone(), sensitive.clone()).await.expect("created");
    store.put_operation(&mk_operation("op", 1)).await.expect("put");
    store.put_federation(&mk_federation("fed", "secretive")).await.expect("put");
    let mut service = service;
    service.token = Secret::new("planted-former-token");
    let name = service.name().clone();
    store
        .keep_former(&Former { name, label: "op".to_owned(), service: Some((service, sensitive)) })
        .await
        .expect("kept");
    store.put_grant(&mk_grant(&mk_grant_id("g"), &Owner::Admin, "oscar-svc")).await.expect("put");
}

#[tokio::test]
async fn no_file_holds_a_planted_value() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path()).expect("opened");
    plant(&store).await;
    assert!(folder.path().join("oscar.db-wal").exists(), "the log is looked at too");
    assert_eq!(files_with(folder.path(), "planted"), Vec::<String>::new(), "while it runs");
    store.remove_operation("op").await.expect("removed");
    let grant = mk_grant(&mk_grant_id("g"), &Owner::Admin, "oscar-svc");
    store.put_grant(&grant).await.expect("put again");
    store.close().await.expect("closed");
    assert_eq!(files_with(folder.path(), "planted"), Vec::<String>::new(), "after it was closed");
    let store = open(folder.path()).expect("opened again");
    assert_eq!(store.grant(&grant.id).await, Ok(Some(grant)), "what was sealed is still there");
    assert_eq!(
        store.former(mk_service("secretive", &Owner::Admin).name(), "op").await.expect("read").map(|_| ()),
        Some(())
    );
}

#[tokio::test]
async fn an_upgrade_leaves_nothing_plain_behind() {
    for version in ["v1", "v2"] {
        let folder = tempfile::tempdir().expect("a folder");
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/schemas/{version}.sql"));
        let connection = Connection::open(folder.path().join("oscar.db")).expect("opened");
        connection.execute_batch(&fs::read_to_string(fixture).expect("a fixture")).expect("valid");
        // So many that they fill pages, and values that need pages of their own.
        for n in 0..200 {
            let value = format!("planted-{n}-").repeat(if n % 50 == 0 { 2000 } else { 5 });
            let sql =
                "INSERT INTO service_secrets (service, kind, name, value) VALUES ('cowsay', 'environment', ?1, ?2)";
            connection.execute(sql, [format!("S{n}"), value]).expect("inserted");
        }
        drop(connection);
        assert!(!files_with(folder.path(), "planted").is_empty(), "there is something to find");

        let store = open(folder.path()).expect("upgraded");
        assert_eq!(files_with(folder.path(), "planted"), Vec::<String>::new(), "{version}, while it runs");
        let secrets = store.reveal(mk_service("cowsay", &Owner::Admin).name()).await.expect("revealed").environment;
        assert_eq!(secrets.len(), 201);
        assert_eq!(secrets["S50"].expose(), "planted-50-".repeat(2000));
        drop(store);
        assert_eq!(files_with(folder.path(), "planted"), Vec::<String>::new(), "{version}, after it was closed");
    }
}

#[tokio::test]
async fn without_its_key_a_folder_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path()).expect("opened");
    plant(&store).await;
    store.close().await.expect("closed");
    let (database, key) = (folder.path().join("oscar.db"), folder.path().join("secret.key"));
    let before = fs::read(&database).expect("read");
    let kept = fs::read_to_string(&key).expect("there is a key");

    fs::remove_file(&key).expect("removed");
    let refused = open(folder.path()).expect_err("the key is missing");
    assert!(matches!(refused, OpenError::NoKey { .. }), "{refused}");
    assert!(refused.to_string().contains("secret.key") && refused.to_string().contains("backup"), "{refused}");
    assert!(!key.exists(), "no other key is made");

    fs::write(&key, "ab".repeat(32)).expect("written");
    let refused = open(folder.path()).expect_err("it is another key");
    assert!(matches!(refused, OpenError::OtherKey { .. }), "{refused}");
    assert!(matches!(with_key(folder.path(), 9), Err(OpenError::OtherKey { .. })), "also when it is given");
    for bad in ["", "ab", "zz"] {
        fs::write(&key, bad).expect("written");
        let refused = open(folder.path()).expect_err("no key");
        assert!(matches!(refused, OpenError::BadKey { .. }), "{refused}");
    }
    fs::write(&key, [0xFF; 32]).expect("written");
    assert!(matches!(open(folder.path()), Err(OpenError::BadKey { .. })), "no text");
    assert_eq!(fs::read(&database).expect("read"), before, "nothing was changed");

    fs::write(&key, kept).expect("restored");
    let store = open(folder.path()).expect("opened");
    assert_eq!(store.operations().await.expect("read").len(), 1);
}

/// What is sealed may be nothing but the event of a job, what a coordinator sent, or a key of a
/// user that the object store keeps.
#[tokio::test]
async fn the_key_is_needed_for_whatever_was_sealed() {
    for sealed in ["job_events", "fences", "elsewhere"] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path()).expect("opened");
        if sealed == "elsewhere" {
            store.will_seal_elsewhere().await.expect("noted");
            store.will_seal_elsewhere().await.expect("noted at every start");
        }
        drop(store);
        let connection = Connection::open(folder.path().join("oscar.db")).expect("opened");
        let insert = match sealed {
            "fences" => "INSERT INTO fences (service, label, sealed) VALUES ('a', 'b', x'00')",
            "job_events" => "PRAGMA foreign_keys = OFF; INSERT INTO job_events (number, sealed) VALUES (1, x'00')",
            _ => "",
        };
        connection.execute_batch(insert).expect("inserted");
        drop(connection);
        let key = folder.path().join("secret.key");
        fs::rename(&key, folder.path().join("elsewhere.key")).expect("lost");
        assert!(matches!(open(folder.path()), Err(OpenError::NoKey { .. })), "{sealed}");
        assert!(!key.exists(), "{sealed}: no other key is made");
    }
}

#[tokio::test]
async fn a_key_of_the_operator_is_not_written_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = with_key(folder.path(), 7).expect("opened");
    plant(&store).await;
    drop(store);
    assert!(!folder.path().join("secret.key").exists());
    assert!(matches!(open(folder.path()), Err(OpenError::NoKey { .. })), "and it is needed from then on");
    let store = with_key(folder.path(), 7).expect("opened");
    assert_eq!(store.grants().await.expect("read").len(), 1);
    let shown = format!("{:?}", Options { key: Some([7; 32]), ..Options::default() });
    assert!(!shown.contains('7'), "{shown}");
}

#[tokio::test]
async fn where_nothing_is_sealed_any_key_will_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path()).expect("opened");
    store.create(mk_service("plain", &Owner::Admin), Sensitive::default()).await.expect("created");
    drop(store);
    drop(with_key(folder.path(), 7).expect("another key"));
    fs::remove_file(folder.path().join("secret.key")).expect("removed");
    let store = open(folder.path()).expect("a new key is made");
    plant(&store).await;
    drop(store);
    assert!(open(folder.path()).is_ok() && with_key(folder.path(), 7).is_err(), "from now on it is this one");
}

#[cfg(unix)]
#[test]
fn a_key_that_others_can_read_is_narrowed() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(folder.path()).expect("opened"));
    let key = folder.path().join("secret.key");
    let mode = || fs::metadata(&key).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("widened");
    drop(open(folder.path()).expect("opened"));
    assert_eq!(mode(), 0o600);
    assert!(!folder.path().join("secret.new").exists());
}

/// Runs a statement on the closed database of a folder with planted values.
async fn spoiled(sql: &str) -> (tempfile::TempDir, Arc<LocalStore>) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path()).expect("opened");
    plant(&store).await;
    let mut other = mk_grant(&mk_grant_id("h"), &mk_owner("bob"), "oscar-svc");
    other.token = Secret::new("of-bob");
    store.put_grant(&other).await.expect("put");
    store.put_operation(&mk_operation("good", 2)).await.expect("put");
    store.close().await.expect("closed");
    let connection = Connection::open(folder.path().join("oscar.db")).expect("opened");
    assert!(connection.execute(sql, ()).expect("changed") > 0, "it spoils something: {sql}");
    drop(connection);
    let store = open(folder.path()).expect("opened");
    (folder, store)
}

#[tokio::test]
async fn a_row_that_was_moved_or_changed_does_not_open() {
    let (mine, bobs) = (mk_grant_id("g"), mk_grant_id("h"));
    let moved =
        format!("UPDATE grants SET sealed = (SELECT sealed FROM grants WHERE id = '{bobs}') WHERE id = '{mine}'");
    let (_folder, store) = spoiled(&moved).await;
    assert!(matches!(store.grant(&mine).await, Err(StoreError::Broken(_))), "nobody gets another's token");
    let ids: Vec<_> = store.grants().await.expect("listed").into_iter().map(|grant| grant.id).collect();
    assert_eq!(ids, [bobs], "the others are still there");
    store.remove_grant(&mine).await.expect("it can be removed");

    let (_folder, store) = spoiled("UPDATE operations SET sealed = x'0102' WHERE id = 'op'").await;
    let ids: Vec<_> = store.operations().await.expect("listed").into_iter().map(|operation| operation.id).collect();
    assert_eq!(ids, ["good"], "the others can be finished");

    let moved = "UPDATE sealed_secrets SET name = 'OTHER' WHERE name = 'PASSWORD'";
    let (_folder, store) = spoiled(moved).await;
    let revealed = store.reveal(mk_service("secretive", &Owner::Admin).name()).await;
    let Err(StoreError::Broken(cause)) = revealed else { panic!("{revealed:?}") };
    assert!(cause.contains("sealed_secrets") && !cause.contains("planted"), "{cause}");
    let service = mk_service("secretive", &Owner::Admin);
    assert!(store.get(service.name()).await.expect("readable").is_some());

    let (_folder, store) = spoiled("UPDATE federations SET sealed = x'01'").await;
    let broken = store.federation(service.name()).await;
    assert!(matches!(broken, Err(StoreError::Broken(_))), "{broken:?}");
}

#[tokio::test]
async fn the_newest_ten_thousand_audit_records_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path()).expect("opened");
    let mk = |at| AuditRecord {
        at,
        actor: "a".to_owned(),
        owner: "a".to_owned(),
        act: "token-refreshed".to_owned(),
        service: "s".to_owned(),
        target: "t".to_owned(),
        outcome: "ok".to_owned(),
    };
    futures::future::join_all((0..10_050).map(|at| store.append(mk(at)))).await;
    store.append(mk(99_999)).await;
    let all = store.recent(usize::MAX).await.expect("read");
    assert_eq!(all.len(), 10_000);
    assert_eq!(all[0], mk(99_999));
    store.close().await.expect("closed");
    let store = open(folder.path()).expect("opened");
    assert_eq!(store.recent(usize::MAX).await.expect("read"), all);
    store.append(mk(5)).await;
    assert_eq!(store.recent(2).await.expect("read"), vec![mk(5), mk(99_999)]);
}
