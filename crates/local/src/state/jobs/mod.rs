//! Jobs, their events, and what they used.
//!
//! No call reads more rows than it answers with, however many jobs are kept: each query names
//! the index that it goes by, and how many there are is counted as they come and go.

mod changes;
mod remove;

use std::sync::Arc;

use async_trait::async_trait;
use oscar_api::job::{from_bytes, to_bytes};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::jobs::{Accepted, JobPage, JobQuery, Jobs, NewJob, Removal, Usage};
use oscar_model::job::{Job, JobName, Millis, Phase};
use oscar_model::name::ServiceName;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::LocalStore;
use super::seal::{Place, unopened};
use changes::{Accept, NoteUsage, Save};
use remove::Remove;

/// The migration that jobs came with.
pub(super) const TABLES: &str = "CREATE TABLE jobs (
         number INTEGER PRIMARY KEY AUTOINCREMENT,
         name TEXT NOT NULL UNIQUE,
         service TEXT NOT NULL,
         submitter TEXT NOT NULL,
         phase TEXT NOT NULL,
         finished INTEGER,
         version INTEGER NOT NULL,
         once_key TEXT,
         once_digest TEXT,
         record TEXT NOT NULL
     ) STRICT;
     CREATE INDEX jobs_of_service ON jobs (service);
     CREATE INDEX jobs_of_submitter ON jobs (service, submitter);
     CREATE UNIQUE INDEX jobs_once ON jobs (once_key) WHERE once_key IS NOT NULL;
     CREATE INDEX jobs_unfinished ON jobs (finished) WHERE finished IS NULL;
     CREATE INDEX jobs_ended ON jobs (service, finished) WHERE finished IS NOT NULL;
     CREATE INDEX jobs_by_end ON jobs (finished) WHERE finished IS NOT NULL;
     CREATE TABLE job_events (
         number INTEGER PRIMARY KEY NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
         sealed BLOB NOT NULL
     ) STRICT;
     CREATE TABLE job_counts (
         scope TEXT NOT NULL,
         name TEXT NOT NULL,
         jobs INTEGER NOT NULL,
         PRIMARY KEY (scope, name)
     ) STRICT, WITHOUT ROWID;
     CREATE TABLE usage (
         at INTEGER NOT NULL,
         service TEXT NOT NULL,
         user TEXT NOT NULL,
         synchronous INTEGER NOT NULL,
         core_millis INTEGER NOT NULL,
         gpu_millis INTEGER NOT NULL
     ) STRICT;
     CREATE INDEX usage_by_time ON usage (at);";

const GET: &str = "SELECT record FROM jobs WHERE name = ?1";
const EVENT: &str = "SELECT sealed FROM jobs JOIN job_events USING (number) WHERE name = ?1";
const UNFINISHED: &str =
    "SELECT name, record FROM jobs INDEXED BY jobs_unfinished WHERE finished IS NULL ORDER BY number";
const PAGE: &str = "SELECT number, name, record FROM jobs INDEXED BY jobs_of_service
     WHERE service = ?1 AND number < ?3 ORDER BY number DESC LIMIT ?4";
const PAGE_OF_SUBMITTER: &str = "SELECT number, name, record FROM jobs INDEXED BY jobs_of_submitter
     WHERE service = ?1 AND submitter = ?2 AND number < ?3 ORDER BY number DESC LIMIT ?4";
const COUNT: &str = "SELECT jobs FROM job_counts WHERE scope = ?1 AND name = ?2";
const PHASES: &str = "SELECT name, jobs FROM job_counts WHERE scope = 'phase'";
const USAGE: &str = "SELECT at, service, user, synchronous, core_millis, gpu_millis FROM usage INDEXED BY usage_by_time
     WHERE at >= ?1 AND at < ?2 ORDER BY at, rowid";

#[cfg(test)]
pub(super) fn queries() -> Vec<&'static str> {
    let here = [GET, EVENT, UNFINISHED, PAGE, PAGE_OF_SUBMITTER, COUNT, PHASES, USAGE];
    [&here[..], changes::QUERIES, remove::QUERIES].concat()
}

