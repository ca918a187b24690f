//! The shape of the database, and how an older one becomes the present one.
//!
//! A migration that was released is never edited: a new one is added. Each is one
//! transaction, so an upgrade that was cut off goes on where it stopped.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, params};

use super::errors::OpenError;
use super::jobs;
use super::key::{self, Key};
use super::seal::{Place, Seal};

/// In the header of the file, so that a database of another program is recognised: `OSCR`.
const APPLICATION_ID: i64 = 0x4F53_4352;

/// The n-th (from zero) brings a database of version n to version n + 1.
const MIGRATIONS: [&str; 6] = [
    // Services and their secrets. `counters` remembers the last revision that was given out.
    "CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
     CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
     CREATE TABLE services (
         name TEXT PRIMARY KEY NOT NULL,
         namespace TEXT NOT NULL,
         revision INTEGER NOT NULL,
         config TEXT NOT NULL,
         script TEXT NOT NULL
     ) STRICT;
     CREATE TABLE service_secrets (
         service TEXT NOT NULL REFERENCES services (name) ON DELETE CASCADE,
         kind TEXT NOT NULL CHECK (kind IN ('environment', 'cluster')),
         name TEXT NOT NULL,
         value TEXT NOT NULL,
         PRIMARY KEY (service, kind, name)
     ) STRICT, WITHOUT ROWID;
     INSERT INTO counters (name, value) VALUES ('revision', 0);",
    // Homes of owners, and what the administrator sets.
    "CREATE TABLE users (
         namespace TEXT PRIMARY KEY NOT NULL,
         owner TEXT NOT NULL,
         display_name TEXT NOT NULL
     ) STRICT, WITHOUT ROWID;
     CREATE TABLE image_repositories (position INTEGER PRIMARY KEY NOT NULL, repository TEXT NOT NULL) STRICT;",
    // Credentials are sealed, and federations are remembered. `seal_plain` moves what was plain.
    "CREATE TABLE sealed_secrets (
         service TEXT NOT NULL REFERENCES services (name) ON DELETE CASCADE,
         kind TEXT NOT NULL CHECK (kind IN ('environment', 'cluster')),
         name TEXT NOT NULL,
         sealed BLOB NOT NULL,
         PRIMARY KEY (service, kind, name)
     ) STRICT, WITHOUT ROWID;
     CREATE TABLE operations (id TEXT PRIMARY KEY NOT NULL, sealed BLOB NOT NULL) STRICT;
     CREATE TABLE federations (
         federation_id TEXT NOT NULL,
         service TEXT NOT NULL,
         sealed BLOB NOT NULL,
         PRIMARY KEY (federation_id, service)
     ) STRICT;
     CREATE TABLE formers (
         name TEXT NOT NULL,
         label TEXT NOT NULL,
         sealed BLOB NOT NULL,
         PRIMARY KEY (name, label)
     ) STRICT;
     CREATE TABLE grants (id TEXT PRIMARY KEY NOT NULL, sealed BLOB NOT NULL) STRICT;
     CREATE TABLE audit (number INTEGER PRIMARY KEY NOT NULL, record TEXT NOT NULL) STRICT;",
    // What coordinators sent and is not taken any more.
    "CREATE TABLE fences (
         service TEXT NOT NULL,
         label TEXT NOT NULL,
         sealed BLOB NOT NULL,
         PRIMARY KEY (service, label)
     ) STRICT;",
    jobs::TABLES,
    jobs::OWNERS,
];

/// The version from which on credentials are sealed.
const SEALED_FROM: i64 = 3;

/// Opens the database for the writer, in its present shape, with the seal for its credentials.
/// A file that must not be touched (foreign, newer, damaged, sealed with another key) is left as
/// it was.
pub(super) fn open(path: &Path, key: Key) -> Result<(Connection, Seal), OpenError> {
    let failed = |error| OpenError::of_sql(path, &error);
    let mut connection = connect(path).map_err(failed)?;
    let found = check_identity(&connection, path)?;
    check_structure(&connection, path)?;
    configure(&connection, path)?;
    let upgrade = |connection: &mut Connection, versions: std::ops::Range<i64>, seal: Option<&Seal>| {
        for (version, migration) in (1..).zip(MIGRATIONS).filter(|(version, _)| versions.contains(version)) {
            apply(connection, migration, version, seal.filter(|_| version == SEALED_FROM)).map_err(failed)?;
            if found > 0 {
                tracing::info!(version, "the database was upgraded");
            }
        }
        Ok::<_, OpenError>(())
    };
    upgrade(&mut connection, found + 1..SEALED_FROM, None)?;
    let seal = if found < SEALED_FROM { key.first()? } else { key.matching(&connection, path)? };
    upgrade(&mut connection, SEALED_FROM.max(found + 1)..i64::MAX, Some(&seal))?;
    // What was plain before an upgrade is overwritten in the file itself, and no copy of it is
    // left in the log, also when the upgrade was cut off before this.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).map_err(failed)?;
    Ok((connection, seal))
}

