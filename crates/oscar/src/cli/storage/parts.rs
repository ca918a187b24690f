//! A large file in parts. An upload that was interrupted is found again by its key and goes on:
//! parts whose size and tag are those of the file are not sent twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use reqwest::header::{CONTENT_LENGTH, ETAG};
use rusty_s3::actions::{CompleteMultipartUploadResponse, CreateMultipartUpload, ListParts};
use rusty_s3::signing::sign;
use rusty_s3::{Bucket, Method, S3Action as _};

use super::body::{Sent, md5_of, piece};
use super::failure::{element, text_of};
use super::store::{SIGNATURE, Store};
use crate::cli::exit::{Exit, Failure};
use crate::cli::input::unreadable;

const PART: u64 = 16 << 20;

/// S3 allows no more; parts grow instead.
const MOST_PARTS: u64 = 10_000;

pub(super) struct Upload<'a> {
    store: &'a Store,
    bucket: Bucket,
    key: &'a str,
    file: &'a Path,
    size: u64,
    sent: &'a Sent,
    id: String,
    /// Tags of the parts that are there already.
    there: BTreeMap<u16, String>,
}

impl<'a> Upload<'a> {
    /// Goes on with an upload that was interrupted, or begins one.
    pub(super) async fn begin(
        store: &'a Store,
        file: &'a Path,
        size: u64,
        bucket: &str,
        key: &'a str,
        sent: &'a Sent,
    ) -> Result<Self, Failure> {
        let bucket = store.bucket(bucket)?;
        let mut upload = Self { store, bucket, key, file, size, sent, id: String::new(), there: BTreeMap::new() };
        for id in upload.unfinished().await {
            if let Some(there) = upload.fitting(&id).await? {
                upload.there = there;
                upload.id = id;
                sent.store(upload.skipped(), Ordering::Relaxed);
                return Ok(upload);
            }
        }
        let make =
            || Ok(store.http.post(upload.bucket.create_multipart_upload(Some(&store.keys), key).sign(SIGNATURE)));
        let text = upload.text(store.retry(&upload.place(), make).await?).await?;
        upload.id = CreateMultipartUpload::parse_response(&text).map_err(|_| strange())?.upload_id().to_owned();
        Ok(upload)
    }

    /// How many bytes need not be sent.
    pub(super) fn skipped(&self) -> u64 {
        self.there.keys().map(|number| self.extent(*number).1).sum()
    }

    /// Sends what is missing and puts the parts together.
    pub(super) async fn finish(self) -> Result<(), Failure> {
        self.send_all().await.map_err(|failure| failure.hint("the same command again sends only what is missing"))
    }

    async fn send_all(&self) -> Result<(), Failure> {
        let mut tags = Vec::new();
        for number in 1..=self.count() {
            match self.there.get(&number) {
                Some(tag) => tags.push(tag.clone()),
                None => tags.push(self.send(number).await?),
            }
        }
        let make = || {
            let tags = tags.iter().map(String::as_str);
            let action = self.bucket.complete_multipart_upload(Some(&self.store.keys), self.key, &self.id, tags);
            Ok(self.store.http.post(action.sign(SIGNATURE)).body(action.body()))
        };
        let text = self.text(self.store.retry(&self.place(), make).await?).await?;
        // Stores may answer 200 before they know, and tell of a failure in the body.
        if CompleteMultipartUploadResponse::parse(&text).is_ok() {
            return Ok(());
        }
        let told = element(&text, "Message").unwrap_or_else(|| "no reason is given".to_owned());
        let what = format!("{}: the store could not put the parts together: {told}", self.place());
        Err(Failure::new(Exit::Failed, what))
    }

    /// Sends a part; gives its tag.
    async fn send(&self, number: u16) -> Result<String, Failure> {
        let ((offset, length), before) = (self.extent(number), self.sent.load(Ordering::Relaxed));
        let make = || {
            self.sent.store(before, Ordering::Relaxed);
            let url = self.bucket.upload_part(Some(&self.store.keys), self.key, number, &self.id).sign(SIGNATURE);
            let body = piece(self.file, offset, length, self.sent).map_err(|error| self.unreadable(&error))?;
            Ok(self.store.http.put(url).header(CONTENT_LENGTH, length).body(body))
        };
        let answer = self.store.retry(&self.place(), make).await?;
        let tag = answer.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
        tag.map(|tag| tag.trim_matches('"').to_owned()).ok_or_else(strange)
    }

