//! The store itself: opening, closing, and what the manager does with objects.

use std::collections::BTreeMap;
use std::fs::TryLockError;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Keys, STAGING_BUCKET};
use oscar_engine::ports::clock::{Clock, Entropy};
use oscar_engine::ports::seal::Seal;
use oscar_model::secret::Secret;
use rusqlite::Connection;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use crate::access::{Caller, Kind};
use crate::content::ContentStream;
use crate::database::{self, Readers};
use crate::directory::{BucketEntry, Directory, seal_pair};
use crate::error::{OpenError, Refusal};
use crate::events::Origin;
use crate::files::{Files, make_folder, private};
use crate::intake::{INLINE, Plan, Received, receive};
use crate::key_changes::NewKey;
use crate::object_changes::{Conditions, NewObject};
use crate::object_reads::{self, ObjectRow};
use crate::options::Options;
use crate::record::{About, from_millis, from_text, to_millis};
use crate::s3::checksums::to_hex;
use crate::writer::{Parts, Writer};
use crate::{bucket_changes, key_changes, multipart, names, object_changes};

const DATABASE: &str = "objects.db";
const LOCK: &str = "objects.lock";
const DATA: &str = "data";
/// The key that signs addresses. Nobody is told its secret.
pub const MANAGER_KEY: &str = "oscar-manager";
/// Uploads in parts that nobody finished, and notes about moves, are kept this long.
const LEFTOVERS: Duration = Duration::from_hours(7 * 24);

/// An open store. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) writer: Writer,
    pub(crate) readers: Readers,
    pub(crate) files: Arc<Files>,
    pub(crate) directory: Arc<RwLock<Directory>>,
    pub(crate) arrivals: Arc<Notify>,
    pub(crate) root: Keys,
    pub(crate) endpoint: String,
    pub(crate) region: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) seal: Arc<dyn Seal>,
}

/// An object without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub bytes: u64,
    pub etag: String,
    pub version: String,
    pub modified: SystemTime,
    /// Blank when the uploader gave none.
    pub content_type: String,
    pub user_metadata: BTreeMap<String, String>,
}

/// What a bucket holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub objects: u64,
    pub bytes: u64,
}

/// What all buckets of users hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub buckets: u64,
    pub objects: u64,
    pub bytes: u64,
}

