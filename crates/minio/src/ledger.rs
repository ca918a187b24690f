//! What the manager remembers of an external store: one small SQLite database in its data folder.
//!
//! An event is here before its sender is told that it arrived.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use oscar_engine::ports::StoreError;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior};

use crate::error::{OpenError, of_sql};

/// In the header of the file: `OSCM`.
const APPLICATION_ID: i64 = 0x4F53_434D;

/// The n-th (from zero) brings a database of version n to version n + 1. One that was released
/// is never edited.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE users (subject TEXT PRIMARY KEY NOT NULL, sealed BLOB NOT NULL, made INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE changing (bucket TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE short_keys (access_key TEXT PRIMARY KEY NOT NULL, expires INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE subscriptions (
        bucket TEXT NOT NULL,
        prefix TEXT NOT NULL,
        service TEXT NOT NULL,
        since INTEGER NOT NULL,
        PRIMARY KEY (bucket, prefix, service)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE seen (
        bucket TEXT NOT NULL,
        key TEXT NOT NULL,
        millis INTEGER NOT NULL,
        etag TEXT NOT NULL,
        sequencer TEXT,
        mark TEXT,
        noted INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX seen_by_key ON seen (bucket, key);
    CREATE INDEX seen_by_time ON seen (noted);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
        service TEXT NOT NULL,
        bucket TEXT NOT NULL,
        key TEXT NOT NULL,
        version TEXT NOT NULL,
        record TEXT NOT NULL
    ) STRICT;
    CREATE TABLE moves (
        job TEXT NOT NULL,
        from_bucket TEXT NOT NULL,
        from_key TEXT NOT NULL,
        to_bucket TEXT NOT NULL,
        to_key TEXT NOT NULL,
        made INTEGER NOT NULL,
        PRIMARY KEY (job, from_bucket, from_key, to_bucket, to_key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX moves_by_time ON moves (made);
"];

#[derive(Clone)]
pub(crate) struct Ledger {
    connection: Arc<Mutex<Connection>>,
}

impl Ledger {
    /// Made when it is not there.
    pub(crate) fn open(folder: &Path) -> Result<Self, OpenError> {
        let path = folder.join("minio.db");
        let unusable = |cause: String| OpenError::Folder { path: path.clone(), cause };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| unusable(error.to_string()))?;
        make_private(&path).map_err(|error| unusable(error.to_string()))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let failed = |error: rusqlite::Error| unusable(error.to_string());
        let mut connection = Connection::open_with_flags(&path, flags).map_err(failed)?;
        let number = |connection: &Connection, sql: &str| {
            connection.query_row(sql, (), |row| row.get::<_, i64>(0)).map_err(failed)
        };
        let is_blank = number(&connection, "SELECT count(*) FROM sqlite_master")? == 0;
        if !is_blank && number(&connection, "PRAGMA application_id")? != APPLICATION_ID {
            return Err(OpenError::Foreign { path });
        }
        let found = number(&connection, "PRAGMA user_version")?;
        if found > i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX) {
            return Err(OpenError::Newer { path });
        }
        for (name, value) in [("journal_mode", "wal"), ("synchronous", "FULL"), ("trusted_schema", "OFF")] {
            let set = connection.pragma_update_and_check(None, name, value, |_| Ok(()));
            set.optional().map_err(failed)?;
        }
        for (version, migration) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
            upgrade(&mut connection, version, migration).map_err(failed)?;
        }
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// In one transaction, which is on disk afterwards.
    pub(crate) async fn change<T, F>(&self, change: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let connection = self.connection.clone();
        let task = tokio::task::spawn_blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = change(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        let ended = task.await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        ended.map_err(|error: rusqlite::Error| of_sql(&error))
    }
}

fn upgrade(connection: &mut Connection, version: i64, migration: &str) -> rusqlite::Result<()> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    change.execute_batch(migration)?;
    change.pragma_update(None, "application_id", APPLICATION_ID)?;
    change.pragma_update(None, "user_version", version)?;
    change.commit()
}

/// Sealed keys are in it.
fn make_private(path: &Path) -> std::io::Result<()> {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.sync_all()
}
