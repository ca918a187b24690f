//! Changes of objects, inside the writer's transaction.

use std::sync::Arc;

use rusqlite::{OptionalExtension as _, params};

use crate::access::{Act, Caller, Kind};
use crate::content::Segment;
use crate::directory::{BUCKET_COLUMNS, BucketEntry, to_bucket};
use crate::error::Refusal;
use crate::events::{Origin, emit};
use crate::intake::Body;
use crate::object_reads::{ObjectRow, find, inline_body, segments};
use crate::record::{About, to_millis, to_text};
use crate::writer::{Batch, Failure};

/// When a write may happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    pub(crate) if_match: Option<Tag>,
    pub(crate) if_none_match: Option<Tag>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tag {
    Any,
    Is(String),
}

impl Tag {
    pub(crate) fn matches(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Is(wanted) => wanted == etag,
        }
    }
}

impl Conditions {
    pub(crate) fn check(&self, present: Option<&str>) -> Result<(), Refusal> {
        if let Some(wanted) = &self.if_match {
            let etag = present.ok_or(Refusal::NoSuchKey)?;
            if !wanted.matches(etag) {
                return Err(Refusal::Condition);
            }
        }
        match (&self.if_none_match, present) {
            (Some(unwanted), Some(etag)) if unwanted.matches(etag) => Err(Refusal::Condition),
            _ => Ok(()),
        }
    }
}

/// A new object, its bytes on disk or here.
pub(crate) struct NewObject {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) body: Body,
    pub(crate) bytes: u64,
    pub(crate) etag: String,
    pub(crate) about: About,
    pub(crate) conditions: Conditions,
    pub(crate) origin: Origin,
}

/// Asks again, where it counts, whether the key is still good and may still do this: it may have
/// been revoked, or the bucket closed, while the body was on its way.
pub(crate) fn admit(batch: &Batch<'_>, caller: &Caller, bucket: &str, act: Act<'_>) -> Result<BucketEntry, Failure> {
    if matches!(caller.kind, Kind::User(_) | Kind::Scoped(_)) {
        let expires: Option<Option<i64>> = batch
            .sql
            .prepare_cached("SELECT expires FROM keys WHERE access_key = ?1")?
            .query_row([&caller.principal], |row| row.get(0))
            .optional()?;
        let is_good = expires.is_some_and(|expires| expires.is_none_or(|expires| to_millis(batch.now) < expires));
        if !is_good {
            return Err(Refusal::Denied.into());
        }
    }
    let found = bucket_named(batch, bucket)?.ok_or(Refusal::NoSuchBucket)?;
    if caller.kind.may(&found.door, act) { Ok(found) } else { Err(Refusal::Denied.into()) }
}

pub(crate) fn bucket_named(batch: &Batch<'_>, name: &str) -> Result<Option<BucketEntry>, Failure> {
    let sql = format!("{BUCKET_COLUMNS} FROM buckets WHERE name = ?1");
    Ok(batch.sql.prepare_cached(&sql)?.query_row([name], to_bucket).optional()?)
}

pub(crate) fn put(batch: &mut Batch<'_>, new: &NewObject) -> Result<ObjectRow, Failure> {
    let bucket = admit(batch, &new.origin.caller, &new.bucket, Act::Write(&new.key))?;
    let object = write(batch, &bucket, new)?;
    emit(batch, &new.bucket, &new.key, &object, &new.origin)?;
    Ok(object)
}

/// A folder that the manager makes is no upload: nobody is asked, and nobody is told.
pub(crate) fn put_silently(batch: &mut Batch<'_>, new: &NewObject) -> Result<(), Failure> {
    let bucket = bucket_named(batch, &new.bucket)?.ok_or(Refusal::NoSuchBucket)?;
    write(batch, &bucket, new).map(drop)
}

