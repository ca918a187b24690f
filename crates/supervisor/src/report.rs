//! What was done, for those who asked for it.

use std::io::ErrorKind;
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
    /// Nothing but room was missing, on a disk or in a store: the same may go well later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wants_room: bool,
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
    /// All of it together took too long.
    Time,
}

pub(crate) const DISK_FULL: &str = "the disk of this job is full";

/// What went wrong, before it is known at which stage that was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) sentence: String,
    pub(crate) wants_room: bool,
}

impl Complaint {
    /// `say` makes a sentence of a cause.
    pub(crate) fn of_io(error: &std::io::Error, say: impl FnOnce(&str) -> String) -> Self {
        let wants_room = is_full(error);
        let sentence = if wants_room { say(DISK_FULL) } else { say(&error.to_string()) };
        Self { sentence, wants_room }
    }
}

impl<T: Into<String>> From<T> for Complaint {
    fn from(sentence: T) -> Self {
        Self { sentence: sentence.into(), wants_room: false }
    }
}

/// Whether a disk has no room, or its user may not have more of it.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

impl Failure {
    pub(crate) fn new(stage: Stage, complaint: impl Into<Complaint>) -> Self {
        let Complaint { sentence, wants_room } = complaint.into();
        Self { stage, sentence, wants_room }
    }
}
