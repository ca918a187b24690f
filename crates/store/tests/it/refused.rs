//! What becomes of a body whose request is refused: its sender hears why, and none of it is ever
//! taken for another request.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::Bytes;
use oscar_engine::ports::buckets::{Buckets as _, Presign};
use oscar_model::identity::Owner;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::Client;
use crate::support::{Served, mk_bucket};

const BAD: &str = "AWS4-HMAC-SHA256 Credential=root-key/20260101/us-east-1/s3/aws4_request, \
                   SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=0000";

/// How the body is announced.
#[derive(Clone, Copy)]
enum Framing {
    Length,
    Chunks,
}

impl Framing {
    fn header(self, bytes: usize) -> String {
        match self {
            Self::Length => format!("Content-Length: {bytes}"),
            Self::Chunks => "Transfer-Encoding: chunked".to_owned(),
        }
    }

    fn wire(self, body: &[u8]) -> Vec<u8> {
        match self {
            Self::Length => body.to_vec(),
            Self::Chunks => [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n"].concat(),
        }
    }
}

/// Everything that comes back until the server closes the connection.
async fn exchange(served: &Served, head: &str, body: Vec<u8>) -> String {
    let socket = TcpStream::connect(served.address).await.expect("a connection");
    let (mut from, mut to) = socket.into_split();
    let head = head.to_owned();
    let sending = tokio::spawn(async move {
        to.write_all(head.as_bytes()).await.expect("the head is taken");
        // A server that has answered need not take the rest.
        let _ = to.write_all(&body).await;
        to
    });
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_mins(2), from.read_to_end(&mut answer)).await;
    match read.expect("the connection ends") {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    drop(sending.await);
    String::from_utf8(answer).expect("text")
}

/// Requests that would do harm if they were read as such: each removes the object.
fn mk_traps(served: &Served, bytes: usize) -> Vec<u8> {
    let root = Client::root(served.address);
    let address = root.address_to_delete("data", "precious");
    let trap = format!("DELETE {address} HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
    trap.as_bytes().iter().copied().cycle().take(trap.len() * (bytes / trap.len() + 1)).collect()
}

fn check_refusal(answer: &str, status: &str, what: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{what}: {answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{what}: one answer and no other: {answer}");
    let (head, _) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.to_ascii_lowercase().contains("\r\nconnection: close"), "{what}: {head}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_body_of_a_refused_upload_is_never_a_request() {
    let served = Served::start().await;
    served.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    served.store.put_bytes("data", "precious", Bytes::from_static(b"kept"), "").await.expect("put");
    for bytes in [1, 5_000, 300_000, 12_000_000] {
        for (name, framing) in [("length", Framing::Length), ("chunks", Framing::Chunks)] {
            let body = mk_traps(&served, bytes);
            let head = format!(
                "PUT /data/k HTTP/1.1\r\nHost: {}\r\nConnection: keep-alive\r\nAuthorization: {BAD}\r\n\
                 x-amz-date: 20260101T000000Z\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n{}\r\n\r\n",
                served.address,
                framing.header(body.len()),
            );
            let answer = exchange(&served, &head, framing.wire(&body)).await;
            check_refusal(&answer, "403", &format!("{bytes} bytes by {name}"));
        }
    }
    let kept = served.store.stat("data", "precious").await.expect("asked");
    assert!(kept.is_some(), "no trap was sprung");
    assert_eq!(served.store.stat("data", "k").await.expect("asked"), None);
    // They are real: one of them by itself is heard.
    let trap =
        String::from_utf8(mk_traps(&served, 1)).expect("text").replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
    let answer = exchange(&served, &trap, Vec::new()).await;
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert_eq!(served.store.stat("data", "precious").await.expect("asked"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_not_asked_for_when_it_will_be_refused() {
    let served = Served::start().await;
    let head = format!(
        "PUT /none/k HTTP/1.1\r\nHost: {}\r\nAuthorization: {BAD}\r\nx-amz-date: 20260101T000000Z\r\n\
         x-amz-content-sha256: UNSIGNED-PAYLOAD\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n",
        served.address
    );
    let answer = exchange(&served, &head, Vec::new()).await;
    check_refusal(&answer, "403", "waiting for leave to send");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_after_a_good_signature_ends_the_connection_too() {
    let served = Served::start().await;
    served.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    served.store.put_bytes("data", "precious", Bytes::from_static(b"kept"), "").await.expect("put");
    let wanted = Presign {
        bucket: "data".to_owned(),
        key: "a".repeat(1024),
        upload: true,
        content_type: None,
        headers: std::collections::BTreeMap::new(),
        valid_for: Duration::from_mins(5),
    };
    let address = served.store.presign(&Owner::Admin, &wanted).await.expect("an address");
    let path = address.strip_prefix(&served.url()).expect("of this store");
    let body = mk_traps(&served, 3_000_000);
    // The checksum is wrong, which is known at the end of the body; the other header was not
    // signed, which is known at once.
    for (header, status) in [("Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==", "400"), ("x-amz-meta-a: b", "403")] {
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: {}\r\n{header}\r\nContent-Length: {}\r\n\r\n",
            served.address,
            body.len(),
        );
        let answer = exchange(&served, &head, body.clone()).await;
        check_refusal(&answer, status, header);
    }
    assert!(served.store.stat("data", "precious").await.expect("asked").is_some(), "no trap was sprung");
}
