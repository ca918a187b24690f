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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rusqlite::StatementStatus;

    use super::*;

    fn mk_table<'a>(keys: impl IntoIterator<Item = &'a str>) -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(
                "CREATE TABLE objects (bucket INTEGER, key BLOB, bytes INTEGER, etag TEXT, modified INTEGER,
                 PRIMARY KEY (bucket, key)) WITHOUT ROWID; BEGIN",
            )
            .expect("a table");
        for key in keys {
            let mut insert = connection
                .prepare_cached("INSERT OR IGNORE INTO objects VALUES (?1, ?2, 1, 'e', 2)")
                .expect("a statement");
            for bucket in [6, 7, 8] {
                insert.execute(params![bucket, key.as_bytes()]).expect("a row");
            }
        }
        connection.execute_batch("COMMIT").expect("kept");
        connection
    }

    /// Everything that a query means, in order, by looking at every key.
    fn naive(keys: &BTreeSet<String>, query: &Query) -> Vec<String> {
        let mut found = BTreeSet::new();
        for key in keys.iter().filter(|key| key.starts_with(&query.prefix) && **key > query.after) {
            let entry = fold(key, &query.prefix, &query.delimiter).unwrap_or(key);
            let is_page_end = entry == query.after;
            if !is_page_end {
                found.insert(entry.to_owned());
            }
        }
        found.into_iter().collect()
    }

    fn entries(listed: &Listed) -> BTreeSet<String> {
        listed.objects.iter().map(|line| line.key.clone()).chain(listed.prefixes.iter().cloned()).collect()
    }

    proptest! {
        #[test]
        fn a_list_is_what_looking_at_every_key_gives(
            keys in prop::collection::btree_set("[ab/é\u{10FFFF}]{1,5}", 0..40),
            prefix in "[ab/]{0,2}",
            delimiter in prop::sample::select(vec!["", "/", "a", "//", "é"]),
            after in "[ab/é]{0,3}",
            limit in 1usize..7,
        ) {
            let table = mk_table(keys.iter().map(String::as_str));
            let mut query = Query { prefix, delimiter: delimiter.to_owned(), after, limit };
            let wanted = naive(&keys, &query);
            let mut found = Vec::new();
            loop {
                let listed = list(&table, 7, &query).expect("a list");
                let page = entries(&listed);
                prop_assert!(page.len() <= limit && page.len() == listed.objects.len() + listed.prefixes.len());
                found.extend(page);
                match listed.next {
                    Some(next) => {
                        // It may come before what the first page began after, when that lies in a fold.
                        prop_assert!(next != query.after, "a page goes on");
                        query.after = next;
                    }
                    None => break,
                }
            }
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_fold_costs_a_seek_however_much_is_in_it() {
        let steps = |keys: usize| {
            let keys: Vec<String> = (0..keys).map(|number| format!("{}/{number:06}", number % 10)).collect();
            let table = mk_table(keys.iter().map(String::as_str));
            let query = Query { delimiter: "/".to_owned(), limit: 1000, ..Query::default() };
            let listed = list(&table, 7, &query).expect("a list");
            assert_eq!((listed.prefixes.len(), listed.objects.len()), (10, 0));
            table.prepare_cached(ROWS).expect("the same statement").get_status(StatementStatus::VmStep)
        };
        let (few, many) = (steps(100), steps(100_000));
        assert!(many <= few, "{many} steps for 100 000 keys, {few} for 100");
    }
}
