//! Changes of buckets, inside the writer's transaction.

use std::collections::BTreeMap;

use oscar_engine::ports::buckets::{Bucket, STAGING_BUCKET};
use oscar_model::identity::{Owner, Subject};
use oscar_model::service::Visibility;
use rusqlite::{OptionalExtension as _, params};

use crate::access::{Act, Caller, Door};
use crate::directory::BucketEntry;
use crate::error::Refusal;
use crate::listing::{after_all, to_key};
use crate::multipart::forget;
use crate::object_changes::{admit, bucket_named, drop_content, take_out};
use crate::object_reads::find;
use crate::record::{to_millis, to_text};
use crate::writer::{Batch, Failure};

pub(crate) fn create(batch: &mut Batch<'_>, bucket: &Bucket) -> Result<(), Failure> {
    crate::names::check_bucket(&bucket.name)?;
    if let Some(present) = bucket_named(batch, &bucket.name)? {
        return Err(Refusal::BucketExists(present.door.owner == bucket.owner).into());
    }
    let id = batch.next_number();
    let (now, users) = (batch.now, names(&bucket.allowed_users));
    batch
        .sql
        .prepare_cached(
            "INSERT INTO buckets (id, name, owner, visibility, allowed, from_service, tags, created, objects, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, '{}', ?7, 0, 0)",
        )?
        .execute(params![
            id,
            bucket.name,
            bucket.owner.as_str(),
            bucket.visibility.as_str(),
            users,
            bucket.from_service,
            to_millis(now)
        ])?;
    let entry = BucketEntry {
        id,
        door: Door {
            name: bucket.name.clone(),
            owner: bucket.owner.clone(),
            visibility: bucket.visibility,
            allowed_users: bucket.allowed_users.clone(),
        },
        from_service: bucket.from_service.clone(),
        created: now,
    };
    batch.show(move |directory| directory.put_bucket(entry));
    Ok(())
}

/// Makes it, or finds the owner's own.
pub(crate) fn ensure(batch: &mut Batch<'_>, bucket: &Bucket) -> Result<(), Failure> {
    match create(batch, bucket) {
        Err(Failure::Refused(Refusal::BucketExists(true))) if bucket.name != STAGING_BUCKET => Ok(()),
        other => other,
    }
}

pub(crate) fn set_visibility(
    batch: &mut Batch<'_>,
    name: &str,
    visibility: Visibility,
    allowed: &[Subject],
) -> Result<(), Failure> {
    refuse_staging(name)?;
    let mut entry = bucket_named(batch, name)?.ok_or(Refusal::NoSuchBucket)?;
    batch.sql.prepare_cached("UPDATE buckets SET visibility = ?2, allowed = ?3 WHERE id = ?1")?.execute(params![
        entry.id,
        visibility.as_str(),
        names(allowed)
    ])?;
    entry.door.visibility = visibility;
    entry.door.allowed_users = allowed.to_vec();
    batch.show(move |directory| directory.put_bucket(entry));
    Ok(())
}

pub(crate) fn release(batch: &mut Batch<'_>, name: &str) -> Result<(), Failure> {
    refuse_staging(name)?;
    let mut entry = bucket_named(batch, name)?.ok_or(Refusal::NoSuchBucket)?;
    batch.sql.prepare_cached("UPDATE buckets SET from_service = NULL WHERE id = ?1")?.execute(params![entry.id])?;
    entry.from_service = None;
    batch.show(move |directory| directory.put_bucket(entry));
    Ok(())
}

pub(crate) fn set_tags(batch: &mut Batch<'_>, name: &str, tags: &BTreeMap<String, String>) -> Result<(), Failure> {
    let entry = bucket_named(batch, name)?.ok_or(Refusal::NoSuchBucket)?;
    batch
        .sql
        .prepare_cached("UPDATE buckets SET tags = ?2 WHERE id = ?1")?
        .execute(params![entry.id, to_text(tags)])?;
    Ok(())
}

/// The same for somebody, who must be allowed to.
pub(crate) fn set_tags_as(
    batch: &mut Batch<'_>,
    caller: &Caller,
    name: &str,
    tags: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    admit(batch, caller, name, Act::RemoveBucket)?;
    set_tags(batch, name, tags)
}

