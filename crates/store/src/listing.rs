//! Lists of objects. A delimiter folds keys into common prefixes, and the list seeks over each
//! fold instead of reading it.

use rusqlite::{Connection, params};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) prefix: String,
    pub(crate) delimiter: String,
    /// Only what comes after this: a key, or the common prefix that a page ended with.
    pub(crate) after: String,
    pub(crate) limit: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) objects: Vec<Line>,
    pub(crate) prefixes: Vec<String>,
    /// Where the next page goes on, when there is one.
    pub(crate) next: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) key: String,
    pub(crate) bytes: u64,
    pub(crate) etag: String,
    pub(crate) modified: i64,
}

const ROWS: &str =
    "SELECT key, bytes, etag, modified FROM objects WHERE bucket = ?1 AND key >= ?2 AND key < ?3 ORDER BY key";

pub(crate) fn list(connection: &Connection, bucket: i64, query: &Query) -> rusqlite::Result<Listed> {
    let mut found = Listed::default();
    if query.limit == 0 {
        return Ok(found);
    }
    let end = after_all(query.prefix.as_bytes());
    let mut position = first_position(query);
    let mut last = String::new();
    let mut rows_of = connection.prepare_cached(ROWS)?;
    'seek: loop {
        let mut rows = rows_of.query(params![bucket, position, end])?;
        while let Some(row) = rows.next()? {
            let key = to_key(row.get_ref(0)?.as_blob()?);
            if found.objects.len() + found.prefixes.len() == query.limit {
                found.next = Some(last);
                return Ok(found);
            }
            if let Some(fold) = fold(&key, &query.prefix, &query.delimiter) {
                position = after_all(fold.as_bytes());
                last = fold.to_owned();
                found.prefixes.push(fold.to_owned());
                continue 'seek;
            }
            last.clone_from(&key);
            let bytes = row.get::<_, i64>(1)?.unsigned_abs();
            found.objects.push(Line { key, bytes, etag: row.get(2)?, modified: row.get(3)? });
        }
        return Ok(found);
    }
}

pub(crate) fn to_key(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The common prefix that stands for this key.
pub(crate) fn fold<'a>(key: &'a str, prefix: &str, delimiter: &str) -> Option<&'a str> {
    if delimiter.is_empty() {
        return None;
    }
    let at = key.strip_prefix(prefix)?.find(delimiter)?;
    Some(&key[..prefix.len() + at + delimiter.len()])
}

fn first_position(query: &Query) -> Vec<u8> {
    let after = if query.after.is_empty() {
        Vec::new()
    } else if fold(&query.after, &query.prefix, &query.delimiter) == Some(query.after.as_str()) {
        after_all(query.after.as_bytes())
    } else {
        // The smallest key that is larger.
        [query.after.as_bytes(), &[0]].concat()
    };
    after.max(query.prefix.clone().into_bytes())
}

/// The first place behind everything that begins with these bytes of UTF-8, in which no byte is
/// 255.
pub(crate) fn after_all(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.push(u8::MAX),
    }
    end
}
