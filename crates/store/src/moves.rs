//! Staged outputs become objects of their buckets, once.

use std::collections::HashMap;

use oscar_engine::ports::buckets::{JOB_METADATA, Move};
use rusqlite::params;

use crate::access::{Caller, Kind};
use crate::directory::BucketEntry;
use crate::error::Refusal;
use crate::events::{Origin, emit};
use crate::object_changes::{add_segments, bucket_named, drop_content, place, take_out};
use crate::object_reads::{ObjectRow, find, inline_body, segments};
use crate::record::to_millis;
use crate::writer::{Batch, Failure};

/// All moves or none. A move that was made before is no error; one file may go to several places.
pub(crate) fn commit(batch: &mut Batch<'_>, moves: &[Move], root: &str) -> Result<(), Failure> {
    let mut sources: HashMap<(&str, &str), (i64, ObjectRow)> = HashMap::new();
    for one in moves {
        if (&one.from_bucket, &one.from_key) == (&one.to_bucket, &one.to_key) {
            return Err(Refusal::Invalid("an object cannot be moved to where it is".to_owned()).into());
        }
        let target = bucket_named(batch, &one.to_bucket)?;
        let source = bucket_named(batch, &one.from_bucket)?.ok_or(Refusal::NoSuchBucket)?;
        match find(&batch.sql, source.id, &one.from_key)? {
            Some(from) => {
                let target = target.ok_or(Refusal::NoSuchBucket)?;
                bring(batch, one, &from, &target, root)?;
                remember(batch, one)?;
                sources.insert((&one.from_bucket, &one.from_key), (source.id, from));
            }
            None if was_made(batch, one, target.as_ref())? => {}
            None => return Err(Refusal::NoSuchKey.into()),
        }
    }
    for ((_, key), (bucket, object)) in sources {
        drop_content(batch, object.content)?;
        take_out(batch, bucket, key, &object)?;
    }
    Ok(())
}

/// The object at its place shares the files of the staged one, which goes afterwards.
fn bring(batch: &mut Batch<'_>, one: &Move, from: &ObjectRow, target: &BucketEntry, root: &str) -> Result<(), Failure> {
    let present = find(&batch.sql, target.id, &one.to_key)?;
    if present.as_ref().is_some_and(|object| object.etag == from.etag && is_marked(object, &one.job)) {
        return Ok(());
    }
    let content = batch.next_number();
    match inline_body(&batch.sql, from.content)? {
        Some(body) => {
            batch
                .sql
                .prepare_cached("INSERT INTO bodies (content, body) VALUES (?1, ?2)")?
                .execute(params![content, &body[..]])?;
        }
        None => add_segments(batch, content, &segments(&batch.sql, from.content)?)?,
    }
    let mut object = ObjectRow { version: content, content, modified: to_millis(batch.now), ..from.clone() };
    object.about.metadata.insert(JOB_METADATA.to_owned(), one.job.clone());
    place(batch, target.id, &one.to_key, present.as_ref(), &object)?;
    // What a job leaves belongs to the owner of the place where it leaves it.
    let owner = match &target.door.owner {
        oscar_model::identity::Owner::Admin => root,
        oscar_model::identity::Owner::User(subject) => subject.as_str(),
    };
    let origin = Origin { caller: Caller::permanent(owner, Kind::Manager), source_ip: String::new() };
    emit(batch, &one.to_bucket, &one.to_key, &object, &origin)
}

fn is_marked(object: &ObjectRow, job: &str) -> bool {
    object.about.metadata.get(JOB_METADATA).is_some_and(|mark| mark == job)
}

fn remember(batch: &Batch<'_>, one: &Move) -> Result<(), Failure> {
    batch
        .sql
        .prepare_cached(
            "INSERT OR REPLACE INTO moves (job, from_bucket, from_key, to_bucket, to_key, made)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            one.job,
            one.from_bucket,
            one.from_key.as_bytes(),
            one.to_bucket,
            one.to_key.as_bytes(),
            to_millis(batch.now)
        ])?;
    Ok(())
}

/// By what was noted at the time, because the object may have been replaced or removed since; or
/// by the mark on the object, because notes are not kept for ever.
fn was_made(batch: &Batch<'_>, one: &Move, target: Option<&BucketEntry>) -> Result<bool, Failure> {
    let noted = batch
        .sql
        .prepare_cached(
            "SELECT 1 FROM moves WHERE job = ?1 AND from_bucket = ?2 AND from_key = ?3 AND to_bucket = ?4 AND to_key = ?5",
        )?
        .exists(params![one.job, one.from_bucket, one.from_key.as_bytes(), one.to_bucket, one.to_key.as_bytes()])?;
    if noted {
        return Ok(true);
    }
    let Some(target) = target else { return Ok(false) };
    Ok(find(&batch.sql, target.id, &one.to_key)?.is_some_and(|object| is_marked(&object, &one.job)))
}
