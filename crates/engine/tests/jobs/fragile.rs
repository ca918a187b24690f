//! Ports that fail, or take the manager down with them, at one of their calls.

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use async_trait::async_trait;
use oscar_engine::memory::{MemoryBuckets, MemoryJobs, MemoryRuntime, When};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Bucket, Buckets, Grant, Keys, Move, Page, Presign, Subscription};
use oscar_engine::ports::jobs::{Accepted, JobPage, JobQuery, Jobs, NewJob, Removal};
use oscar_engine::ports::runtime::{LogPart, LogQuery, Observed, Order, ResponsePart, RunId, Runtime, RuntimeError};
use oscar_engine::ports::usage::{Usage, UsageQuery, UsageSum};
use oscar_model::identity::{Owner, Subject};
use oscar_model::job::{Job, JobName, Phase};
use oscar_model::service::Visibility;
use tokio::sync::Notify;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// The manager is gone: nothing it waits for comes back.
    Crash,
    /// The call says that it did not work.
    Error,
}

/// Counts calls, and lets something go wrong at one of them.
pub(crate) struct Fuse {
    calls: AtomicUsize,
    at: AtomicUsize,
    when: When,
    mishap: Mishap,
    is_dead: AtomicBool,
    death: Notify,
}

impl Fuse {
    pub(crate) fn new(at: usize, when: When, mishap: Mishap) -> Arc<Self> {
        Arc::new(Self {
            calls: AtomicUsize::new(0),
            at: AtomicUsize::new(at),
            when,
            mishap,
            is_dead: AtomicBool::new(false),
            death: Notify::new(),
        })
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Nothing goes wrong from now on.
    pub(crate) fn disarm(&self) {
        self.at.store(usize::MAX, Ordering::SeqCst);
    }

    /// Resolves when the manager crashed.
    pub(crate) async fn death(&self) {
        self.death.notified().await;
    }

    async fn pass<T, E>(&self, call: impl Future<Output = Result<T, E>>, error: impl Fn() -> E) -> Result<T, E> {
        if self.is_dead.load(Ordering::SeqCst) {
            return pending().await;
        }
        let is_it = self.calls.fetch_add(1, Ordering::SeqCst) == self.at.load(Ordering::SeqCst);
        if is_it && self.when == When::Before {
            return self.strike(error).await;
        }
        let outcome = call.await;
        if is_it && self.when == When::After {
            return self.strike(error).await;
        }
        outcome
    }

    async fn strike<T, E>(&self, error: impl Fn() -> E) -> Result<T, E> {
        match self.mishap {
            Mishap::Error => Err(error()),
            Mishap::Crash => {
                self.is_dead.store(true, Ordering::SeqCst);
                self.death.notify_one();
                pending().await
            }
        }
    }

    async fn stored<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.pass(call, || StoreError::Unavailable("planted".to_owned())).await
    }

    async fn ran<T>(&self, call: impl Future<Output = Result<T, RuntimeError>>) -> Result<T, RuntimeError> {
        self.pass(call, || RuntimeError::Unavailable("planted".to_owned())).await
    }
}

pub(crate) struct Fragile<T> {
    pub(crate) inner: Arc<T>,
    pub(crate) fuse: Arc<Fuse>,
}

#[async_trait]
impl Jobs for Fragile<MemoryJobs> {
    async fn accept(&self, new: NewJob) -> Result<Accepted, StoreError> {
        self.fuse.stored(self.inner.accept(new)).await
    }
    async fn save(&self, job: &Job) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.save(job)).await
    }
    async fn get(&self, name: &JobName) -> Result<Option<Job>, StoreError> {
        self.fuse.stored(self.inner.get(name)).await
    }
    async fn event(&self, name: &JobName) -> Result<Arc<[u8]>, StoreError> {
        self.fuse.stored(self.inner.event(name)).await
    }
    async fn unfinished(&self) -> Result<Vec<Job>, StoreError> {
        self.fuse.stored(self.inner.unfinished()).await
    }
    async fn page(&self, query: &JobQuery) -> Result<JobPage, StoreError> {
        self.fuse.stored(self.inner.page(query)).await
    }
    async fn remove(&self, which: &Removal) -> Result<Vec<JobName>, StoreError> {
        self.fuse.stored(self.inner.remove(which)).await
    }
    async fn counts(&self) -> Result<Vec<(Phase, u64)>, StoreError> {
        self.fuse.stored(self.inner.counts()).await
    }
    async fn usage(&self, query: &UsageQuery) -> Result<Option<Vec<UsageSum>>, StoreError> {
        self.fuse.stored(self.inner.usage(query)).await
    }
    async fn note_usage(&self, usage: &Usage) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.note_usage(usage)).await
    }
}

