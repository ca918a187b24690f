//! Uploads in parts. Completing one names the files of its parts in order; no byte is copied.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, checksum_combine};
use md5::{Digest as _, Md5};
use rusqlite::{Connection, OptionalExtension as _, params};
use s3s::checksum::ChecksumHasher;

use crate::access::{Act, Caller};
use crate::error::Refusal;
use crate::events::{Origin, emit};
use crate::intake::Body;
use crate::object_changes::{Conditions, add_segments, admit, drop_content, place, store_body, to_i64};
use crate::object_reads::{ObjectRow, find, segments};
use crate::record::{About, Checksums, from_text, to_millis, to_text};
use crate::s3::checksums;
use crate::writer::{Batch, Failure};

/// S3's limits.
pub(crate) const MOST_PARTS: i32 = 10_000;
const SMALLEST_PART: u64 = 5 * 1024 * 1024;
pub(crate) const LARGEST_OBJECT: u64 = 5 << 40;

/// A row of `uploads`.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) started: i64,
    pub(crate) algorithm: Option<String>,
    pub(crate) composite: bool,
    pub(crate) about: About,
}

/// A row of `parts`.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) number: i32,
    pub(crate) content: i64,
    pub(crate) bytes: u64,
    pub(crate) etag: String,
    pub(crate) checksums: Checksums,
    pub(crate) modified: i64,
}

/// A part as the client names it when it completes the upload.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) number: i32,
    pub(crate) etag: String,
    pub(crate) checksums: Checksums,
}

const UPLOAD_COLUMNS: &str = "SELECT id, key, started, algorithm, composite, about FROM uploads";

fn to_upload(row: &rusqlite::Row<'_>) -> rusqlite::Result<Upload> {
    Ok(Upload {
        id: row.get(0)?,
        key: crate::listing::to_key(row.get_ref(1)?.as_blob()?),
        started: row.get(2)?,
        algorithm: row.get(3)?,
        composite: row.get(4)?,
        about: from_text(row.get_ref(5)?.as_str()?)?,
    })
}

pub(crate) fn find_upload(
    connection: &Connection,
    bucket: i64,
    key: &str,
    id: &str,
) -> rusqlite::Result<Option<Upload>> {
    let sql = format!("{UPLOAD_COLUMNS} WHERE id = ?1 AND bucket = ?2 AND key = ?3");
    connection.prepare_cached(&sql)?.query_row(params![id, bucket, key.as_bytes()], to_upload).optional()
}

/// Uploads below a prefix, by key and id, after a place.
pub(crate) fn list_uploads(
    connection: &Connection,
    bucket: i64,
    prefix: &str,
    after: (&str, &str),
    limit: usize,
) -> rusqlite::Result<Vec<Upload>> {
    let end = crate::listing::after_all(prefix.as_bytes());
    let sql = format!(
        "{UPLOAD_COLUMNS} WHERE bucket = ?1 AND key >= ?2 AND key < ?3 AND (key, id) > (?4, ?5) ORDER BY key, id LIMIT ?6"
    );
    connection
        .prepare_cached(&sql)?
        .query_map(
            params![
                bucket,
                prefix.as_bytes(),
                end,
                after.0.as_bytes(),
                after.1,
                i64::try_from(limit).unwrap_or(i64::MAX)
            ],
            to_upload,
        )?
        .collect()
}

pub(crate) fn parts(connection: &Connection, upload: &str) -> rusqlite::Result<Vec<Part>> {
    connection
        .prepare_cached(
            "SELECT number, content, bytes, etag, checksums, modified FROM parts WHERE upload = ?1 ORDER BY number",
        )?
        .query_map([upload], |row| {
            Ok(Part {
                number: row.get(0)?,
                content: row.get(1)?,
                bytes: row.get::<_, i64>(2)?.unsigned_abs(),
                etag: row.get(3)?,
                checksums: from_text(row.get_ref(4)?.as_str()?)?,
                modified: row.get(5)?,
            })
        })?
        .collect()
}

pub(crate) fn begin(
    batch: &mut Batch<'_>,
    caller: &Caller,
    place: (&str, &str),
    id: &str,
    checksum: &(Option<String>, bool),
    about: &About,
) -> Result<(), Failure> {
    let bucket = admit(batch, caller, place.0, Act::Write(place.1))?;
    batch
        .sql
        .prepare_cached(
            "INSERT INTO uploads (id, bucket, key, started, algorithm, composite, about)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            id,
            bucket.id,
            place.1.as_bytes(),
            to_millis(batch.now),
            checksum.0,
            checksum.1,
            to_text(about)
        ])?;
    Ok(())
}

