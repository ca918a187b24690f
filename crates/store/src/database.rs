//! The shape of the database, and the connections to it.
//!
//! Keys of objects are blobs, because S3 orders them by bytes and a list has to seek to places
//! that are no text. A migration that was released is never edited: a new one is added.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use oscar_engine::ports::StoreError;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};

use crate::error::{OpenError, closed, of_sql};

/// In the header of the file: `OSCO`.
const APPLICATION_ID: i64 = 0x4F53_434F;

/// The n-th (from zero) brings a database of version n to version n + 1.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO counters (name, value) VALUES ('number', 0);
    CREATE TABLE buckets (
        id INTEGER PRIMARY KEY NOT NULL,
        name TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        visibility TEXT NOT NULL,
        allowed TEXT NOT NULL,
        from_service TEXT,
        tags TEXT NOT NULL,
        created INTEGER NOT NULL,
        objects INTEGER NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE graves (bucket INTEGER PRIMARY KEY NOT NULL) STRICT;
    CREATE TABLE objects (
        bucket INTEGER NOT NULL,
        key BLOB NOT NULL,
        version INTEGER NOT NULL,
        content INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        etag TEXT NOT NULL,
        modified INTEGER NOT NULL,
        about TEXT NOT NULL,
        PRIMARY KEY (bucket, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE bodies (content INTEGER PRIMARY KEY NOT NULL, body BLOB NOT NULL) STRICT;
    CREATE TABLE segments (
        content INTEGER NOT NULL,
        number INTEGER NOT NULL,
        file INTEGER NOT NULL,
        start INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (content, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX segments_by_file ON segments (file);
    CREATE TABLE uploads (
        id TEXT PRIMARY KEY NOT NULL,
        bucket INTEGER NOT NULL,
        key BLOB NOT NULL,
        started INTEGER NOT NULL,
        algorithm TEXT,
        composite INTEGER NOT NULL,
        about TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX uploads_by_key ON uploads (bucket, key, id);
    CREATE TABLE parts (
        upload TEXT NOT NULL,
        number INTEGER NOT NULL,
        content INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        etag TEXT NOT NULL,
        checksums TEXT NOT NULL,
        modified INTEGER NOT NULL,
        PRIMARY KEY (upload, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE keys (
        access_key TEXT PRIMARY KEY NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('manager', 'user', 'scoped')),
        sealed BLOB NOT NULL,
        grants TEXT NOT NULL,
        expires INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE subscriptions (
        bucket TEXT NOT NULL,
        prefix BLOB NOT NULL,
        service TEXT NOT NULL,
        PRIMARY KEY (bucket, prefix, service)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
        service TEXT NOT NULL,
        bucket TEXT NOT NULL,
        key BLOB NOT NULL,
        version INTEGER NOT NULL,
        record TEXT NOT NULL,
        UNIQUE (service, version)
    ) STRICT;
    CREATE TABLE moves (
        job TEXT NOT NULL,
        from_bucket TEXT NOT NULL,
        from_key BLOB NOT NULL,
        to_bucket TEXT NOT NULL,
        to_key BLOB NOT NULL,
        made INTEGER NOT NULL,
        PRIMARY KEY (job, from_bucket, from_key, to_bucket, to_key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX moves_by_time ON moves (made);
"];

/// 16 MiB of log between two checkpoints: bodies of small objects pass through it.
const CHECKPOINT_PAGES: i64 = 4096;
/// The log file is cut to this after a burst.
const LOG_LIMIT: i64 = 64 * 1024 * 1024;

/// Opens the database for the writer, in its present shape.
pub(crate) fn open(path: &Path) -> Result<Connection, OpenError> {
    let failed = |error| OpenError::of_sql(path, &error);
    let mut connection = connect(path).map_err(failed)?;
    let found = check_identity(&connection, path)?;
    configure(&connection, path)?;
    for (version, migration) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        upgrade(&mut connection, version, migration).map_err(failed)?;
    }
    Ok(connection)
}

fn upgrade(connection: &mut Connection, version: i64, migration: &str) -> rusqlite::Result<()> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    change.execute_batch(migration)?;
    change.pragma_update(None, "application_id", APPLICATION_ID)?;
    change.pragma_update(None, "user_version", version)?;
    change.commit()
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // The file was made before, with narrow rights.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(96);
    Ok(connection)
}

fn configure(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::of_sql(path, &error);
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(failed)?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(OpenError::NoWal { path: path.to_owned() });
    }
    // An acknowledged change survives a power cut; the other two are for macOS only.
    for name in ["fullfsync", "checkpoint_fullfsync", "cell_size_check"] {
        set(connection, name, "ON").map_err(failed)?;
    }
    set(connection, "synchronous", "FULL").map_err(failed)?;
    set(connection, "trusted_schema", "OFF").map_err(failed)?;
    set(connection, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(failed)?;
    set(connection, "journal_size_limit", LOG_LIMIT).map_err(failed)
}

/// Some settings answer with their new value and some do not.
fn set(connection: &Connection, name: &str, value: impl rusqlite::ToSql) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, name, value, |_| Ok(())).optional().map(|_| ())
}

fn check_identity(connection: &Connection, path: &Path) -> Result<i64, OpenError> {
    let number = |sql: &str| {
        connection.query_row(sql, (), |row| row.get::<_, i64>(0)).map_err(|error| OpenError::of_sql(path, &error))
    };
    let (found, application) = (number("PRAGMA user_version")?, number("PRAGMA application_id")?);
    let is_blank = number("SELECT count(*) FROM sqlite_master")? == 0;
    if application != APPLICATION_ID && !is_blank {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    let known = i64::try_from(MIGRATIONS.len()).expect("few migrations");
    if found > known {
        return Err(OpenError::Newer { path: path.to_owned(), found, known });
    }
    Ok(if is_blank { 0 } else { found })
}

/// Connections that only read. Each sees what was committed when it begins.
pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Option<Vec<Connection>>>,
}

/// More are closed when they come back.
const IDLE_READERS: usize = 8;

impl Readers {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), idle: Mutex::new(Some(Vec::new())) }
    }

    /// Blocks: for threads that may.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let connection = self.take()?;
        let outcome = connection.unchecked_transaction().and_then(|snapshot| read(&snapshot));
        self.give_back(connection);
        outcome.map_err(|error| of_sql(&error))
    }

    pub(crate) fn close(&self) {
        self.lock().take();
    }

    fn take(&self) -> Result<Connection, StoreError> {
        if let Some(connection) = self.lock().as_mut().ok_or_else(closed)?.pop() {
            return Ok(connection);
        }
        let opened = connect(&self.path).and_then(|connection| {
            set(&connection, "query_only", "ON")?;
            Ok(connection)
        });
        opened.map_err(|error| of_sql(&error))
    }

    fn give_back(&self, connection: Connection) {
        if let Some(idle) = self.lock().as_mut().filter(|idle| idle.len() < IDLE_READERS) {
            idle.push(connection);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