#[async_trait]
impl Runtime for Fragile<MemoryRuntime> {
    async fn ready(&self) -> Result<(), RuntimeError> {
        self.fuse.ran(self.inner.ready()).await
    }
    async fn start(&self, order: Order) -> Result<(), RuntimeError> {
        self.fuse.ran(self.inner.start(order)).await
    }
    async fn observe(&self, run: &RunId) -> Result<Observed, RuntimeError> {
        self.fuse.ran(self.inner.observe(run)).await
    }
    async fn present(&self) -> Result<Vec<RunId>, RuntimeError> {
        self.fuse.ran(self.inner.present()).await
    }
    async fn changed(&self) -> RunId {
        self.inner.changed().await
    }
    async fn end(&self, run: &RunId) -> Result<(), RuntimeError> {
        self.fuse.ran(self.inner.end(run)).await
    }
    async fn fence(&self, run: &RunId) -> Result<(), RuntimeError> {
        self.fuse.ran(self.inner.fence(run)).await
    }
    async fn forget(&self, run: &RunId) -> Result<(), RuntimeError> {
        self.fuse.ran(self.inner.forget(run)).await
    }
    async fn log(&self, run: &RunId, query: &LogQuery) -> Result<LogPart, RuntimeError> {
        self.fuse.ran(self.inner.log(run, query)).await
    }
    async fn logged(&self) -> Result<Vec<JobName>, RuntimeError> {
        self.fuse.ran(self.inner.logged()).await
    }
    async fn remove_logs(&self, job: &JobName) -> Result<(), RuntimeError> {
        self.fuse.ran(self.inner.remove_logs(job)).await
    }
    async fn response(&self, run: &RunId, from: u64, limit: usize) -> Result<ResponsePart, RuntimeError> {
        self.fuse.ran(self.inner.response(run, from, limit)).await
    }
}

#[async_trait]
impl Buckets for Fragile<MemoryBuckets> {
    async fn ensure(&self, bucket: &Bucket) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.ensure(bucket)).await
    }
    async fn get(&self, name: &str) -> Result<Option<Bucket>, StoreError> {
        self.fuse.stored(self.inner.get(name)).await
    }
    async fn list(&self, viewer: &Owner) -> Result<Vec<Bucket>, StoreError> {
        self.fuse.stored(self.inner.list(viewer)).await
    }
    async fn set_visibility(&self, name: &str, to: Visibility, allowed: &[Subject]) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.set_visibility(name, to, allowed)).await
    }
    async fn release(&self, name: &str) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.release(name)).await
    }
    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.remove(name)).await
    }
    async fn ensure_folder(&self, bucket: &str, folder: &str) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.ensure_folder(bucket, folder)).await
    }
    async fn objects(&self, bucket: &str, page: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        self.fuse.stored(self.inner.objects(bucket, page, limit)).await
    }
    async fn user_keys(&self, owner: &Owner) -> Result<Keys, StoreError> {
        self.fuse.stored(self.inner.user_keys(owner)).await
    }
    async fn scoped_key(&self, scope: &[Grant], expires: SystemTime) -> Result<Keys, StoreError> {
        self.fuse.stored(self.inner.scoped_key(scope, expires)).await
    }
    async fn revoke(&self, access_key: &str) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.revoke(access_key)).await
    }
    async fn presign(&self, signer: &Owner, request: &Presign) -> Result<String, StoreError> {
        self.fuse.stored(self.inner.presign(signer, request)).await
    }
    async fn subscribe(&self, subscription: &Subscription) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.subscribe(subscription)).await
    }
    async fn unsubscribe(&self, subscription: &Subscription) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.unsubscribe(subscription)).await
    }
    async fn commit(&self, moves: &[Move]) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.commit(moves)).await
    }
    async fn count_objects(&self) -> Result<Option<u64>, StoreError> {
        self.fuse.stored(self.inner.count_objects()).await
    }
    async fn discard(&self, bucket: &str, prefix: &str) -> Result<(), StoreError> {
        self.fuse.stored(self.inner.discard(bucket, prefix)).await
    }
}
