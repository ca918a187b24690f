//! Transfers over HTTP: clients, what is worth another try, and sentences about what is not.
//!
//! An address may hold a signature and an answer may repeat what it was sent, so neither gets
//! into a sentence: only statuses, S3's error codes, and what the operating system says.

use std::error::Error as _;
use std::future::Future;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, ETAG, IF_MATCH, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, Response, StatusCode};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

use crate::journal::Notes;
use crate::report::{Complaint, DISK_FULL, is_full};
use crate::task::Limits;

/// How much of an error's body is read.
const MOST_ERROR: usize = 16 * 1024;

/// A slower upload than this is given up, in bytes per second.
const SLOWEST: u64 = 64 * 1024;

/// Downloads end when they stand still, not because they are long.
const WHOLE_DOWNLOAD: Duration = Duration::from_hours(30 * 24);

/// However much progress there is in between, a transfer is not begun anew more often.
const MOST_RESUMES: u32 = 1000;

/// Why a transfer did not work.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    /// The end of a sentence: "… could not be fetched: {cause}".
    pub(crate) cause: String,
    pub(crate) again: bool,
    /// There is no room, on the disk of the job or in the store.
    pub(crate) wants_room: bool,
    pub(crate) status: Option<StatusCode>,
}

impl Trouble {
    pub(crate) fn last(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), again: false, wants_room: false, status: None }
    }

    pub(crate) fn passing(cause: impl Into<String>) -> Self {
        Self { again: true, ..Self::last(cause) }
    }

    pub(crate) fn of_disk(doing: &str, error: &std::io::Error) -> Self {
        if is_full(error) {
            return Self { wants_room: true, ..Self::last(DISK_FULL) };
        }
        Self::last(format!("{doing}: {error}"))
    }

    /// `say` makes a sentence of the cause.
    pub(crate) fn complain(self, say: impl FnOnce(&str) -> String) -> Complaint {
        Complaint { sentence: say(&self.cause), wants_room: self.wants_room }
    }

    pub(crate) fn of_request(error: &reqwest::Error) -> Self {
        let mut deepest: &dyn std::error::Error = error;
        while let Some(source) = deepest.source() {
            deepest = source;
        }
        let deepest = deepest.to_string();
        // Another attempt meets the same certificate.
        if deepest.starts_with("invalid peer certificate") {
            return Self::last(format!("the certificate of the store is not trusted ({deepest})"));
        }
        let why = if error.source().is_some() { format!(" ({deepest})") } else { String::new() };
        Self::passing(if error.is_timeout() {
            "the store did not answer in time".to_owned()
        } else if error.is_connect() {
            format!("no connection to the store{why}")
        } else if error.is_redirect() {
            return Self::last("the store sends elsewhere too often");
        } else if error.is_builder() {
            return Self::last("the address of the store is not valid");
        } else {
            format!("the connection to the store broke{why}")
        })
    }

    /// Reads what an answer that is no success says.
    pub(crate) async fn of_answer(answer: Response) -> Self {
        let status = answer.status();
        let code = error_code(answer).await;
        let said = code.map_or_else(|| status.as_u16().to_string(), |code| format!("{} {code}", status.as_u16()));
        let cause = match status.as_u16() {
            301 | 302 | 307 | 308 => format!("the store sends elsewhere ({said}); is the region or the address right?"),
            401 | 403 => {
                format!("the store refuses access ({said}); the credentials of this job may not do that there")
            }
            404 => format!("it does not exist there ({said})"),
            411 | 413 => format!("the store does not take a file of this size ({said})"),
            507 => format!("the store is full ({said})"),
            _ => format!("the store answered {said}"),
        };
        let again = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504);
        Self { cause, again, wants_room: status.as_u16() == 507, status: Some(status) }
    }
}

/// The code of an S3 error, when it looks like one.
async fn error_code(mut answer: Response) -> Option<String> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > MOST_ERROR {
            break;
        }
    }
    code_in(&String::from_utf8_lossy(&body))
}

