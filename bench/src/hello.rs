//! The least that an axum server can do, as a process of its own: what everything else is
//! compared with.

use axum::Router;
use axum::routing::get;

pub(crate) const COMMAND: &str = "hello";
pub(crate) const PATH: &str = "/hello";

/// Serves until it is killed; says where on its first line.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        println!("ready http://{address}");
        let router = Router::new().route(PATH, get(|| async { "hello" }));
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
            // As the manager does: small answers leave at once.
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, router).await.expect("it serves");
    });
}
