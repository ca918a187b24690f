//! Staged outputs become objects of their buckets, once.
//!
//! An object store cannot move several objects at once, so the order is: see that all can be
//! moved; copy each, with the job and the staged object's tag on it; note it; remove what was
//! staged. Whoever comes after a crash knows by note or by mark what was done, and does the rest.

use std::collections::BTreeSet;
use std::time::Duration;

use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{JOB_METADATA, Move};
use reqwest::Method;
use rusqlite::params;

use crate::error::Trouble;
use crate::inbox::{Arrived, Record};
use crate::owners::check_bucket;
use crate::s3::{Head, check_key, of_object};
use crate::sign::encoded_path;
use crate::store::Inner;
use crate::wire::Ask;
use crate::xml::{self, Begun, Complete, CopiedPart, Part};

/// Of which staged object this is the copy; beside [`JOB_METADATA`].
pub(crate) const STAGED_METADATA: &str = "oscar-staged";

/// Bytes per second below which a copy inside the store is given up.
const SLOWEST: u64 = 4 << 20;
const MOST_PARTS: u64 = 10_000;
const SMALLEST_PART: u64 = 512 << 20;

impl Inner {
    pub(crate) async fn commit_moves(&self, moves: &[Move]) -> Result<(), StoreError> {
        for one in moves {
            check_key(&one.to_key)?;
            check_key(&one.from_key)?;
            check_bucket(&one.to_bucket)?;
            check_bucket(&one.from_bucket)?;
            if (&one.from_bucket, &one.from_key) == (&one.to_bucket, &one.to_key) {
                return Err(StoreError::Forbidden("an object cannot be moved to where it is".to_owned()));
            }
        }
        let mut left = Vec::new();
        for one in moves {
            if !self.was_moved(one).await? {
                left.extend(self.source_of(one).await?.map(|source| (one, source)));
            }
        }
        let targets: BTreeSet<&str> = left.iter().map(|(one, _)| one.to_bucket.as_str()).collect();
        for bucket in targets {
            if !self.wire.has_bucket(bucket).await? {
                return Err(StoreError::NotFound);
            }
        }
        let mut has_begun = moves.len() > left.len();
        for (one, source) in left {
            let brought = self.bring(one, &source).await;
            brought.map_err(|error| if has_begun { after_the_first(error) } else { error })?;
            has_begun = true;
            self.note_move(one).await?;
        }
        let sources: BTreeSet<(&str, &str)> =
            moves.iter().map(|one| (one.from_bucket.as_str(), one.from_key.as_str())).collect();
        for (bucket, key) in sources {
            let removed = self.wire.delete_object(bucket, key, "").await;
            removed.map_err(|trouble| after_the_first(trouble.into()))?;
        }
        Ok(())
    }

    /// Nothing when it is at its place already.
    async fn source_of(&self, one: &Move) -> Result<Option<Head>, StoreError> {
        if let Some(source) = self.wire.head_object(&one.from_bucket, &one.from_key).await? {
            return Ok(Some(source));
        }
        // Notes are not kept for ever; the mark on the object is.
        let target = self.wire.head_object(&one.to_bucket, &one.to_key).await?;
        let is_there = target.is_some_and(|target| target.metadata.get(JOB_METADATA) == Some(&one.job));
        if is_there { Ok(None) } else { Err(StoreError::NotFound) }
    }

    async fn bring(&self, one: &Move, source: &Head) -> Result<(), StoreError> {
        let present = self.wire.head_object(&one.to_bucket, &one.to_key).await?;
        let is_copy = |present: &Head| {
            present.metadata.get(JOB_METADATA) == Some(&one.job)
                && present.metadata.get(STAGED_METADATA) == Some(&source.etag)
        };
        if let Some(present) = present.filter(is_copy) {
            // Whoever made it did not hear of the end, and the store may have told nobody.
            return self.take(vec![arrived(one, present)]).await;
        }
        Ok(self.copy(one, source).await?)
    }

    async fn copy(&self, one: &Move, source: &Head) -> Result<(), Trouble> {
        if source.bytes > self.copy_limit {
            return self.copy_in_parts(one, source).await;
        }
        let mut headers = headers_of(one, source);
        headers.push(header("x-amz-copy-source", source_path(one)));
        headers.push(header("x-amz-copy-source-if-match", format!("\"{}\"", source.etag)));
        headers.push(header("x-amz-metadata-directive", "REPLACE"));
        let ask =
            Ask { headers, patience: patience(source.bytes), ..of_object(Method::PUT, &one.to_bucket, &one.to_key) };
        self.wire.send(ask).await.map(drop)
    }