impl Store {
    /// Opens the folder, or makes a new store in it. Blocks while it clears away what a crash
    /// left. Has to be called within a runtime.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let folder = options.folder.clone();
        let inner = spawn_blocking(move || open(options))
            .await
            .unwrap_or_else(|error| Err(OpenError::Folder { path: folder.clone(), cause: error.to_string() }))?;
        let store = Self { inner: Arc::new(inner) };
        let failed = |error: StoreError| OpenError::Database { path: folder.clone(), cause: error.to_string() };
        store.prepare().await.map_err(|refusal| failed(refusal.into_store_error()))?;
        Ok(store)
    }

    async fn prepare(&self) -> Result<(), Refusal> {
        let staging = bucket_changes::staging();
        match self.inner.writer.submit(move |batch| bucket_changes::create(batch, &staging)).await {
            Ok(()) | Err(Refusal::BucketExists(_)) => {}
            Err(refusal) => return Err(refusal),
        }
        // One that cannot be opened any more is made anew: nobody else knows it.
        let present = self.directory().keys.get(MANAGER_KEY).cloned();
        if present.is_none_or(|key| key.secret.is_none()) {
            self.inner.writer.submit(|batch| key_changes::remove(batch, MANAGER_KEY)).await?;
            self.add_key(MANAGER_KEY.to_owned(), self.new_secret(), Kind::Manager, None).await?;
        }
        while let Some(grave) = self.inner.writer.submit(bucket_changes::open_grave).await? {
            self.clear_grave(grave).await?;
        }
        self.tidy().await?;
        // Events may be waiting from before.
        self.inner.arrivals.notify_one();
        Ok(())
    }

    /// Takes nothing more, finishes what was begun, and leaves one file as a whole backup.
    pub async fn close(&self) {
        let inner = Arc::clone(&self.inner);
        // A panic of the thread was reported when it happened.
        let _ = spawn_blocking(move || {
            inner.readers.close();
            if let Some(thread) = inner.writer.stop() {
                let _ = thread.join();
            }
        })
        .await;
    }

    /// One round of housekeeping, for now and then: keys past their time, uploads in parts that
    /// nobody finished, old notes.
    pub async fn tick_tidy(&self) -> Result<(), StoreError> {
        self.tidy().await.map_err(Refusal::into_store_error)
    }

    async fn tidy(&self) -> Result<(), Refusal> {
        self.inner
            .writer
            .submit(|batch| {
                key_changes::remove_expired(batch)?;
                let before = to_millis(batch.now - LEFTOVERS);
                let stale: Vec<String> = batch
                    .sql
                    .prepare_cached("SELECT id FROM uploads WHERE started < ?1")?
                    .query_map([before], |row| row.get(0))?
                    .collect::<rusqlite::Result<_>>()?;
                stale.iter().try_for_each(|upload| multipart::forget(batch, upload))?;
                batch.sql.prepare_cached("DELETE FROM moves WHERE made < ?1")?.execute([before])?;
                Ok(())
            })
            .await
    }

    /// What a bucket holds, from counters.
    pub async fn usage(&self, bucket: &str) -> Result<Usage, StoreError> {
        let id = self.bucket(bucket).ok_or(StoreError::NotFound)?.id;
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT objects, bytes FROM buckets WHERE id = ?1")?
                .query_row([id], |row| Ok(Usage { objects: count(row, 0)?, bytes: count(row, 1)? }))
        })
        .await
    }

    /// Without the staging bucket.
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        self.read(|connection| {
            connection.query_row(
                "SELECT count(*), coalesce(sum(objects), 0), coalesce(sum(bytes), 0) FROM buckets WHERE name <> ?1",
                [STAGING_BUCKET],
                |row| Ok(Totals { buckets: count(row, 0)?, objects: count(row, 1)?, bytes: count(row, 2)? }),
            )
        })
        .await
    }

    /// Words about a bucket that mean nothing to the store: `owner_name` and the like.
    pub async fn bucket_tags(&self, bucket: &str) -> Result<BTreeMap<String, String>, StoreError> {
        let id = self.bucket(bucket).ok_or(StoreError::NotFound)?.id;
        self.read(move |connection| {
            connection
                .query_row("SELECT tags FROM buckets WHERE id = ?1", [id], |row| from_text(row.get_ref(0)?.as_str()?))
        })
        .await
    }

    pub async fn set_bucket_tags(&self, bucket: &str, tags: BTreeMap<String, String>) -> Result<(), StoreError> {
        let bucket = bucket.to_owned();
        self.change(move |batch| bucket_changes::set_tags(batch, &bucket, &tags)).await
    }

    pub async fn stat(&self, bucket: &str, key: &str) -> Result<Option<Stat>, StoreError> {
        let id = self.bucket(bucket).ok_or(StoreError::NotFound)?.id;
        let key = key.to_owned();
        let found = self.read(move |connection| object_reads::find(connection, id, &key)).await?;
        Ok(found.as_ref().map(to_stat))
    }

    /// An object with its bytes, which are read as they are taken.
    pub async fn get_stream(&self, bucket: &str, key: &str) -> Result<(Stat, ContentStream), StoreError> {
        let id = self.bucket(bucket).ok_or(StoreError::NotFound)?.id;
        let (object, place) = self.open_object(id, key).await.map_err(Refusal::into_store_error)?;
        let stream = ContentStream::new(&self.inner.files, place, 0..object.bytes, None);
        Ok((to_stat(&object), stream))
    }

    /// Writes an object as the manager itself, events and all.
    pub async fn put_bytes(
        &self,
        bucket: &str,
        key: &str,
        bytes: Bytes,
        content_type: &str,
    ) -> Result<Stat, StoreError> {
        let about =
            About { content_type: Some(content_type.to_owned()).filter(|text| !text.is_empty()), ..About::default() };
        let origin = Origin { caller: self.manager(), source_ip: String::new() };
        let put = self.put_as(bucket, key, bytes, about, Conditions::default(), origin).await;
        put.map(|object| to_stat(&object)).map_err(Refusal::into_store_error)
    }

    pub(crate) async fn put_as(
        &self,
        bucket: &str,
        key: &str,
        bytes: Bytes,
        about: About,
        conditions: Conditions,
        origin: Origin,
    ) -> Result<ObjectRow, Refusal> {
        names::check_key(key)?;
        let plan = Plan { limit: u64::MAX, inline: INLINE, hasher: s3s::checksum::ChecksumHasher::default() };
        let stream = futures::stream::iter([Ok(bytes)]);
        let Received { body, bytes, md5, .. } = receive(&self.inner.files, stream, plan).await?;
        let new = NewObject {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            body,
            bytes,
            etag: to_hex(&md5),
            about,
            conditions,
            origin,
        };
        self.inner.writer.submit(move |batch| object_changes::put(batch, &new)).await
    }

    pub(crate) fn manager(&self) -> Caller {
        Caller::permanent(self.inner.root.access_key.clone(), Kind::Manager)
    }

    pub(crate) fn bucket(&self, name: &str) -> Option<Arc<BucketEntry>> {
        self.directory().buckets.get(name).cloned()
    }

    pub(crate) fn directory(&self) -> std::sync::RwLockReadGuard<'_, Directory> {
        self.inner.directory.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn open_object(
        &self,
        bucket: i64,
        key: &str,
    ) -> Result<(ObjectRow, crate::content::Place), Refusal> {
        let (inner, key) = (Arc::clone(&self.inner), key.to_owned());
        let opened = spawn_blocking(move || object_reads::open(&inner.readers, &inner.files, bucket, &key)).await;
        opened.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string()).into()))
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        let outcome = spawn_blocking(move || inner.readers.with(read)).await;
        outcome.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }

    pub(crate) async fn change<T, F>(&self, change: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&mut crate::writer::Batch<'_>) -> Result<T, crate::writer::Failure> + Send + 'static,
    {
        self.inner.writer.submit(change).await.map_err(Refusal::into_store_error)
    }

    pub(crate) async fn clear_grave(&self, bucket: i64) -> Result<(), Refusal> {
        while !self.inner.writer.submit(move |batch| bucket_changes::clear_some(batch, bucket, "")).await? {}
        self.inner.writer.submit(move |batch| bucket_changes::close_grave(batch, bucket)).await
    }

    /// Stores a new pair, sealed.
    pub(crate) async fn add_key(
        &self,
        access_key: String,
        secret: Secret,
        kind: Kind,
        expires: Option<SystemTime>,
    ) -> Result<Keys, Refusal> {
        let sealed = self.inner.seal.seal(&seal_pair(&access_key, &secret));
        let sealed = sealed.map_err(|error| StoreError::Unavailable(format!("a key could not be sealed: {error}")))?;
        let keys = Keys { access_key: access_key.clone(), secret_key: secret.clone() };
        let new = NewKey { access_key, secret, sealed, kind, expires };
        self.inner.writer.submit(move |batch| key_changes::add(batch, &new)).await?;
        Ok(keys)
    }

    /// 240 random bits.
    pub(crate) fn new_secret(&self) -> Secret {
        Secret::new(self.random_text(40))
    }

    pub(crate) fn random_text(&self, length: usize) -> String {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut bytes = vec![0; length];
        self.inner.entropy.fill(&mut bytes);
        bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 64)])).collect()
    }
}

