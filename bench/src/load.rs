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
    authorization: String,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Connection {
        let sender = connect(address).await;
        let pair = format!("oscar:{PASSWORD}");
        let authorization = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
        Connection { address, sender, authorization }
    }

    /// Sends one request and reads its whole answer. A server may close a connection that was
    /// not used for a while, also just when it is used again; then there is a new one.
    pub(crate) async fn call(&mut self, call: &Call) -> (StatusCode, usize) {
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
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame.expect("a whole answer").data_ref().map_or(0, Bytes::len);
        }
        (status, length)
    }

    fn request(&self, call: &Call) -> Request<Full<Bytes>> {
        Request::builder()
            .method(&call.method)
            .uri(&call.path)
            .header(header::HOST, "127.0.0.1")
            .header(header::AUTHORIZATION, &self.authorization)
            .body(Full::new(call.body.clone()))
            .expect("a request")
    }
}

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    let _ = stream.set_nodelay(true);
    let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("the server speaks HTTP");
    tokio::spawn(connection);
    sender
}

/// Keeps `connections` busy for `duration`; `call` makes the n-th request of a connection.
/// Every answer must be a success.
pub(crate) async fn load<F>(address: SocketAddr, connections: usize, duration: Duration, call: F) -> Load
where
    F: Fn(usize, usize) -> Call + Send + Sync + 'static,
{
    let call = Arc::new(call);
    let begin = Instant::now();
    let tasks: Vec<_> = (0..connections)
        .map(|index| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await;
                let mut times = Vec::new();
                let mut number = 0;
                while begin.elapsed() < duration {
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