impl LocalStore {
    pub fn jobs(self: &Arc<Self>) -> Arc<dyn Jobs> {
        self.clone()
    }
}

#[async_trait]
impl Jobs for LocalStore {
    async fn accept(&self, new: NewJob) -> Result<Accepted, StoreError> {
        let NewJob { job, event, once } = new;
        let sealed = self.seal.seal(event_place(&[job.name.as_str()]), &event)?;
        self.submit(Accept { row: JobRow::of(&job), once, sealed }).await
    }

    async fn save(&self, job: &Job) -> Result<(), StoreError> {
        self.submit(Save(JobRow::of(job))).await
    }

    async fn get(&self, name: &JobName) -> Result<Option<Job>, StoreError> {
        let key = name.to_string();
        let record =
            self.read(move |sql| sql.prepare_cached(GET)?.query_row([key], |row| row.get::<_, String>(0)).optional());
        record.await?.map(|record| parse(&record)).transpose()
    }

    async fn event(&self, name: &JobName) -> Result<Arc<[u8]>, StoreError> {
        let key = name.to_string();
        let sealed = self
            .read(move |sql| sql.prepare_cached(EVENT)?.query_row([key], |row| row.get::<_, Vec<u8>>(0)).optional());
        let sealed = sealed.await?.ok_or(StoreError::NotFound)?;
        let key = [name.as_str()];
        let place = event_place(&key);
        self.seal.open(place, &sealed).map(Arc::from).ok_or_else(|| unopened(place))
    }

    async fn unfinished(&self) -> Result<Vec<Job>, StoreError> {
        self.read(|sql| {
            let mut query = sql.prepare_cached(UNFINISHED)?;
            let mut rows = query.query(())?;
            let mut jobs = Vec::new();
            while let Some(row) = rows.next()? {
                jobs.extend(readable(row, 0)?);
            }
            Ok(jobs)
        })
        .await
    }

    async fn page(&self, query: &JobQuery) -> Result<JobPage, StoreError> {
        let Some(token) = Token::parse(query.page.as_deref()) else { return Ok(JobPage::default()) };
        let query = query.clone();
        self.read(move |sql| page(sql, &query, token)).await
    }

    async fn remove(&self, which: &Removal) -> Result<Vec<JobName>, StoreError> {
        let mut gone = Vec::new();
        let mut change = Remove::new(which);
        loop {
            let bite = self.submit(change.clone()).await?;
            gone.extend(bite.names);
            match bite.last {
                Some(last) => change.after = last,
                None => return Ok(gone),
            }
        }
    }

    async fn counts(&self) -> Result<Vec<(Phase, u64)>, StoreError> {
        let counted = self
            .read(|sql| {
                let mut query = sql.prepare_cached(PHASES)?;
                let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
                query.query_map((), read)?.collect::<rusqlite::Result<Vec<_>>>()
            })
            .await?;
        let count = |phase: Phase| counted.iter().find(|(name, _)| name == phase.as_str()).map_or(0, |(_, jobs)| *jobs);
        Ok(Phase::ALL.into_iter().map(|phase| (phase, unsigned(count(phase)))).collect())
    }

    async fn usage(&self, from: Millis, until: Millis) -> Result<Vec<Usage>, StoreError> {
        self.read(move |sql| {
            let mut query = sql.prepare_cached(USAGE)?;
            let rows = query.query_map([signed(from), signed(until)], usage_of)?;
            rows.filter_map(Result::transpose).collect()
        })
        .await
    }

    async fn note_usage(&self, usage: &Usage) -> Result<(), StoreError> {
        self.submit(NoteUsage(usage.clone())).await
    }
}

/// What is stored of a job.
struct JobRow {
    name: String,
    service: String,
    /// Blank when nobody is named.
    submitter: String,
    phase: Phase,
    finished: Option<i64>,
    version: i64,
    record: String,
}