/// A second connection to an opened database, which cannot change it.
pub(super) fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let connection = connect(path).map_err(|error| OpenError::of_sql(path, &error))?;
    configure(&connection, path)?;
    connection.pragma_update(None, "query_only", "ON").map_err(|error| OpenError::of_sql(path, &error))?;
    Ok(connection)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // The file was made before, with narrow rights; `SQLite` itself would make it readable for all.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Makes commits durable and lets readers go on beside the writer.
fn configure(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::of_sql(path, &error);
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(failed)?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(OpenError::NoWal { path: path.to_owned() });
    }
    let settings = [
        ("synchronous", "FULL"),
        // Only macOS needs and knows these: its plain flush stops in the drive's cache.
        ("fullfsync", "ON"),
        ("checkpoint_fullfsync", "ON"),
        ("foreign_keys", "ON"),
        // A removed secret is overwritten, not only forgotten.
        ("secure_delete", "ON"),
        ("trusted_schema", "OFF"),
        ("cell_size_check", "ON"),
    ];
    for (name, value) in settings {
        // Some of these answer with their new value and some do not.
        connection.pragma_update_and_check(None, name, value, |_| Ok(())).optional().map_err(failed)?;
    }
    Ok(())
}

/// The version of a database that is ours, or zero of a blank one.
fn check_identity(connection: &Connection, path: &Path) -> Result<i64, OpenError> {
    let number = |sql: &str| {
        connection.query_row(sql, (), |row| row.get::<_, i64>(0)).map_err(|error| OpenError::of_sql(path, &error))
    };
    let (found, application) = (number("PRAGMA user_version")?, number("PRAGMA application_id")?);
    let is_blank = number("SELECT count(*) FROM sqlite_master")? == 0;
    if application != APPLICATION_ID && !is_blank {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    Ok(found)
}

/// With a seal: what was stored plainly before is sealed in the same transaction.
fn apply(connection: &mut Connection, migration: &str, version: i64, seal: Option<&Seal>) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(migration)?;
    if let Some(seal) = seal {
        seal_plain(&transaction, seal)?;
        key::write_check(&transaction, seal)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", version)?;
    transaction.commit()
}

/// Moves the secrets of services from where they were plain. `secure_delete` overwrites that.
fn seal_plain(connection: &Connection, seal: &Seal) -> rusqlite::Result<()> {
    let mut plain = connection.prepare("SELECT service, kind, name, value FROM service_secrets")?;
    let mut insert =
        connection.prepare("INSERT INTO sealed_secrets (service, kind, name, sealed) VALUES (?1, ?2, ?3, ?4)")?;
    let mut rows = plain.query(())?;
    while let Some(row) = rows.next()? {
        let (service, kind, name): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let place = Place { table: "sealed_secrets", key: &[&service, &kind, &name] };
        let sealed = seal.seal(place, row.get_ref(3)?.as_bytes()?).map_err(key::as_sql)?;
        insert.execute(params![service, kind, name, sealed])?;
    }
    drop(rows);
    connection.execute_batch("DROP TABLE service_secrets")
}

/// Refuses a damaged file before anything is written to it.
fn check_structure(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let cause: String = connection
        .query_row("PRAGMA quick_check(1)", (), |row| row.get(0))
        .map_err(|error| OpenError::of_sql(path, &error))?;
    if cause == "ok" { Ok(()) } else { Err(OpenError::Corrupt { path: path.to_owned(), cause }) }
}

/// The id of this folder, made at its first opening and never again.
pub(super) fn ensure_instance_id(connection: &Connection) -> rusqlite::Result<String> {
    let fresh = uuid::Uuid::new_v4().to_string();
    connection.execute("INSERT INTO meta (key, value) VALUES ('instance_id', ?1) ON CONFLICT DO NOTHING", [fresh])?;
    connection.query_row("SELECT value FROM meta WHERE key = 'instance_id'", (), |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SIGKILL cannot show a missing flush, only a power cut could: so the setting is pinned.
    #[test]
    fn every_commit_is_flushed_to_the_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("flushed.db");
        let connection = Connection::open(&path).expect("opened");
        configure(&connection, &path).expect("configured");
        let synchronous: i64 = connection.query_row("PRAGMA synchronous", (), |row| row.get(0)).expect("read");
        assert_eq!(synchronous, 2, "FULL");
    }
}
