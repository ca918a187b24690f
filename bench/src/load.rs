//! The load generator: connections that stay open, each with one request at a time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::server::PASSWORD;

/// One request, as it is repeated.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Call {
        Call { method: Method::GET, path: path.into(), body: Bytes::new() }
    }

    pub(crate) fn post(path: &str, body: Vec<u8>) -> Call {
        Call { method: Method::POST, path: path.to_owned(), body: body.into() }
    }
}

/// How requests of one kind went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Load {
    pub(crate) fn of(mut times: Vec<Duration>, took: Duration) -> Load {
        assert!(!times.is_empty(), "no request was answered");
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        let count = u32::try_from(times.len()).map_or(f64::MAX, f64::from);
        Load { per_second: count / took.as_secs_f64(), p50: at(50), p99: at(99) }
    }
}

pub(crate) struct Connection {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
    authorization: Option<String>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Connection {
        let pair = format!("oscar:{PASSWORD}");
        let authorization = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
        Connection { authorization: Some(authorization), ..Self::anonymous(address).await }
    }

    /// For requests whose address is signed.
    pub(crate) async fn anonymous(address: SocketAddr) -> Connection {
        Connection { address, sender: connect(address).await, authorization: None }
    }

    /// Sends one request; says how long its answer was.
    pub(crate) async fn call(&mut self, call: &Call) -> (StatusCode, usize) {
        let mut length = 0;
        let status = self.read(call, |piece| length += piece.len()).await;
        (status, length)
    }

    /// The body of an answer that must be a success.
    pub(crate) async fn text(&mut self, call: &Call) -> String {
        let mut body = Vec::new();
        let status = self.read(call, |piece| body.extend_from_slice(piece)).await;
        assert!(status.is_success(), "{} {}: {status}", call.method, call.path);
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Sends one request and reads its whole answer. A server may close a connection that was
    /// not used for a while, also just when it is used again; then there is a new one.
    async fn read(&mut self, call: &Call, mut take: impl FnMut(&[u8])) -> StatusCode {
        if self.sender.ready().await.is_err() {
            self.sender = connect(self.address).await;
        }
        let answer = match self.sender.send_request(self.request(call)).await {
            // What was not sent, or changes nothing, can be sent again.
            Err(error) if error.is_canceled() || call.method == Method::GET => {
                self.sender = connect(self.address).await;
                self.sender.send_request(self.request(call)).await.expect("an answer on a new connection")
            }
            answer => answer.expect("an answer"),
        };
        let status = answer.status();
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            if let Ok(piece) = frame.expect("a whole answer").into_data() {
                take(&piece);
            }
        }
        status
    }

    fn request(&self, call: &Call) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(&call.method)
            .uri(&call.path)
            // Signatures cover it.
            .header(header::HOST, self.address.to_string());
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        request.body(Full::new(call.body.clone())).expect("a request")
    }
}

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    let _ = stream.set_nodelay(true);
    let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("the server speaks HTTP");
    tokio::spawn(connection);
    sender
}

/// How long a load goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    Passed(Duration),
    /// So many requests of each connection.
    Sent(usize),
}

/// Keeps `connections` busy for `duration`; `call` makes the n-th request of a connection.
/// Every answer must be a success.
pub(crate) async fn load<F>(address: SocketAddr, connections: usize, duration: Duration, call: F) -> Load
where
    F: Fn(usize, usize) -> Call + Send + Sync + 'static,
{
    let opened = futures::future::join_all((0..connections).map(|_| Connection::open(address))).await;
    drive(opened, Until::Passed(duration), call).await
}

pub(crate) async fn drive<F>(connections: Vec<Connection>, until: Until, call: F) -> Load
where
    F: Fn(usize, usize) -> Call + Send + Sync + 'static,
{
    let call = Arc::new(call);
    let begin = Instant::now();
    let goes_on = move |number| match until {
        Until::Passed(duration) => begin.elapsed() < duration,
        Until::Sent(count) => number < count,
    };
    let tasks: Vec<_> = connections
        .into_iter()
        .enumerate()
        .map(|(index, mut connection)| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                let mut number = 0;
                while goes_on(number) {
                    let call = call(index, number);
                    let sent = Instant::now();
                    let (status, _) = connection.call(&call).await;
                    times.push(sent.elapsed());
                    assert!(status.is_success(), "{} {}: {status}", call.method, call.path);
                    number += 1;
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("the connection lasts"));
    }
    Load::of(times, begin.elapsed())
}
