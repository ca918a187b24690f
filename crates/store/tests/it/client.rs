//! A client of few words: every request is presigned, every connection is for one request.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, Method, Request, header};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::TokioIo;
use oscar_engine::ports::buckets::Keys;
use rusty_s3::actions::{DeleteObject, GetObject, ListObjectsV2, PutObject, S3Action as _};
use rusty_s3::{Bucket, Credentials, UrlStyle};

use crate::support::{ROOT, ROOT_SECRET};

const VALID: Duration = Duration::from_mins(10);

pub(crate) struct Client {
    address: SocketAddr,
    credentials: Credentials,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, keys: &Keys) -> Self {
        Self { address, credentials: Credentials::new(&keys.access_key, keys.secret_key.expose()) }
    }

    pub(crate) fn root(address: SocketAddr) -> Self {
        Self { address, credentials: Credentials::new(ROOT, ROOT_SECRET) }
    }

    pub(crate) async fn put(&self, bucket: &str, key: &str, body: impl Into<Bytes>) -> Answer {
        self.try_put(bucket, key, body.into()).await.expect("an answer")
    }

    /// An error when the server went away.
    pub(crate) async fn try_put(&self, bucket: &str, key: &str, body: Bytes) -> Result<Answer, hyper::Error> {
        let bucket = self.bucket(bucket);
        let url = PutObject::new(&bucket, Some(&self.credentials), key).sign(VALID);
        send(self.address, Method::PUT, url.as_str(), None, Full::new(body)).await
    }

    /// A body that is sent as it comes.
    pub(crate) async fn put_stream<S>(&self, bucket: &str, key: &str, length: u64, body: S) -> Answer
    where
        S: Stream<Item = Bytes> + Send + Unpin + 'static,
    {
        let bucket = self.bucket(bucket);
        let url = PutObject::new(&bucket, Some(&self.credentials), key).sign(VALID);
        let frames = futures::StreamExt::map(body, |bytes| Ok::<_, std::convert::Infallible>(Frame::data(bytes)));
        send(self.address, Method::PUT, url.as_str(), Some(length), StreamBody::new(frames)).await.expect("an answer")
    }

    pub(crate) async fn get(&self, bucket: &str, key: &str) -> Answer {
        let bucket = self.bucket(bucket);
        let url = GetObject::new(&bucket, Some(&self.credentials), key).sign(VALID);
        self.call(Method::GET, url.as_str()).await
    }

    /// The head of the answer; its body is still to be read.
    pub(crate) async fn open(&self, bucket: &str, key: &str) -> http::Response<hyper::body::Incoming> {
        let bucket = self.bucket(bucket);
        let url = GetObject::new(&bucket, Some(&self.credentials), key).sign(VALID);
        begin(self.address, Method::GET, url.as_str(), &[], Full::default()).await.expect("an answer")
    }

    pub(crate) async fn delete(&self, bucket: &str, key: &str) -> Answer {
        let bucket = self.bucket(bucket);
        let url = DeleteObject::new(&bucket, Some(&self.credentials), key).sign(VALID);
        self.call(Method::DELETE, url.as_str()).await
    }

    /// Path and query of a request that would be heard.
    pub(crate) fn address_to_delete(&self, bucket: &str, key: &str) -> String {
        let bucket = self.bucket(bucket);
        let url = DeleteObject::new(&bucket, Some(&self.credentials), key).sign(VALID);
        format!("{}?{}", url.path(), url.query().unwrap_or_default())
    }

    pub(crate) async fn list(&self, bucket: &str, prefix: &str) -> Answer {
        let bucket = self.bucket(bucket);
        let mut list = ListObjectsV2::new(&bucket, Some(&self.credentials));
        list.with_prefix(prefix.to_owned());
        self.call(Method::GET, list.sign(VALID).as_str()).await
    }

    pub(crate) async fn make_bucket(&self, name: &str) -> Answer {
        let bucket = self.bucket(name);
        let url = rusty_s3::actions::CreateBucket::new(&bucket, &self.credentials).sign(VALID);
        self.call(Method::PUT, url.as_str()).await
    }

    pub(crate) async fn remove_bucket(&self, name: &str) -> Answer {
        let bucket = self.bucket(name);
        let url = rusty_s3::actions::DeleteBucket::new(&bucket, &self.credentials).sign(VALID);
        self.call(Method::DELETE, url.as_str()).await
    }

    pub(crate) async fn begin_upload(&self, bucket: &str, key: &str) -> String {
        let bucket = self.bucket(bucket);
        let url = rusty_s3::actions::CreateMultipartUpload::new(&bucket, Some(&self.credentials), key).sign(VALID);
        let answer = self.call(Method::POST, url.as_str()).await;
        let text = answer.text();
        let id = text.split_once("<UploadId>").and_then(|(_, rest)| rest.split_once("</UploadId>"));
        id.unwrap_or_else(|| panic!("no upload: {text}")).0.to_owned()
    }

    /// The ETag of the part.
    pub(crate) async fn put_part(&self, bucket: &str, key: &str, upload: &str, body: &'static [u8]) -> String {
        let bucket = self.bucket(bucket);
        let url = rusty_s3::actions::UploadPart::new(&bucket, Some(&self.credentials), key, 1, upload).sign(VALID);
        let answer = send(self.address, Method::PUT, url.as_str(), None, Full::from(body)).await.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.headers[header::ETAG].to_str().expect("a tag").to_owned()
    }

    pub(crate) async fn complete(&self, bucket: &str, key: &str, upload: &str, etag: &str) -> Answer {
        let bucket = self.bucket(bucket);
        let tags = [etag];
        let action = rusty_s3::actions::CompleteMultipartUpload::new(
            &bucket,
            Some(&self.credentials),
            key,
            upload,
            tags.into_iter(),
        );
        let url = action.sign(VALID);
        let body = Full::from(action.body());
        send(self.address, Method::POST, url.as_str(), None, body).await.expect("an answer")
    }

    async fn call(&self, method: Method, url: &str) -> Answer {
        send(self.address, method, url, None, Full::default()).await.expect("an answer")
    }

    fn bucket(&self, name: &str) -> Bucket {
        let endpoint = format!("http://{}", self.address).parse().expect("an address");
        Bucket::new(endpoint, UrlStyle::Path, name.to_owned(), "us-east-1").expect("a bucket")
    }
}

