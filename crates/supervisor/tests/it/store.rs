//! A store on loopback that speaks enough S3 and WebDAV, and fails on command.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use futures::StreamExt as _;
use percent_encoding::percent_decode_str;

/// What the store does instead of its work, once.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Status(u16),
    /// S3's error with a body that repeats the request, as a hostile store would.
    Echo(u16),
    /// The answer's body breaks off after so many bytes.
    Break(usize),
    /// No answer at all.
    Stall,
    /// The work is done and the answer is lost.
    Lose,
    /// 200 with an error inside.
    ErrorInside,
}

#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, BTreeMap<u16, Vec<u8>>>,
    pub(crate) requests: Vec<String>,
    faults: Vec<(&'static str, VecDeque<Fault>)>,
    /// Counts up to make an object change under a reader's hands.
    pub(crate) change_after: Option<u32>,
}

#[derive(Clone, Default)]
pub(crate) struct Store {
    content: Arc<Mutex<Content>>,
    pub(crate) address: String,
}

impl Store {
    pub(crate) async fn start() -> Self {
        let mut store = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        store.address = format!("http://{}", listener.local_addr().expect("bound"));
        let app = Router::new().fallback(answer).layer(DefaultBodyLimit::disable()).with_state(store.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        store
    }

    pub(crate) fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().expect("no test panics while it holds this")
    }

    /// The faults of requests, one after another, whose "METHOD /path?query" contains the text;
    /// `*` stands between two texts.
    pub(crate) fn fail(&self, about: &'static str, faults: &[Fault]) {
        self.content().faults.push((about, faults.iter().copied().collect()));
    }

    pub(crate) fn put(&self, key: &str, bytes: impl Into<Vec<u8>>) {
        self.content().objects.insert(key.to_owned(), bytes.into());
    }

    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.content().objects.get(key).cloned()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.content().objects.keys().cloned().collect()
    }

    pub(crate) fn count(&self, about: &str) -> usize {
        self.content().requests.iter().filter(|request| request.contains(about)).count()
    }

    /// Faults that no request has met: a test that leaves some has tested nothing.
    pub(crate) fn unused_faults(&self) -> usize {
        self.content().faults.iter().map(|(_, faults)| faults.len()).sum()
    }

    pub(crate) fn open_uploads(&self) -> usize {
        self.content().uploads.len()
    }
}

async fn answer(State(store): State<Store>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let line = format!("{} {}", parts.method, parts.uri);
    let fault = {
        let mut content = store.content();
        content.requests.push(line.clone());
        let about = content
            .faults
            .iter_mut()
            .find(|(about, faults)| about.split('*').all(|text| line.contains(text)) && !faults.is_empty());
        about.and_then(|(_, faults)| faults.pop_front())
    };
    match fault {
        Some(Fault::Stall) => std::future::pending().await,
        Some(Fault::Status(status)) => plain(status, "<Error><Code>SlowDown</Code></Error>"),
        Some(Fault::Echo(status)) => {
            let seen = format!("{line} {:?}", parts.headers);
            plain(status, &format!("<Error><Code>AccessDenied</Code><Message>{seen}</Message></Error>{seen}"))
        }
        Some(Fault::ErrorInside) => plain(200, "<Error><Code>InternalError</Code></Error>"),
        Some(Fault::Lose) => {
            let _ = work(&store, &parts.method, &parts.uri, &parts.headers, body).await;
            plain(500, "lost")
        }
        Some(Fault::Break(after)) => {
            broken(work(&store, &parts.method, &parts.uri, &parts.headers, body).await, after).await
        }
        None => work(&store, &parts.method, &parts.uri, &parts.headers, body).await,
    }
}

/// The same answer, whose body ends too early.
async fn broken(answer: Response<Body>, after: usize) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("our own body");
    parts.headers.insert(header::CONTENT_LENGTH, bytes.len().into());
    let head = bytes.slice(..after.min(bytes.len()));
    let torn = futures::stream::iter([Ok(head), Err(std::io::Error::other("torn"))]);
    // The first piece must leave before the tear.
    let torn = torn.then(|piece| async {
        if piece.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        }
        piece
    });
    Response::from_parts(parts, Body::from_stream(torn))
}