fn write(batch: &mut Batch<'_>, bucket: &BucketEntry, new: &NewObject) -> Result<ObjectRow, Failure> {
    let present = find(&batch.sql, bucket.id, &new.key)?;
    new.conditions.check(present.as_ref().map(|object| object.etag.as_str()))?;
    let content = store_body(batch, &new.body, new.bytes)?;
    let object = ObjectRow {
        version: content,
        content,
        bytes: new.bytes,
        etag: new.etag.clone(),
        modified: to_millis(batch.now),
        about: new.about.clone(),
    };
    place(batch, bucket.id, &new.key, present.as_ref(), &object)?;
    Ok(object)
}

/// A content of its own for a body that arrived.
pub(crate) fn store_body(batch: &mut Batch<'_>, body: &Body, bytes: u64) -> Result<i64, Failure> {
    let content = batch.next_number();
    match body {
        Body::Inline(body) => {
            batch
                .sql
                .prepare_cached("INSERT INTO bodies (content, body) VALUES (?1, ?2)")?
                .execute(params![content, &body[..]])?;
        }
        Body::File(file) => {
            add_segments(batch, content, &[Segment { file: file.id, start: 0, bytes }])?;
            batch.name_file(&Arc::clone(file));
        }
    }
    Ok(content)
}

pub(crate) fn add_segments(batch: &Batch<'_>, content: i64, segments: &[Segment]) -> Result<(), Failure> {
    let mut insert = batch
        .sql
        .prepare_cached("INSERT INTO segments (content, number, file, start, bytes) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (number, segment) in (0i64..).zip(segments) {
        insert.execute(params![content, number, segment.file, to_i64(segment.start), to_i64(segment.bytes)])?;
    }
    Ok(())
}

/// Puts an object in the place of what was there, and counts.
pub(crate) fn place(
    batch: &mut Batch<'_>,
    bucket: i64,
    key: &str,
    former: Option<&ObjectRow>,
    object: &ObjectRow,
) -> Result<(), Failure> {
    if let Some(former) = former {
        drop_content(batch, former.content)?;
    }
    batch
        .sql
        .prepare_cached(
            "INSERT OR REPLACE INTO objects (bucket, key, version, content, bytes, etag, modified, about)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            bucket,
            key.as_bytes(),
            object.version,
            object.content,
            to_i64(object.bytes),
            object.etag,
            object.modified,
            to_text(&object.about)
        ])?;
    let (objects, bytes) = former.map_or((1, 0), |former| (0, to_i64(former.bytes)));
    count(batch, bucket, objects, to_i64(object.bytes) - bytes)
}

/// Takes an object out. Its content goes, unless it was taken elsewhere.
pub(crate) fn take_out(batch: &mut Batch<'_>, bucket: i64, key: &str, object: &ObjectRow) -> Result<(), Failure> {
    batch
        .sql
        .prepare_cached("DELETE FROM objects WHERE bucket = ?1 AND key = ?2")?
        .execute(params![bucket, key.as_bytes()])?;
    count(batch, bucket, -1, -to_i64(object.bytes))
}

fn count(batch: &Batch<'_>, bucket: i64, objects: i64, bytes: i64) -> Result<(), Failure> {
    if (objects, bytes) != (0, 0) {
        batch
            .sql
            .prepare_cached("UPDATE buckets SET objects = objects + ?2, bytes = bytes + ?3 WHERE id = ?1")?
            .execute([bucket, objects, bytes])?;
    }
    Ok(())
}

pub(crate) fn drop_content(batch: &mut Batch<'_>, content: i64) -> Result<(), Failure> {
    let inline = batch.sql.prepare_cached("DELETE FROM bodies WHERE content = ?1")?.execute([content])?;
    if inline > 0 {
        return Ok(());
    }
    let files: Vec<i64> = segments(&batch.sql, content)?.into_iter().map(|segment| segment.file).collect();
    batch.sql.prepare_cached("DELETE FROM segments WHERE content = ?1")?.execute([content])?;
    for file in files {
        batch.leave_file(file);
    }
    Ok(())
}