impl JobRow {
    fn of(job: &Job) -> Self {
        Self {
            name: job.name.to_string(),
            service: job.service.to_string(),
            submitter: job.submitter.as_ref().map(|owner| owner.as_str().to_owned()).unwrap_or_default(),
            phase: job.phase,
            finished: job.finished_at().map(signed),
            version: signed(job.version),
            record: String::from_utf8_lossy(&to_bytes(job)).into_owned(),
        }
    }
}

/// Where a page begins, and how many there were from there on: counting them again would cost
/// more the more there are.
#[derive(Clone, Copy)]
struct Token {
    before: i64,
    left: Option<u64>,
}

impl Token {
    /// `None` when it was never given out.
    fn parse(text: Option<&str>) -> Option<Self> {
        let Some(text) = text else { return Some(Self { before: i64::MAX, left: None }) };
        let (before, left) = text.split_once('.')?;
        let before = before.parse().ok().filter(|number| *number > 0)?;
        Some(Self { before, left: Some(left.parse().ok()?) })
    }
}

fn page(sql: &Connection, query: &JobQuery, token: Token) -> rusqlite::Result<JobPage> {
    let (service, limit) = (query.service.as_str(), query.limit.max(1));
    let submitter = query.submitter.as_ref().map(|owner| owner.as_str().to_owned());
    let text = if submitter.is_some() { PAGE_OF_SUBMITTER } else { PAGE };
    let mut statement = sql.prepare_cached(text)?;
    let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    // Every statement has the same values; the one without a submitter does not look at his.
    let mut rows = statement.query(params![service, submitter.as_deref().unwrap_or_default(), token.before, most])?;
    let (mut seen, mut last, mut jobs, mut is_last) = (0, 0, Vec::new(), true);
    while let Some(row) = rows.next()? {
        if seen == limit {
            is_last = false;
            break;
        }
        seen += 1;
        last = row.get(0)?;
        jobs.extend(readable(row, 1)?);
    }
    if is_last {
        return Ok(JobPage { jobs, next: None, remaining: 0 });
    }
    let left = match token.left {
        Some(left) => left,
        None => unsigned(match &submitter {
            Some(submitter) => count(sql, "submitter", &by_submitter(service, submitter))?,
            None => count(sql, "service", service)?,
        }),
    };
    let remaining = left.saturating_sub(seen as u64).max(1);
    Ok(JobPage { jobs, next: Some(format!("{last}.{remaining}")), remaining })
}

fn count(sql: &Connection, scope: &str, name: &str) -> rusqlite::Result<i64> {
    let found = sql.prepare_cached(COUNT)?.query_row([scope, name], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0))
}

/// The name of a count; no service has a line break in its own.
fn by_submitter(service: &str, submitter: &str) -> String {
    format!("{service}\n{submitter}")
}

/// A job from two columns, its name and its record. One that cannot be read hides no other.
fn readable(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Job>> {
    let (name, record): (String, String) = (row.get(first)?, row.get(first + 1)?);
    match from_bytes(record.as_bytes()) {
        Ok(job) => Ok(Some(job)),
        Err(cause) => {
            tracing::warn!(job = name, cause, "a stored job cannot be read");
            Ok(None)
        }
    }
}

fn parse(record: &str) -> Result<Job, StoreError> {
    from_bytes(record.as_bytes()).map_err(|cause| StoreError::Broken(format!("a job: {cause}")))
}

fn usage_of(row: &Row<'_>) -> rusqlite::Result<Option<Usage>> {
    let Some(service) = ServiceName::parse(&row.get::<_, String>(1)?) else { return Ok(None) };
    Ok(Some(Usage {
        service,
        user: row.get(2)?,
        synchronous: row.get(3)?,
        at: unsigned(row.get(0)?),
        core_millis: unsigned(row.get(4)?),
        gpu_millis: unsigned(row.get(5)?),
    }))
}

/// Where the event of a job is; it may hold anything that a user sends.
fn event_place<'a>(key: &'a [&'a str]) -> Place<'a> {
    Place { table: "job_events", key }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
