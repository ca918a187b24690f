//! Attempts of jobs on this machine: each has a folder and a supervisor process of its own.
//!
//! The supervisor holds a lock on its folder as long as it lives and leaves a result when it
//! ends. So a manager that starts anew knows what runs, what ended and what vanished, without
//! trusting process numbers, and nothing that runs depends on the manager.

mod folder;
mod log;
mod order;
mod room;
mod spawn;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use oscar_engine::ports::runtime::{LogPart, LogQuery, Observed, Order, ResponsePart, RunId, Runtime, RuntimeError};
use oscar_model::job::JobName;
use tokio::sync::{mpsc, watch};

use crate::attempt::Setup;

pub use folder::{AttemptFolder, Claim};
pub use log::LogWriter;
pub use order::{AttemptOrder, AttemptResult, ResultExit, ResultOutput};
pub(crate) use room::is_full;

/// How long an attempt that is told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(15);

/// The file of the data folder with the address of the store.
const STORE_ADDRESS: &str = "store.url";

/// How the local world runs attempts.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// Where attempts find the cluster's own store, also those that an earlier manager began.
    pub store_address: String,
    /// The program that supervises one attempt; its last argument is the folder.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// What every attempt is told besides its order: how scripts are run here. Finding out takes
    /// a moment, and the first attempt waits for it; a sentence says why nothing can be run.
    pub setup: watch::Receiver<Option<Result<Setup, String>>>,
}

/// The port `Runtime` below one data folder.
pub struct LocalRuntime {
    attempts: PathBuf,
    logs: PathBuf,
    store_address: PathBuf,
    options: RuntimeOptions,
    /// Supervisors that this manager started and that have not ended.
    children: Arc<Mutex<HashSet<RunId>>>,
    news: mpsc::UnboundedSender<RunId>,
    changed: tokio::sync::Mutex<mpsc::UnboundedReceiver<RunId>>,
}

impl LocalRuntime {
    /// Finds what an earlier manager left running, and watches it.
    pub fn open(data: &Path, options: RuntimeOptions) -> std::io::Result<Arc<Self>> {
        // Attempts have working folders of their own: a relative path means something else there.
        let data = std::path::absolute(data)?;
        let (attempts, logs) = (data.join("attempts"), data.join("logs"));
        for folder in [&attempts, &logs] {
            folder::make_private(folder)?;
        }
        folder::sweep_drafts(&attempts)?;
        let store_address = std::path::absolute(data.join(STORE_ADDRESS))?;
        folder::replace(&store_address, options.store_address.as_bytes())?;
        let (news, changed) = mpsc::unbounded_channel();
        let runtime = Self {
            attempts,
            logs,
            store_address,
            options,
            children: Arc::default(),
            news,
            changed: tokio::sync::Mutex::new(changed),
        };
        for run in folder::list(&runtime.attempts)? {
            spawn::watch(runtime.folder(&run), run, runtime.news.clone())?;
        }
        Ok(Arc::new(runtime))
    }

    async fn setup(&self) -> Result<Setup, RuntimeError> {
        let mut setup = self.options.setup.clone();
        let known = setup.wait_for(Option::is_some).await;
        match known.as_deref() {
            Ok(Some(Ok(setup))) => Ok(setup.clone()),
            Ok(Some(Err(why))) => Err(RuntimeError::Impossible(why.clone())),
            // Whoever was finding out is gone: the manager is being stopped.
            Ok(None) | Err(_) => Err(RuntimeError::Unavailable("the manager is being stopped".to_owned())),
        }
    }

    /// What a supervisor that was killed started must not go on. As long as it is not known how
    /// scripts are run here, none can begin.
    async fn sweep(&self) -> Result<(), RuntimeError> {
        let known = self.options.setup.borrow().clone();
        let Some(Ok(setup)) = known else { return Ok(()) };
        setup.executor.sweep().await.map(|_| ()).map_err(RuntimeError::Unavailable)
    }

    fn folder(&self, run: &RunId) -> AttemptFolder {
        AttemptFolder::new(&self.attempts, run)
    }

