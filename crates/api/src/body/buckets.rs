//! Bodies of the calls about buckets.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// An entry of `GET /system/buckets`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct BucketBody {
    pub bucket_name: String,
    /// `private`, `restricted` or `public`.
    pub visibility: String,
    pub allowed_users: Vec<String>,
    pub owner: String,
    /// `owner_name` and `from_service`, where they are known; of a single bucket also `owner`.
    pub metadata: BTreeMap<String, String>,
}

/// `GET /system/buckets/{bucketName}`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct BucketPage {
    #[serde(flatten)]
    pub bucket: BucketBody,
    /// Absent when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectEntry>,
    /// What to ask for next; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_page: Option<String>,
    pub is_truncated: bool,
    pub returned_items: usize,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ObjectEntry {
    pub object_name: String,
    pub size_bytes: u64,
    /// As Go prints a time: `2026-02-26 11:43:49.123 +0000 UTC`.
    pub last_modified: String,
}

/// The answer of `POST /system/buckets/{bucketName}/presign`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Presigned {
    pub object_key: String,
    /// `upload` or `download`.
    pub operation: String,
    pub method: String,
    pub url: String,
    pub expires_at: String,
    /// What the client must send along.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_printed_in_the_order_that_clients_search_for() {
        let bucket = BucketBody {
            bucket_name: "b".to_owned(),
            visibility: "private".to_owned(),
            allowed_users: vec![],
            owner: "alice".to_owned(),
            metadata: BTreeMap::new(),
        };
        let page = BucketPage {
            bucket,
            objects: vec![],
            next_page: Some("k".to_owned()),
            is_truncated: true,
            returned_items: 0,
        };
        let expected = concat!(
            r#"{"bucket_name":"b","visibility":"private","allowed_users":[],"owner":"alice","metadata":{},"#,
            r#""next_page":"k","is_truncated":true,"returned_items":0}"#,
        );
        assert_eq!(String::from_utf8(crate::json::to_vec(&page)).as_deref(), Ok(expected));
    }
}