pub(crate) fn code_in(body: &str) -> Option<String> {
    let code = body.split_once("<Code>")?.1.split_once("</Code>")?.0;
    let plain = (1..=64).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_alphanumeric());
    plain.then(|| code.to_owned())
}

/// How certificates are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Against the machine's authorities, or well-known ones where the image has none.
    Verify,
    /// Not at all: plain HTTP, or `verify: false`.
    None,
}

/// Clients, made when they are first needed: reading a machine's authorities takes time.
#[derive(Debug)]
pub(crate) struct Transport {
    verified: OnceLock<Option<Client>>,
    trusting: OnceLock<Option<Client>>,
    pub(crate) limits: Limits,
}

impl Transport {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { verified: OnceLock::new(), trusting: OnceLock::new(), limits }
    }

    pub(crate) fn client(&self, trust: Trust) -> Result<&Client, String> {
        let client = match trust {
            Trust::Verify => self.verified.get_or_init(|| self.build_verified()),
            Trust::None => self
                .trusting
                .get_or_init(|| self.builder().tls_danger_accept_invalid_certs(true).tls_certs_only([]).build().ok()),
        };
        client.as_ref().ok_or_else(|| "no HTTPS client can be made on this machine".to_owned())
    }

    fn build_verified(&self) -> Option<Client> {
        let own = self.builder().build();
        own.ok().or_else(|| {
            let known = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
            let known = known.filter_map(|certificate| Certificate::from_der(certificate).ok());
            self.builder().tls_certs_only(known).build().ok()
        })
    }

    fn builder(&self) -> reqwest::ClientBuilder {
        // Somebody else may have chosen a provider already; either is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::builder()
            .connect_timeout(Duration::from_secs(10).min(self.limits.stall))
            // For short exchanges; uploads and downloads have their own measure.
            .timeout(self.limits.stall)
            // A store on another host has no business with a signature; dCache sends readers to a pool.
            .redirect(Policy::custom(|attempt| {
                let signed = attempt.previous().iter().any(|url| url.query().is_some());
                if signed { attempt.stop() } else { Policy::limited(5).redirect(attempt) }
            }))
            .user_agent(concat!("oscar-supervisor/", env!("CARGO_PKG_VERSION")))
    }

    /// How long sending so many bytes may take.
    pub(crate) fn patience(&self, bytes: u64) -> Duration {
        self.limits.stall + Duration::from_secs(bytes / SLOWEST)
    }

    /// Tries until it works, is hopeless, or was tried often enough.
    pub(crate) async fn retry<T, F, Fut>(&self, notes: &Notes, what: String, attempt: F) -> Result<T, Trouble>
    where
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Result<T, Trouble>>,
    {
        self.retry_often(self.limits.attempts, notes, what, attempt).await
    }

    pub(crate) async fn retry_often<T, F, Fut>(
        &self,
        most: u32,
        notes: &Notes,
        what: String,
        mut attempt: F,
    ) -> Result<T, Trouble>
    where
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Result<T, Trouble>>,
    {
        let (mut tried, mut told) = (0, String::new());
        loop {
            let trouble = match attempt(tried).await {
                Ok(done) => return Ok(done),
                Err(trouble) => trouble,
            };
            tried += 1;
            if !trouble.again || tried >= most {
                return Err(trouble);
            }
            if told != trouble.cause {
                notes.add(format!("{what}: {}; it is tried again.", trouble.cause));
                told = trouble.cause;
            }
            self.pause(tried).await;
        }
    }

    async fn pause(&self, tried: u32) {
        let factor = 1u32 << tried.saturating_sub(1).min(6);
        // A little by chance, so that jobs that failed together do not come back together.
        let chance = uuid::Uuid::new_v4().as_bytes()[0];
        let full = self.limits.pause * factor;
        tokio::time::sleep(full / 2 + full * u32::from(chance) / 512).await;
    }

    /// Writes a resource to a file. A transfer that breaks goes on where it was, unless the
    /// resource has changed meanwhile.
    pub(crate) async fn download(
        &self,
        most: u32,
        notes: &Notes,
        what: &str,
        request: impl Fn() -> Result<RequestBuilder, Trouble>,
        target: &Path,
    ) -> Result<u64, Trouble> {
        let disk = |error: std::io::Error| Trouble::of_disk("its copy cannot be written", &error);
        let mut file = File::create(target).await.map_err(disk)?;
        let (mut have, mut version, mut fruitless, mut told) = (0u64, None::<String>, 0u32, String::new());
        for _ in 0..MOST_RESUMES {
            let before = have;
            let trouble = match self.fetch(request()?, &mut file, &mut have, &mut version).await {
                Ok(()) => {
                    file.flush().await.map_err(disk)?;
                    return Ok(have);
                }
                Err(trouble) => trouble,
            };
            fruitless = if have > before { 1 } else { fruitless + 1 };
            if !trouble.again || fruitless >= most {
                return Err(trouble);
            }
            if fruitless == 1 || told != trouble.cause {
                notes.add(format!("{what}: {}; it is tried again.", trouble.cause));
                told = trouble.cause;
            }
            self.pause(fruitless).await;
        }
        Err(Trouble::last("the connection broke too often"))
    }

    async fn fetch(
        &self,
        mut request: RequestBuilder,
        file: &mut File,
        have: &mut u64,
        version: &mut Option<String>,
    ) -> Result<(), Trouble> {
        if let (1.., Some(version)) = (*have, version.as_ref()) {
            request = request.header(RANGE, format!("bytes={have}-")).header(IF_MATCH, version);
        }
        let mut answer = self.moving(request.timeout(WHOLE_DOWNLOAD).send()).await?;
        match answer.status() {
            StatusCode::OK => {
                // Everything from the beginning, whether or not it was asked for.
                *have = 0;
                rewind(file).await?;
            }
            StatusCode::PARTIAL_CONTENT if goes_on_at(&answer, *have) => {}
            StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE if *have > 0 => {
                (*have, *version) = (0, None);
                rewind(file).await?;
                return Err(Trouble::passing("it was changed while it was fetched"));
            }
            status if status.is_success() => return Err(Trouble::last(format!("the store answered {status}"))),
            _ => return Err(Trouble::of_answer(answer).await),
        }
        // Only a strong validator says that the bytes are the same.
        let etag = answer.headers().get(ETAG).and_then(|etag| etag.to_str().ok());
        *version = etag.filter(|etag| etag.starts_with('"')).map(str::to_owned);
        loop {
            let Some(chunk) = self.moving(answer.chunk()).await? else { return Ok(()) };
            let written = file.write_all(&chunk).await;
            written.map_err(|error| Trouble::of_disk("its copy cannot be written", &error))?;
            *have += chunk.len() as u64;
        }
    }

    /// One step of a download, which may take as long as it likes in all but not stand still.
    async fn moving<T>(&self, step: impl Future<Output = reqwest::Result<T>>) -> Result<T, Trouble> {
        match tokio::time::timeout(self.limits.stall, step).await {
            Ok(done) => done.map_err(|error| Trouble::of_request(&error.without_url())),
            Err(_) => Err(Trouble::passing("the store did not answer in time")),
        }
    }
}

async fn rewind(file: &mut File) -> Result<(), Trouble> {
    use tokio::io::AsyncSeekExt as _;
    let emptied = async {
        file.flush().await?;
        file.set_len(0).await?;
        file.rewind().await.map(drop)
    };
    emptied.await.map_err(|error| Trouble::of_disk("its copy cannot be written", &error))
}

fn goes_on_at(answer: &Response, offset: u64) -> bool {
    let range = answer.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {offset}-")))
}
