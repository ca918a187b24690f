//! A job: one run of a service for one event, and the story of how it went.
//!
//! The home of a job decides about it by [`Job::apply`] alone. Each attempt has a number; what a
//! former attempt says is not listened to.

pub mod admission;
mod law;

use std::fmt;

use crate::identity::Owner;
use crate::name::{ServiceName, is_dns_label};

pub use law::{Event, Refused};

/// Since 1970.
pub type Millis = u64;

/// How often the script of a job may begin; when its attempts vanish so often, it is lost.
pub const MOST_RUNS: usize = 3;

/// How often a job is tried at all, not counting attempts that ended for want of room. Attempts
/// that vanish before the script begins have done nothing yet, so there may be more of them.
pub const MOST_ATTEMPTS: u32 = 10;

/// The pause before the second attempt; it doubles each time.
const FIRST_PAUSE: Millis = 1000;
const LONGEST_PAUSE: Millis = 5 * 60 * 1000;

/// How long to wait after an attempt that vanished: what was wrong may need a moment.
pub fn pause_after(attempt: u32) -> Millis {
    FIRST_PAUSE.checked_shl(attempt.saturating_sub(1)).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE)
}

/// The name of a job: a DNS label, as Kubernetes wants it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(String);

impl JobName {
    pub fn parse(text: &str) -> Option<Self> {
        is_dns_label(text).then(|| Self(text.to_owned()))
    }

    /// `<service>-<unique>`. Of a long service name 16 characters stay, so that a UUID fits.
    pub fn of(service: &ServiceName, unique: &str) -> Option<Self> {
        let name = service.as_str();
        let head = if name.len() >= 25 { &name[..16] } else { name };
        Self::parse(&format!("{}-{unique}", head.trim_end_matches('-')))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Where a job is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Stored; nobody has decided where it runs.
    Accepted,
    /// Waits for room.
    Queued,
    /// An attempt was given room.
    Starting,
    Running,
    Succeeded,
    Failed,
    Cancelled,
    /// Its attempts vanished, each without a result.
    Lost,
}

impl Phase {
    pub const ALL: [Self; 8] = [
        Self::Accepted,
        Self::Queued,
        Self::Starting,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Lost,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == text)
    }

    /// The word that OSCAR's clients know: the phase of a pod of Kubernetes.
    pub fn as_pod_phase(self) -> &'static str {
        match self {
            Self::Accepted | Self::Queued | Self::Starting => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed | Self::Cancelled | Self::Lost => "Failed",
        }
    }

    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::Lost)
    }

    /// Whether an attempt holds room.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// What one run holds while it lasts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Thousandths of a processor.
    pub cores: i64,
    pub bytes: i64,
    pub gpus: i64,
}

impl Need {
    pub fn fits(&self, room: &Self) -> bool {
        self.cores <= room.cores && self.bytes <= room.bytes && self.gpus <= room.gpus
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cores: self.cores.saturating_add(other.cores),
            bytes: self.bytes.saturating_add(other.bytes),
            gpus: self.gpus.saturating_add(other.gpus),
        }
    }

    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            cores: self.cores.saturating_sub(other.cores),
            bytes: self.bytes.saturating_sub(other.bytes),
            gpus: self.gpus.saturating_sub(other.gpus),
        }
    }
}

/// What made a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Call,
    /// A new version of its input.
    Upload {
        version: String,
    },
    /// Another cluster, by the name that it gave itself.
    Delegated {
        from: String,
    },
}

/// An object of the cluster's own store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    pub bucket: String,
    pub key: String,
}

/// One step of a job's story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub at: Millis,
    pub phase: Phase,
    /// Zero before the first attempt.
    pub attempt: u32,
    /// For people; may be blank.
    pub reason: String,
}

/// An output as an attempt left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// `minio.default`, `webdav.mine`.
    pub provider: String,
    pub bucket: String,
    pub key: String,
    pub bytes: u64,
    /// Where it waits in the staging bucket; absent when it was written in place.
    pub staged: Option<String>,
}

/// How a job fared with what it must wait for: room, or a store that is away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rests {
    /// Since when it waits, for room or for its outputs to be put in their place.
    pub since: Option<Millis>,
    /// How many attempts ended for want of room. They do not count as attempts.
    pub attempts: u32,
    /// The last of them.
    pub last: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub name: JobName,
    pub service: ServiceName,
    /// Whose service it is.
    pub owner: Owner,
    /// Who asked for it; absent when the caller only held the token of the service.
    pub submitter: Option<Owner>,
    pub source: Source,
    /// What it reads of the cluster's own store.
    pub input: Option<ObjectRef>,
    pub need: Need,
    pub phase: Phase,
    /// The number of the present or last attempt.
    pub attempt: u32,
    /// The name of the key that the attempt holds of the cluster's own store; may be blank.
    pub access_key: String,
    pub rests: Rests,
    /// Somebody wants it ended.
    pub cancelling: bool,
    /// It is forgotten as soon as it has ended.
    pub forgetting: bool,
    /// Of the script, once it ended by itself.
    pub exit_code: Option<i32>,
    /// Of the one attempt that counts. They are in their place once the job succeeded; when it did
    /// not, some of them may be.
    pub outputs: Vec<Output>,
    pub story: Vec<Step>,
    /// Grows with every change.
    pub version: u64,
}

/// What a new job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    pub name: JobName,
    pub service: ServiceName,
    pub owner: Owner,
    pub submitter: Option<Owner>,
    pub source: Source,
    pub input: Option<ObjectRef>,
    pub need: Need,
}

impl Job {
    /// A job as it is accepted.
    pub fn new(submission: Submission, at: Millis) -> Self {
        let Submission { name, service, owner, submitter, source, input, need } = submission;
        Self {
            name,
            service,
            owner,
            submitter,
            source,
            input,
            need,
            phase: Phase::Accepted,
            attempt: 0,
            access_key: String::new(),
            rests: Rests::default(),
            cancelling: false,
            forgetting: false,
            exit_code: None,
            outputs: Vec::new(),
            story: vec![Step { at, phase: Phase::Accepted, attempt: 0, reason: String::new() }],
            version: 1,
        }
    }

    /// Who is charged for it in the queue: whoever asked, else the owner of the service.
    pub fn payer(&self) -> &Owner {
        self.submitter.as_ref().unwrap_or(&self.owner)
    }

    pub fn accepted_at(&self) -> Millis {
        self.story.first().map_or(0, |step| step.at)
    }

    /// When the next attempt of a job that waits may begin.
    pub fn begins_from(&self) -> Millis {
        let since = self.story.last().map_or(0, |step| step.at);
        if self.attempt == 0 { since } else { since.saturating_add(pause_after(self.attempt)) }
    }

    /// How often its script has begun.
    pub(crate) fn runs(&self) -> usize {
        let mut attempts: Vec<_> =
            self.story.iter().filter(|step| step.phase == Phase::Running).map(|step| step.attempt).collect();
        attempts.dedup();
        attempts.len()
    }

    /// When the attempt that counts began to run.
    pub fn started_at(&self) -> Option<Millis> {
        let running = |step: &&Step| step.phase == Phase::Running && step.attempt == self.attempt;
        self.story.iter().find(running).map(|step| step.at)
    }

    pub fn finished_at(&self) -> Option<Millis> {
        self.story.last().filter(|step| step.phase.is_final()).map(|step| step.at)
    }

    /// Why it is where it is.
    pub fn reason(&self) -> &str {
        self.story.last().map_or("", |step| step.reason.as_str())
    }
}
