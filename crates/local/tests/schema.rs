//! Databases of every version that ever was, of later ones, and of other programs.

use std::fs;
use std::path::{Path, PathBuf};

use oscar_engine::ports::audit::Audit as _;
use oscar_engine::ports::jobs::{Accepted, JobQuery, Jobs, Whose};
use oscar_engine::ports::journal::Journal as _;
use oscar_engine::ports::services::Services;
use oscar_engine::ports::settings::Settings as _;
use oscar_engine::ports::usage::{Share, UsageQuery};
use oscar_engine::ports::users::Users as _;
use oscar_engine::ports::vault::Vault as _;
use oscar_engine::testing::conformance_federation::{mk_federation, mk_fences, mk_grant, mk_operation};
use oscar_engine::testing::conformance_jobs::{mk_job, mk_new, mk_success};
use oscar_engine::testing::conformance_usage::{mk_everything, runs};
use oscar_engine::testing::make::{mk_owner, mk_secretive, mk_service};
use oscar_local::{LocalStore, OpenError, Options};
use oscar_model::federation::record::Former;
use oscar_model::identity::Owner;
use oscar_model::service::Sensitive;
use rusqlite::Connection;
use tempfile::TempDir;

/// The versions with a fixture, oldest first.
fn versions() -> Vec<i64> {
    let mut versions: Vec<i64> = fs::read_dir(fixtures())
        .expect("the fixtures are there")
        .map(|file| file.expect("a file").file_name().into_string().expect("text"))
        .map(|name| name.trim_start_matches('v').trim_end_matches(".sql").parse().expect("v<number>.sql"))
        .collect();
    versions.sort_unstable();
    versions
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas")
}

/// The key that the fixtures with sealed credentials were made with.
fn options_for(version: i64) -> Options {
    Options { key: (version >= 3).then_some([7; 32]), ..Options::default() }
}

fn mk_database(sql: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let connection = Connection::open(folder.path().join("oscar.db")).expect("opened");
    connection.execute_batch(sql).expect("the fixture is valid");
    folder
}

fn mk_old(version: i64) -> TempDir {
    mk_database(&fs::read_to_string(fixtures().join(format!("v{version}.sql"))).expect("a fixture"))
}

/// Version and statements, without the blanks between their words.
fn shape(folder: &Path) -> (i64, Vec<String>) {
    let connection = Connection::open(folder.join("oscar.db")).expect("opened");
    let version = connection.query_row("PRAGMA user_version", (), |row| row.get(0)).expect("a number");
    let mut query =
        connection.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").expect("ok");
    let statements = query.query_map((), |row| row.get::<_, String>(0)).expect("ok");
    let plain = |sql: String| sql.split_whitespace().collect::<String>();
    (version, statements.map(|sql| plain(sql.expect("text"))).collect())
}

#[tokio::test]
async fn every_older_version_is_brought_up_to_date_with_its_content() {
    let fresh = tempfile::tempdir().expect("a folder");
    drop(LocalStore::open(fresh.path(), Options::default()).expect("opened"));
    let (latest, tables) = shape(fresh.path());
    assert_eq!(versions(), (1..=latest).collect::<Vec<_>>(), "every version has a fixture");
    for version in versions() {
        let old = mk_old(version);
        let store = LocalStore::open(old.path(), options_for(version)).expect("upgraded");
        assert_eq!(store.instance_id(), "5f0e1c6a-8d53-4b7e-9a51-0f6f2f6b9d10");
        let service = mk_service("cowsay", &Owner::Admin);
        let stored = Services::get(&*store, service.name()).await.expect("readable").expect("there");
        assert_eq!(stored.revision.as_str(), "40");
        assert_eq!(stored.service.definition.script, service.definition.script);
        let secrets = store.reveal(service.name()).await.expect("revealed");
        assert_eq!(secrets.environment["PASSWORD"].expose(), "planted");
        let next = store.create(mk_service("next", &Owner::Admin), Sensitive::default()).await.expect("created");
        assert_eq!(next.revision.as_str(), "42", "the counter goes on where it stood");
        if version >= 2 {
            let home = store.ensure(&mk_owner("62bb11b4aa@egi.eu"), "").await.expect("a home");
            assert_eq!(home.namespace, "oscar-svc-62bb11b4");
            let other = store.ensure(&mk_owner("62bb11b4bb@egi.eu"), "").await.expect("a home");
            assert_ne!(other, home);
            assert_eq!(store.image_repositories().await, Ok(vec!["ghcr.io/grycap".into(), "docker.io".into()]));
        }
        if version >= 3 {
            has_what_federations_left(&store, version).await;
        }
        if version >= 5 {
            has_its_jobs(&store, version).await;
        }
        drop(store);
        assert_eq!(shape(old.path()), (latest, tables.clone()), "upgraded from {version} as made anew");
    }
}

