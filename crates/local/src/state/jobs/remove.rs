//! Forgetting jobs that have ended, in bites: no other change waits long for it.

use oscar_engine::ports::jobs::{Removal, Whose};
use oscar_model::job::{JobName, Phase};
use rusqlite::types::Value;
use rusqlite::{Row, Transaction, params_from_iter};

use super::changes::{Counted, count_job};
use super::signed;
use crate::state::index::Index;
use crate::state::writer::{Batch, Change, Failure};

/// How many one transaction forgets of those that share a service.
const BITE: i64 = 500;

const ONE: &str =
    "SELECT number, name, service, owner, submitter, phase FROM jobs WHERE name = ?1 AND finished IS NOT NULL";
const OF_SERVICE: &str = "SELECT number, name, service, owner, submitter, phase FROM jobs INDEXED BY jobs_of_service
     WHERE service = ?1 AND number > ?2 AND finished IS NOT NULL AND ?3 IN ('', phase) ORDER BY number LIMIT ?4";
const OF_OWNER: &str = "SELECT number, name, service, owner, submitter, phase FROM jobs INDEXED BY jobs_of_owner
     WHERE service = ?1 AND number > ?2 AND finished IS NOT NULL AND ?3 IN ('', phase) AND owner = ?5
     ORDER BY number LIMIT ?4";
const OF_SUBMITTER: &str =
    "SELECT number, name, service, owner, submitter, phase FROM jobs INDEXED BY jobs_of_submitter
     WHERE service = ?1 AND number > ?2 AND finished IS NOT NULL AND ?3 IN ('', phase) AND owner = ?5 AND submitter = ?6
     ORDER BY number LIMIT ?4";
const BEFORE: &str = "SELECT number, name, service, owner, submitter, phase FROM jobs INDEXED BY jobs_by_end
     WHERE finished < ?1 ORDER BY finished, number LIMIT ?2";
/// As many rows as there are services.
const TOO_MANY: &str = "SELECT name, jobs FROM job_counts WHERE scope = 'ended' AND jobs > ?1";
const OLDEST: &str = "SELECT number, name, service, owner, submitter, phase FROM jobs INDEXED BY jobs_ended
     WHERE service = ?1 AND finished IS NOT NULL ORDER BY finished, number LIMIT ?2";
const DELETE: &str = "DELETE FROM jobs WHERE number = ?1";

#[cfg(test)]
pub(super) const QUERIES: &[&str] = &[ONE, OF_SERVICE, OF_OWNER, OF_SUBMITTER, BEFORE, TOO_MANY, OLDEST, DELETE];

/// Forgets a bite of what was asked for.
#[derive(Clone)]
pub(super) struct Remove {
    which: Removal,
    /// The number of the last job that the bite before forgot.
    pub(super) after: i64,
}

/// What was forgotten.
pub(super) struct Bite {
    pub(super) names: Vec<JobName>,
    /// Where the next bite begins, when there may be one.
    pub(super) last: Option<i64>,
}

struct Ended {
    number: i64,
    name: String,
    counted: Counted,
}

impl Remove {
    pub(super) fn new(which: &Removal) -> Self {
        Self { which: which.clone(), after: 0 }
    }
}

impl Change for Remove {
    type Step = Bite;
    type Output = Bite;

    fn apply(&self, batch: &mut Batch<'_>) -> Result<Bite, Failure> {
        let sql = &batch.sql;
        match &self.which {
            Removal::One(name) => Ok(bite(&forget(sql, ONE, vec![name.to_string().into()])?, None)),
            Removal::OfService { service, whose, succeeded_only } => {
                let phase = if *succeeded_only { Phase::Succeeded.as_str() } else { "" };
                let mut values: Vec<Value> =
                    vec![service.to_string().into(), self.after.into(), phase.to_owned().into(), BITE.into()];
                let those = whose.owner().into_iter().chain(whose.submitter());
                values.extend(those.map(|owner| Value::from(owner.as_str().to_owned())));
                let query = match whose {
                    Whose::Everybody => OF_SERVICE,
                    Whose::Owner(_) => OF_OWNER,
                    Whose::Submitter { .. } => OF_SUBMITTER,
                };
                Ok(bite(&forget(sql, query, values)?, Some(BITE)))
            }
            Removal::Old { ended_before, most_per_service, limit } => {
                let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
                let mut ended = forget(sql, BEFORE, vec![signed(*ended_before).into(), limit.into()])?;
                for (service, excess) in too_many(sql, signed(*most_per_service))? {
                    let left = limit.saturating_sub(i64::try_from(ended.len()).unwrap_or(i64::MAX));
                    ended.extend(forget(sql, OLDEST, vec![service.into(), excess.min(left).into()])?);
                }
                Ok(bite(&ended, None))
            }
        }
    }

    fn publish(self, bite: Bite, _index: &mut Index) -> Bite {
        bite
    }
}

/// Services of which more have ended than are kept, each with how many more.
fn too_many(sql: &Transaction<'_>, most: i64) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut query = sql.prepare_cached(TOO_MANY)?;
    query.query_map([most], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? - most)))?.collect()
}

fn forget(sql: &Transaction<'_>, query: &str, values: Vec<Value>) -> rusqlite::Result<Vec<Ended>> {
    let mut query = sql.prepare_cached(query)?;
    let ended = query.query_map(params_from_iter(values), ended)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut delete = sql.prepare_cached(DELETE)?;
    for one in &ended {
        delete.execute([one.number])?;
        count_job(sql, &one.counted, -1)?;
    }
    Ok(ended)
}

fn ended(row: &Row<'_>) -> rusqlite::Result<Ended> {
    let counted =
        Counted { service: row.get(2)?, owner: row.get(3)?, submitter: row.get(4)?, phase: row.get(5)?, ended: true };
    Ok(Ended { number: row.get(0)?, name: row.get(1)?, counted })
}

/// A bite that is smaller than it may be is the last one.
fn bite(ended: &[Ended], full: Option<i64>) -> Bite {
    let is_full = full.is_some_and(|full| i64::try_from(ended.len()).is_ok_and(|length| length >= full));
    Bite {
        names: ended.iter().filter_map(|one| JobName::parse(&one.name)).collect(),
        last: ended.last().filter(|_| is_full).map(|one| one.number),
    }
}