fn open(options: Options) -> Result<Inner, OpenError> {
    let Options { folder, root, endpoint, region, clock, entropy, seal } = options;
    let of_io = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| OpenError::of_io(&path, &error)
    };
    make_folder(&folder).map_err(of_io(&folder))?;
    let lock_path = folder.join(LOCK);
    let lock =
        private().read(true).write(true).create(true).truncate(false).open(&lock_path).map_err(of_io(&lock_path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::Locked { path: folder }),
        Err(TryLockError::Error(error)) => return Err(OpenError::of_io(&lock_path, &error)),
    }
    let path = folder.join(DATABASE);
    private().read(true).write(true).create(true).truncate(false).open(&path).map_err(of_io(&path))?;
    let connection = database::open(&path)?;
    let files = Files::open(&folder.join(DATA), Arc::clone(&entropy)).map_err(of_io(&folder))?;
    let removed = files.remove_orphans(&connection).map_err(of_io(&folder))?;
    if removed > 0 {
        tracing::info!(removed, "files of uploads that a stop cut off were removed");
    }
    let failed = |error| OpenError::of_sql(&path, &error);
    let directory = Arc::new(RwLock::new(Directory::load(&connection, seal.as_ref()).map_err(failed)?));
    let last_number = connection
        .query_row("SELECT value FROM counters WHERE name = 'number'", (), |row| row.get(0))
        .map_err(failed)?;
    let arrivals = Arc::new(Notify::new());
    let parts = Parts {
        connection,
        last_number,
        directory: Arc::clone(&directory),
        files: Arc::clone(&files),
        clock: Arc::clone(&clock),
        arrivals: Arc::clone(&arrivals),
        lock,
    };
    let writer = Writer::start(parts).map_err(of_io(&folder))?;
    let readers = Readers::new(&path);
    Ok(Inner { writer, readers, files, directory, arrivals, root, endpoint, region, clock, entropy, seal })
}

pub(crate) fn to_stat(object: &ObjectRow) -> Stat {
    Stat {
        bytes: object.bytes,
        etag: object.etag.clone(),
        version: object.version_name(),
        modified: from_millis(object.modified),
        content_type: object.about.content_type.clone().unwrap_or_default(),
        user_metadata: object.about.metadata.clone(),
    }
}

fn count(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or(0))
}
