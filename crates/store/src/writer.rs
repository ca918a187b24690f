//! The one thread that writes the database. It takes what is waiting, commits it together with
//! one flush, and only then shows it to readers and answers.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use oscar_engine::ports::StoreError;
use oscar_engine::ports::clock::Clock;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::directory::Directory;
use crate::error::{Refusal, closed, of_sql};
use crate::files::{FileId, Files, Unnamed};

/// Enough to share a flush among many; few enough that the first does not wait for long.
const BATCH: usize = 512;
const QUEUE: usize = 1024;

pub(crate) enum Failure {
    /// This change must not be made; the others of its batch are not concerned.
    Refused(Refusal),
    /// The database failed, and the transaction with it.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Shows a committed change to readers.
type Show = Box<dyn FnOnce(&mut Directory)>;

/// A transaction, and what has to be done when it is committed.
pub(crate) struct Batch<'a> {
    pub(crate) sql: Transaction<'a>,
    pub(crate) now: SystemTime,
    last_number: &'a mut i64,
    after: After,
}

#[derive(Default)]
struct After {
    /// Files that rows now name.
    named: Vec<Arc<Unnamed>>,
    /// Files that a change may have left without a row.
    left: Vec<FileId>,
    shown: Vec<Show>,
    has_events: bool,
}

impl Batch<'_> {
    /// A number that nothing had before: for versions, contents and buckets.
    pub(crate) fn next_number(&mut self) -> i64 {
        *self.last_number += 1;
        *self.last_number
    }

    pub(crate) fn name_file(&mut self, file: &Arc<Unnamed>) {
        self.after.named.push(Arc::clone(file));
    }

    pub(crate) fn leave_file(&mut self, file: FileId) {
        self.after.left.push(file);
    }

    pub(crate) fn show(&mut self, change: impl FnOnce(&mut Directory) + 'static) {
        self.after.shown.push(Box::new(change));
    }

    pub(crate) fn announce(&mut self) {
        self.after.has_events = true;
    }
}

/// What the thread owns until it ends.
pub(crate) struct Parts {
    pub(crate) connection: Connection,
    pub(crate) last_number: i64,
    pub(crate) directory: Arc<RwLock<Directory>>,
    pub(crate) files: Arc<Files>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) arrivals: Arc<Notify>,
    /// Held until the last connection is closed.
    pub(crate) lock: std::fs::File,
}

/// The handle that callers share. Dropping it waits for what was queued.
pub(crate) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn start(parts: Parts) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let thread = thread::Builder::new().name("oscar-objects".to_owned()).spawn(move || run(parts, receiver))?;
        Ok(Self { queue: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    /// The change may be tried more than once, each time on a database that holds nothing of the
    /// former tries.
    pub(crate) async fn submit<T, F>(&self, change: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: Fn(&mut Batch<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)?;
        let (reply, answer) = oneshot::channel();
        let job = Pending { change, outcome: None, reply };
        queue.send(Box::new(job)).await.map_err(|_| closed())?;
        drop(queue);
        answer.await.map_err(|_| closed())?
    }

    /// Takes nothing more; returns after what was queued.
    pub(crate) fn stop(&self) -> Option<JoinHandle<()>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(thread) = self.stop() {
            let _ = thread.join();
        }
    }
}

trait Job: Send {
    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<()>;
    fn answer(self: Box<Self>);
    fn fail(self: Box<Self>, error: StoreError);
}

struct Pending<F, T> {
    change: F,
    outcome: Option<Result<T, Refusal>>,
    reply: oneshot::Sender<Result<T, Refusal>>,
}