    async fn copy_in_parts(&self, one: &Move, source: &Head) -> Result<(), Trouble> {
        let headers = headers_of(one, source);
        let place = |method| of_object(method, &one.to_bucket, &one.to_key);
        let begun = Ask { query: vec![("uploads", "")], headers, ..place(Method::POST) };
        let begun: Begun = xml::read(&self.wire.send(begun).await?.text())?;
        let copied = self.copy_parts(one, source, &begun.upload).await;
        if copied.is_err() {
            // What stays is the store's to remove; the first failure is what counts.
            let _ = self.wire.abort_upload(&one.to_bucket, &one.to_key, &begun.upload).await;
        }
        copied
    }

    async fn copy_parts(&self, one: &Move, source: &Head, upload: &str) -> Result<(), Trouble> {
        let place = |method| of_object(method, &one.to_bucket, &one.to_key);
        let size = SMALLEST_PART.min(self.copy_limit).max(source.bytes.div_ceil(MOST_PARTS));
        let mut parts = Vec::new();
        let mut begin = 0;
        for number in 1u32.. {
            if begin >= source.bytes {
                break;
            }
            let end = (begin + size).min(source.bytes);
            let text = number.to_string();
            let headers = vec![
                header("x-amz-copy-source", source_path(one)),
                header("x-amz-copy-source-if-match", format!("\"{}\"", source.etag)),
                header("x-amz-copy-source-range", format!("bytes={begin}-{}", end - 1)),
            ];
            let query = vec![("partNumber", text.as_str()), ("uploadId", upload)];
            let ask = Ask { query, headers, patience: patience(end - begin), ..place(Method::PUT) };
            let copied: CopiedPart = xml::read(&self.wire.send(ask).await?.text())?;
            parts.push(Part { number, etag: copied.etag });
            begin = end;
        }
        let body = xml::write("CompleteMultipartUpload", &Complete { parts })?;
        let query = vec![("uploadId", upload)];
        self.wire.send(Ask { query, body, patience: patience(source.bytes), ..place(Method::POST) }).await.map(drop)
    }

    async fn was_moved(&self, one: &Move) -> Result<bool, StoreError> {
        let one = one.clone();
        self.ledger
            .change(move |sql| {
                sql.prepare_cached(
                    "SELECT 1 FROM moves WHERE job = ?1 AND from_bucket = ?2 AND from_key = ?3
                     AND to_bucket = ?4 AND to_key = ?5",
                )?
                .exists(params![one.job, one.from_bucket, one.from_key, one.to_bucket, one.to_key])
            })
            .await
    }

    async fn note_move(&self, one: &Move) -> Result<(), StoreError> {
        let (one, now) = (one.clone(), self.now());
        self.ledger
            .change(move |sql| {
                sql.prepare_cached(
                    "INSERT OR REPLACE INTO moves (job, from_bucket, from_key, to_bucket, to_key, made)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    one.job,
                    one.from_bucket,
                    one.from_key,
                    one.to_bucket,
                    one.to_key,
                    now
                ])
            })
            .await
            .map(drop)
    }
}

/// Something may have been moved by now: the rest has to be tried again, but for what the store
/// will never take. What went meanwhile is seen before the next try begins.
fn after_the_first(error: StoreError) -> StoreError {
    match error {
        StoreError::Full(cause) => StoreError::Unavailable(cause),
        StoreError::Forbidden(cause) => StoreError::Forbidden(format!("some are in their place, but {cause}")),
        StoreError::NotFound => StoreError::Unavailable("a staged output or its place went meanwhile".to_owned()),
        other => other,
    }
}

/// The same as the store would tell of it; by its mark it is known if it does, too.
fn arrived(one: &Move, copy: Head) -> Arrived {
    let record = Record {
        bytes: copy.bytes,
        content_type: copy.content_type(),
        etag: copy.etag,
        metadata: copy.metadata,
        millis: copy.modified,
        ..Record::default()
    };
    Arrived {
        bucket: one.to_bucket.clone(),
        key: one.to_key.clone(),
        millis: copy.modified,
        sequencer: None,
        version_id: None,
        mark: None,
        record,
    }
}

fn source_path(one: &Move) -> String {
    encoded_path(&format!("/{}/{}", one.from_bucket, one.from_key))
}

/// What the new object says of itself.
fn headers_of(one: &Move, source: &Head) -> Vec<(String, String)> {
    let mut metadata = source.metadata.clone();
    metadata.insert(JOB_METADATA.to_owned(), one.job.clone());
    metadata.insert(STAGED_METADATA.to_owned(), source.etag.clone());
    let about = source.about.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    about.chain(metadata.into_iter().map(|(name, value)| (format!("x-amz-meta-{name}"), value))).collect()
}

fn header(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

/// How long copying so many bytes may take.
fn patience(bytes: u64) -> Duration {
    Duration::from_mins(1) + Duration::from_secs(bytes / SLOWEST)
}
