//! The XML of S3, as far as it is needed here. Names of keys come URL-encoded, because XML cannot
//! hold every character that a key can.

use serde::{Deserialize, Serialize};

use crate::error::Trouble;

pub(crate) fn read<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, Trouble> {
    quick_xml::de::from_str(text).map_err(|_| Trouble::new("its answer is not S3's"))
}

pub(crate) fn write<T: Serialize>(root: &str, value: &T) -> Result<Vec<u8>, Trouble> {
    let text = quick_xml::se::to_string_with_root(root, value);
    text.map(String::into_bytes).map_err(|_| Trouble::new("a request cannot be written as XML"))
}

/// A key of a list.
pub(crate) fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

#[derive(Debug, Deserialize)]
pub(crate) struct AllBuckets {
    #[serde(rename = "Buckets", default)]
    pub(crate) buckets: BucketList,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct BucketList {
    #[serde(rename = "Bucket", default)]
    pub(crate) bucket: Vec<BucketName>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct BucketName {
    #[serde(rename = "Name")]
    pub(crate) name: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tagging {
    #[serde(rename = "TagSet", default)]
    pub(crate) set: TagSet,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct TagSet {
    #[serde(rename = "Tag", default)]
    pub(crate) tags: Vec<Tag>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Tag {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) value: String,
}

/// A page of a list of objects.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ObjectList {
    #[serde(default)]
    pub(crate) contents: Vec<Listed>,
    #[serde(default)]
    pub(crate) is_truncated: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Listed {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) size: u64,
    pub(crate) last_modified: String,
}

/// A page of a list of versions. Markers of deletions come in between.
#[derive(Debug, Deserialize)]
pub(crate) struct VersionList {
    #[serde(rename = "$value", default)]
    pub(crate) entries: Vec<VersionEntry>,
}

#[derive(Debug, Deserialize)]
pub(crate) enum VersionEntry {
    Version(Version),
    DeleteMarker(Marker),
    IsTruncated(String),
    NextKeyMarker(String),
    NextVersionIdMarker(String),
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Version {
    pub(crate) key: String,
    #[serde(rename = "VersionId", default)]
    pub(crate) id: String,
    #[serde(rename = "ETag", default)]
    pub(crate) etag: String,
    #[serde(default)]
    pub(crate) size: u64,
    pub(crate) last_modified: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Marker {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) version_id: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Begun {
    #[serde(rename = "UploadId")]
    pub(crate) upload: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CopiedPart {
    #[serde(rename = "ETag")]
    pub(crate) etag: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Complete {
    #[serde(rename = "Part")]
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Part {
    #[serde(rename = "PartNumber")]
    pub(crate) number: u32,
    #[serde(rename = "ETag")]
    pub(crate) etag: String,
}

/// Uploads in parts that nobody completed.
#[derive(Debug, Deserialize)]
pub(crate) struct Uploads {
    #[serde(rename = "Upload", default)]
    pub(crate) uploads: Vec<Upload>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Upload {
    #[serde(rename = "Key")]
    pub(crate) key: String,
    #[serde(rename = "UploadId")]
    pub(crate) id: String,
}

/// Whom a bucket tells of what.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notifications {
    #[serde(rename = "QueueConfiguration", default)]
    pub(crate) queues: Vec<QueueNotice>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueNotice {
    #[serde(rename = "Id", default)]
    pub(crate) id: String,
    #[serde(rename = "Filter", default, skip_serializing_if = "Option::is_none")]
    pub(crate) filter: Option<Filter>,
    #[serde(rename = "Event", default)]
    pub(crate) events: Vec<String>,
    #[serde(rename = "Queue")]
    pub(crate) queue: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Filter {
    #[serde(rename = "S3Key")]
    pub(crate) key: FilterKey,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FilterKey {
    #[serde(rename = "FilterRule", default)]
    pub(crate) rules: Vec<FilterRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct FilterRule {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_versions_is_read_in_any_order() {
        let text = "<?xml version=\"1.0\"?><ListVersionsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
            <Name>b</Name><Prefix></Prefix><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>\
            <Version><Key>a+b</Key><LastModified>2026-02-01T10:00:00.120Z</LastModified><ETag>&quot;e&quot;</ETag>\
            <Size>3</Size><Owner><ID>1</ID></Owner><VersionId>null</VersionId></Version>\
            <DeleteMarker><Key>c</Key><VersionId>7</VersionId></DeleteMarker>\
            <Version><Key>d</Key><LastModified>2026-02-01T10:00:00.120Z</LastModified><ETag>x</ETag><Size>1</Size></Version>\
            </ListVersionsResult>";
        let list: VersionList = read(text).expect("read");
        let keys: Vec<String> = list
            .entries
            .iter()
            .filter_map(|entry| match entry {
                VersionEntry::Version(version) => Some(decoded(&version.key)),
                _ => None,
            })
            .collect();
        assert_eq!(keys, ["a b", "d"]);
        assert!(list.entries.iter().any(|entry| matches!(entry, VersionEntry::IsTruncated(text) if text == "true")));
    }

    #[test]
    fn notifications_are_written_as_they_were_read() {
        let text = "<NotificationConfiguration><QueueConfiguration><Id>x</Id><Filter><S3Key><FilterRule>\
            <Name>prefix</Name><Value>in/</Value></FilterRule></S3Key></Filter><Event>s3:ObjectCreated:*</Event>\
            <Queue>arn:minio:sqs::OSCAR:webhook</Queue></QueueConfiguration></NotificationConfiguration>";
        let read_back: Notifications = read(text).expect("read");
        assert_eq!(write("NotificationConfiguration", &read_back).expect("written"), text.as_bytes());
        let none: Notifications = read("<NotificationConfiguration></NotificationConfiguration>").expect("read");
        assert!(none.queues.is_empty());
    }
}
