//! The one thread that writes. It takes what is waiting, commits it together with one flush
//! to disk, and only then changes the index and answers.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};

use oscar_engine::ports::StoreError;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::errors::{closed, is_of_one_change, to_store_error};
use super::folder::Folder;
use super::index::Index;
use super::reader::Reader;

/// Enough to share a flush among many; few enough that the first does not wait for long.
const BATCH: usize = 512;
/// Callers beyond this wait before they are queued.
const QUEUE: usize = 1024;

/// One change of the store. It may be applied more than once, each time to a database that
/// holds nothing of the former tries.
pub(super) trait Change: Send + 'static {
    /// What applying found out.
    type Step: Send;
    type Output: Send;

    /// Checks and writes, inside the transaction of its batch. A refusal has written nothing.
    fn apply(&self, batch: &mut Batch<'_>) -> Result<Self::Step, Failure>;

    /// Shows the committed change to readers.
    fn publish(self, step: Self::Step, index: &mut Index) -> Self::Output;
}

pub(super) enum Failure {
    /// This change must not be made; the others of its batch are not concerned.
    Refused(StoreError),
    /// The database failed, and the transaction with it.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// A transaction with what its changes need to know.
pub(super) struct Batch<'a> {
    pub(super) sql: Transaction<'a>,
    pub(super) index: &'a RwLock<Index>,
    last_revision: &'a mut i64,
}

impl Batch<'_> {
    /// A number that no change had before. A failed batch leaves a gap, never a repetition.
    pub(super) fn next_revision(&mut self) -> i64 {
        *self.last_revision += 1;
        *self.last_revision
    }
}

/// What the thread owns until it ends.
pub(super) struct Parts {
    pub(super) connection: Connection,
    pub(super) last_revision: i64,
    pub(super) index: Arc<RwLock<Index>>,
    pub(super) readers: [Reader; 2],
    /// Let go after the last connection.
    pub(super) folder: Folder,
}

/// The handle that callers share. Dropping it waits for what was queued.
pub(super) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    thread: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

impl Writer {
    pub(super) fn start(parts: Parts) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let thread = thread::Builder::new().name("oscar-store".to_owned()).spawn(move || run(parts, receiver))?;
        Ok(Self { queue: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    pub(super) async fn submit<C: Change>(&self, change: C) -> Result<C::Output, StoreError> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)?;
        let (reply, answer) = oneshot::channel();
        let job = Pending { change, step: None, reply };
        queue.send(Box::new(job)).await.map_err(|_| closed())?;
        drop(queue);
        answer.await.map_err(|_| closed())?
    }

    pub(super) async fn close(&self) -> Result<(), StoreError> {
        match self.stop() {
            None => Ok(()),
            Some(thread) => {
                let ended = tokio::task::spawn_blocking(move || thread.join()).await;
                ended.map_err(|error| StoreError::Unavailable(error.to_string()))?.unwrap_or_else(|_| Err(closed()))
            }
        }
    }

    /// Takes nothing more; the thread ends after what was queued.
    fn stop(&self) -> Option<JoinHandle<Result<(), StoreError>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(thread) = self.stop()
            && !matches!(thread.join(), Ok(Ok(())))
        {
            tracing::warn!("the store was not closed cleanly; its log is read again at the next start");
        }
    }
}

/// A [`Change`] of any kind on its way, with the caller who waits for it.
trait Job: Send {
    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<()>;
    /// Shows the change, when it was made; the answer to be sent afterwards.
    fn publish(self: Box<Self>, index: &mut Index) -> Answer;
    fn fail(self: Box<Self>, error: StoreError);
}

type Answer = Box<dyn FnOnce()>;

struct Pending<C: Change> {
    change: C,
    step: Option<Result<C::Step, StoreError>>,
    reply: oneshot::Sender<Result<C::Output, StoreError>>,
}

impl<C: Change> Job for Pending<C> {
    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<()> {
        self.step = Some(match self.change.apply(batch) {
            Ok(step) => Ok(step),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Sql(error)) => return Err(error),
        });
        Ok(())
    }

    fn publish(self: Box<Self>, index: &mut Index) -> Answer {
        let Self { change, step, reply } = *self;
        let outcome = step.unwrap_or_else(|| Err(closed())).map(|step| change.publish(step, index));
        // A caller who went away has no more questions.
        Box::new(move || drop(reply.send(outcome)))
    }

    fn fail(self: Box<Self>, error: StoreError) {
        drop(self.reply.send(Err(error)));
    }
}

fn run(mut parts: Parts, mut queue: mpsc::Receiver<Box<dyn Job>>) -> Result<(), StoreError> {
    let mut waiting = Vec::with_capacity(BATCH);
    while queue.blocking_recv_many(&mut waiting, BATCH) > 0 {
        commit(&mut parts, std::mem::take(&mut waiting));
    }
    finish(parts)
}

fn commit(parts: &mut Parts, mut jobs: Vec<Box<dyn Job>>) {
    match attempt(parts, &mut jobs) {
        Ok(()) => {
            let answers: Vec<Answer> = {
                let mut index = parts.index.write().unwrap_or_else(PoisonError::into_inner);
                jobs.into_iter().map(|job| job.publish(&mut index)).collect()
            };
            for answer in answers {
                answer();
            }
        }
        // One that does not fit must not keep the others out, least of all those that make room.
        Err(error) if jobs.len() > 1 && is_of_one_change(&error) => {
            for job in jobs {
                commit(parts, vec![job]);
            }
        }
        Err(error) => {
            tracing::error!(%error, changes = jobs.len(), "the store could not be written");
            let error = to_store_error(&error);
            for job in jobs {
                job.fail(error.clone());
            }
        }
    }
}

/// All jobs in one transaction. An error has rolled it back.
fn attempt(parts: &mut Parts, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
    let before = parts.last_revision;
    let sql = parts.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut batch = Batch { sql, index: &parts.index, last_revision: &mut parts.last_revision };
    for job in jobs {
        job.apply(&mut batch)?;
    }
    let Batch { sql, last_revision, .. } = batch;
    if *last_revision != before {
        sql.prepare_cached("UPDATE counters SET value = ?1 WHERE name = 'revision'")?.execute([*last_revision])?;
    }
    sql.commit()
}

/// Brings the log into the database, so that the one file is a whole backup.
fn finish(parts: Parts) -> Result<(), StoreError> {
    let Parts { connection, readers, folder, .. } = parts;
    readers.iter().for_each(Reader::close);
    let checkpoint = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
    let ended = connection.close().map_err(|(_, error)| error);
    drop(folder);
    checkpoint.and(ended).map_err(|error| to_store_error(&error))
}
