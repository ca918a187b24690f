//! MinIO and S3: requests are signed here and sent by [`Transport`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oscar_model::secret::Secret;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use rusty_s3::actions::{CompleteMultipartUploadResponse, CreateMultipartUpload};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};

use crate::http::{Transport, Trouble, Trust, code_in};
use crate::journal::Notes;
use crate::names::check_key;
use crate::providers::address;
use crate::slice::Slice;

/// How long a signature is good for. It is checked when a request begins, and each attempt has a
/// new one.
const SIGNATURE: Duration = Duration::from_mins(15);

/// S3 allows no more parts; parts grow instead.
const MOST_PARTS: u64 = 10_000;

pub(crate) struct S3Store {
    pub(crate) endpoint: Url,
    /// Where its present address stands, when it may move.
    pub(crate) endpoint_file: Option<PathBuf>,
    pub(crate) region: String,
    pub(crate) trust: Trust,
    /// Amazon wants the bucket in the host's name.
    pub(crate) virtual_host: bool,
    pub(crate) access_key: String,
    pub(crate) secret_key: Secret,
    pub(crate) session_token: Option<Secret>,
    pub(crate) transport: Arc<Transport>,
}

/// Says of an object which job left it.
const JOB_HEADER: &str = "x-amz-meta-oscar-job";

fn mark(headers: &mut HeaderMap, signed: &mut rusty_s3::Map<'_>, job: Option<&str>) {
    if let Some((job, value)) = job.and_then(|job| Some((job, HeaderValue::from_str(job).ok()?))) {
        headers.insert(JOB_HEADER, value);
        signed.insert(JOB_HEADER, job.to_owned());
    }
}

impl S3Store {
    /// How often a transfer is tried without any progress.
    pub(crate) fn attempts(&self) -> u32 {
        let limits = &self.transport.limits;
        if self.endpoint_file.is_some() { limits.patient_attempts } else { limits.attempts }
    }

    async fn retry<T, F, Fut>(&self, notes: &Notes, what: String, attempt: F) -> Result<T, Trouble>
    where
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Result<T, Trouble>>,
    {
        self.transport.retry_often(self.attempts(), notes, what, attempt).await
    }

    fn present_endpoint(&self) -> Url {
        let written = self.endpoint_file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        written.and_then(|text| address(&text)).unwrap_or_else(|| self.endpoint.clone())
    }

    /// A request for an object, to be made anew for each attempt.
    pub(crate) fn get(&self, bucket: &str, key: &str) -> Result<RequestBuilder, Trouble> {
        let place = self.place(bucket, key)?;
        Ok(place.client.get(place.bucket.get_object(Some(&place.credentials), key).sign(SIGNATURE)))
    }

    /// Stores a file, in parts when it is large. Gives the object's tag.
    pub(crate) async fn put(
        &self,
        notes: &Notes,
        bucket: &str,
        key: &str,
        data: &Slice,
        job: Option<&str>,
    ) -> Result<Option<String>, Trouble> {
        if data.len() > self.transport.limits.part_bytes {
            return self.put_in_parts(notes, bucket, key, data, job).await;
        }
        let stored = self.retry(notes, format!("Storing {bucket}/{key}"), |_| async {
            let place = self.place(bucket, key)?;
            let mut put = place.bucket.put_object(Some(&place.credentials), key);
            let mut headers = HeaderMap::new();
            mark(&mut headers, put.headers_mut(), job);
            self.send(place.client, Method::PUT, put.sign(SIGNATURE), headers, data).await
        });
        Ok(etag(&stored.await?))
    }

    /// Stores a small text.
    pub(crate) async fn put_text(&self, notes: &Notes, bucket: &str, key: &str, text: &str) -> Result<(), Trouble> {
        let stored = self.retry(notes, format!("Storing {bucket}/{key}"), |_| async {
            let place = self.place(bucket, key)?;
            let url = place.bucket.put_object(Some(&place.credentials), key).sign(SIGNATURE);
            answered(place.client.put(url).header(CONTENT_TYPE, "application/json").body(text.to_owned())).await
        });
        stored.await.map(drop)
    }

    async fn put_in_parts(
        &self,
        notes: &Notes,
        bucket: &str,
        key: &str,
        data: &Slice,
        job: Option<&str>,
    ) -> Result<Option<String>, Trouble> {
        let begun = self.retry(notes, format!("Storing {bucket}/{key}"), |_| async {
            let place = self.place(bucket, key)?;
            let mut begin = place.bucket.create_multipart_upload(Some(&place.credentials), key);
            let mut headers = HeaderMap::new();
            mark(&mut headers, begin.headers_mut(), job);
            let text = text_of(answered(place.client.post(begin.sign(SIGNATURE)).headers(headers)).await?).await?;
            let parsed = CreateMultipartUpload::parse_response(&text);
            let strange = |_| Trouble::passing("the store's answer to the beginning of an upload is not S3's");
            parsed.map(|begun| begun.upload_id().to_owned()).map_err(strange)
        });
        let upload = begun.await?;
        let sent = self.send_parts(notes, bucket, key, data, &upload).await;
        if sent.is_err() {
            let place = self.place(bucket, key)?;
            let url = place.bucket.abort_multipart_upload(Some(&place.credentials), key, &upload).sign(SIGNATURE);
            // Parts that stay are the store's to remove; the first failure is what counts.
            let _ = answered(place.client.delete(url)).await;
        }
        sent
    }