async fn work(store: &Store, method: &Method, uri: &Uri, headers: &HeaderMap, body: Body) -> Response<Body> {
    let path = percent_decode_str(uri.path().trim_start_matches('/')).decode_utf8_lossy().into_owned();
    let query = uri.query().unwrap_or_default();
    let signed = query.contains("X-Amz-Signature=") && query.contains("X-Amz-Credential=AKTEST");
    let logged_in =
        headers.get(header::AUTHORIZATION).is_some_and(|value| value == "Basic c2NpZW50aXN0OnBsYW50ZWQtcGFzc3dvcmQ=");
    if !signed && !logged_in {
        return plain(403, "<Error><Code>AccessDenied</Code></Error>");
    }
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let value = |name: &str| {
        let pair = query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name));
        pair.map(|(_, value)| value.to_owned())
    };
    match (method.as_str(), value("uploadId")) {
        ("GET" | "HEAD", _) => read(store, &path, headers),
        ("POST", None) => begin(store, &path),
        ("PUT", Some(upload)) => part(store, &upload, &value("partNumber").expect("a number"), &bytes),
        ("POST", Some(upload)) => complete(store, &path, &upload),
        ("DELETE", Some(upload)) => {
            store.content().uploads.remove(&upload);
            plain(204, "")
        }
        ("MKCOL", _) => {
            let known =
                store.content().objects.insert(format!("{}/", path.trim_end_matches('/')), Vec::new()).is_some();
            plain(if known { 405 } else { 201 }, "")
        }
        ("PUT", None) => {
            store.content().objects.insert(path, bytes.to_vec());
            tagged(200, "", &tag(&bytes))
        }
        _ => plain(400, ""),
    }
}

fn read(store: &Store, path: &str, headers: &HeaderMap) -> Response<Body> {
    let mut content = store.content();
    if let Some(left) = content.change_after.as_mut() {
        *left = left.saturating_sub(1);
        if *left == 0 {
            content.change_after = None;
            content.objects.insert(path.to_owned(), b"another".to_vec());
        }
    }
    let Some(bytes) = content.objects.get(path) else {
        return plain(404, "<Error><Code>NoSuchKey</Code></Error>");
    };
    let tag = tag(bytes);
    if headers.get(header::IF_MATCH).is_some_and(|wanted| wanted.to_str().ok() != Some(tag.as_str())) {
        return plain(412, "<Error><Code>PreconditionFailed</Code></Error>");
    }
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    match range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok()) {
        Some(from) => {
            let mut answer = tagged(206, bytes[from..].to_vec(), &tag);
            let range = format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len());
            answer.headers_mut().insert(header::CONTENT_RANGE, range.parse().expect("a header"));
            answer
        }
        None => tagged(200, bytes.clone(), &tag),
    }
}

fn begin(store: &Store, path: &str) -> Response<Body> {
    let mut content = store.content();
    let upload = format!("upload{}", content.requests.len());
    content.uploads.insert(upload.clone(), BTreeMap::new());
    let ns = "http://s3.amazonaws.com/doc/2006-03-01/";
    let (bucket, key) = path.split_once('/').expect("bucket and key");
    plain(
        200,
        &format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><InitiateMultipartUploadResult xmlns=\"{ns}\"><Bucket>{bucket}</Bucket><Key>{key}</Key><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
        ),
    )
}

fn part(store: &Store, upload: &str, number: &str, bytes: &Bytes) -> Response<Body> {
    let mut content = store.content();
    let Some(parts) = content.uploads.get_mut(upload) else {
        return plain(404, "<Error><Code>NoSuchUpload</Code></Error>");
    };
    parts.insert(number.parse().expect("a number"), bytes.to_vec());
    tagged(200, "", &tag(bytes))
}

fn complete(store: &Store, path: &str, upload: &str) -> Response<Body> {
    let mut content = store.content();
    let Some(parts) = content.uploads.remove(upload) else {
        return plain(404, "<Error><Code>NoSuchUpload</Code></Error>");
    };
    let whole = parts.into_values().collect::<Vec<_>>().concat();
    let tag = tag(&whole);
    content.objects.insert(path.to_owned(), whole);
    let ns = "http://s3.amazonaws.com/doc/2006-03-01/";
    let tag = tag.replace('"', "&quot;");
    plain(
        200,
        &format!("<CompleteMultipartUploadResult xmlns=\"{ns}\"><ETag>{tag}</ETag></CompleteMultipartUploadResult>"),
    )
}

fn tag(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    format!("\"{sum:016x}\"")
}

fn plain(status: u16, body: &str) -> Response<Body> {
    let mut answer = Response::new(Body::from(body.to_owned()));
    *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
    answer
}

fn tagged(status: u16, body: impl Into<Body>, tag: &str) -> Response<Body> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
    answer.headers_mut().insert(header::ETAG, tag.parse().expect("a header"));
    answer
}