pub(crate) struct NewPart {
    pub(crate) upload: String,
    pub(crate) number: i32,
    /// A file, whatever its size: completing the upload names it.
    pub(crate) body: Body,
    pub(crate) bytes: u64,
    pub(crate) etag: String,
    pub(crate) checksums: Checksums,
}

pub(crate) fn put_part(
    batch: &mut Batch<'_>,
    caller: &Caller,
    place: (&str, &str),
    part: &NewPart,
) -> Result<i64, Failure> {
    let bucket = admit(batch, caller, place.0, Act::Write(place.1))?;
    find_upload(&batch.sql, bucket.id, place.1, &part.upload)?.ok_or(Refusal::NoSuchUpload)?;
    let former: Option<i64> = batch
        .sql
        .prepare_cached("SELECT content FROM parts WHERE upload = ?1 AND number = ?2")?
        .query_row(params![part.upload, part.number], |row| row.get(0))
        .optional()?;
    let content = store_body(batch, &part.body, part.bytes)?;
    if let Some(former) = former {
        drop_content(batch, former)?;
    }
    let modified = to_millis(batch.now);
    batch
        .sql
        .prepare_cached(
            "INSERT OR REPLACE INTO parts (upload, number, content, bytes, etag, checksums, modified)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            part.upload,
            part.number,
            content,
            to_i64(part.bytes),
            part.etag,
            to_text(&part.checksums),
            modified
        ])?;
    Ok(modified)
}

pub(crate) struct Completion {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) upload: String,
    pub(crate) parts: Vec<Named>,
    pub(crate) conditions: Conditions,
    /// What the client says of the whole, if it does.
    pub(crate) checksums: Checksums,
    pub(crate) bytes: Option<u64>,
    pub(crate) origin: Origin,
}

pub(crate) fn complete(batch: &mut Batch<'_>, asked: &Completion) -> Result<ObjectRow, Failure> {
    let bucket = admit(batch, &asked.origin.caller, &asked.bucket, Act::Write(&asked.key))?;
    let present = find(&batch.sql, bucket.id, &asked.key)?;
    let Some(upload) = find_upload(&batch.sql, bucket.id, &asked.key, &asked.upload)? else {
        // The answer to the first time may have been lost.
        let again = present.filter(|object| object.about.upload.as_deref() == Some(asked.upload.as_str()));
        return Ok(again.ok_or(Refusal::NoSuchUpload)?);
    };
    asked.conditions.check(present.as_ref().map(|object| object.etag.as_str()))?;
    let stored = parts(&batch.sql, &asked.upload)?;
    let chosen = choose(&stored, &asked.parts)?;
    let bytes: u64 = chosen.iter().map(|part| part.bytes).sum();
    if bytes > LARGEST_OBJECT {
        return Err(Refusal::TooLarge.into());
    }
    if asked.bytes.is_some_and(|said| said != bytes) {
        return Err(Refusal::Invalid("the parts do not have the size that the request names".to_owned()).into());
    }
    let mut about = upload.about.clone();
    about.checksums = whole_checksums(&upload, &chosen)?;
    checksums::compare(&asked.checksums, &about.checksums)?;
    about.parts = chosen.iter().map(|part| part.bytes).collect();
    about.upload = Some(upload.id.clone());
    let content = batch.next_number();
    let mut pieces = Vec::new();
    for part in &chosen {
        pieces.extend(segments(&batch.sql, part.content)?);
    }
    forget(batch, &upload.id)?;
    add_segments(batch, content, &pieces)?;
    let object =
        ObjectRow { version: content, content, bytes, etag: etag_of(&chosen), modified: to_millis(batch.now), about };
    place(batch, bucket.id, &asked.key, present.as_ref(), &object)?;
    emit(batch, &asked.bucket, &asked.key, &object, &asked.origin)?;
    Ok(object)
}

fn choose<'a>(stored: &'a [Part], asked: &[Named]) -> Result<Vec<&'a Part>, Refusal> {
    if asked.is_empty() {
        return Err(Refusal::NoParts);
    }
    if !asked.is_sorted_by(|a, b| a.number < b.number) {
        return Err(Refusal::BadPartOrder);
    }
    let mut chosen = Vec::with_capacity(asked.len());
    for named in asked {
        let part = stored
            .binary_search_by_key(&named.number, |part| part.number)
            .ok()
            .map(|at| &stored[at])
            .filter(|part| part.etag == named.etag)
            .ok_or(Refusal::BadPart)?;
        checksums::compare(&named.checksums, &part.checksums).map_err(|_| Refusal::BadPart)?;
        chosen.push(part);
    }
    let all_but_last = &chosen[..chosen.len() - 1];
    if all_but_last.iter().any(|part| part.bytes < SMALLEST_PART) {
        return Err(Refusal::PartTooSmall);
    }
    Ok(chosen)
}

