//! What was done, for those who asked for it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::Exit;

/// The truth about one job; callers keep it as `result.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub job: String,
    /// OSCAR's word for the event: `MINIO`, `UNKNOWN`, …; blank when it could not be read.
    pub event: String,
    /// How the script ended; none when it was not started.
    pub exit: Option<Exit>,
    pub times: Times,
    pub inputs: Vec<Fetched>,
    pub outputs: Vec<Written>,
    /// The key of the manifest in the staging bucket.
    pub manifest: Option<String>,
    pub response: Option<Response>,
    /// The first thing that went wrong. None means that everything did what it should, the
    /// script with exit code 0 included.
    pub failure: Option<Failure>,
}

impl Report {
    /// What a process that did this job should end with: the script's own code, 128 and the
    /// number of a signal, 124 for a time-out, 1 for failures around a script that ended well.
    pub fn exit_code(&self) -> u8 {
        match (&self.exit, &self.failure) {
            (Some(exit), _) if !exit.is_success() => exit.code(),
            (_, Some(_)) => 1,
            _ => 0,
        }
    }
}

/// Milliseconds of each phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    pub input_ms: u64,
    pub script_ms: u64,
    pub output_ms: u64,
    pub total_ms: u64,
}

/// An input that was fetched, or a payload that was written out (then without a provider).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    pub provider: String,
    pub bucket: String,
    pub key: String,
    pub file: PathBuf,
    pub bytes: u64,
}

/// An output that was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    pub provider: String,
    /// Blank for providers without buckets.
    pub bucket: String,
    pub key: String,
    /// Where it waits in the staging bucket.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub staged_key: Option<String>,
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub etag: Option<String>,
}

/// What an attempt has staged; the last object that it writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub job: String,
    pub exit: Option<Exit>,
    pub outputs: Vec<Written>,
}

/// The answer to a synchronous call. It stands in a file, because it can be large.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    pub kind: ResponseKind,
    pub file: PathBuf,
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResponseKind {
    /// What the script printed.
    ScriptOutput,
    /// Base64 of the one output file.
    File,
    /// Base64 of a zip archive of all output files.
    Archive,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub stage: Stage,
    /// One sentence for the person who wrote the script.
    pub sentence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    Configuration,
    Event,
    Input,
    Script,
    Output,
    Response,
}

/// Sentences about a lack of room contain one of these; the last is the system's own.
pub(crate) const DISK_FULL: &str = "the disk of this job is full";
pub(crate) const STORE_FULL: &str = "the store is full";
const SYSTEM_FULL: &str = "No space left on device";

impl Failure {
    pub(crate) fn new(stage: Stage, sentence: impl Into<String>) -> Self {
        Self { stage, sentence: sentence.into() }
    }

    /// Whether nothing but room was missing, so that the same may go well later.
    pub fn wants_room(&self) -> bool {
        [DISK_FULL, STORE_FULL, SYSTEM_FULL].iter().any(|words| self.sentence.contains(words))
    }
}
