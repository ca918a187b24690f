//! The cluster's object store, with the keys that the manager gives its caller.

use std::time::{Duration, Instant};

use oscar_api::client::is_loopback;
use reqwest::header::{CONTENT_LENGTH, ETAG};
use reqwest::{Client, RequestBuilder, Response, Url};
use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use serde_json::Value;

use super::body::Sent;
use super::failure::Trouble;
use crate::cli::exit::{Exit, Failure};
use crate::cli::status::bytes;
use crate::cli::{Session, progress, target};

/// How long a signature is good for. It is checked when a request begins, and each has a new one.
pub(super) const SIGNATURE: Duration = Duration::from_mins(15);

/// A store that says nothing for so long is gone. Putting large objects together takes it a while.
const SILENCE: Duration = Duration::from_mins(5);

/// Before each further try.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];

pub(super) struct Store {
    pub(super) http: Client,
    pub(super) endpoint: Url,
    pub(super) region: String,
    pub(super) keys: Credentials,
}

/// What is known of an object without reading it.
pub(super) struct Head {
    pub(super) size: u64,
    /// With its quotes, as the store gave it.
    pub(super) etag: String,
}

impl Store {
    pub(super) async fn of(session: &Session) -> Result<Self, Failure> {
        let target = target::current(session)?;
        let client = target.client(target::ORDINARY)?;
        let config = progress::during(&format!("asking {}", target.title()), client.get("/system/config")).await?;
        let provider = &config.value["minio_provider"];
        let text = |key: &str| provider[key].as_str().unwrap_or_default();
        let none = || {
            Failure::new(Exit::Failed, format!("{} gives you no keys of an object store", target.title()))
                .hint("a manager that only keeps services has none; users of some identity providers have none either")
        };
        let endpoint = Url::parse(text("endpoint")).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let endpoint = endpoint.filter(Url::has_host).ok_or_else(none)?;
        if text("access_key").is_empty() {
            return Err(none());
        }
        let mut builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(SILENCE)
            .user_agent(concat!("oscar/", env!("CARGO_PKG_VERSION")))
            .tls_danger_accept_invalid_certs(provider["verify"] == Value::Bool(false) || target.insecure);
        if is_loopback(endpoint.as_str()) {
            builder = builder.no_proxy();
        }
        if let Some(certificate) = target.ca.as_deref().and_then(|pem| reqwest::Certificate::from_pem(pem).ok()) {
            builder = builder.add_root_certificate(certificate);
        }
        let http = builder.build();
        let http = http.map_err(|error| Failure::new(Exit::Failed, format!("no connection can be made: {error}")))?;
        let region = if text("region").is_empty() { "us-east-1" } else { text("region") }.to_owned();
        Ok(Self { http, endpoint, region, keys: Credentials::new(text("access_key"), text("secret_key")) })
    }

    pub(super) fn bucket(&self, name: &str) -> Result<Bucket, Failure> {
        let bucket = Bucket::new(self.endpoint.clone(), UrlStyle::Path, name.to_owned(), self.region.clone());
        bucket.map_err(|_| Failure::new(Exit::Usage, format!("`{name}` cannot be the name of a bucket")))
    }

    /// Sends once; everything but a success is trouble about `place`.
    pub(super) async fn send(&self, request: RequestBuilder, place: &str) -> Result<Response, Trouble> {
        let answer = request.send().await;
        let answer = answer.map_err(|error| Trouble::unanswered(self.endpoint.as_str(), &error.without_url()))?;
        if answer.status().is_success() { Ok(answer) } else { Err(Trouble::refused(answer, place).await) }
    }

    /// Sends, again when what went wrong may pass. `make` gives a new request for each try.
    pub(super) async fn retry(
        &self,
        place: &str,
        mut make: impl FnMut() -> Result<RequestBuilder, Failure>,
    ) -> Result<Response, Failure> {
        let mut pauses = PAUSES.iter();
        loop {
            match self.send(make()?, place).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => match pauses.next().filter(|_| trouble.passing) {
                    Some(pause) => tokio::time::sleep(*pause).await,
                    None => return Err(trouble.failure),
                },
            }
        }
    }

    pub(super) async fn head(&self, bucket: &str, key: &str) -> Result<Head, Failure> {
        let there = self.bucket(bucket)?;
        let make = || Ok(self.http.head(there.head_object(Some(&self.keys), key).sign(SIGNATURE)));
        let answer = self.retry(&format!("{bucket}/{key}"), make).await?;
        let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let size = header(CONTENT_LENGTH).and_then(|size| size.parse().ok());
        let etag = header(ETAG).map(str::to_owned);
        let strange =
            || Failure::new(Exit::Failed, format!("the object store does not tell how long {bucket}/{key} is"));
        size.zip(etag).map(|(size, etag)| Head { size, etag }).ok_or_else(strange)
    }

    /// One that is not there cannot be deleted, though S3 would not mind.
    pub(super) async fn delete(&self, bucket: &str, key: &str) -> Result<(), Failure> {
        self.head(bucket, key).await?;
        let there = self.bucket(bucket)?;
        let make = || Ok(self.http.delete(there.delete_object(Some(&self.keys), key).sign(SIGNATURE)));
        self.retry(&format!("{bucket}/{key}"), make).await.map(drop)
    }
}

/// How far a transfer is.
pub(super) fn far(done: &Sent, all: u64, since: Instant, skipped: u64) -> String {
    let done = done.load(std::sync::atomic::Ordering::Relaxed).min(all);
    let percent = u128::from(done) * 100 / u128::from(all.max(1));
    let rate = u128::from(done.saturating_sub(skipped)) * 1000 / since.elapsed().as_millis().max(1);
    format!("{percent} % of {}, {}/s", bytes(all), bytes(u64::try_from(rate).unwrap_or(u64::MAX)))
}
