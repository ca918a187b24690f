//! Connections that only read, beside the writer and off the threads that serve requests.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use oscar_engine::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::errors::{OpenError, closed, to_store_error};
use super::schema;

/// Reads one after another what the index does not hold; clones share the connection.
#[derive(Clone)]
pub(super) struct Reader {
    /// Gone once the store is closed.
    connection: Arc<Mutex<Option<Connection>>>,
    /// Whoever waits for another's query takes no thread meanwhile: those are few, and other
    /// readers need them.
    turns: Arc<Semaphore>,
}

impl Reader {
    pub(super) fn open(database: &Path) -> Result<Self, OpenError> {
        let connection = schema::open_reader(database)?;
        Ok(Self { connection: Arc::new(Mutex::new(Some(connection))), turns: Arc::new(Semaphore::new(1)) })
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| closed())?;
        let connection = self.connection.clone();
        let work = tokio::task::spawn_blocking(move || {
            // Kept to the end, also when nobody waits for the answer any more.
            let _turn = turn;
            let guard = connection.lock().unwrap_or_else(PoisonError::into_inner);
            query(guard.as_ref().ok_or_else(closed)?).map_err(|error| to_store_error(&error))
        });
        work.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }

    /// Waits for the query that runs; later ones are refused.
    pub(super) fn close(&self) {
        drop(self.connection.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
