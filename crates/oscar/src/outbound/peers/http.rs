//! One call to one manager: bounded in time, in size and in where it goes.
//!
//! Follows no redirect, uses no proxy, and sends a credential to nobody but the host it is for.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use oscar_api::federation::channel::OPERATION_HEADER;
use oscar_engine::ports::clock::Entropy;
use oscar_engine::ports::peers::Call;
use oscar_model::federation::record::{Credential, Login};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Certificate, Client, ClientBuilder, Method, Response, Url};
use tokio::time::Instant;

use crate::outbound::address::{AddressPolicy, NotPermitted};

use super::answer::Answer;
use super::endpoint;
use super::gate::{Gate, Most, Pass};
use super::options::{PeersError, PeersOptions};
use super::resolver::Guarded;
use super::tardy::Tardy;

/// How much of a refusal is read: what is longer is no sentence.
pub(super) const LONGEST_REFUSAL: usize = 4096;

/// The waits before a second try, in milliseconds: at least this, and up to as much again.
const PAUSE: u64 = 100;

pub(super) struct Transport {
    verified: Client,
    unverified: Client,
    policy: Arc<AddressPolicy>,
    gate: Gate,
    tardy: Tardy,
    longest_answer: usize,
    entropy: Arc<dyn Entropy>,
}

/// Why there is no answer, or no whole one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    #[error("{0}")]
    Address(String),
    #[error("too many calls are under way")]
    Busy,
    #[error("the credential is no text that a header can hold")]
    Credential,
    #[error("it did not answer within {} s", .0.as_secs_f32())]
    Late(Duration),
    #[error("its certificate is not accepted: {0}")]
    Certificate(String),
    #[error("{cause}")]
    Connection { cause: String, again: bool },
    #[error("no connection in time")]
    NoConnection,
    #[error("what it answers is not HTTP")]
    NotHttp,
    #[error("it broke off in the middle of its answer")]
    BrokeOff,
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
}

/// What to ask.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) json: Option<Vec<u8>>,
    /// What a coordinator says of a deploy, for our kind.
    pub(super) order: Option<String>,
    /// Whether asking twice is as good as asking once.
    pub(super) repeatable: bool,
    /// Whether what a success says is needed.
    pub(super) wanted: bool,
}

/// The way to one manager for the requests of one call.
pub(super) struct Session<'a> {
    transport: &'a Transport,
    client: &'a Client,
    base: Url,
    /// The same for every call to that manager.
    address: String,
    credential: &'a Credential,
    deadline: Deadline,
    _pass: Pass,
}

#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    after: Duration,
}

impl Deadline {
    async fn bound<T>(self, work: impl Future<Output = T>) -> Result<T, Trouble> {
        tokio::time::timeout_at(self.at, work).await.map_err(|_| Trouble::Late(self.after))
    }
}

impl Transport {
    pub(super) fn new(options: &PeersOptions) -> Result<Self, PeersError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let cause = "no cryptography provider is installed in this process";
            return Err(PeersError::Client(cause.to_owned()));
        }
        let policy = Arc::new(options.policy.clone());
        let guarded = Arc::new(Guarded { policy: Arc::clone(&policy), lookup: Arc::clone(&options.lookup) });
        let base = || {
            Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .dns_resolver(Arc::clone(&guarded))
                .connect_timeout(options.connect_timeout)
                .pool_max_idle_per_host(options.most_calls_per_host)
                .user_agent(concat!("oscar/", env!("CARGO_PKG_VERSION")))
        };
        let unverified = base().tls_danger_accept_invalid_certs(true).tls_certs_only([]);
        Ok(Self {
            verified: verified(base, options)?,
            unverified: unverified.build().map_err(|error| PeersError::Client(innermost(&error)))?,
            policy,
            gate: Gate::new(Most {
                in_all: options.most_calls,
                per_owner: options.most_calls_per_owner,
                per_host: options.most_calls_per_host,
            }),
            tardy: Tardy::default(),
            longest_answer: options.longest_answer,
            entropy: Arc::clone(&options.entropy),
        })
    }

    /// Waits for a place among the calls that are under way; the deadline counts from then, so
    /// that a member which hangs costs others nothing but their turn.
    pub(super) async fn open<'a>(&'a self, call: &Call<'a>, deadline: Duration) -> Result<Session<'a>, Trouble> {
        let base = endpoint::parse(&call.contact.endpoint, &self.policy).map_err(Trouble::Address)?;
        let entered = self.gate.enter(call.owner.as_str(), &endpoint::host(&base), deadline).await;
        let pass = entered.ok_or(Trouble::Busy)?;
        let address = base.as_str().trim_end_matches('/').to_owned();
        let deadline = self.tardy.patience(&address, deadline);
        Ok(Session {
            transport: self,
            address,
            client: if call.contact.verify { &self.verified } else { &self.unverified },
            base,
            credential: call.credential,
            deadline: Deadline { at: Instant::now() + deadline, after: deadline },
            _pass: pass,
        })
    }
}

