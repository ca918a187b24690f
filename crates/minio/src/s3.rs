//! The calls of S3 that the manager makes for itself, with the administrator's key.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use oscar_engine::ports::StoreError;
use reqwest::Method;

use crate::error::Trouble;
use crate::wire::{Answer, Ask, Wire};
use crate::xml::{self, Notifications, Tag, TagSet, Tagging, Version, VersionEntry, VersionList, decoded};

/// Deletions at the same time.
const AT_ONCE: usize = 16;
const META: &str = "x-amz-meta-";
/// What an object says of itself besides user metadata, and keeps when it is copied.
const KEPT: [&str; 5] =
    ["content-type", "content-encoding", "content-disposition", "content-language", "cache-control"];

/// An object as HEAD describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) bytes: u64,
    pub(crate) etag: String,
    /// In milliseconds; whole seconds.
    pub(crate) modified: i64,
    /// Of [`KEPT`], as far as they were given.
    pub(crate) about: Vec<(&'static str, String)>,
    /// Names without `x-amz-meta-`, in lower case.
    pub(crate) metadata: BTreeMap<String, String>,
}

impl Head {
    pub(crate) fn content_type(&self) -> String {
        let named = self.about.iter().find(|(name, _)| *name == "content-type");
        named.map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

/// Where a list of versions goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VersionPage {
    pub(crate) versions: Vec<Version>,
    /// Keys and versions of markers of deletions.
    pub(crate) markers: Vec<(String, String)>,
    pub(crate) next: Option<(String, String)>,
    /// When the store made it, by its own clock.
    pub(crate) time: Option<i64>,
}

fn of_bucket<'a>(method: Method, bucket: &str) -> Ask<'a> {
    Ask::new(method, format!("/{bucket}"))
}

pub(crate) fn of_object<'a>(method: Method, bucket: &str, key: &str) -> Ask<'a> {
    Ask::new(method, format!("/{bucket}/{key}"))
}

/// MinIO takes paths as they are; a proxy in between might not.
pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    let fits = !key.is_empty()
        && key.len() <= 1024
        && !key.starts_with('/')
        && !key.contains(['\0', '\\'])
        && !key.contains("//")
        && key.split('/').all(|segment| segment != "." && segment != "..");
    if fits { Ok(()) } else { Err(StoreError::Forbidden("this is no name for an object".to_owned())) }
}

