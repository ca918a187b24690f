//! A caller who goes away.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::super::{serve, service};
use super::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_when_its_caller_goes_away() {
    let world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(serve(listener, service(&world.app), std::future::pending()));
    let mut caller = TcpStream::connect(address).await.expect("a connection");
    let token = "a".repeat(64);
    let request = format!(
        "POST /run/mine HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\nContent-Length: 2\r\n\r\nin"
    );
    caller.write_all(request.as_bytes()).await.expect("sent");
    let run = world.attempt(|_| true).await;
    drop(caller);
    for _ in 0..10_000 {
        if world.runtime.alive().is_empty() {
            server.abort();
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{run:?} goes on for nobody");
}
