//! An identity provider that does what a test tells it, on a port of its own.
//!
//! It speaks one request per connection, so that a change of behaviour shows at once.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub(super) const DISCOVERY: &str = "/.well-known/openid-configuration";
pub(super) const KEYS: &str = "/keys";
pub(super) const USERINFO: &str = "/userinfo";
pub(super) const TOKEN: &str = "/token";
pub(super) const REVOKE: &str = "/revoke";

/// How a path misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mischief {
    /// Closes the connection without a word.
    Drop,
    /// Accepts the request and stays silent until the mischief is taken back.
    Hang,
    Status(u16),
    /// Points to the place where the right answer is.
    Redirect,
    /// Announces a long answer.
    Huge,
    /// Never stops answering.
    Endless,
    Garbage,
}

pub(super) struct Conduct {
    pub(super) discovery: Value,
    pub(super) keys: Vec<Value>,
    pub(super) userinfo: Value,
    /// Status and body of the token endpoint.
    pub(super) token: (u16, Value),
    pub(super) revoke: (u16, Value),
    /// What userinfo answers instead, as a JWT.
    pub(super) signed_userinfo: Option<String>,
    pub(super) cache_control: Option<&'static str>,
    pub(super) mischief: Vec<(&'static str, Mischief)>,
}

/// Either kind of connection.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(super) struct FakeIssuer {
    pub(super) url: String,
    shared: Arc<Shared>,
    reserved: Mutex<Option<TcpSocket>>,
    changes: watch::Sender<()>,
}

struct Shared {
    tls: Option<TlsAcceptor>,
    conduct: Mutex<Conduct>,
    requests: Mutex<Vec<Request>>,
}

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) authorization: Option<String>,
    /// The form, as it was sent.
    pub(super) body: String,
}

impl FakeIssuer {
    pub(super) fn start(keys: Vec<Value>) -> Self {
        let issuer = Self::reserve(keys, None);
        issuer.open();
        issuer
    }

    /// Has an address where nobody listens yet: connections are refused.
    pub(super) fn reserve(keys: Vec<Value>, tls: Option<TlsAcceptor>) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", socket.local_addr().expect("an address"));
        let discovery = json!({
            "issuer": url,
            "authorization_endpoint": format!("{url}/authorize"),
            "jwks_uri": format!("{url}{KEYS}"),
            "userinfo_endpoint": format!("{url}{USERINFO}"),
            "token_endpoint": format!("{url}{TOKEN}"),
            "revocation_endpoint": format!("{url}{REVOKE}"),
        });
        let conduct = Conduct {
            discovery,
            keys,
            userinfo: json!({}),
            token: (400, json!({"error": "invalid_grant"})),
            revoke: (200, json!({})),
            signed_userinfo: None,
            cache_control: None,
            mischief: Vec::new(),
        };
        let shared = Shared { tls, conduct: Mutex::new(conduct), requests: Mutex::default() };
        Self { url, shared: Arc::new(shared), reserved: Mutex::new(Some(socket)), changes: watch::Sender::new(()) }
    }

    /// Begins to listen on the reserved address.
    pub(super) fn open(&self) {
        let socket = lock(&self.reserved).take().expect("opened once");
        let listener = socket.listen(1024).expect("to listen");
        tokio::spawn(serve(listener, Arc::clone(&self.shared), self.changes.subscribe()));
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Conduct)) {
        change(&mut lock(&self.shared.conduct));
        self.changes.send_replace(());
    }

    pub(super) fn misbehave(&self, path: &'static str, mischief: Mischief) {
        self.change(|conduct| conduct.mischief.push((path, mischief)));
    }

    pub(super) fn behave(&self) {
        self.change(|conduct| conduct.mischief.clear());
    }

    pub(super) fn requests(&self, path: &str) -> Vec<Request> {
        let all = lock(&self.shared.requests);
        all.iter().filter(|request| request.path == path).cloned().collect()
    }

    pub(super) fn count(&self, path: &str) -> usize {
        self.requests(path).len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends with the issuer: the sender of changes is gone then.
async fn serve(listener: TcpListener, shared: Arc<Shared>, mut changes: watch::Receiver<()>) {
    loop {
        tokio::select! {
            gone = changes.changed() => if gone.is_err() { return },
            Ok((stream, _)) = listener.accept() => {
                let (shared, changes) = (Arc::clone(&shared), changes.clone());
                tokio::spawn(async move {
                    // A client that hangs up is part of the game.
                    let _ = match &shared.tls {
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => answer(stream, &shared, changes).await,
                            Err(_) => return,
                        },
                        None => answer(stream, &shared, changes).await,
                    };
                });
            }
        }
    }
}

async fn answer(mut stream: impl Stream, shared: &Shared, mut changes: watch::Receiver<()>) -> std::io::Result<()> {
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    lock(&shared.requests).push(request.clone());
    loop {
        let mischief = {
            let conduct = lock(&shared.conduct);
            let mut fitting = conduct.mischief.iter().filter(|(path, _)| request.path == *path);
            fitting.next_back().map(|(_, mischief)| *mischief)
        };
        match mischief {
            Some(Mischief::Hang) => {
                if changes.changed().await.is_err() {
                    return Ok(());
                }
            }
            Some(mischief) => return misbehave(stream, &request.path, mischief).await,
            None => return tell(stream, shared, &request.path).await,
        }
    }
}

async fn read_request(stream: &mut impl Stream) -> std::io::Result<Option<Request>> {
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let header = |wanted: &str| {
            head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
            })
        };
        let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            return Ok(Some(Request { path, authorization: header("authorization"), body: body.to_owned() }));
        }
    }
}

async fn tell(mut stream: impl Stream, shared: &Shared, path: &str) -> std::io::Result<()> {
    let ((status, body), signed, cache_control) = {
        let conduct = lock(&shared.conduct);
        let signed = conduct.signed_userinfo.clone().filter(|_| path == USERINFO);
        let answer = match path {
            DISCOVERY => (200, conduct.discovery.clone()),
            KEYS => (200, json!({"keys": conduct.keys})),
            USERINFO => (200, conduct.userinfo.clone()),
            TOKEN => conduct.token.clone(),
            REVOKE => conduct.revoke.clone(),
            _ => (404, Value::Null),
        };
        (answer, signed, conduct.cache_control)
    };
    let kind = if signed.is_some() { "application/jwt; charset=utf-8" } else { "application/json" };
    let body = signed.unwrap_or_else(|| body.to_string());
    let cache = cache_control.map(|value| format!("cache-control: {value}\r\n")).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{cache}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    stream.shutdown().await
}

async fn misbehave(mut stream: impl Stream, path: &str, mischief: Mischief) -> std::io::Result<()> {
    let close = "connection: close\r\n";
    let text = match mischief {
        Mischief::Drop | Mischief::Hang => return Ok(()),
        Mischief::Status(status) => format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n{close}\r\n"),
        Mischief::Redirect => {
            format!("HTTP/1.1 302 Found\r\nlocation: {path}-moved\r\ncontent-length: 0\r\n{close}\r\n")
        }
        Mischief::Huge => format!("HTTP/1.1 200 OK\r\ncontent-length: 1048577\r\n{close}\r\n["),
        Mischief::Endless => format!("HTTP/1.1 200 OK\r\n{close}\r\n["),
        Mischief::Garbage => format!("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n{close}\r\n<html"),
    };
    stream.write_all(text.as_bytes()).await?;
    if mischief == Mischief::Endless {
        // Ends when the client hangs up.
        loop {
            stream.write_all(&[b' '; 16 * 1024]).await?;
        }
    }
    stream.shutdown().await
}