fn verified(base: impl Fn() -> ClientBuilder, options: &PeersOptions) -> Result<Client, PeersError> {
    let roots = match &options.extra_roots {
        Some(pem) => Certificate::from_pem_bundle(pem).map_err(|error| PeersError::ExtraRoots(innermost(&error)))?,
        None => Vec::new(),
    };
    if options.extra_roots.is_some() && roots.is_empty() {
        return Err(PeersError::ExtraRoots("there is no certificate in them".to_owned()));
    }
    // A container may have no authorities of its own; those given here then suffice, and with
    // none at all members are still reached by plain HTTP.
    let merged = base().tls_certs_merge(roots.clone()).build();
    let built = merged.or_else(|_| base().tls_certs_only(roots).build());
    built.map_err(|error| PeersError::Client(innermost(&error)))
}

impl Session<'_> {
    pub(super) async fn ask(&self, request: &Request) -> Result<Answer, Trouble> {
        let answer = self.ask_patiently(request).await;
        let tardy = &self.transport.tardy;
        match &answer {
            Ok(Answer { body: Err(Trouble::Late(_)), .. }) | Err(Trouble::Late(_) | Trouble::NoConnection) => {
                tardy.note_late(&self.address);
            }
            Ok(_) => tardy.note_answer(&self.address),
            Err(_) => {}
        }
        answer
    }

    async fn ask_patiently(&self, request: &Request) -> Result<Answer, Trouble> {
        let response = match self.send(request).await {
            Err(Trouble::Connection { again: true, .. }) if request.repeatable => {
                self.deadline.bound(tokio::time::sleep(self.transport.pause())).await?;
                self.send(request).await?
            }
            other => other?,
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let body = match (status.is_success(), request.wanted) {
            (true, true) => self.read_whole(response).await,
            (true, false) => Ok(Vec::new()),
            (false, _) => Ok(self.read_some(response).await),
        };
        Ok(Answer { status, headers, body })
    }

    async fn send(&self, request: &Request) -> Result<Response, Trouble> {
        let url = endpoint::join(&self.base, &request.path);
        let built = self.client.request(request.method.clone(), url).header(ACCEPT, "application/json");
        let built = match self.credential {
            Credential::None => built,
            Credential::Basic(Login { user, password }) => built.basic_auth(user, Some(password.expose())),
            Credential::Bearer(token) | Credential::MemberKey(token) => built.bearer_auth(token.expose()),
        };
        let built = match &request.json {
            Some(json) => built.header(CONTENT_TYPE, "application/json").body(json.clone()),
            None => built,
        };
        let built = match &request.order {
            Some(order) => built.header(OPERATION_HEADER, order),
            None => built,
        };
        self.deadline.bound(built.send()).await?.map_err(|error| classify(&error))
    }

    async fn read_whole(&self, mut response: Response) -> Result<Vec<u8>, Trouble> {
        let longest = self.transport.longest_answer;
        if response.content_length().is_some_and(|announced| announced > longest as u64) {
            return Err(Trouble::TooLong(longest));
        }
        let mut body = Vec::new();
        while let Some(chunk) = self.deadline.bound(response.chunk()).await?.map_err(|_| Trouble::BrokeOff)? {
            if body.len() + chunk.len() > longest {
                return Err(Trouble::TooLong(longest));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// The beginning of a refusal. Its status is known: what cannot be read is left out.
    async fn read_some(&self, mut response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() <= LONGEST_REFUSAL
            && let Ok(Ok(Some(chunk))) = self.deadline.bound(response.chunk()).await
        {
            body.extend_from_slice(&chunk);
        }
        body
    }
}

impl Transport {
    /// Not all at once, after a manager that many were talking to has come back.
    fn pause(&self) -> Duration {
        let mut byte = [0];
        self.entropy.fill(&mut byte);
        Duration::from_millis(PAUSE + PAUSE * u64::from(byte[0]) / 255)
    }
}

/// What went wrong before there was an answer.
fn classify(error: &reqwest::Error) -> Trouble {
    if error.is_builder() {
        return Trouble::Credential;
    }
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(trouble) = recognise(error) {
            return trouble;
        }
        // The source of an `io::Error` passes over what it holds.
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = held.map(|held| held as &(dyn Error + 'static)).or_else(|| error.source());
    }
    if error.is_timeout() {
        return Trouble::NoConnection;
    }
    Trouble::Connection { cause: innermost(error), again: false }
}

fn recognise(error: &(dyn Error + 'static)) -> Option<Trouble> {
    let closed = || Trouble::Connection { cause: "it closed the connection without an answer".to_owned(), again: true };
    if let Some(refused) = error.downcast_ref::<NotPermitted>() {
        return Some(Trouble::Address(refused.to_string()));
    }
    if let Some(error @ rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
        return Some(Trouble::Certificate(error.to_string()));
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        let lost = error.is_incomplete_message() || error.is_canceled() || error.is_closed();
        return if error.is_parse() { Some(Trouble::NotHttp) } else { lost.then(closed) };
    }
    match error.downcast_ref::<io::Error>()?.kind() {
        io::ErrorKind::ConnectionRefused => {
            Some(Trouble::Connection { cause: "nobody listens at its address".to_owned(), again: true })
        }
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected
        | io::ErrorKind::UnexpectedEof => Some(closed()),
        _ => None,
    }
}

/// The innermost cause says what happened; what stands around it repeats "error".
fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