    async fn send_parts(
        &self,
        notes: &Notes,
        bucket: &str,
        key: &str,
        data: &Slice,
        upload: &str,
    ) -> Result<Option<String>, Trouble> {
        let size = self.transport.limits.part_bytes.max(data.len().div_ceil(MOST_PARTS));
        let what = format!("Storing {bucket}/{key}");
        let mut tags = Vec::new();
        for (number, part) in (1u16..).zip(data.parts(size)) {
            let part = &part;
            let sent = self.retry(notes, what.clone(), |_| async move {
                let place = self.place(bucket, key)?;
                let url = place.bucket.upload_part(Some(&place.credentials), key, number, upload).sign(SIGNATURE);
                self.send(place.client, Method::PUT, url, HeaderMap::new(), part).await
            });
            let tag = sent.await?.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
            tags.push(tag.ok_or_else(|| Trouble::last("the store gave a part no tag"))?);
        }
        let tags = &tags;
        let finished = self.retry(notes, what, |tried| async move {
            let place = self.place(bucket, key)?;
            let tags = tags.iter().map(String::as_str);
            let action = place.bucket.complete_multipart_upload(Some(&place.credentials), key, upload, tags);
            let (url, body) = (action.sign(SIGNATURE), action.body());
            let request = place.client.post(url).timeout(self.transport.patience(data.len())).body(body);
            match answered(request).await {
                Ok(answer) => completed(&text_of(answer).await?),
                // The answer to an earlier attempt was lost: the object is there, or it is not.
                Err(gone) if tried > 0 && gone.status == Some(StatusCode::NOT_FOUND) => {
                    self.tag_of(&place, key, data.len()).await.ok_or(gone)
                }
                Err(trouble) => Err(trouble),
            }
        });
        finished.await
    }

    /// The tag of an object that has this length.
    async fn tag_of(&self, place: &Place<'_>, key: &str, length: u64) -> Option<Option<String>> {
        let url = place.bucket.head_object(Some(&place.credentials), key).sign(SIGNATURE);
        let answer = answered(place.client.head(url)).await.ok()?;
        let same = answer.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse() == Ok(length);
        same.then(|| etag(&answer))
    }

    async fn send(
        &self,
        client: &Client,
        method: Method,
        url: Url,
        headers: HeaderMap,
        data: &Slice,
    ) -> Result<Response, Trouble> {
        let patience = self.transport.patience(data.len());
        let request = client.request(method, url).headers(headers).header(CONTENT_LENGTH, data.len());
        answered(request.timeout(patience).body(data.body())).await
    }

    fn place(&self, bucket: &str, key: &str) -> Result<Place<'_>, Trouble> {
        if let Some(wrong) = check_key(key) {
            return Err(Trouble::last(wrong));
        }
        // A dot in a bucket's name does not fit the certificate of a host name.
        let style = if self.virtual_host && !bucket.contains('.') { UrlStyle::VirtualHost } else { UrlStyle::Path };
        let region = if self.region.is_empty() { "us-east-1" } else { &self.region };
        let bucket = Bucket::new(self.present_endpoint(), style, bucket.to_owned(), region.to_owned());
        let bucket = bucket.map_err(|_| Trouble::last("the name of the bucket or the store's address is not valid"))?;
        let (key, secret) = (self.access_key.as_str(), self.secret_key.expose());
        let credentials = match &self.session_token {
            Some(token) => Credentials::new_with_token(key, secret, token.expose()),
            None => Credentials::new(key, secret),
        };
        let client = self.transport.client(self.trust).map_err(Trouble::last)?;
        Ok(Place { bucket, credentials, client })
    }
}

struct Place<'a> {
    bucket: Bucket,
    credentials: Credentials,
    client: &'a Client,
}

/// Sends, and takes everything but a success for trouble.
pub(crate) async fn answered(request: RequestBuilder) -> Result<Response, Trouble> {
    let answer = request.send().await.map_err(|error| Trouble::of_request(&error.without_url()))?;
    if answer.status().is_success() { Ok(answer) } else { Err(Trouble::of_answer(answer).await) }
}

async fn text_of(mut answer: Response) -> Result<String, Trouble> {
    const MOST: usize = 1 << 20;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| Trouble::of_request(&error.without_url()))? {
        body.extend_from_slice(&chunk);
        if body.len() > MOST {
            return Err(Trouble::last("the store's answer is too long"));
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Stores may answer 200 before they know, and tell of a failure in the body.
fn completed(body: &str) -> Result<Option<String>, Trouble> {
    if let Ok(done) = CompleteMultipartUploadResponse::parse(body) {
        return Ok(Some(done.etag().trim_matches('"').to_owned()));
    }
    let code = code_in(body).unwrap_or_else(|| "no reason".to_owned());
    Err(Trouble::passing(format!("the store could not put the parts together ({code})")))
}

fn etag(answer: &Response) -> Option<String> {
    let etag = answer.headers().get(ETAG)?.to_str().ok()?;
    Some(etag.trim_matches('"').to_owned())
}
