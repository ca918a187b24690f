//! Writing jobs, and counting them.

use oscar_engine::ports::StoreError;
use oscar_engine::ports::jobs::{Accepted, Once};
use oscar_model::job::{Job, Phase};
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::{JobRow, by_owner, by_submitter, parse};
use crate::state::index::Index;
use crate::state::writer::{Batch, Change, Failure};

const KNOWN: &str = "SELECT once_digest, record FROM jobs INDEXED BY jobs_once WHERE once_key = ?1";
const EXISTS: &str = "SELECT 1 FROM jobs WHERE name = ?1";
const INSERT: &str =
    "INSERT INTO jobs (name, service, owner, submitter, phase, finished, version, once_key, once_digest, record)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const INSERT_EVENT: &str = "INSERT INTO job_events (number, sealed) VALUES (?1, ?2)";
const FIND: &str = "SELECT number, phase, version FROM jobs WHERE name = ?1";
const UPDATE: &str = "UPDATE jobs SET phase = ?2, finished = ?3, version = ?4, record = ?5 WHERE number = ?1";
const DELETE_EVENT: &str = "DELETE FROM job_events WHERE number = ?1";
const BUMP: &str = "INSERT INTO job_counts (scope, name, jobs) VALUES (?1, ?2, ?3)
     ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs";
const DROP_EMPTY: &str = "DELETE FROM job_counts WHERE scope = ?1 AND name = ?2 AND jobs <= 0";

#[cfg(test)]
pub(super) const QUERIES: &[&str] = &[KNOWN, EXISTS, FIND, UPDATE, DELETE_EVENT, DROP_EMPTY];

/// Accepts a job, unless its key is known.
pub(super) struct Accept {
    pub(super) row: JobRow,
    pub(super) once: Option<Once>,
    pub(super) sealed: Vec<u8>,
}

impl Change for Accept {
    type Step = Accepted;
    type Output = Accepted;

    fn apply(&self, batch: &mut Batch<'_>) -> Result<Accepted, Failure> {
        let sql = &batch.sql;
        if let Some(once) = &self.once
            && let Some((job, digest)) = known(sql, once)?
        {
            return Ok(Accepted::Known { job: Box::new(job), digest });
        }
        let row = &self.row;
        if sql.prepare_cached(EXISTS)?.exists([&row.name])? {
            return Err(Failure::Refused(StoreError::AlreadyExists));
        }
        let (key, digest) = (self.once.as_ref().map(|once| &once.key), self.once.as_ref().map(|once| &once.digest));
        sql.prepare_cached(INSERT)?.execute(params![
            row.name,
            row.service,
            row.owner,
            row.submitter,
            row.phase.as_str(),
            row.finished,
            row.version,
            key,
            digest,
            row.record
        ])?;
        if row.finished.is_none() {
            sql.prepare_cached(INSERT_EVENT)?.execute(params![sql.last_insert_rowid(), self.sealed])?;
        }
        count_job(sql, &Counted::of(row), 1)?;
        Ok(Accepted::New)
    }

    fn publish(self, accepted: Accepted, _index: &mut Index) -> Accepted {
        accepted
    }
}

fn known(sql: &Transaction<'_>, once: &Once) -> Result<Option<(Job, String)>, Failure> {
    let mut query = sql.prepare_cached(KNOWN)?;
    let found = query.query_row([&once.key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
    let Some((digest, record)) = found.optional()? else { return Ok(None) };
    let job = parse(&record).map_err(Failure::Refused)?;
    Ok(Some((job, digest)))
}

/// Stores the next version of a job.
pub(super) struct Save(pub(super) JobRow);

impl Change for Save {
    type Step = ();
    type Output = ();

    fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
        let (sql, row) = (&batch.sql, &self.0);
        let mut find = sql.prepare_cached(FIND)?;
        let found = find.query_row([&row.name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
        let Some((number, phase, version)): Option<(i64, String, i64)> = found else {
            return Err(Failure::Refused(StoreError::NotFound));
        };
        if version.checked_add(1) != Some(row.version) {
            return Err(Failure::Refused(StoreError::Conflict));
        }
        let values = params![number, row.phase.as_str(), row.finished, row.version, row.record];
        sql.prepare_cached(UPDATE)?.execute(values)?;
        if phase != row.phase.as_str() {
            bump(sql, "phase", &phase, -1)?;
            bump(sql, "phase", row.phase.as_str(), 1)?;
        }
        if row.finished.is_some() && !Phase::parse(&phase).is_some_and(Phase::is_final) {
            sql.prepare_cached(DELETE_EVENT)?.execute([number])?;
            bump(sql, "ended", &row.service, 1)?;
        }
        Ok(())
    }

    fn publish(self, (): (), _index: &mut Index) {}
}

/// What a job is counted by.
pub(super) struct Counted {
    pub(super) service: String,
    pub(super) owner: String,
    pub(super) submitter: String,
    pub(super) phase: String,
    pub(super) ended: bool,
}

impl Counted {
    fn of(row: &JobRow) -> Self {
        Self {
            service: row.service.clone(),
            owner: row.owner.clone(),
            submitter: row.submitter.clone(),
            phase: row.phase.as_str().to_owned(),
            ended: row.finished.is_some(),
        }
    }
}

/// Counts a job that came or went.
pub(super) fn count_job(sql: &Transaction<'_>, counted: &Counted, change: i64) -> rusqlite::Result<()> {
    let Counted { service, owner, submitter, phase, ended } = counted;
    bump(sql, "phase", phase, change)?;
    bump(sql, "service", service, change)?;
    bump(sql, "owner", &by_owner(service, owner), change)?;
    bump(sql, "submitter", &by_submitter(service, owner, submitter), change)?;
    if *ended {
        bump(sql, "ended", service, change)?;
    }
    Ok(())
}

fn bump(sql: &Transaction<'_>, scope: &str, name: &str, change: i64) -> rusqlite::Result<()> {
    sql.prepare_cached(BUMP)?.execute(params![scope, name, change])?;
    if change < 0 {
        sql.prepare_cached(DROP_EMPTY)?.execute([scope, name])?;
    }
    Ok(())
}