impl Wire {
    /// Whether it was made; false when it was there.
    pub(crate) async fn create_bucket(&self, bucket: &str) -> Result<bool, Trouble> {
        match self.send(of_bucket(Method::PUT, bucket)).await {
            Ok(_) => Ok(true),
            Err(trouble) if trouble.is("BucketAlreadyOwnedByYou") || trouble.is("BucketAlreadyExists") => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    pub(crate) async fn has_bucket(&self, bucket: &str) -> Result<bool, Trouble> {
        match self.send(of_bucket(Method::HEAD, bucket)).await {
            Ok(_) => Ok(true),
            Err(trouble) if trouble.is_missing() => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// What time it is where a bucket is, in milliseconds.
    pub(crate) async fn bucket_time(&self, bucket: &str) -> Result<i64, Trouble> {
        let answer = self.send(of_bucket(Method::HEAD, bucket)).await?;
        answer.time().ok_or_else(|| Trouble::new("it does not say what time it is"))
    }

    pub(crate) async fn delete_bucket(&self, bucket: &str) -> Result<(), Trouble> {
        match self.send(of_bucket(Method::DELETE, bucket)).await {
            Ok(_) => Ok(()),
            Err(trouble) if trouble.is_missing() => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    pub(crate) async fn bucket_names(&self) -> Result<Vec<String>, Trouble> {
        let answer = self.send(Ask::new(Method::GET, "/")).await?;
        let all: xml::AllBuckets = xml::read(&answer.text())?;
        Ok(all.buckets.bucket.into_iter().map(|bucket| bucket.name).collect())
    }

    /// Nothing when the bucket is not there.
    pub(crate) async fn bucket_tags(&self, bucket: &str) -> Result<Option<BTreeMap<String, String>>, Trouble> {
        let ask = Ask { query: vec![("tagging", "")], ..of_bucket(Method::GET, bucket) };
        match self.send(ask).await {
            Ok(answer) => {
                let tagging: Tagging = xml::read(&answer.text())?;
                Ok(Some(tagging.set.tags.into_iter().map(|tag| (tag.key, tag.value)).collect()))
            }
            // Also said of a bucket that is not there.
            Err(trouble) if trouble.is("NoSuchTagSet") => Ok(self.has_bucket(bucket).await?.then(BTreeMap::new)),
            Err(trouble) if trouble.is_missing() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    pub(crate) async fn set_bucket_tags(&self, bucket: &str, tags: &BTreeMap<String, String>) -> Result<(), Trouble> {
        let tags = tags.iter().map(|(key, value)| Tag { key: key.clone(), value: value.clone() }).collect();
        let body = xml::write("Tagging", &Tagging { set: TagSet { tags } })?;
        let ask = Ask { query: vec![("tagging", "")], body, ..of_bucket(Method::PUT, bucket) };
        self.send(ask).await.map(drop)
    }

    pub(crate) async fn notifications(&self, bucket: &str) -> Result<Notifications, Trouble> {
        let ask = Ask { query: vec![("notification", "")], ..of_bucket(Method::GET, bucket) };
        xml::read(&self.send(ask).await?.text())
    }

    pub(crate) async fn set_notifications(&self, bucket: &str, wanted: &Notifications) -> Result<(), Trouble> {
        let body = xml::write("NotificationConfiguration", wanted)?;
        let ask = Ask { query: vec![("notification", "")], body, ..of_bucket(Method::PUT, bucket) };
        self.send(ask).await.map(drop)
    }

    pub(crate) async fn put_object(
        &self,
        bucket: &str,
        key: &str,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<Answer, Trouble> {
        self.send(Ask { headers, body, ..of_object(Method::PUT, bucket, key) }).await
    }

    pub(crate) async fn head_object(&self, bucket: &str, key: &str) -> Result<Option<Head>, Trouble> {
        self.head_version(bucket, key, "").await
    }

    pub(crate) async fn head_version(&self, bucket: &str, key: &str, version: &str) -> Result<Option<Head>, Trouble> {
        let mut ask = of_object(Method::HEAD, bucket, key);
        if is_named(version) {
            ask.query = vec![("versionId", version)];
        }
        match self.send(ask).await {
            Ok(answer) => Ok(Some(head(&answer))),
            Err(trouble) if trouble.is_missing() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    pub(crate) async fn delete_object(&self, bucket: &str, key: &str, version: &str) -> Result<(), Trouble> {
        let mut ask = of_object(Method::DELETE, bucket, key);
        if is_named(version) {
            ask.query = vec![("versionId", version)];
        }
        match self.send(ask).await {
            Ok(_) => Ok(()),
            Err(trouble) if trouble.is_missing() => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    pub(crate) async fn list(&self, bucket: &str, after: &str, limit: usize) -> Result<xml::ObjectList, Trouble> {
        let limit = limit.to_string();
        let mut query = vec![("list-type", "2"), ("encoding-type", "url"), ("max-keys", limit.as_str())];
        if !after.is_empty() {
            query.push(("start-after", after));
        }
        let answer = self.send(Ask { query, ..of_bucket(Method::GET, bucket) }).await?;
        xml::read(&answer.text())
    }

    /// Versions below a prefix, from a place on; keys are decoded.
    pub(crate) async fn versions(
        &self,
        bucket: &str,
        prefix: &str,
        from: Option<&(String, String)>,
    ) -> Result<VersionPage, Trouble> {
        let mut query = vec![("versions", ""), ("encoding-type", "url"), ("prefix", prefix), ("max-keys", "1000")];
        if let Some((key, version)) = from {
            query.push(("key-marker", key));
            if !version.is_empty() {
                query.push(("version-id-marker", version));
            }
        }
        let answer = self.send(Ask { query, ..of_bucket(Method::GET, bucket) }).await?;
        let list: VersionList = xml::read(&answer.text())?;
        let mut page = VersionPage { time: answer.time(), ..VersionPage::default() };
        let (mut more, mut next) = (false, (String::new(), String::new()));
        for entry in list.entries {
            match entry {
                VersionEntry::Version(version) => {
                    let etag = version.etag.trim_matches('"').to_owned();
                    page.versions.push(Version { key: decoded(&version.key), etag, ..version });
                }
                VersionEntry::DeleteMarker(marker) => page.markers.push((decoded(&marker.key), marker.version_id)),
                VersionEntry::IsTruncated(text) => more = text == "true",
                VersionEntry::NextKeyMarker(key) => next.0 = decoded(&key),
                VersionEntry::NextVersionIdMarker(version) => next.1 = version,
                VersionEntry::Other => {}
            }
        }
        page.next = (more && !next.0.is_empty()).then_some(next);
        Ok(page)
    }

    /// Removes every version below a prefix, and uploads in parts that were not completed.
    pub(crate) async fn clear(&self, bucket: &str, prefix: &str) -> Result<(), Trouble> {
        loop {
            let page = self.versions(bucket, prefix, None).await?;
            let versions = page.versions.into_iter().map(|version| (version.key, version.id));
            let all: Vec<(String, String)> = versions.chain(page.markers).collect();
            let is_last = page.next.is_none();
            let deletions =
                all.into_iter().map(|(key, version)| async move { self.delete_object(bucket, &key, &version).await });
            futures::stream::iter(deletions).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
            if is_last {
                break;
            }
        }
        let query = vec![("uploads", ""), ("prefix", prefix), ("encoding-type", "url")];
        let answer = self.send(Ask { query, ..of_bucket(Method::GET, bucket) }).await?;
        let open: xml::Uploads = xml::read(&answer.text())?;
        for upload in open.uploads {
            self.abort_upload(bucket, &decoded(&upload.key), &upload.id).await?;
        }
        Ok(())
    }

    pub(crate) async fn abort_upload(&self, bucket: &str, key: &str, upload: &str) -> Result<(), Trouble> {
        let ask = Ask { query: vec![("uploadId", upload)], ..of_object(Method::DELETE, bucket, key) };
        match self.send(ask).await {
            Ok(_) => Ok(()),
            Err(trouble) if trouble.is_missing() => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }
}

/// Buckets without versions call their only one so.
fn is_named(version: &str) -> bool {
    !matches!(version, "" | "null")
}

fn head(answer: &Answer) -> Head {
    let text = |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut metadata = BTreeMap::new();
    for (name, value) in &answer.headers {
        if let Some(name) = name.as_str().strip_prefix(META) {
            metadata.insert(name.to_owned(), text(value));
        }
    }
    Head {
        bytes: answer.header("content-length").parse().unwrap_or_default(),
        etag: answer.header("etag").trim_matches('"').to_owned(),
        modified: answer.millis("last-modified").unwrap_or_default(),
        about: KEPT.iter().filter_map(|name| Some((*name, text(answer.headers.get(*name)?)))).collect(),
        metadata,
    }
}

/// A time of a list, in milliseconds.
pub(crate) fn listed_millis(text: &str) -> i64 {
    text.parse::<Timestamp>().map(Timestamp::as_millisecond).unwrap_or_default()
}

pub(crate) fn time_of(millis: i64) -> SystemTime {
    Timestamp::from_millisecond(millis).map_or(SystemTime::UNIX_EPOCH, SystemTime::from)
}
