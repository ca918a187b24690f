//! What a manager remembers, in one `SQLite` database below its data folder.
//!
//! Reads come from an index in memory. Writes go through one thread, which commits what is
//! waiting together and changes the index only after the commit; so the index is never
//! ahead of the disk. What federations and jobs need is read from the database itself.
//!
//! Every value that can hold a credential is sealed; the key is not in the database.

mod errors;
mod federation;
mod folder;
mod index;
mod jobs;
mod key;
mod reader;
mod schema;
mod seal;
mod services;
mod settings;
#[cfg(test)]
mod tests;
mod users;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use oscar_engine::ports::StoreError;
use rusqlite::Connection;

use index::Index;
use reader::Reader;
use seal::{Place, Seal};
use writer::{Change, Writer};

pub use errors::OpenError;

/// What the operator decides about a store.
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// The namespace of the administrator's services; those of users begin with it.
    pub namespace: String,
    /// The key that credentials are sealed with; without it one is made and kept in the data
    /// folder as `secret.key`.
    pub key: Option<[u8; 32]>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { namespace, key } = self;
        out.debug_struct("Options").field("namespace", namespace).field("key", &key.map(|_| "…")).finish()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { namespace: "oscar-svc".to_owned(), key: None }
    }
}

/// The ports `Services`, `Users`, `Settings`, `Journal`, `Vault`, `Audit` and `Jobs` on one data
/// folder, which no other manager can use while this one is open.
pub struct LocalStore {
    namespace: String,
    instance_id: String,
    database: PathBuf,
    seal: Seal,
    index: Arc<RwLock<Index>>,
    reader: Reader,
    /// For what reads much: nothing else waits for it.
    statistics: Reader,
    writer: Writer,
}

impl LocalStore {
    /// Opens the store in `data`, which is made when it is not there. Blocks while the
    /// definitions are read.
    pub fn open(data: &Path, options: Options) -> Result<Arc<Self>, OpenError> {
        let folder = folder::Folder::claim(data)?;
        let database = folder.database().to_owned();
        let key = key::Key::find(data, options.key)?;
        let (connection, seal) = schema::open(&database, key)?;
        let failed = |error| OpenError::of_sql(&database, &error);
        let instance_id = schema::ensure_instance_id(&connection).map_err(failed)?;
        let (index, last_revision) = Index::load(&connection).map_err(failed)?;
        let index = Arc::new(RwLock::new(index));
        let (reader, statistics) = (Reader::open(&database)?, Reader::open(&database)?);
        let writer = Writer::start(writer::Parts {
            connection,
            last_revision,
            index: index.clone(),
            readers: [reader.clone(), statistics.clone()],
            folder,
        })
        .map_err(|cause| OpenError::Folder { path: data.to_owned(), cause })?;
        let namespace = options.namespace;
        Ok(Arc::new(Self { namespace, instance_id, database, seal, index, reader, statistics, writer }))
    }

    /// The permanent id of this data folder's manager, a UUID.
    pub fn instance_id(&self) -> &str {
        &self.instance_id
    }

    /// To be called before the first [`Self::seal_value`]: from now on this folder does not open
    /// without its key, because there is no telling from here what was sealed with it.
    pub async fn will_seal_elsewhere(&self) -> Result<(), StoreError> {
        self.submit(key::NoteElsewhere).await
    }

    /// Seals a value that is kept elsewhere; it opens for the same purpose only.
    pub fn seal_value(&self, purpose: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.seal.seal(Place { table: "elsewhere", key: &[purpose] }, value)
    }

    pub fn open_value(&self, purpose: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        self.seal.open(Place { table: "elsewhere", key: &[purpose] }, sealed)
    }

    /// Finishes what is waiting, brings everything into the one database file and lets go of
    /// the folder. Reads from the index go on; every change is refused from now on.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.writer.close().await
    }

    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    async fn submit<C: Change>(&self, change: C) -> Result<C::Output, StoreError> {
        self.writer.submit(change).await
    }

    /// Runs a query beside the writer, off the threads that serve requests.
    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.reader.read(query).await
    }
}

impl std::fmt::Debug for LocalStore {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LocalStore").field("database", &self.database).finish_non_exhaustive()
    }
}