/// As S3 removes one: only when it is empty.
pub(crate) fn remove_empty(batch: &mut Batch<'_>, caller: &Caller, name: &str) -> Result<i64, Failure> {
    let entry = admit(batch, caller, name, Act::RemoveBucket)?;
    let objects: i64 =
        batch.sql.query_row("SELECT objects FROM buckets WHERE id = ?1", [entry.id], |row| row.get(0))?;
    if objects > 0 {
        return Err(Refusal::BucketNotEmpty.into());
    }
    if entry.from_service.is_some() || is_watched(batch, name)? {
        // Somebody else could make one of this name, and the service would write into that.
        return Err(Refusal::BucketInUse.into());
    }
    bury(batch, name)
}

fn is_watched(batch: &Batch<'_>, name: &str) -> Result<bool, Failure> {
    let mut watched = batch.sql.prepare_cached("SELECT 1 FROM subscriptions WHERE bucket = ?1")?;
    Ok(watched.exists([name])?)
}

/// From here on nobody reaches it; what is in it is cleared away bit by bit.
pub(crate) fn bury(batch: &mut Batch<'_>, name: &str) -> Result<i64, Failure> {
    refuse_staging(name)?;
    let id = bucket_named(batch, name)?.ok_or(Refusal::NoSuchBucket)?.id;
    batch.sql.prepare_cached("DELETE FROM buckets WHERE id = ?1")?.execute([id])?;
    batch.sql.prepare_cached("INSERT INTO graves (bucket) VALUES (?1)")?.execute([id])?;
    // Else the next bucket of this name would start services of this one's owner.
    batch.sql.prepare_cached("DELETE FROM subscriptions WHERE bucket = ?1")?.execute([name])?;
    batch.sql.prepare_cached("DELETE FROM events WHERE bucket = ?1")?.execute([name])?;
    let name = name.to_owned();
    batch.show(move |directory| drop(directory.buckets.remove(&name)));
    Ok(id)
}

/// Few enough that others get their turn in between.
const SHOVEL: usize = 200;

/// Removes some of what is below a prefix of a bucket, by its number. True when nothing is left.
pub(crate) fn clear_some(batch: &mut Batch<'_>, bucket: i64, prefix: &str) -> Result<bool, Failure> {
    let range = params![bucket, prefix.as_bytes(), after_all(prefix.as_bytes()), i64::try_from(SHOVEL).unwrap_or(1)];
    let keys: Vec<String> = batch
        .sql
        .prepare_cached("SELECT key FROM objects WHERE bucket = ?1 AND key >= ?2 AND key < ?3 LIMIT ?4")?
        .query_map(range, |row| Ok(to_key(row.get_ref(0)?.as_blob()?)))?
        .collect::<rusqlite::Result<_>>()?;
    for key in &keys {
        if let Some(object) = find(&batch.sql, bucket, key)? {
            drop_content(batch, object.content)?;
            take_out(batch, bucket, key, &object)?;
        }
    }
    let uploads: Vec<String> = batch
        .sql
        .prepare_cached("SELECT id FROM uploads WHERE bucket = ?1 AND key >= ?2 AND key < ?3 LIMIT ?4")?
        .query_map(range, |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for upload in &uploads {
        forget(batch, upload)?;
    }
    Ok(keys.len() < SHOVEL && uploads.len() < SHOVEL)
}

pub(crate) fn close_grave(batch: &mut Batch<'_>, bucket: i64) -> Result<(), Failure> {
    batch.sql.prepare_cached("DELETE FROM graves WHERE bucket = ?1")?.execute([bucket])?;
    Ok(())
}

/// A bucket that a crash left half cleared.
pub(crate) fn open_grave(batch: &mut Batch<'_>) -> Result<Option<i64>, Failure> {
    Ok(batch.sql.query_row("SELECT bucket FROM graves LIMIT 1", (), |row| row.get(0)).optional()?)
}

/// The bucket of staged outputs, which is always there.
pub(crate) fn staging() -> Bucket {
    Bucket {
        name: STAGING_BUCKET.to_owned(),
        owner: Owner::Admin,
        visibility: Visibility::Private,
        allowed_users: Vec::new(),
        from_service: None,
    }
}

fn refuse_staging(name: &str) -> Result<(), Refusal> {
    if name == STAGING_BUCKET { Err(Refusal::Denied) } else { Ok(()) }
}

fn names(users: &[Subject]) -> String {
    to_text(&users.iter().map(Subject::as_str).collect::<Vec<_>>())
}

/// Objects in all buckets but one. Each bucket counts its own as they come and go.
pub(crate) fn count_objects(connection: &rusqlite::Connection, but: &str) -> rusqlite::Result<u64> {
    let sum = "SELECT coalesce(sum(objects), 0) FROM buckets WHERE name <> ?1";
    let count: i64 = connection.prepare_cached(sum)?.query_row([but], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
