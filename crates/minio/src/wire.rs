//! Signed requests, and answers that are read within limits.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use oscar_engine::ports::clock::Clock;
use reqwest::header::{DATE, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Url};

use crate::error::{OpenError, Trouble};
use crate::sign::{Covered, Signer, encoded_path, encoded_query};

/// The longest answer that is read: a page of a list is below a megabyte, all policies together
/// may be more.
const MOST_ANSWER: usize = 32 << 20;
/// For short exchanges; copies have their own measure.
const PATIENCE: Duration = Duration::from_secs(30);

/// While a store is starting.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(250);

pub(crate) struct Wire {
    client: Client,
    endpoint: Url,
    host: String,
    pub(crate) signer: Signer,
    clock: Arc<dyn Clock>,
}

/// A request to be sent.
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    /// Not encoded, with the slash at its beginning.
    pub(crate) path: String,
    pub(crate) query: Vec<(&'a str, &'a str)>,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) patience: Duration,
}

impl Ask<'_> {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), query: Vec::new(), headers: Vec::new(), body: Vec::new(), patience: PATIENCE }
    }
}

/// An answer of success.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// What time the store says it is, in milliseconds; whole seconds.
    pub(crate) fn time(&self) -> Option<i64> {
        self.millis(DATE.as_str())
    }

    /// A time in a header.
    pub(crate) fn millis(&self, header: &str) -> Option<i64> {
        let date = jiff::fmt::rfc2822::parse(self.header(header)).ok()?;
        Some(date.timestamp().as_millisecond())
    }
}

impl Wire {
    pub(crate) fn new(endpoint: &str, verify: bool, signer: Signer, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let wrong = || OpenError::Address(endpoint.to_owned());
        let endpoint: Url = endpoint.parse().map_err(|_| wrong())?;
        let is_plain = matches!(endpoint.scheme(), "http" | "https") && matches!(endpoint.path(), "" | "/");
        let name = endpoint.host_str().filter(|_| is_plain).ok_or_else(wrong)?;
        let host = endpoint.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        let builder = Client::builder()
            .connect_timeout(Duration::from_secs(10))
            // A signature is meant for one host.
            .redirect(Policy::none())
            .user_agent(concat!("oscar/", env!("CARGO_PKG_VERSION")));
        let is_tls = endpoint.scheme() == "https";
        let builder =
            if verify && is_tls { builder } else { builder.tls_danger_accept_invalid_certs(true).tls_certs_only([]) };
        let client = builder.build().map_err(|error| OpenError::Tls(error.to_string()))?;
        Ok(Self { client, endpoint, host, signer, clock })
    }

    pub(crate) fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    /// Everything but a success is trouble. A store that has just started and says so is asked
    /// again for a moment: it has done nothing.
    pub(crate) async fn send(&self, ask: Ask<'_>) -> Result<Answer, Trouble> {
        let mut tries = 1;
        loop {
            match self.send_once(&ask).await {
                Err(trouble) if trouble.is("XMinioServerNotInitialized") && tries < TRIES => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }

    async fn send_once(&self, ask: &Ask<'_>) -> Result<Answer, Trouble> {
        let (path, query) = (encoded_path(&ask.path), encoded_query(&ask.query));
        let covered = Covered {
            method: ask.method.as_str(),
            host: &self.host,
            path: &path,
            query: &query,
            headers: &ask.headers,
            body: &ask.body,
        };
        let now =
            Timestamp::try_from(self.clock.now()).map_err(|_| Trouble::new("the clock of this machine is off"))?;
        let headers = self.signer.sign(&covered, now);
        let mut url = self.endpoint.clone();
        url.set_path(&path);
        url.set_query(Some(query.as_str()).filter(|query| !query.is_empty()));
        let mut request = self.client.request(ask.method.clone(), url).timeout(ask.patience).body(ask.body.clone());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let answer = request.send().await.map_err(|error| of_request(&error.without_url()))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = read(answer).await?;
        // Copies that take long begin their answer before they know.
        let failed_late = status.is_success() && body.starts_with(b"<?xml") && {
            let text = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
            text.contains("<Error>")
        };
        if status.is_success() && !failed_late {
            return Ok(Answer { headers, body });
        }
        Err(of_answer(if failed_late { 500 } else { status.as_u16() }, &body))
    }
}

async fn read(mut answer: reqwest::Response) -> Result<Vec<u8>, Trouble> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| of_request(&error.without_url()))? {
        body.extend_from_slice(&chunk);
        if body.len() > MOST_ANSWER {
            return Err(Trouble::new("the store's answer is too long"));
        }
    }
    Ok(body)
}

fn of_request(error: &reqwest::Error) -> Trouble {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    let why = if error.source().is_some() { format!(" ({deepest})") } else { String::new() };
    Trouble::new(if error.is_timeout() {
        "it did not answer in time".to_owned()
    } else if error.is_connect() {
        format!("no connection to it{why}")
    } else {
        format!("the connection to it broke{why}")
    })
}

fn of_answer(status: u16, body: &[u8]) -> Trouble {
    let text = String::from_utf8_lossy(&body[..body.len().min(16 * 1024)]).into_owned();
    let code = code_in(&text).unwrap_or_default();
    let cause = match status {
        401 | 403 => format!("the object store refuses the manager's key ({status} {code})"),
        _ => format!("it answered {status} {code}").trim_end().to_owned(),
    };
    Trouble { status: Some(status), code, cause }
}

/// S3 speaks XML and the administrative interface JSON; both have a word for what is wrong.
fn code_in(text: &str) -> Option<String> {
    let between = |begin: &str, end: &str| Some(text.split_once(begin)?.1.split_once(end)?.0);
    let code = between("<Code>", "</Code>").or_else(|| between("\"Code\":\"", "\""))?;
    let plain = (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| code.to_owned())
}
