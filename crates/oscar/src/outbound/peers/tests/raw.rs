//! A server without manners: it does to each connection what a test tells it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

#[derive(Debug, Clone)]
pub(super) enum Conduct {
    /// Says nothing.
    Hang,
    /// Says it byte by byte, and never ends.
    Drip,
    /// Announces ten gigabytes, and sends them.
    Huge,
    /// Never stops, and announces nothing.
    Endless,
    /// A refusal that never stops.
    EndlessRefusal,
    Garbage,
    /// Closes without a word, so many times; then as the other.
    Drop(usize, Box<Conduct>),
    /// Half of what it announced.
    DieMidway,
    /// These bytes.
    Say(String),
    /// These bytes, one by one.
    Spell(String),
}

impl Conduct {
    pub(super) fn answer(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::Say(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"))
    }
}

pub(super) struct Raw {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    /// A permit for each connection that the other side closed while it was spoken to.
    hung_up: Arc<Semaphore>,
}

impl Raw {
    pub(super) async fn start(conduct: Conduct) -> Self {
        Self::start_at("127.0.0.1:0", conduct, None).await.expect("a free port")
    }

    pub(super) async fn start_at(address: &str, conduct: Conduct, tls: Option<TlsAcceptor>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let raw = Self {
            address: listener.local_addr()?,
            connections: Arc::default(),
            requests: Arc::default(),
            hung_up: Arc::new(Semaphore::new(0)),
        };
        let (connections, requests, hung_up) =
            (Arc::clone(&raw.connections), Arc::clone(&raw.requests), Arc::clone(&raw.hung_up));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let index = connections.fetch_add(1, Ordering::SeqCst);
                let (conduct, tls, requests, hung_up) =
                    (conduct.clone(), tls.clone(), Arc::clone(&requests), Arc::clone(&hung_up));
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, conduct, index, &requests, &hung_up).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, conduct, index, &requests, &hung_up).await;
                            }
                        }
                    }
                });
            }
        });
        Ok(raw)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Every request with its body.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn wait_until_hung_up(&self) {
        self.hung_up.acquire().await.expect("never closed").forget();
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    mut conduct: Conduct,
    index: usize,
    requests: &Mutex<Vec<String>>,
    hung_up: &Semaphore,
) {
    let Some(request) = read_request(&mut stream).await else { return };
    requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    if let Conduct::Drop(times, then) = conduct {
        if index < times {
            return;
        }
        conduct = *then;
    }
    let _ = speak(&mut stream, conduct).await;
    // Reading until the end waits for the other side to close.
    let _ = stream.shutdown().await;
    while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
    hung_up.add_permits(1);
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, conduct: Conduct) -> std::io::Result<()> {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    match conduct {
        Conduct::Hang => while stream.read(&mut [0; 1024]).await? > 0 {},
        Conduct::Drip => {
            let head = format!("{HEAD}x: ");
            for byte in head.bytes().chain(std::iter::repeat(b'x')) {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Conduct::Huge => {
            stream.write_all(format!("{HEAD}content-length: 10737418240\r\n\r\n").as_bytes()).await?;
            flood(stream, &[b' '; 4096]).await?;
        }
        Conduct::Endless => {
            stream.write_all(format!("{HEAD}transfer-encoding: chunked\r\n\r\n").as_bytes()).await?;
            flood(stream, format!("1000\r\n{}\r\n", " ".repeat(0x1000)).as_bytes()).await?;
        }
        Conduct::EndlessRefusal => {
            stream.write_all(b"HTTP/1.1 500 Oh\r\ncontent-type: text/plain\r\n\r\n").await?;
            flood(stream, &[b'x'; 4096]).await?;
        }
        Conduct::Garbage => stream.write_all(b"\x16\x03\x01 what is this?\r\n\r\n").await?,
        Conduct::DieMidway => {
            stream.write_all(format!("{HEAD}content-length: 1000\r\n\r\n{{\"name\":").as_bytes()).await?;
        }
        Conduct::Say(text) => stream.write_all(text.as_bytes()).await?,
        Conduct::Spell(text) => {
            for byte in text.bytes() {
                stream.write_all(&[byte]).await?;
                stream.flush().await?;
                tokio::task::yield_now().await;
            }
        }
        // The others were counted before.
        Conduct::Drop(..) => {}
    }
    Ok(())
}

/// Until the other side has had enough.
async fn flood<S: AsyncWrite + Unpin>(stream: &mut S, piece: &[u8]) -> std::io::Result<()> {
    loop {
        stream.write_all(piece).await?;
    }
}

async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes);
        // A client that speaks TLS waits for an answer to its greeting.
        if !bytes[0].is_ascii_uppercase() {
            return Some(text.into_owned());
        }
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(text.into_owned());
        }
    }
}