impl<F, T> Job for Pending<F, T>
where
    T: Send,
    F: Fn(&mut Batch<'_>) -> Result<T, Failure> + Send,
{
    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<()> {
        let marks = (batch.after.named.len(), batch.after.left.len(), batch.after.shown.len());
        batch.sql.prepare_cached("SAVEPOINT change")?.execute(())?;
        let outcome = match (self.change)(batch) {
            Ok(value) => Ok(value),
            Err(Failure::Refused(refusal)) => {
                batch.sql.prepare_cached("ROLLBACK TO change")?.execute(())?;
                batch.after.named.truncate(marks.0);
                batch.after.left.truncate(marks.1);
                batch.after.shown.truncate(marks.2);
                Err(refusal)
            }
            Err(Failure::Sql(error)) => return Err(error),
        };
        batch.sql.prepare_cached("RELEASE change")?.execute(())?;
        self.outcome = Some(outcome);
        Ok(())
    }

    fn answer(self: Box<Self>) {
        // A caller who went away has no more questions.
        drop(self.reply.send(self.outcome.unwrap_or_else(|| Err(closed().into()))));
    }

    fn fail(self: Box<Self>, error: StoreError) {
        drop(self.reply.send(Err(error.into())));
    }
}

fn run(mut parts: Parts, mut queue: mpsc::Receiver<Box<dyn Job>>) {
    let mut waiting = Vec::with_capacity(BATCH);
    while queue.blocking_recv_many(&mut waiting, BATCH) > 0 {
        commit(&mut parts, std::mem::take(&mut waiting));
    }
    let checkpoint = parts.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
    let ended = parts.connection.close().map_err(|(_, error)| error);
    if let Err(error) = checkpoint.and(ended) {
        tracing::warn!(%error, "the object store was not closed cleanly; its log is read again at the next start");
    }
    // Closing alone is not enough: a child that was just forked has a copy of the open file.
    let _ = parts.lock.unlock();
}

fn commit(parts: &mut Parts, mut jobs: Vec<Box<dyn Job>>) {
    let mut after = After::default();
    match attempt(parts, &mut jobs, &mut after) {
        Ok(()) => {
            finish(parts, after);
            jobs.into_iter().for_each(Job::answer);
        }
        // One that does not fit must not keep the others out, least of all those that make room.
        Err(error) if jobs.len() > 1 && is_of_one_change(&error) => {
            drop(after);
            for job in jobs {
                commit(parts, vec![job]);
            }
        }
        Err(error) => {
            tracing::error!(%error, changes = jobs.len(), "the object store could not be written");
            if !is_of_one_change(&error) {
                // Whether the rows are there shows after a restart; their files must be, too.
                after.named.iter().for_each(|file| file.keep());
            }
            let error = of_sql(&error);
            for job in jobs {
                job.fail(error.clone());
            }
        }
    }
}

/// All jobs in one transaction. An error has rolled it back.
fn attempt(parts: &mut Parts, jobs: &mut [Box<dyn Job>], after: &mut After) -> rusqlite::Result<()> {
    let before = parts.last_number;
    let sql = parts.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut batch = Batch { sql, now: parts.clock.now(), last_number: &mut parts.last_number, after: After::default() };
    let applied = jobs.iter_mut().try_for_each(|job| job.apply(&mut batch));
    let Batch { sql, last_number, after: collected, .. } = batch;
    *after = collected;
    applied?;
    if *last_number != before {
        sql.prepare_cached("UPDATE counters SET value = ?1 WHERE name = 'number'")?.execute([*last_number])?;
    }
    // A file may have lost one row and got another in the same batch.
    let mut is_named = sql.prepare_cached("SELECT 1 FROM segments WHERE file = ?1")?;
    let mut orphans = Vec::new();
    for file in after.left.drain(..) {
        if !is_named.exists([file])? {
            orphans.push(file);
        }
    }
    after.left = orphans;
    drop(is_named);
    sql.commit()
}

fn finish(parts: &Parts, after: After) {
    after.named.iter().for_each(|file| file.keep());
    if !after.shown.is_empty() {
        let mut directory = parts.directory.write().unwrap_or_else(PoisonError::into_inner);
        after.shown.into_iter().for_each(|show| show(&mut directory));
    }
    for file in after.left {
        parts.files.doom(file);
    }
    if after.has_events {
        parts.arrivals.notify_one();
    }
}

/// Whether it surely changed nothing, and others may succeed without it.
fn is_of_one_change(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::TooBig | ErrorCode::ConstraintViolation | ErrorCode::OutOfMemory)
    )
}
