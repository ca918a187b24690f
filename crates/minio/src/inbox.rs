//! Objects that arrived, told once however often the store speaks of them.
//!
//! The same write is heard of from the webhook, which gives it a number of nanoseconds (the
//! sequencer), and found by looking, which gives it milliseconds and a tag. Both are one.

use std::collections::BTreeMap;

use oscar_engine::ports::buckets::{ObjectEvent, Subscription};
use rusqlite::{OptionalExtension as _, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::s3::time_of;

/// A write of an object.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) bucket: String,
    pub(crate) key: String,
    /// When it was written, by the store's clock.
    pub(crate) millis: i64,
    /// The store's name of this write; unknown when it was found by looking.
    pub(crate) sequencer: Option<String>,
    /// The version's name, where the bucket keeps versions.
    pub(crate) version_id: Option<String>,
    /// Job and staged output, when the manager itself put it there: a copy that was made twice
    /// because an answer was lost is one output.
    pub(crate) mark: Option<String>,
    pub(crate) record: Record,
}

/// What an event says besides its place.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) bytes: u64,
    pub(crate) etag: String,
    pub(crate) content_type: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) principal: String,
    pub(crate) source_ip: String,
    pub(crate) millis: i64,
}

impl Arrived {
    fn version(&self) -> String {
        let named = self.version_id.clone().or_else(|| self.sequencer.clone());
        named.unwrap_or_else(|| format!("{}-{}", self.millis, self.record.etag))
    }

    /// What makes a folder visible is no upload.
    pub(crate) fn is_folder(&self) -> bool {
        self.key.ends_with('/') && self.record.bytes == 0
    }
}

/// Tells everybody who waits for it. Whether there is something new to tell.
pub(crate) fn note(sql: &Transaction<'_>, arrived: &Arrived, now: i64) -> rusqlite::Result<bool> {
    let services = waiting_for(sql, arrived)?;
    if services.is_empty() || is_known(sql, arrived)? {
        return Ok(false);
    }
    let Arrived { bucket, key, millis, sequencer, mark, .. } = arrived;
    sql.prepare_cached(
        "INSERT INTO seen (bucket, key, millis, etag, sequencer, mark, noted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![bucket, key, millis, arrived.record.etag, sequencer, mark, now])?;
    let record = serde_json::to_string(&arrived.record).map_err(to_sql_error)?;
    let mut insert =
        sql.prepare_cached("INSERT INTO events (service, bucket, key, version, record) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for service in services {
        insert.execute(params![service, bucket, key, arrived.version(), record])?;
    }
    Ok(true)
}

/// Whoever looks only looks back to where his subscription begins. What the webhook tells counts
/// whenever it comes: it may have waited in the store's queue.
fn waiting_for(sql: &Transaction<'_>, arrived: &Arrived) -> rusqlite::Result<Vec<String>> {
    let from = if arrived.sequencer.is_some() { i64::MAX } else { arrived.millis };
    sql.prepare_cached(
        "SELECT DISTINCT service FROM subscriptions WHERE bucket = ?1
         AND prefix = substr(?2, 1, length(prefix)) AND prefix <> ?2 AND since <= ?3",
    )?
    .query_map(params![arrived.bucket, arrived.key, from], |row| row.get(0))?
    .collect()
}

fn is_known(sql: &Transaction<'_>, arrived: &Arrived) -> rusqlite::Result<bool> {
    let Arrived { bucket, key, millis, sequencer, mark, .. } = arrived;
    let mut same = sql.prepare_cached(
        "SELECT rowid, sequencer FROM seen WHERE bucket = ?1 AND key = ?2
         AND (sequencer = ?3 OR mark = ?4 OR (millis = ?5 AND etag = ?6 AND (sequencer IS NULL OR ?3 IS NULL)))",
    )?;
    let row = params![bucket, key, sequencer, mark, millis, arrived.record.etag];
    let found: Option<(i64, Option<String>)> = same.query_row(row, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((row, known)) = found else { return Ok(false) };
    if known.is_none() && sequencer.is_some() {
        // Another write of the same bytes in the same millisecond has another number.
        sql.prepare_cached("UPDATE seen SET sequencer = ?2 WHERE rowid = ?1")?.execute(params![row, sequencer])?;
    }
    Ok(true)
}

/// Of what was found by looking, what was not heard of.
pub(crate) fn unknown(sql: &Transaction<'_>, found: Vec<Arrived>) -> rusqlite::Result<Vec<Arrived>> {
    let mut fresh = Vec::new();
    for arrived in found {
        if !waiting_for(sql, &arrived)?.is_empty() && !is_known(sql, &arrived)? {
            fresh.push(arrived);
        }
    }
    Ok(fresh)
}

pub(crate) fn oldest(sql: &Transaction<'_>, limit: usize) -> rusqlite::Result<Vec<ObjectEvent>> {
    sql.prepare_cached("SELECT id, service, bucket, key, version, record FROM events ORDER BY id LIMIT ?1")?
        .query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            let record: Record = serde_json::from_str(row.get_ref(5)?.as_str()?).map_err(to_sql_error)?;
            Ok(ObjectEvent {
                id: row.get::<_, i64>(0)?.unsigned_abs(),
                service: row.get(1)?,
                bucket: row.get(2)?,
                key: row.get(3)?,
                version: row.get(4)?,
                bytes: record.bytes,
                etag: record.etag,
                content_type: record.content_type,
                user_metadata: record.metadata,
                job: None,
                principal: record.principal,
                source_ip: record.source_ip,
                time: time_of(record.millis),
            })
        })?
        .collect()
}