/// As S3: the MD5 of the MD5s, and how many there are.
fn etag_of(parts: &[&Part]) -> String {
    let mut all = Md5::new();
    for part in parts {
        all.update(checksums::from_hex(&part.etag));
    }
    format!("{}-{}", checksums::to_hex(&all.finalize()), parts.len())
}

fn whole_checksums(upload: &Upload, parts: &[&Part]) -> Result<Checksums, Refusal> {
    let Some(algorithm) = &upload.algorithm else { return Ok(Checksums::default()) };
    let of_part = |part: &&Part| part.checksums.values.get(algorithm).and_then(|text| STANDARD.decode(text).ok());
    let sums: Vec<Vec<u8>> = parts.iter().map(of_part).collect::<Option<_>>().ok_or(Refusal::BadPart)?;
    let value = if upload.composite {
        let mut hasher: ChecksumHasher = checksums::hasher([algorithm.as_str()]);
        for sum in &sums {
            hasher.update(sum);
        }
        let of_sums = checksums::from_dto(&hasher.finalize());
        let sum = of_sums.values.get(algorithm).ok_or(Refusal::BadPart)?;
        format!("{sum}-{}", parts.len())
    } else {
        let lengths = parts.iter().map(|part| part.bytes);
        combine(algorithm, sums.iter().map(Vec::as_slice).zip(lengths)).ok_or(Refusal::BadPart)?
    };
    Ok(Checksums { values: [(algorithm.clone(), value)].into(), composite: upload.composite })
}

/// The checksum of a whole from those of its pieces, which only CRCs allow.
fn combine<'a>(algorithm: &str, pieces: impl Iterator<Item = (&'a [u8], u64)>) -> Option<String> {
    let (algorithm, width) = match algorithm {
        "crc32" => (CrcAlgorithm::Crc32IsoHdlc, 4),
        "crc32c" => (CrcAlgorithm::Crc32Iscsi, 4),
        "crc64nvme" => (CrcAlgorithm::Crc64Nvme, 8),
        _ => return None,
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let mut whole = None;
    for (sum, bytes) in pieces {
        let sum = number(sum);
        whole = Some(whole.map_or(sum, |whole| checksum_combine(algorithm, whole, sum, bytes)));
    }
    Some(STANDARD.encode(&whole?.to_be_bytes()[8 - width..]))
}

pub(crate) fn abort(batch: &mut Batch<'_>, caller: &Caller, place: (&str, &str), id: &str) -> Result<(), Failure> {
    let bucket = admit(batch, caller, place.0, Act::Write(place.1))?;
    find_upload(&batch.sql, bucket.id, place.1, id)?.ok_or(Refusal::NoSuchUpload)?;
    forget(batch, id)
}

/// Removes an upload with its parts.
pub(crate) fn forget(batch: &mut Batch<'_>, id: &str) -> Result<(), Failure> {
    for part in parts(&batch.sql, id)? {
        drop_content(batch, part.content)?;
    }
    batch.sql.prepare_cached("DELETE FROM parts WHERE upload = ?1")?.execute([id])?;
    batch.sql.prepare_cached("DELETE FROM uploads WHERE id = ?1")?.execute([id])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crcs_of_pieces_make_the_crc_of_the_whole() {
        let (left, right) = (b"hello ".as_slice(), b"world, in two pieces".as_slice());
        for algorithm in ["crc32", "crc32c", "crc64nvme"] {
            let sum = |bytes: &[u8]| {
                let mut hasher = checksums::hasher([algorithm]);
                hasher.update(bytes);
                checksums::from_dto(&hasher.finalize()).values[algorithm].clone()
            };
            let raw = |bytes: &[u8]| STANDARD.decode(sum(bytes)).expect("base64");
            let (a, b) = (raw(left), raw(right));
            let pieces = [(a.as_slice(), left.len() as u64), (b.as_slice(), right.len() as u64)];
            assert_eq!(combine(algorithm, pieces.into_iter()), Some(sum(&[left, right].concat())), "{algorithm}");
        }
    }
}
