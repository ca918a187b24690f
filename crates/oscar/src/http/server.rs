//! The listener: connections, their limits, and an orderly end.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tower::ServiceExt as _;

/// For the head of a request to arrive: slower senders only hold connections.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// For requests under way when the manager is told to stop.
const FAREWELL: Duration = Duration::from_secs(10);

/// Serves until `stop` is ready, then finishes what is under way.
pub async fn serve<S>(listener: TcpListener, service: S, stop: impl Future<Output = ()>) -> io::Result<()>
where
    S: tower::Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    let graceful = GracefulShutdown::new();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Duration::from_mins(1));
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or the other side gave up: others may still be served.
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let service = service.clone().map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(oscar_store::Peer(from.ip()));
            request.map(axum::body::Body::new)
        });
        let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let connection = graceful.watch(connection.into_owned());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection ended early: {error}");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(FAREWELL, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still under way when the time to finish was over");
    }
    Ok(())
}