    fn children(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_file(&self, run: &RunId) -> PathBuf {
        self.logs.join(log::file_name(run))
    }
}

/// Files are touched apart from the tasks that answer requests.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, RuntimeError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| RuntimeError::Unavailable(error.to_string()))?;
    done.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => RuntimeError::NotFound,
        _ => RuntimeError::Unavailable(error.to_string()),
    })
}

#[async_trait]
impl Runtime for LocalRuntime {
    async fn ready(&self) -> Result<(), RuntimeError> {
        let attempts = self.attempts.clone();
        blocking(move || room::check(&attempts)).await
    }

    async fn start(&self, order: Order) -> Result<(), RuntimeError> {
        let run = order.run.clone();
        let folder = self.folder(&run);
        let address = self.store_address.clone();
        let file = AttemptOrder::of(&order, self.log_file(&run), address, self.setup().await?);
        let written = blocking({
            let (folder, event, script) = (folder.clone(), order.event, order.service.definition.script.clone());
            let (logs, run) = (self.logs.clone(), run.clone());
            move || {
                let is_new = folder.write(&file, &event, &script)?;
                if is_new {
                    log::make_place(&logs, &run)?;
                }
                Ok(is_new)
            }
        });
        if !written.await? {
            // It was started before; once is enough.
            return Ok(());
        }
        self.children().insert(run.clone());
        let started = spawn::start(&self.options, &folder, &run, self.children.clone(), self.news.clone());
        started.map_err(|error| {
            self.children().remove(&run);
            RuntimeError::Unavailable(format!("its supervisor cannot be started: {error}"))
        })
    }

    async fn observe(&self, run: &RunId) -> Result<Observed, RuntimeError> {
        let folder = self.folder(run);
        let is_child = self.children().contains(run);
        match blocking(move || folder.observe(is_child)).await {
            Err(RuntimeError::NotFound) => Ok(Observed::Unknown),
            Ok(vanished @ Observed::Vanished { .. }) => self.sweep().await.map(|()| vanished),
            other => other,
        }
    }

    async fn present(&self) -> Result<Vec<RunId>, RuntimeError> {
        let attempts = self.attempts.clone();
        blocking(move || folder::list(&attempts)).await
    }

    async fn changed(&self) -> RunId {
        match self.changed.lock().await.recv().await {
            Some(run) => run,
            // The sender lives as long as this does.
            None => std::future::pending().await,
        }
    }

    async fn end(&self, run: &RunId) -> Result<(), RuntimeError> {
        let folder = self.folder(run);
        blocking(move || folder.ask_to_end()).await
    }

    async fn fence(&self, run: &RunId) -> Result<(), RuntimeError> {
        let folder = self.folder(run);
        let asked = blocking({
            let folder = folder.clone();
            move || folder.ask_to_end()
        });
        match asked.await {
            Ok(()) => {}
            Err(RuntimeError::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        }
        blocking(move || folder.wait_for_end(GRACE)).await?;
        self.sweep().await
    }

    async fn forget(&self, run: &RunId) -> Result<(), RuntimeError> {
        let folder = self.folder(run);
        match blocking(move || folder.remove()).await {
            Ok(()) | Err(RuntimeError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn log(&self, run: &RunId, query: &LogQuery) -> Result<LogPart, RuntimeError> {
        let (file, query) = (self.log_file(run), query.clone());
        let seen = self.observe(run).await?;
        let is_over = matches!(seen, Observed::Unknown | Observed::Ended(_) | Observed::Vanished { .. });
        blocking(move || {
            let mut part = log::read(&file, &query)?;
            part.is_last &= is_over;
            Ok(part)
        })
        .await
    }

    async fn logged(&self) -> Result<Vec<JobName>, RuntimeError> {
        let logs = self.logs.clone();
        blocking(move || log::list(&logs)).await
    }

    async fn remove_logs(&self, job: &JobName) -> Result<(), RuntimeError> {
        let (logs, job) = (self.logs.clone(), job.clone());
        blocking(move || log::remove_all(&logs, &job)).await
    }

    async fn response(&self, run: &RunId, from: u64, limit: usize) -> Result<ResponsePart, RuntimeError> {
        let folder = self.folder(run);
        blocking(move || folder.response(from, limit)).await
    }
}
