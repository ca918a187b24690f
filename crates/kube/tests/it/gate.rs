//! A server between a manager and the apiserver that answers some calls itself.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::{Client, Config};
use oscar_testkit::{ADMIN_TOKEN, Apiserver};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::support::config;

/// What is said instead of the apiserver's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// The apiserver is not asked.
    Refuse(StatusCode),
    /// It is asked, does what it is asked to, and its answer is replaced.
    Spoil(StatusCode),
}

/// A call as rules see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Without the query.
    pub(crate) path: String,
}

impl Call {
    pub(crate) fn changes(&self) -> bool {
        self.method != Method::GET
    }
}

type Rule = Box<dyn FnMut(&Call) -> Verdict + Send>;

struct Shared {
    behind: Client,
    rule: Mutex<Rule>,
    calls: Mutex<Vec<Call>>,
}

pub(crate) struct Gate {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Gate {
    pub(crate) async fn before(cluster: &Apiserver) -> Self {
        let mut config = config(cluster, ADMIN_TOKEN).await;
        // What the manager's own client does about refusals is what is looked at.
        config.default_retry = false;
        let behind = Client::try_from(config).expect("a client");
        let rule: Rule = Box::new(|_| Verdict::Pass);
        let shared = Arc::new(Shared { behind, rule: Mutex::new(rule), calls: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, serving }
    }

    /// A client as the manager makes it, of this server.
    pub(crate) fn client(&self) -> Client {
        let url = format!("http://{}", self.address).parse().expect("an address");
        Client::try_from(Config::new(url)).expect("a client")
    }

    /// From now on, and forgets the calls so far.
    pub(crate) fn rule(&self, rule: impl FnMut(&Call) -> Verdict + Send + 'static) {
        *lock(&self.shared.rule) = Box::new(rule);
        lock(&self.shared.calls).clear();
    }

    pub(crate) fn calls(&self, which: impl Fn(&Call) -> bool) -> usize {
        lock(&self.shared.calls).iter().filter(|call| which(call)).count()
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections end with it.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let answer = service_fn(move |request| answer(Arc::clone(&shared), request));
            // A client that hangs up is no fault.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, kube::Error> {
    let call = Call { method: request.method().clone(), path: request.uri().path().to_owned() };
    let verdict = (lock(&shared.rule))(&call);
    lock(&shared.calls).push(call);
    if let Verdict::Refuse(status) = verdict {
        return Ok(refusal(status));
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(http::header::HOST);
    let body = body.collect().await.map_err(kube::Error::HyperError)?.to_bytes();
    let answer = shared.behind.send(Request::from_parts(parts, Body::from(body.to_vec()))).await?;
    Ok(match verdict {
        Verdict::Spoil(status) => refusal(status),
        Verdict::Pass | Verdict::Refuse(_) => answer,
    })
}

/// As an apiserver under load says it.
fn refusal(status: StatusCode) -> Response<Body> {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": status.as_u16(),
        "message": "injected: the apiserver has too much to do", "reason": "Injected",
    });
    let answer = Response::builder().status(status).header("content-type", "application/json");
    let answer = if status == StatusCode::TOO_MANY_REQUESTS { answer.header("retry-after", "1") } else { answer };
    answer.body(Body::from(body.to_string().into_bytes())).expect("an answer")
}
