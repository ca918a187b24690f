//! What cannot be provoked from outside: a database that refuses to write.

mod plans;
mod refusal;
mod statistics;

use std::sync::{Arc, Mutex, mpsc};

use rusqlite::ffi;
use tempfile::TempDir;

use super::index::Index;
use super::writer::{Batch, Change, Failure};
use super::{LocalStore, Options};

fn mk_store() -> (TempDir, Arc<LocalStore>) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
    (folder, store)
}

/// Sets a limit of the writer's own connection.
struct Pragma(&'static str, i64);

impl Change for Pragma {
    type Step = ();
    type Output = ();

    fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
        let Self(name, value) = self;
        Ok(batch.sql.execute_batch(&format!("PRAGMA {name} = {value}"))?)
    }

    fn publish(self, (): (), _index: &mut Index) {}
}

/// Holds the writer until the other end is dropped, so that what is queued meanwhile is one batch.
struct Gate(Mutex<mpsc::Receiver<()>>);

impl Gate {
    fn new() -> (mpsc::Sender<()>, Self) {
        let (opener, closed) = mpsc::channel();
        (opener, Self(Mutex::new(closed)))
    }
}

impl Change for Gate {
    type Step = ();
    type Output = ();

    fn apply(&self, _batch: &mut Batch<'_>) -> Result<(), Failure> {
        let _opened = self.0.lock().expect("nobody else waits").recv();
        Ok(())
    }

    fn publish(self, (): (), _index: &mut Index) {}
}

/// A change during which the database fails with a code of `SQLite`'s.
struct Fault(i32);

impl Change for Fault {
    type Step = ();
    type Output = ();

    fn apply(&self, _batch: &mut Batch<'_>) -> Result<(), Failure> {
        Err(Failure::Sql(rusqlite::Error::SqliteFailure(ffi::Error::new(self.0), None)))
    }

    fn publish(self, (): (), _index: &mut Index) {}
}
