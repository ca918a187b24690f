//! What has to be done: one job.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use oscar_model::secret::Secret;
use oscar_model::service::storage::ProviderRef;

use crate::config::FunctionConfig;

/// It does not print: variables of a service may be secrets.
#[derive(Clone)]
pub struct Task {
    pub event: EventSource,
    pub config: FunctionConfig,
    /// The script's file.
    pub script: PathBuf,
    /// A folder for this job alone; `input/` and `output/` are made in it. Removing it is the
    /// caller's business.
    pub work: PathBuf,
    pub credentials: Credentials,
    pub outputs: Outputs,
    /// The job's name, which scripts see as `JOB_UUID`.
    pub job: String,
    /// Somebody waits for the answer.
    pub synchronous: bool,
    /// The script's environment: variables and secrets of the service, and whatever the place
    /// where it runs adds. The names that OSCAR promises come on top.
    pub env: BTreeMap<String, String>,
    pub limits: Limits,
}

#[derive(Debug, Clone)]
pub enum EventSource {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// Where outputs for the cluster's own store (`minio.default`) go. Others always go direct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outputs {
    /// To the places that the definition names.
    Direct,
    /// To `<prefix>/<output bucket>/<key>` of a staging bucket, with the same credentials. Last
    /// of all a [`crate::Manifest`] is written to `<prefix>/.manifest.json`.
    Staged { bucket: String, prefix: String },
}

/// Keys for providers, in place of what the definition has. A definition never holds the keys
/// of the cluster's own store.
pub type Credentials = BTreeMap<ProviderRef, Access>;

#[derive(Debug, Clone, Default)]
pub struct Access {
    pub access_key: String,
    pub secret_key: Secret,
    pub session_token: Option<Secret>,
    /// The store's address, when it is another one than the definition says.
    pub endpoint: Option<String>,
    /// A file that holds its present address. A store of which there is one may move, and be away
    /// for a while: it is waited for.
    pub endpoint_file: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub struct Limits {
    /// How long the script may run.
    pub script_time: Option<Duration>,
    /// How long all of it may take: fetching the input, the script, storing the outputs. Keys
    /// must be valid as long.
    pub whole_time: Option<Duration>,
    /// How long a script that was asked to end may take, and how long processes that it left
    /// behind may go on.
    pub grace: Duration,
    /// The largest answer, after encoding; also how much of a script's output is kept for it.
    pub response_bytes: u64,
    /// The most files of an output folder.
    pub output_files: usize,
    /// How many files are stored at the same time.
    pub uploads: usize,
    /// Objects larger than this are sent in parts of this size.
    pub part_bytes: u64,
    /// How often a transfer is tried without any progress.
    pub attempts: u32,
    /// The same for a store that may be away for a while.
    pub patient_attempts: u32,
    /// The pause after the first failure; it doubles each time.
    pub pause: Duration,
    /// A connection that moves nothing for this long is given up.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            script_time: None,
            whole_time: None,
            grace: Duration::from_secs(10),
            response_bytes: 256 << 20,
            output_files: 100_000,
            uploads: 4,
            part_bytes: 16 << 20,
            attempts: 6,
            patient_attempts: 400,
            pause: Duration::from_millis(200),
            stall: Duration::from_mins(1),
        }
    }
}
