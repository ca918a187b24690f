//! How a script is run: the seam between a job and the place where it happens.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::journal::OutputSink;
use crate::report::is_full;

/// Runs one script to its end.
///
/// What the script prints on both streams goes to `output` as it comes, in one order. When
/// `run.cancel` is cancelled or `run.time` is over, every process of the script ends before
/// this returns; it gets `run.grace` for ending by itself. Dropping the future ends them too.
/// A script that could not be started is an error; one that ended in any way is an [`Exit`].
#[async_trait]
pub trait Sandbox: Send + Sync {
    async fn run(&self, run: &ScriptRun, output: &mut dyn OutputSink) -> Result<Exit, SandboxError>;
}

/// It does not print: variables of a service may be secrets.
#[derive(Clone)]
pub struct ScriptRun {
    /// It is run by `/bin/sh`, whatever its first line says: scripts rely on that.
    pub script: PathBuf,
    pub input_dir: PathBuf,
    pub output_dir: PathBuf,
    /// The event without what it was wrapped in.
    pub event_file: PathBuf,
    /// The input, when there is one: below `input_dir`.
    pub input_file: Option<PathBuf>,
    /// The environment without the variables that hold paths; see [`ScriptRun::environment`].
    pub env: BTreeMap<String, String>,
    pub time: Option<Duration>,
    pub grace: Duration,
    pub cancel: CancellationToken,
}

impl ScriptRun {
    /// The whole environment; `place` says where the script sees a path of this machine.
    pub fn environment(&self, place: impl Fn(&Path) -> PathBuf) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        let mut set = |name: &str, path: &Path| env.insert(name.to_owned(), place(path).to_string_lossy().into_owned());
        set("TMP_INPUT_DIR", &self.input_dir);
        set("TMP_OUTPUT_DIR", &self.output_dir);
        set("EVENT_FILE", &self.event_file);
        if let Some(file) = &self.input_file {
            set("INPUT_FILE_PATH", file);
        }
        env
    }
}

/// How a script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
    OutOfMemory,
    /// Its outputs grew beyond what a job may leave.
    DiskFull,
    Cancelled,
}

impl Exit {
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// The exit code that says the same, as shells number it.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => u8::try_from(code).unwrap_or(1),
            Self::Signal(signal) => u8::try_from(signal).ok().and_then(|n| n.checked_add(128)).unwrap_or(255),
            Self::TimedOut => 124,
            Self::OutOfMemory => 137,
            Self::DiskFull => 153,
            Self::Cancelled => 143,
        }
    }

    pub(crate) fn sentence(self, limit: Option<Duration>) -> String {
        match self {
            Self::Code(code) => format!("The script ended with exit code {code}."),
            Self::Signal(signal) => format!("The script was ended by signal {signal}."),
            Self::TimedOut => {
                let seconds = limit.unwrap_or_default().as_secs_f64();
                format!("The script was stopped because it ran longer than the {seconds} seconds it may take.")
            }
            Self::OutOfMemory => {
                "The script was stopped because it needed more memory than the service has; give `memory` a larger value."
                    .to_owned()
            }
            Self::DiskFull => {
                "The script was stopped because it wrote more to the disk than a job may; the operator sets `job_disk`."
                    .to_owned()
            }
            Self::Cancelled => "The script was stopped because the job was cancelled.".to_owned(),
        }
    }
}

/// Why a script could not be run at all.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct SandboxError {
    pub cause: String,
    /// Nothing but room on a disk was missing.
    pub wants_room: bool,
}

impl SandboxError {
    pub fn of_io(doing: &str, error: &std::io::Error) -> Self {
        Self { cause: format!("{doing}: {error}"), wants_room: is_full(error) }
    }
}
