//! What runs attempts of jobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oscar_model::job::{JobName, Millis, Output};
use oscar_model::secret::Secret;
use oscar_model::service::Service;

use super::buckets::Keys;

/// How much longer than its script an attempt may take in all: with fetching its input and storing
/// its outputs.
pub const ATTEMPT_SLACK: Duration = Duration::from_hours(1);

/// Contract:
/// - [`Runtime::start`] is idempotent: an attempt runs at most once, whatever is repeated.
/// - An attempt goes on when the manager ends, and a manager that starts finds it again by
///   [`Runtime::observe`].
/// - What [`Runtime::observe`] says of an attempt that ended stays until [`Runtime::forget`].
/// - [`Runtime::end`] returns when the attempt was told to end; that it has is observed.
///   Everything that the script started ends with it.
/// - After [`Runtime::fence`] returned, the attempt runs no more and never will.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// Whether attempts could begin now. An error tells why they had better wait.
    async fn ready(&self) -> Result<(), RuntimeError>;

    async fn start(&self, order: Order) -> Result<(), RuntimeError>;

    /// One attempt.
    async fn observe(&self, run: &RunId) -> Result<Observed, RuntimeError>;

    /// Every attempt that has left something here.
    async fn present(&self) -> Result<Vec<RunId>, RuntimeError>;

    /// An attempt that changed since the last call; waits until there is one.
    async fn changed(&self) -> RunId;

    /// Asks the attempt to end.
    async fn end(&self, run: &RunId) -> Result<(), RuntimeError>;

    async fn fence(&self, run: &RunId) -> Result<(), RuntimeError>;

    /// Removes everything that the attempt left but its log.
    async fn forget(&self, run: &RunId) -> Result<(), RuntimeError>;

    /// What the script and its supervisor said.
    async fn log(&self, run: &RunId, query: &LogQuery) -> Result<LogPart, RuntimeError>;

    /// Every job and synchronous run of which there is a log.
    async fn logged(&self) -> Result<Vec<JobName>, RuntimeError>;

    /// Of every attempt of the job.
    async fn remove_logs(&self, job: &JobName) -> Result<(), RuntimeError>;

    /// At most `limit` bytes of the answer of a synchronous run, from `from` on.
    async fn response(&self, run: &RunId, from: u64, limit: usize) -> Result<ResponsePart, RuntimeError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponsePart {
    pub bytes: Vec<u8>,
    /// Of the whole answer.
    pub total: u64,
    /// Whether it is base64 of files that the script left.
    pub encoded: bool,
}

/// One attempt of one job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    pub job: JobName,
    pub attempt: u32,
}

/// Everything that an attempt needs.
#[derive(Debug, Clone)]
pub struct Order {
    pub run: RunId,
    pub service: Arc<Service>,
    /// Values of `environment.secrets`.
    pub secrets: BTreeMap<String, Secret>,
    pub event: Arc<[u8]>,
    pub store: StoreAccess,
    pub outputs: Outputs,
    /// Of the script; the attempt ends [`ATTEMPT_SLACK`] later at the latest.
    pub time_limit: Option<Duration>,
    /// The caller waits for the answer.
    pub synchronous: bool,
}

/// The cluster's own object store as an attempt sees it.
#[derive(Debug, Clone, Default)]
pub struct StoreAccess {
    pub endpoint: String,
    pub region: String,
    pub verify: bool,
    /// Absent when the attempt may neither read nor write there.
    pub keys: Option<Keys>,
}

/// Where outputs for the cluster's own store go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outputs {
    /// Straight to their place.
    Direct,
    /// Below this prefix of that bucket, until they are put in their place.
    Staged { bucket: String, prefix: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// It was never started here, or was forgotten.
    Unknown,
    /// It was started; the script has not begun.
    Starting,
    Running,
    Ended(Ended),
    /// It ended without saying how.
    Vanished {
        began: bool,
    },
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub exit: Exit,
    pub outputs: Vec<Output>,
    pub began: Option<Millis>,
    pub ended: Millis,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// The script's own code.
    Code(i32),
    TimedOut,
    Cancelled,
    /// Nothing is wrong but that a disk was full, in a sentence for the user.
    NoRoom(String),
    /// Anything else, in a sentence for the user.
    Failed(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    pub timestamps: bool,
    /// Where the part before ended.
    pub from: u64,
    /// At most so many bytes.
    pub limit: usize,
    /// Only the last lines.
    pub tail_lines: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPart {
    pub text: Vec<u8>,
    /// Where the next part begins.
    pub next: u64,
    /// Nothing more will come after it.
    pub is_last: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// Trying again would not help; the sentence is for the user.
    #[error("{0}")]
    Impossible(String),
    #[error("there is no such run")]
    NotFound,
    #[error("the runtime does not answer: {0}")]
    Unavailable(String),
}