/// True when there was one.
pub(crate) fn delete(
    batch: &mut Batch<'_>,
    caller: &Caller,
    bucket: &str,
    key: &str,
    conditions: &Conditions,
) -> Result<bool, Failure> {
    let bucket = admit(batch, caller, bucket, Act::Delete(key))?;
    let Some(object) = find(&batch.sql, bucket.id, key)? else { return Ok(false) };
    conditions.check(Some(&object.etag))?;
    drop_content(batch, object.content)?;
    take_out(batch, bucket.id, key, &object)?;
    Ok(true)
}

/// Where a copy comes from, and whether it may be made.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) conditions: ReadConditions,
    /// Only this write of it, when something was found out about it before.
    pub(crate) version: Option<i64>,
}

/// Conditions on what is read: `If-Match` and its kin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadConditions {
    pub(crate) tags: Conditions,
    /// Milliseconds, whole seconds.
    pub(crate) modified_since: Option<i64>,
    pub(crate) unmodified_since: Option<i64>,
}

impl ReadConditions {
    /// `Err(true)` means "not modified" rather than "does not hold".
    pub(crate) fn check(&self, etag: &str, modified: i64) -> Result<(), bool> {
        let modified = modified - modified.rem_euclid(1000);
        // A tag outweighs a date.
        let holds = match &self.tags.if_match {
            Some(wanted) => wanted.matches(etag),
            None => self.unmodified_since.is_none_or(|since| modified <= since),
        };
        if !holds {
            return Err(false);
        }
        match &self.tags.if_none_match {
            Some(unwanted) if unwanted.matches(etag) => Err(true),
            None if self.modified_since.is_some_and(|since| modified <= since) => Err(true),
            _ => Ok(()),
        }
    }
}

/// Copies without reading the bytes of a large object: both name the same files.
pub(crate) fn copy(
    batch: &mut Batch<'_>,
    source: &Source,
    to: (&str, &str),
    change: impl Fn(&mut About),
    conditions: &Conditions,
    origin: &Origin,
) -> Result<ObjectRow, Failure> {
    let from = read_source(batch, source, &origin.caller)?;
    let bucket = admit(batch, &origin.caller, to.0, Act::Write(to.1))?;
    let present = find(&batch.sql, bucket.id, to.1)?;
    conditions.check(present.as_ref().map(|object| object.etag.as_str()))?;
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
    let mut about = from.about.clone();
    change(&mut about);
    let object = ObjectRow { version: content, content, modified: to_millis(batch.now), about, ..from };
    place(batch, bucket.id, to.1, present.as_ref(), &object)?;
    emit(batch, to.0, to.1, &object, origin)?;
    Ok(object)
}

pub(crate) fn read_source(batch: &Batch<'_>, source: &Source, caller: &Caller) -> Result<ObjectRow, Failure> {
    let bucket = admit(batch, caller, &source.bucket, Act::Read(&source.key))?;
    let from = find(&batch.sql, bucket.id, &source.key)?.ok_or(Refusal::NoSuchKey)?;
    source.conditions.check(&from.etag, from.modified).map_err(|_| Refusal::Condition)?;
    if source.version.is_some_and(|version| version != from.version) {
        return Err(Refusal::Changed.into());
    }
    Ok(from)
}

pub(crate) fn set_tags(
    batch: &mut Batch<'_>,
    caller: &Caller,
    place: (&str, &str),
    tags: &std::collections::BTreeMap<String, String>,
) -> Result<(), Failure> {
    let bucket = admit(batch, caller, place.0, Act::Write(place.1))?;
    let mut object = find(&batch.sql, bucket.id, place.1)?.ok_or(Refusal::NoSuchKey)?;
    object.about.tags.clone_from(tags);
    batch.sql.prepare_cached("UPDATE objects SET about = ?3 WHERE bucket = ?1 AND key = ?2")?.execute(params![
        bucket.id,
        place.1.as_bytes(),
        to_text(&object.about)
    ])?;
    Ok(())
}

/// Lengths are checked long before they reach this; nothing here is near the limit.
pub(crate) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
