//! What is to be run, within which bounds, and how it may end.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The ways of running a script, as an operator names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The safest that works here.
    Auto,
    Bubblewrap,
    Process,
    Container,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Auto => "auto",
            Kind::Bubblewrap => "bubblewrap",
            Kind::Process => "process",
            Kind::Container => "container",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no executor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no executor of that name; choose one of auto, bubblewrap, container, process")]
pub struct UnknownKind;

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Kind, UnknownKind> {
        [Kind::Auto, Kind::Bubblewrap, Kind::Process, Kind::Container]
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or(UnknownKind)
    }
}

/// What a script reaches of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Whatever this machine reaches.
    Host,
    /// Nothing but a loopback of its own.
    None,
}

/// The bounds of one run. What is `None` is not bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Thousandths of a core.
    pub cpu_millis: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// What may lie in the output folder.
    pub disk_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub time: Option<Duration>,
    /// How long after SIGTERM everything is killed.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            cpu_millis: None,
            memory_bytes: None,
            disk_bytes: None,
            processes: Some(4096),
            time: None,
            grace: Duration::from_secs(10),
        }
    }
}

/// One run of one script. Paths are those of this machine; [`Paths`] says where the script
/// finds them.
#[derive(Debug, Clone)]
pub struct Run {
    pub script: PathBuf,
    /// Shown read-only.
    pub input_dir: PathBuf,
    pub output_dir: PathBuf,
    /// All that the script finds in its environment, but for `PATH`, `HOME` and `LANG`, which
    /// have a value of ours when they are not here.
    pub env: BTreeMap<String, String>,
    /// The image of the service. Only containers look at it.
    pub image: String,
    pub limits: Limits,
    pub network: Network,
    /// Folders that no script may see, whatever else is shown.
    pub hidden: Vec<PathBuf>,
    pub gpu: bool,
}

/// Where a script finds what it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    pub script: PathBuf,
    pub input: PathBuf,
    pub output: PathBuf,
    /// Where it may put what nobody keeps.
    pub temporary: PathBuf,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    /// By a signal of somebody else. A shell tells of it as 128 + signal, and so do sandboxes:
    /// such codes are told as what they mean.
    Signal(i32),
    TimedOut,
    OutOfMemory,
    /// The output folder, or one file, grew beyond `disk_bytes`.
    DiskFull,
    Cancelled,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Code(0) => f.write_str("the script ended well"),
            Ended::Code(126) => f.write_str("the script ended with code 126: a command in it is not executable"),
            Ended::Code(127) => f.write_str("the script ended with code 127: a command in it was not found"),
            Ended::Code(code) => write!(f, "the script ended with code {code}"),
            Ended::Signal(signal) => write!(f, "the script was ended by signal {signal}"),
            Ended::TimedOut => f.write_str("the script did not end in the time it was given, and was stopped"),
            Ended::OutOfMemory => f.write_str("the script used more memory than its service has, and was stopped"),
            Ended::DiskFull => f.write_str("the script wrote more than its service may, and was stopped"),
            Ended::Cancelled => f.write_str("the script was stopped because the job was cancelled"),
        }
    }
}

/// Why a script was not run. Each is a sentence for the user whose job it was.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("the job cannot be run with this definition: {0}")]
    Unfit(String),
    #[error("the image {image:?} could not be had: {why}")]
    NoImage { image: String, why: String },
    #[error("this manager cannot run containers: {0}")]
    NoEngine(String),
    #[error("this manager cannot run jobs the way it is set up to ({kind}): {why}")]
    Unusable { kind: Kind, why: String },
    #[error("the job could not be started: {doing}: {source}")]
    Io { doing: String, source: std::io::Error },
}

impl ExecError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> ExecError {
        let doing = doing.into();
        move |source| ExecError::Io { doing, source }
    }
}

/// What an executor does and does not do, for `oscar doctor` and the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    pub kind: Kind,
    /// Which program, which version.
    pub with: String,
    /// How limits are enforced.
    pub limits: String,
    /// What it cannot hide or bound, one sentence each. Empty is best.
    pub weaknesses: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_executors_are_read_as_they_are_printed() {
        for kind in [Kind::Auto, Kind::Bubblewrap, Kind::Process, Kind::Container] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("docker".parse::<Kind>(), Err(UnknownKind));
    }
}
