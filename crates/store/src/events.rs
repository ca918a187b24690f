//! The outbox: an object and its events become visible in the same commit.

use oscar_engine::ports::buckets::{JOB_METADATA, ObjectEvent};
use oscar_model::identity::Owner;
use rusqlite::{Connection, params};

use crate::access::{Caller, Kind};
use crate::listing::to_key;
use crate::object_changes::bucket_named;
use crate::object_reads::{ObjectRow, version_name};
use crate::record::{EventRecord, from_millis, from_text, to_text};
use crate::writer::{Batch, Failure};

/// Who made an object, for its events.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) caller: Caller,
    pub(crate) source_ip: String,
}

/// One event for each service that waits for this object. The folder itself is none.
pub(crate) fn emit(
    batch: &mut Batch<'_>,
    bucket: &str,
    key: &str,
    object: &ObjectRow,
    origin: &Origin,
) -> Result<(), Failure> {
    let services: Vec<String> = {
        let mut matching = batch.sql.prepare_cached(
            "SELECT DISTINCT service FROM subscriptions
             WHERE bucket = ?1 AND prefix = substr(?2, 1, length(prefix)) AND prefix <> ?2",
        )?;
        matching.query_map(params![bucket, key.as_bytes()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?
    };
    if services.is_empty() {
        return Ok(());
    }
    // What a job leaves belongs to the owner of the place where it leaves it.
    let principal = match &origin.caller.kind {
        Kind::Scoped(_) => match bucket_named(batch, bucket)?.map(|entry| entry.door.owner) {
            Some(Owner::User(subject)) => subject.as_str().to_owned(),
            // Without a word the owner of the service has made it.
            Some(Owner::Admin) | None => String::new(),
        },
        Kind::Manager | Kind::Root | Kind::User(_) => origin.caller.principal.clone(),
    };
    // Users may write what they like there.
    let job = match &origin.caller.kind {
        Kind::Scoped(_) | Kind::Manager => object.about.metadata.get(JOB_METADATA).cloned(),
        Kind::Root | Kind::User(_) => None,
    };
    let record = to_text(&EventRecord {
        job,
        bytes: object.bytes,
        etag: object.etag.clone(),
        content_type: object.about.content_type.clone().unwrap_or_default(),
        metadata: object.about.metadata.clone(),
        principal,
        source_ip: origin.source_ip.clone(),
        time: object.modified,
    });
    let mut insert = batch.sql.prepare_cached(
        "INSERT INTO events (service, bucket, key, version, record) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    )?;
    for service in services {
        insert.execute(params![service, bucket, key.as_bytes(), object.version, record])?;
    }
    drop(insert);
    batch.announce();
    Ok(())
}

pub(crate) fn oldest(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<ObjectEvent>> {
    connection
        .prepare_cached("SELECT id, service, bucket, key, version, record FROM events ORDER BY id LIMIT ?1")?
        .query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            let record: EventRecord = from_text(row.get_ref(5)?.as_str()?)?;
            Ok(ObjectEvent {
                id: row.get::<_, i64>(0)?.unsigned_abs(),
                service: row.get(1)?,
                bucket: row.get(2)?,
                key: to_key(row.get_ref(3)?.as_blob()?),
                bytes: record.bytes,
                etag: record.etag,
                version: version_name(row.get(4)?),
                content_type: record.content_type,
                user_metadata: record.metadata,
                principal: record.principal,
                source_ip: record.source_ip,
                time: from_millis(record.time),
                job: record.job,
            })
        })?
        .collect()
}

pub(crate) fn settle(batch: &mut Batch<'_>, ids: &[u64]) -> Result<(), Failure> {
    let mut delete = batch.sql.prepare_cached("DELETE FROM events WHERE id = ?1")?;
    for id in ids {
        delete.execute([i64::try_from(*id).unwrap_or(-1)])?;
    }
    Ok(())
}

pub(crate) fn subscribe(batch: &mut Batch<'_>, bucket: &str, prefix: &str, service: &str) -> Result<(), Failure> {
    batch
        .sql
        .prepare_cached(
            "INSERT INTO subscriptions (bucket, prefix, service) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?
        .execute(params![bucket, prefix.as_bytes(), service])?;
    Ok(())
}

/// What nobody settled goes with the subscription, unless another one of the service covers it.
pub(crate) fn unsubscribe(batch: &mut Batch<'_>, bucket: &str, prefix: &str, service: &str) -> Result<(), Failure> {
    let row = params![bucket, prefix.as_bytes(), service];
    batch
        .sql
        .prepare_cached("DELETE FROM subscriptions WHERE bucket = ?1 AND prefix = ?2 AND service = ?3")?
        .execute(row)?;
    batch
        .sql
        .prepare_cached(
            "DELETE FROM events WHERE service = ?3 AND bucket = ?1 AND substr(key, 1, length(?2)) = ?2
             AND NOT EXISTS (SELECT 1 FROM subscriptions s WHERE s.service = events.service
                 AND s.bucket = events.bucket AND s.prefix = substr(events.key, 1, length(s.prefix)))",
        )?
        .execute(row)?;
    Ok(())
}
