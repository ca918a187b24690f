//! Jobs, their events, and what they used.
//!
//! No call reads more rows than it answers with, however many jobs are kept: each query names
//! the index that it goes by, and how many there are is counted as they come and go. Only
//! statistics read all that ran in their time, on a connection of their own.

mod changes;
mod remove;
mod usage;

use std::sync::Arc;

use async_trait::async_trait;
use oscar_api::job::{from_bytes, to_bytes};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::jobs::{Accepted, JobPage, JobQuery, Jobs, NewJob, Removal, Whose};
use oscar_engine::ports::usage::{Usage, UsageQuery, UsageSum};
use oscar_model::job::{Job, JobName, Phase};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use super::LocalStore;
use super::seal::{Place, unopened};
use changes::{Accept, Save};
use remove::Remove;
use usage::NoteUsage;

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

/// The migration that owners came with. Whose service it was that ran before is not known: only
/// the administrator is told of those runs.
pub(super) const OWNERS: &str = "ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
     UPDATE jobs SET owner = coalesce(json_extract(record, '$.owner'), '') WHERE json_valid(record);
     DROP INDEX jobs_of_submitter;
     CREATE INDEX jobs_of_owner ON jobs (service, owner);
     CREATE INDEX jobs_of_submitter ON jobs (service, owner, submitter);
     DELETE FROM job_counts WHERE scope = 'submitter';
     INSERT INTO job_counts (scope, name, jobs)
         SELECT 'owner', service || char(10) || owner, count(*) FROM jobs GROUP BY service, owner;
     INSERT INTO job_counts (scope, name, jobs)
         SELECT 'submitter', service || char(10) || owner || char(10) || submitter, count(*)
         FROM jobs GROUP BY service, owner, submitter;
     ALTER TABLE usage ADD COLUMN owner TEXT NOT NULL DEFAULT '';
     CREATE INDEX usage_of_service ON usage (service, at);
     CREATE INDEX usage_of_user ON usage (service, user, at);";

const GET: &str = "SELECT record FROM jobs WHERE name = ?1";
const EVENT: &str = "SELECT sealed FROM jobs JOIN job_events USING (number) WHERE name = ?1";
const UNFINISHED: &str =
    "SELECT name, record FROM jobs INDEXED BY jobs_unfinished WHERE finished IS NULL ORDER BY number";
const PAGE: &str = "SELECT number, name, record FROM jobs INDEXED BY jobs_of_service
     WHERE service = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3";
const PAGE_OF_OWNER: &str = "SELECT number, name, record FROM jobs INDEXED BY jobs_of_owner
     WHERE service = ?1 AND owner = ?4 AND number < ?2 ORDER BY number DESC LIMIT ?3";
const PAGE_OF_SUBMITTER: &str = "SELECT number, name, record FROM jobs INDEXED BY jobs_of_submitter
     WHERE service = ?1 AND owner = ?4 AND submitter = ?5 AND number < ?2 ORDER BY number DESC LIMIT ?3";
const COUNT: &str = "SELECT jobs FROM job_counts WHERE scope = ?1 AND name = ?2";
const PHASES: &str = "SELECT name, jobs FROM job_counts WHERE scope = 'phase'";

#[cfg(test)]
pub(super) fn queries() -> Vec<&'static str> {
    let here = [GET, EVENT, UNFINISHED, PAGE, PAGE_OF_OWNER, PAGE_OF_SUBMITTER, COUNT, PHASES];
    [&here[..], changes::QUERIES, remove::QUERIES, usage::QUERIES].concat()
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

    async fn usage(&self, query: &UsageQuery) -> Result<Option<Vec<UsageSum>>, StoreError> {
        let query = query.clone();
        self.statistics.read(move |sql| usage::sums(sql, &query)).await
    }

    async fn note_usage(&self, usage: &Usage) -> Result<(), StoreError> {
        self.submit(NoteUsage(usage.clone())).await
    }
}

/// What is stored of a job.
struct JobRow {
    name: String,
    service: String,
    owner: String,
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
            owner: job.owner.as_str().to_owned(),
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
    let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut values: Vec<Value> = vec![service.to_owned().into(), token.before.into(), most.into()];
    let those = query.whose.owner().into_iter().chain(query.whose.submitter());
    values.extend(those.map(|owner| Value::from(owner.as_str().to_owned())));
    let mut statement = sql.prepare_cached(match query.whose {
        Whose::Everybody => PAGE,
        Whose::Owner(_) => PAGE_OF_OWNER,
        Whose::Submitter { .. } => PAGE_OF_SUBMITTER,
    })?;
    let mut rows = statement.query(params_from_iter(values))?;
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
        None => unsigned(match &query.whose {
            Whose::Everybody => count(sql, "service", service)?,
            Whose::Owner(owner) => count(sql, "owner", &by_owner(service, owner.as_str()))?,
            Whose::Submitter { owner, submitter } => {
                count(sql, "submitter", &by_submitter(service, owner.as_str(), submitter.as_str()))?
            }
        }),
    };
    let remaining = left.saturating_sub(seen as u64).max(1);
    Ok(JobPage { jobs, next: Some(format!("{last}.{remaining}")), remaining })
}

fn count(sql: &Connection, scope: &str, name: &str) -> rusqlite::Result<i64> {
    let found = sql.prepare_cached(COUNT)?.query_row([scope, name], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0))
}

/// The name of a count; no service and no user has a line break in its own.
fn by_owner(service: &str, owner: &str) -> String {
    format!("{service}\n{owner}")
}

fn by_submitter(service: &str, owner: &str, submitter: &str) -> String {
    format!("{service}\n{owner}\n{submitter}")
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