async fn has_what_federations_left(store: &LocalStore, version: i64) {
    let (mut operation, mut federation) = (mk_operation("op", 10), mk_federation("fed", "cowsay"));
    let cowsay = federation.own.service_name.clone();
    // Who had been found absent was not written down yet, in any of these versions.
    operation.absent.clear();
    federation.leaving.values_mut().for_each(|leaving| leaving.absent = None);
    if version < 4 {
        // Who asked, and by which operation what was sent, was not written down yet.
        operation.access.actor.clear();
        federation.access.actor.clear();
        for sent in federation.sent.values_mut() {
            sent.wanted.clear();
            sent.operation.clear();
        }
    } else {
        let mut fences = store.fences(&cowsay).await.expect("read");
        fences.sort_by_key(|fence| std::cmp::Reverse(fence.label()));
        assert_eq!(fences, mk_fences("cowsay", 10));
    }
    assert_eq!(store.operations().await, Ok(vec![operation]));
    assert_eq!(store.federation(&cowsay).await, Ok(Some(federation)));
    let (service, sensitive) = mk_secretive("cowsay", &mk_owner("someone@egi.eu"));
    let name = service.name().clone();
    let former = Former { name: name.clone(), label: "op".to_owned(), service: Some((service, sensitive)) };
    assert_eq!(store.former(&name, "op").await, Ok(Some(former)));
    let mut grant = mk_grant("grant", &Owner::Admin, "oscar-svc");
    // Nor when a token was given to its last holder.
    grant.given = 0;
    assert_eq!(store.grants().await, Ok(vec![grant]));
    assert_eq!(store.recent(9).await.expect("read").len(), 1);
}

async fn has_its_jobs(store: &LocalStore, version: i64) {
    let waits = mk_job("cowsay", "waits", Some(&mk_owner("someone@egi.eu")), 10);
    assert_eq!(store.unfinished().await, Ok(vec![waits.clone()]));
    assert_eq!(store.event(&waits.name).await.as_deref(), Ok(format!("event of {}", waits.name).as_bytes()));
    let again = store.accept(mk_new(&mk_job("cowsay", "again", None, 30), Some("a key"))).await;
    assert!(matches!(again, Ok(Accepted::Known { job, .. }) if *job == waits));
    let ended = mk_job("cowsay", "ended", None, 11);
    assert_eq!(Jobs::get(store, &ended.name).await, Ok(mk_success(&ended, 20).pop()));
    let service = ended.service;
    let shown = async |whose: Whose| {
        let page = store.page(&JobQuery { service: service.clone(), whose, page: None, limit: 1 }).await;
        page.map(|page| (page.jobs.len(), page.remaining))
    };
    let someone = mk_owner("someone@egi.eu");
    assert_eq!(shown(Whose::Everybody).await, Ok((1, 1)));
    assert_eq!(shown(Whose::Owner(Owner::Admin)).await, Ok((1, 1)));
    assert_eq!(shown(Whose::Owner(someone.clone())).await, Ok((0, 0)));
    assert_eq!(shown(Whose::Submitter { owner: Owner::Admin, submitter: someone }).await, Ok((1, 0)));
    assert_eq!(runs(store, 0, 100).await, 1);
    let share = Share { service: service.clone(), owner: Some(Owner::Admin), user: None };
    let query = UsageQuery { shares: Some(vec![share]), ..mk_everything(0, 100) };
    let known = usize::from(version >= 6);
    assert_eq!(store.usage(&query).await.map(|sums| sums.map(|sums| sums.len())), Ok(Some(known)), "whose it was");
}

#[tokio::test]
async fn a_job_that_cannot_be_read_stops_no_upgrade() {
    let old = mk_old(5);
    let connection = Connection::open(old.path().join("oscar.db")).expect("opened");
    connection.execute("UPDATE jobs SET record = 'no JSON' WHERE name = 'cowsay-ended'", ()).expect("broken");
    drop(connection);
    let store = LocalStore::open(old.path(), options_for(5)).expect("upgraded");
    let waits = mk_job("cowsay", "waits", Some(&mk_owner("someone@egi.eu")), 10);
    let whose = Whose::Owner(Owner::Admin);
    let page = store.page(&JobQuery { service: waits.service.clone(), whose, page: None, limit: 9 }).await;
    assert_eq!(page.map(|page| page.jobs), Ok(vec![waits]));
}

#[test]
fn a_newer_version_is_refused_and_left_alone() {
    let latest = *versions().last().expect("a fixture");
    let newer = mk_old(latest);
    let database = newer.path().join("oscar.db");
    let connection = Connection::open(&database).expect("opened");
    connection.pragma_update(None, "user_version", latest + 1).expect("set");
    drop(connection);
    let before = fs::read(&database).expect("read");
    let refused = LocalStore::open(newer.path(), options_for(latest)).expect_err("it must be refused");
    let OpenError::Newer { found, known, .. } = &refused else { panic!("{refused}") };
    assert_eq!((*found, *known), (latest + 1, latest));
    assert!(refused.to_string().contains("newer version"), "{refused}");
    assert_eq!(fs::read(&database).expect("read"), before);
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let foreign = mk_database("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);");
    let database = foreign.path().join("oscar.db");
    let before = fs::read(&database).expect("read");
    let refused = LocalStore::open(foreign.path(), Options::default()).expect_err("it must be refused");
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused}");
    assert_eq!(fs::read(&database).expect("read"), before);
}
