//! Which folders are accepted, and what is said of the others.

use std::fs;
use std::path::Path;
use std::process::Command;

use oscar_engine::ports::services::Services as _;
use oscar_engine::testing::make::mk_service;
use oscar_local::{LocalStore, OpenError, Options};
use oscar_model::identity::Owner;
use oscar_model::service::Sensitive;

const DATA: &str = "OSCAR_TEST_DATA";
const PARENT: &str = "OSCAR_TEST_PARENT";

fn refusal(data: &Path) -> OpenError {
    LocalStore::open(data, Options::default()).expect_err("it must be refused")
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_made_is_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("a/b");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let store = LocalStore::open(&data, Options::default()).expect("opened");
    store.create(mk_service("one", &Owner::Admin), Sensitive::default()).await.expect("created");
    assert_eq!(mode(&data), 0o700);
    for file in ["oscar.db", "oscar.db-wal", "oscar.db-shm", "oscar.lock", "secret.key"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    drop(store);
    fs::set_permissions(data.join("oscar.db"), fs::Permissions::from_mode(0o644)).expect("widened");
    let _store = LocalStore::open(&data, Options::default()).expect("opened");
    assert_eq!(mode(&data.join("oscar.db")), 0o600, "a restored file is narrowed");
}

#[test]
fn a_folder_has_one_manager() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = LocalStore::open(folder.path(), Options::default()).expect("opened");
    let refused = refusal(folder.path());
    let OpenError::Locked { pid, .. } = &refused else { panic!("{refused}") };
    assert_eq!(*pid, Some(std::process::id()));
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");

    let child = || {
        Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "child_is_refused", "--ignored"])
            .env(DATA, folder.path())
            .env(PARENT, std::process::id().to_string())
            .output()
            .expect("ran")
    };
    let refused = child();
    assert!(refused.status.success(), "{refused:?}");
    drop(first);
    assert!(!child().status.success(), "the folder is free once it was let go");
    LocalStore::open(folder.path(), Options::default()).expect("opened again");
}

#[test]
#[ignore = "runs as the child of another test"]
fn child_is_refused() {
    let (Some(folder), Ok(parent)) = (std::env::var_os(DATA), std::env::var(PARENT)) else { return };
    let refused = refusal(Path::new(&folder));
    assert!(matches!(refused, OpenError::Locked { pid: Some(pid), .. } if pid.to_string() == parent), "{refused}");
}

#[test]
fn a_path_that_cannot_be_a_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "x").expect("written");
    for path in [file.join("data"), file.clone()] {
        let refused = refusal(&path);
        assert!(matches!(refused, OpenError::Folder { .. }), "{refused}");
        assert!(refused.to_string().contains("file"), "it names the folder: {refused}");
    }
    assert_eq!(fs::read_to_string(&file).expect("read"), "x");
}

#[test]
fn a_database_that_is_a_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("oscar.db")).expect("made");
    let refused = refusal(folder.path());
    assert!(matches!(refused, OpenError::NotAFile { .. }), "{refused}");
}

/// Nobody can write there, not even the superuser.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_without_write_access_is_refused() {
    for path in ["/proc/oscar-data", "/proc/self"] {
        let refused = refusal(Path::new(path));
        assert!(matches!(refused, OpenError::Folder { .. } | OpenError::ReadOnly { .. }), "{refused}");
    }
}

#[test]
fn a_damaged_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("oscar.db");
    let garbage = "this is no database. ".repeat(1000);
    fs::write(&database, &garbage).expect("written");
    let refused = refusal(folder.path());
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
    assert!(refused.to_string().contains("backup"), "{refused}");
    assert_eq!(fs::read_to_string(&database).expect("read"), garbage);
}

#[tokio::test]
async fn damage_in_the_middle_is_found_before_anything_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
    for n in 0..100 {
        store.create(mk_service(&format!("s-{n}"), &Owner::Admin), Sensitive::default()).await.expect("created");
    }
    store.close().await.expect("closed");
    let database = folder.path().join("oscar.db");
    let whole = fs::read(&database).expect("read");
    assert!(whole.len() > 16 * 4096, "there is something to damage");

    let mut overwritten = whole.clone();
    overwritten[4096..].chunks_mut(4096).for_each(|page| page[..16].fill(0xFF));
    fs::write(&database, overwritten).expect("written");
    let refused = refusal(folder.path());
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");

    fs::write(&database, &whole[..whole.len() / 2]).expect("written");
    let refused = refusal(folder.path());
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");

    fs::write(&database, whole).expect("restored");
    LocalStore::open(folder.path(), Options::default()).expect("a restored backup is accepted");
}
