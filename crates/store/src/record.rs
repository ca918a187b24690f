//! What is kept as text inside rows.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Everything about an object that no query asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    /// `cache-control`, `content-disposition`, … as they were given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Checksums::is_empty")]
    pub(crate) checksums: Checksums,
    /// Bytes of each part, when it came in parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<u64>,
    /// The upload in parts that made it, so that completing it again is no error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upload: Option<String>,
}

/// Checksums beside the ETag, by the names that clients gave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Checksums {
    /// Base64, by `crc32`, `crc32c`, `crc64nvme`, `sha1`, `sha256`.
    pub(crate) values: BTreeMap<String, String>,
    /// Made from the checksums of parts, not from the bytes.
    pub(crate) composite: bool,
}

impl Checksums {
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// A bucket's people, as stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredGrant {
    pub(crate) bucket: String,
    pub(crate) prefix: String,
    pub(crate) verbs: Vec<String>,
}

/// The part of an event that no query asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventRecord {
    pub(crate) bytes: u64,
    pub(crate) etag: String,
    pub(crate) content_type: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) principal: String,
    pub(crate) source_ip: String,
    pub(crate) time: i64,
    #[serde(default)]
    pub(crate) job: Option<String>,
}

/// Milliseconds since 1970, as times are kept.
pub(crate) fn to_millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn from_millis(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Text that this program wrote into a row.
pub(crate) fn to_text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("maps with text keys can be written as JSON")
}

/// A row that cannot be read is a failure of the database.
pub(crate) fn from_text<T: for<'de> Deserialize<'de>>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error)))
}