    /// Uploads of this key that nobody completed, the newest first; none where the store does not tell.
    async fn unfinished(&self) -> Vec<String> {
        let (url, keys) = (self.bucket.object_url(""), &self.store.keys);
        let query = [("encoding-type", "url"), ("prefix", self.key), ("uploads", "")];
        let (now, none) = (Timestamp::now(), std::iter::empty());
        let (key, secret, token) = (keys.key(), keys.secret(), keys.token());
        let seconds = SIGNATURE.as_secs();
        let query = query.into_iter();
        let url = sign(&now, Method::Get, url, key, secret, token, self.bucket.region(), seconds, query, none);
        let Ok(answer) = self.store.send(self.store.http.get(url), &self.place()).await else { return Vec::new() };
        let mut ids = uploads_of(&text_of(answer).await.unwrap_or_default(), self.key);
        ids.reverse();
        ids
    }

    /// Tags of the parts of an upload, if all of them are parts of this file. One with others is
    /// somebody else's, and may be under way.
    async fn fitting(&self, id: &str) -> Result<Option<BTreeMap<u16, String>>, Failure> {
        let (mut there, mut after) = (BTreeMap::new(), None);
        loop {
            let mut action = self.bucket.list_parts(Some(&self.store.keys), self.key, id);
            if let Some(after) = after {
                action.set_part_number_marker(after);
            }
            // It may have been completed or removed since it was listed.
            let request = self.store.http.get(action.sign(SIGNATURE));
            let Ok(answer) = self.store.send(request, &self.place()).await else { return Ok(None) };
            let page = ListParts::parse_response(&self.text(answer).await?).map_err(|_| strange())?;
            for part in page.parts {
                let tag = part.etag.trim_matches('"').to_owned();
                let (offset, length) = self.extent(part.number);
                if length == 0 || part.size != length || !self.has(offset, length, &tag).await? {
                    return Ok(None);
                }
                there.insert(part.number, tag);
            }
            match page.next_part_number_marker {
                Some(next) if after.is_none_or(|after| next > after) => after = Some(next),
                _ => return Ok(Some(there)),
            }
        }
    }

    async fn has(&self, offset: u64, length: u64, tag: &str) -> Result<bool, Failure> {
        let file = self.file.to_owned();
        let sum = tokio::task::spawn_blocking(move || md5_of(&file, offset, length)).await;
        let sum = sum.unwrap_or_else(|_| Err(std::io::Error::other("reading was interrupted")));
        Ok(sum.map_err(|error| self.unreadable(&error))? == tag)
    }

    fn part_size(&self) -> u64 {
        PART.max(self.size.div_ceil(MOST_PARTS))
    }

    fn count(&self) -> u16 {
        u16::try_from(self.size.div_ceil(self.part_size())).unwrap_or(u16::MAX)
    }

    /// Where a part begins and how long it is; nothing behind the last.
    fn extent(&self, number: u16) -> (u64, u64) {
        let offset = u64::from(number.saturating_sub(1)) * self.part_size();
        (offset, self.part_size().min(self.size.saturating_sub(offset)))
    }

    fn place(&self) -> String {
        format!("{}/{}", self.bucket.name(), self.key)
    }

    fn unreadable(&self, error: &std::io::Error) -> Failure {
        unreadable(&self.file.display().to_string(), error)
    }

    async fn text(&self, answer: reqwest::Response) -> Result<String, Failure> {
        text_of(answer).await.map_err(|_| Failure::new(Exit::Unreachable, "the object store broke off its answer"))
    }
}

fn strange() -> Failure {
    Failure::new(Exit::Failed, "the object store gave an answer that is not S3's")
}

/// The uploads of exactly this key in an answer whose keys are encoded.
fn uploads_of(xml: &str, key: &str) -> Vec<String> {
    let uploads = xml.split("<Upload>").skip(1);
    let of_key = uploads.filter(|upload| {
        let found = element(upload, "Key").unwrap_or_default().replace('+', " ");
        percent_decode_str(&found).decode_utf8().is_ok_and(|found| found == key)
    });
    of_key.filter_map(|upload| element(upload, "UploadId")).collect()
}

#[cfg(test)]
mod tests {
    use super::uploads_of;

    #[test]
    fn only_uploads_of_the_very_key_are_taken() {
        let xml = "<ListMultipartUploadsResult><Prefix>a+b</Prefix>\
            <Upload><Key>a+b%2B</Key><UploadId>1</UploadId></Upload>\
            <Upload><Key>a+b%2Bc</Key><UploadId>2</UploadId></Upload>\
            <Upload><Key>a%20b%2B</Key><UploadId>3</UploadId></Upload></ListMultipartUploadsResult>";
        assert_eq!(uploads_of(xml, "a b+"), ["1", "3"]);
        assert!(uploads_of("<html>", "a").is_empty());
    }
}