pub(crate) fn settle(sql: &Transaction<'_>, ids: &[u64]) -> rusqlite::Result<()> {
    let mut delete = sql.prepare_cached("DELETE FROM events WHERE id = ?1")?;
    for id in ids {
        delete.execute([i64::try_from(*id).unwrap_or(-1)])?;
    }
    Ok(())
}

/// Where somebody waits, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) bucket: String,
    pub(crate) prefix: String,
    pub(crate) since: i64,
}

pub(crate) fn watched(sql: &Transaction<'_>) -> rusqlite::Result<Vec<Watched>> {
    sql.prepare_cached("SELECT bucket, prefix, min(since) FROM subscriptions GROUP BY bucket, prefix")?
        .query_map((), |row| Ok(Watched { bucket: row.get(0)?, prefix: row.get(1)?, since: row.get(2)? }))?
        .collect()
}

pub(crate) fn subscribe(sql: &Transaction<'_>, one: &Subscription, since: i64) -> rusqlite::Result<()> {
    sql.prepare_cached(
        "INSERT INTO subscriptions (bucket, prefix, service, since) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    )?
    .execute(params![one.bucket, one.prefix, one.service, since])?;
    Ok(())
}

/// What nobody settled goes with the subscription, unless another one of the service covers it.
pub(crate) fn unsubscribe(sql: &Transaction<'_>, one: &Subscription) -> rusqlite::Result<()> {
    let row = params![one.bucket, one.prefix, one.service];
    sql.prepare_cached("DELETE FROM subscriptions WHERE bucket = ?1 AND prefix = ?2 AND service = ?3")?.execute(row)?;
    sql.prepare_cached(
        "DELETE FROM events WHERE service = ?3 AND bucket = ?1 AND substr(key, 1, length(?2)) = ?2
         AND NOT EXISTS (SELECT 1 FROM subscriptions s WHERE s.service = events.service
             AND s.bucket = events.bucket AND s.prefix = substr(events.key, 1, length(s.prefix)))",
    )?
    .execute(row)?;
    Ok(())
}

/// Everything below these places was looked at up to a time.
pub(crate) fn looked_at(sql: &Transaction<'_>, place: &Watched, until: i64) -> rusqlite::Result<()> {
    sql.prepare_cached(
        "UPDATE subscriptions SET since = max(since, ?3) WHERE bucket = ?1 AND substr(prefix, 1, length(?2)) = ?2",
    )?
    .execute(params![place.bucket, place.prefix, until])?;
    Ok(())
}

/// A bucket is gone with everything that waited for something in it.
pub(crate) fn forget_bucket(sql: &Transaction<'_>, bucket: &str) -> rusqlite::Result<()> {
    for table in ["subscriptions", "events", "seen", "changing"] {
        sql.execute(&format!("DELETE FROM {table} WHERE bucket = ?1"), [bucket])?;
    }
    Ok(())
}

pub(crate) fn forget_old(sql: &Transaction<'_>, before: i64) -> rusqlite::Result<()> {
    sql.execute("DELETE FROM seen WHERE noted < ?1", [before])?;
    sql.execute("DELETE FROM moves WHERE made < ?1", [before])?;
    Ok(())
}

fn to_sql_error(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}
