//! Looking objects up.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::content::{Place, Segment};
use crate::database::Readers;
use crate::error::Refusal;
use crate::files::Files;
use crate::record::{About, from_text};

/// A row of `objects`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectRow {
    pub(crate) version: i64,
    pub(crate) content: i64,
    pub(crate) bytes: u64,
    pub(crate) etag: String,
    pub(crate) modified: i64,
    pub(crate) about: About,
}

impl ObjectRow {
    pub(crate) fn version_name(&self) -> String {
        version_name(self.version)
    }
}

pub(crate) fn version_name(version: i64) -> String {
    format!("{version:016x}")
}

pub(crate) fn find(connection: &Connection, bucket: i64, key: &str) -> rusqlite::Result<Option<ObjectRow>> {
    connection
        .prepare_cached(
            "SELECT version, content, bytes, etag, modified, about FROM objects WHERE bucket = ?1 AND key = ?2",
        )?
        .query_row(params![bucket, key.as_bytes()], |row| {
            Ok(ObjectRow {
                version: row.get(0)?,
                content: row.get(1)?,
                bytes: row.get::<_, i64>(2)?.unsigned_abs(),
                etag: row.get(3)?,
                modified: row.get(4)?,
                about: from_text(row.get_ref(5)?.as_str()?)?,
            })
        })
        .optional()
}

pub(crate) fn inline_body(connection: &Connection, content: i64) -> rusqlite::Result<Option<Bytes>> {
    connection
        .prepare_cached("SELECT body FROM bodies WHERE content = ?1")?
        .query_row([content], |row| row.get::<_, Vec<u8>>(0))
        .optional()
        .map(|body| body.map(Bytes::from))
}

pub(crate) fn segments(connection: &Connection, content: i64) -> rusqlite::Result<Vec<Segment>> {
    connection
        .prepare_cached("SELECT file, start, bytes FROM segments WHERE content = ?1 ORDER BY number")?
        .query_map([content], |row| {
            Ok(Segment {
                file: row.get(0)?,
                start: row.get::<_, i64>(1)?.unsigned_abs(),
                bytes: row.get::<_, i64>(2)?.unsigned_abs(),
            })
        })?
        .collect()
}

enum Found {
    Inline(Bytes),
    Files(Vec<Segment>),
}

/// An object with the place of its bytes, which stay until the place is dropped. Blocks.
pub(crate) fn open(
    readers: &Readers,
    files: &Arc<Files>,
    bucket: i64,
    key: &str,
) -> Result<(ObjectRow, Place), Refusal> {
    loop {
        let found = readers.with(|connection| {
            let Some(object) = find(connection, bucket, key)? else { return Ok(None) };
            let found = match inline_body(connection, object.content)? {
                Some(body) => Found::Inline(body),
                None => Found::Files(segments(connection, object.content)?),
            };
            Ok(Some((object, found)))
        })?;
        let (object, found) = found.ok_or(Refusal::NoSuchKey)?;
        match found {
            Found::Inline(body) => return Ok((object, Place::Inline(body))),
            Found::Files(segments) => {
                let ids = segments.iter().map(|segment| segment.file).collect();
                if let Some(pin) = files.pin(ids) {
                    return Ok((object, Place::Files(segments, pin)));
                }
                check_still_named(readers, files, object.content)?;
            }
        }
    }
}

/// A file is on its way out: either the object was replaced meanwhile, or the disk lost it.
fn check_still_named(readers: &Readers, files: &Files, content: i64) -> Result<(), Refusal> {
    let still = readers.with(|connection| segments(connection, content))?;
    match still.iter().find(|segment| !files.path(segment.file).exists()) {
        None => Ok(()),
        Some(_) => {
            Err(oscar_engine::ports::StoreError::Broken("a file of the object store is missing".to_owned()).into())
        }
    }
}