/// Any request at all, with more headers.
pub(crate) async fn send_with<B>(
    address: SocketAddr,
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: B,
) -> Result<Answer, hyper::Error>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    read(begin(address, method, url, headers, body).await?).await
}

/// Any request.
pub(crate) async fn send<B>(
    address: SocketAddr,
    method: Method,
    url: &str,
    length: Option<u64>,
    body: B,
) -> Result<Answer, hyper::Error>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    let length = length.map(|length| length.to_string());
    let headers: Vec<(&str, &str)> = length.iter().map(|length| ("content-length", length.as_str())).collect();
    read(begin(address, method, url, &headers, body).await?).await
}

async fn read(response: http::Response<hyper::body::Incoming>) -> Result<Answer, hyper::Error> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
}

async fn begin<B>(
    address: SocketAddr,
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: B,
) -> Result<http::Response<hyper::body::Incoming>, hyper::Error>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync,
{
    let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or("/");
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body).expect("a request");
    let socket = match tokio::net::TcpStream::connect(address).await {
        Ok(socket) => TokioIo::new(socket),
        // A server that was killed: as if it went away while it was called.
        Err(_) => return Err(gone().await),
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(socket).await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// The error of a connection that ends at once.
async fn gone() -> hyper::Error {
    let (near, far) = tokio::io::duplex(1);
    drop(far);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(near)).await.expect("a handshake");
    tokio::spawn(connection);
    sender.send_request(Request::new(Full::default())).await.expect_err("nobody is there")
}
