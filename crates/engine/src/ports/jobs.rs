//! Where jobs are kept.

use std::sync::Arc;

use async_trait::async_trait;
use oscar_model::identity::Owner;
use oscar_model::job::{Job, JobName, Millis, Phase};
use oscar_model::name::ServiceName;

use super::StoreError;
use super::usage::{Usage, UsageQuery, UsageSum};

/// Contract:
/// - A change that returned `Ok` is durable.
/// - [`Jobs::accept`] with a [`Once`] that is known changes nothing and tells the job that has
///   it. It is known as long as that job is kept. Names are unique: a second job of a name is
///   `AlreadyExists`.
/// - [`Jobs::save`] stores a job whose version is one more than that which is stored, else it is
///   a `Conflict`; `NotFound` when the job was removed.
/// - The cost of every call but [`Jobs::unfinished`] and [`Jobs::usage`] does not grow with the
///   number of jobs that have ended; what [`Jobs::usage`] holds in memory grows with its sums only.
/// - The event of a job is kept until it ends.
#[async_trait]
pub trait Jobs: Send + Sync {
    async fn accept(&self, new: NewJob) -> Result<Accepted, StoreError>;

    async fn save(&self, job: &Job) -> Result<(), StoreError>;

    async fn get(&self, name: &JobName) -> Result<Option<Job>, StoreError>;

    /// The body that made the job; `NotFound` once it is not kept any more.
    async fn event(&self, name: &JobName) -> Result<Arc<[u8]>, StoreError>;

    /// Every job that has not ended, in the order of acceptance.
    async fn unfinished(&self) -> Result<Vec<Job>, StoreError>;

    /// Jobs of a service, the newest first. Jobs that come or go meanwhile make no other appear
    /// twice or be left out; a `page` that was never given out shows nothing.
    async fn page(&self, query: &JobQuery) -> Result<JobPage, StoreError>;

    /// Forgets jobs that have ended; others are left alone. Those that were forgotten; none when
    /// there is no such job.
    async fn remove(&self, which: &Removal) -> Result<Vec<JobName>, StoreError>;

    /// How many there are in each phase.
    async fn counts(&self) -> Result<Vec<(Phase, u64)>, StoreError>;

    /// What ran, for statistics: a sum for each service and user of whom there is something, in
    /// that order; nothing when there would be more than were wanted. No other call waits for it.
    async fn usage(&self, query: &UsageQuery) -> Result<Option<Vec<UsageSum>>, StoreError>;

    /// Remembers a run that ended.
    async fn note_usage(&self, usage: &Usage) -> Result<(), StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    pub job: Job,
    pub event: Arc<[u8]>,
    pub once: Option<Once>,
}

/// What makes a repeated submission the same job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    pub key: String,
    /// Of the body: another body under the same key is a mistake.
    pub digest: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    New,
    Known { job: Box<Job>, digest: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobQuery {
    pub service: ServiceName,
    pub whose: Whose,
    /// The `next` of the page before.
    pub page: Option<String>,
    pub limit: usize,
}

/// Which of a service's jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// All, also those of former services of that name.
    Everybody,
    /// Those of the service while it was this owner's.
    Owner(Owner),
    /// Of these, what one user asked for.
    Submitter { owner: Owner, submitter: Owner },
}

impl Whose {
    pub fn owner(&self) -> Option<&Owner> {
        match self {
            Self::Everybody => None,
            Self::Owner(owner) | Self::Submitter { owner, .. } => Some(owner),
        }
    }

    pub fn submitter(&self) -> Option<&Owner> {
        match self {
            Self::Everybody | Self::Owner(_) => None,
            Self::Submitter { submitter, .. } => Some(submitter),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobPage {
    pub jobs: Vec<Job>,
    /// Absent on the last page.
    pub next: Option<String>,
    /// How many come after this page. When jobs are forgotten between two pages it may be too
    /// many, but it is zero on the last page and on no other.
    pub remaining: u64,
}

/// Which jobs to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    One(JobName),
    /// Of a service: all that have ended, or only those that succeeded.
    OfService {
        service: ServiceName,
        whose: Whose,
        succeeded_only: bool,
    },
    /// What ended before a time, and of each service what is beyond a number; at most `limit`.
    Old {
        ended_before: Millis,
        most_per_service: u64,
        limit: usize,
    },
}
