//! What ran, for statistics.
//!
//! Runs are added up as they are read, so that memory grows with the sums only. `GROUP BY` would
//! sort all of them first, since no index has them both by time and by user.

use oscar_engine::ports::usage::{Amounts, Share, Tally, Usage, UsageQuery, UsageSum};
use rusqlite::{Connection, Params, params};

use super::{signed, unsigned};
use crate::state::index::Index;
use crate::state::writer::{Batch, Change, Failure};

/// How long it is remembered what ran: four hundred days.
const KEEP: u64 = 400 * 24 * 3600 * 1000;

const EVERYTHING: &str = "SELECT service, user, synchronous, core_millis, gpu_millis FROM usage
     INDEXED BY usage_by_time WHERE at >= ?1 AND at < ?2";
const OF_SERVICE: &str = "SELECT service, user, synchronous, core_millis, gpu_millis FROM usage
     INDEXED BY usage_of_service WHERE service = ?3 AND at >= ?1 AND at < ?2 AND ?4 IN ('', owner)";
const OF_USER: &str = "SELECT service, user, synchronous, core_millis, gpu_millis FROM usage
     INDEXED BY usage_of_user WHERE service = ?3 AND user = ?5 AND at >= ?1 AND at < ?2 AND ?4 IN ('', owner)";
const INSERT: &str = "INSERT INTO usage (at, service, owner, user, synchronous, core_millis, gpu_millis)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
/// More than one at a time, so that it catches up; few, so that nobody waits for it.
const PRUNE: &str = "DELETE FROM usage WHERE rowid IN
     (SELECT rowid FROM usage INDEXED BY usage_by_time WHERE at < ?1 ORDER BY at LIMIT 8)";

#[cfg(test)]
pub(super) const QUERIES: &[&str] = &[EVERYTHING, OF_SERVICE, OF_USER, PRUNE];

pub(super) fn sums(sql: &Connection, query: &UsageQuery) -> rusqlite::Result<Option<Vec<UsageSum>>> {
    let mut tally = Tally::new(query.limit);
    let (from, until) = (signed(query.from), signed(query.until));
    let Some(shares) = &query.shares else {
        add(&mut tally, sql, EVERYTHING, params![from, until])?;
        return Ok(tally.finish());
    };
    for Share { service, owner, user } in shares {
        let (service, owner) = (service.as_str(), owner.as_ref().map_or("", |owner| owner.as_str()));
        let goes_on = match user {
            Some(user) => add(&mut tally, sql, OF_USER, params![from, until, service, owner, user])?,
            None => add(&mut tally, sql, OF_SERVICE, params![from, until, service, owner])?,
        };
        if !goes_on {
            break;
        }
    }
    Ok(tally.finish())
}

/// Whether there was room for all of them.
fn add(tally: &mut Tally, sql: &Connection, query: &str, values: impl Params) -> rusqlite::Result<bool> {
    let mut query = sql.prepare_cached(query)?;
    let mut rows = query.query(values)?;
    while let Some(row) = rows.next()? {
        let amounts = Amounts::of_run(row.get(2)?, unsigned(row.get(3)?), unsigned(row.get(4)?));
        if !tally.add(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?, amounts) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Remembers a run, and forgets some that are too old.
pub(super) struct NoteUsage(pub(super) Usage);

impl Change for NoteUsage {
    type Step = ();
    type Output = ();

    fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
        let Usage { service, owner, user, synchronous, at, core_millis, gpu_millis } = &self.0;
        let (core_millis, gpu_millis) = (signed(*core_millis), signed(*gpu_millis));
        let values = params![signed(*at), service.as_str(), owner.as_str(), user, synchronous, core_millis, gpu_millis];
        batch.sql.prepare_cached(INSERT)?.execute(values)?;
        batch.sql.prepare_cached(PRUNE)?.execute([signed(at.saturating_sub(KEEP))])?;
        Ok(())
    }

    fn publish(self, (): (), _index: &mut Index) {}
}
