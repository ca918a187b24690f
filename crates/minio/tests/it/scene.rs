//! A MinIO of the test's own, a manager's side of it, and the door where its webhook knocks.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use oscar_engine::ports::buckets::{Bucket, Buckets as _, Keys, Notices as _};
use oscar_engine::ports::clock::{Clock, Entropy};
use oscar_engine::ports::seal::{Seal, SealError};
use oscar_engine::testing::conformance_buckets;
use oscar_minio::{MinioStore, Options, Webhook};
use oscar_model::identity::{Owner, Subject};
use oscar_model::secret::Secret;
use oscar_model::service::Visibility;
use oscar_testkit::{Minio, Missing, Scratch};
use rand::RngCore as _;
use rusty_s3::actions::{DeleteObject, GetObject, PutObject, S3Action as _};
use rusty_s3::{Credentials, UrlStyle};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const TOKEN: &str = "webhook-secret";
const VALID: Duration = Duration::from_mins(10);

struct RealTime;

impl Clock for RealTime {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

struct RealChance;

impl Entropy for RealChance {
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

/// Not secret, but unlike what it seals.
struct Flipped;

impl Seal for Flipped {
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        Ok(plain.iter().map(|byte| byte ^ 0x5a).collect())
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        self.seal(sealed)
    }
}

pub(crate) struct Scene {
    pub(crate) minio: Minio,
    pub(crate) store: MinioStore,
    pub(crate) door: Arc<Door>,
    pub(crate) client: Client,
    pub(crate) scratch: Scratch,
}

/// Where the store's webhook knocks: a manager that is up or down.
pub(crate) struct Door {
    manager: Mutex<Option<MinioStore>>,
    is_open: AtomicBool,
    knocks: AtomicUsize,
}

impl Door {
    pub(crate) fn open(&self, store: &MinioStore) {
        *self.manager.lock().expect("held") = Some(store.clone());
        self.is_open.store(true, Ordering::SeqCst);
    }

    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::SeqCst);
    }

    /// Messages that were not taken.
    pub(crate) fn knocks(&self) -> usize {
        self.knocks.load(Ordering::SeqCst)
    }

    async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((socket, _)) = listener.accept().await else { return };
            tokio::spawn(self.clone().answer(socket));
        }
    }

    /// One request; then the connection is closed.
    async fn answer(self: Arc<Self>, mut socket: TcpStream) {
        let Some((head, body)) = read_request(&mut socket).await else { return };
        let manager = self.manager.lock().expect("held").clone();
        let token = head.lines().find_map(|line| line.strip_prefix("Authorization: Bearer "));
        let status = match manager.filter(|_| self.is_open.load(Ordering::SeqCst)) {
            None => {
                self.knocks.fetch_add(1, Ordering::SeqCst);
                "503 Service Unavailable"
            }
            Some(store) if !token.is_some_and(|token| store.is_from_store(token)) => "401 Unauthorized",
            Some(store) => match store.take(&body).await {
                Ok(()) => "200 OK",
                Err(_) => "503 Service Unavailable",
            },
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let _ = socket.write_all(answer.as_bytes()).await;
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        let begin = read.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(begin) = begin {
            let head = String::from_utf8_lossy(&read[..begin]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?.trim().parse().ok()?;
            let mut body = read[begin + 4..].to_vec();
            let rest = body.len();
            if rest < length {
                body.resize(length, 0);
                socket.read_exact(&mut body[rest..]).await.ok()?;
            }
            return Some((head, body));
        }
        if socket.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

impl Scene {
    pub(crate) async fn start() -> Result<Self, Missing> {
        Self::start_with(true).await
    }

    /// Without a webhook, the store tells nobody.
    pub(crate) async fn start_with(webhook: bool) -> Result<Self, Missing> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let door = Arc::new(Door {
            manager: Mutex::default(),
            is_open: AtomicBool::default(),
            knocks: AtomicUsize::default(),
        });
        tokio::spawn(door.clone().serve(listener));
        let scratch = Scratch::new("minio-adapter");
        let queue = scratch.path().join("queue");
        let minio =
            tokio::task::spawn_blocking(move || start_minio(address, &queue, webhook)).await.expect("started")?;
        let store = mk_store(minio.url(), scratch.path(), None);
        door.open(&store);
        // It calls itself ready a moment before it knows its users.
        store.list(&Owner::Admin).await.expect("it answers");
        store.user_keys(&Owner::User(mk_subject("first@x"))).await.expect("it knows users");
        let client = Client::new(minio.url());
        Ok(Self { minio, store, door, client, scratch })
    }

    /// As after the end of a manager and a new start.
    pub(crate) fn restart(&mut self) {
        self.store = mk_store(self.minio.url(), self.scratch.path(), None);
    }
}

fn start_minio(address: SocketAddr, queue: &Path, webhook: bool) -> Result<Minio, Missing> {
    let endpoint = format!("http://{address}/system/events/minio");
    let queue = queue.to_string_lossy();
    let environment = [
        ("MINIO_NOTIFY_WEBHOOK_ENABLE_OSCAR", "on"),
        ("MINIO_NOTIFY_WEBHOOK_ENDPOINT_OSCAR", endpoint.as_str()),
        ("MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_OSCAR", TOKEN),
        ("MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_OSCAR", &queue),
    ];
    Minio::start_with(if webhook { &environment } else { &[] })
}

pub(crate) fn mk_store(url: &str, folder: &Path, copy_limit: Option<u64>) -> MinioStore {
    MinioStore::open(Options { copy_limit, ..mk_options(url, folder) }).expect("the adapter opens")
}

pub(crate) fn mk_options(url: &str, folder: &Path) -> Options {
    Options {
        endpoint: url.to_owned(),
        region: Minio::REGION.to_owned(),
        verify: true,
        root: root_keys(),
        folder: folder.join("manager"),
        webhook: Webhook {
            name: "OSCAR".to_owned(),
            token: Secret::new(TOKEN),
            path: "/system/events/minio".to_owned(),
        },
        clock: Arc::new(RealTime),
        entropy: Arc::new(RealChance),
        seal: Arc::new(Flipped),
        copy_limit: None,
    }
}

pub(crate) fn root_keys() -> Keys {
    Keys { access_key: Minio::ACCESS_KEY.to_owned(), secret_key: Secret::new(Minio::SECRET_KEY) }
}

pub(crate) fn mk_subject(name: &str) -> Subject {
    Subject::parse(name).expect("a subject")
}

pub(crate) fn mk_bucket(name: &str, owner: Owner) -> Bucket {
    Bucket { name: name.to_owned(), owner, visibility: Visibility::Private, allowed_users: vec![], from_service: None }
}

/// A client of few words.
#[derive(Clone)]
pub(crate) struct Client {
    url: String,
    http: reqwest::Client,
}

impl Client {
    pub(crate) fn new(url: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { url: url.to_owned(), http }
    }

    fn place(&self, keys: &Keys, bucket: &str) -> (rusty_s3::Bucket, Credentials) {
        let url = self.url.parse().expect("a URL");
        let bucket = rusty_s3::Bucket::new(url, UrlStyle::Path, bucket.to_owned(), Minio::REGION).expect("a bucket");
        (bucket, Credentials::new(&keys.access_key, keys.secret_key.expose()))
    }

    pub(crate) async fn put(&self, keys: &Keys, bucket: &str, key: &str, body: impl Into<reqwest::Body>) -> u16 {
        let (bucket, credentials) = self.place(keys, bucket);
        let url = PutObject::new(&bucket, Some(&credentials), key).sign(VALID);
        self.http.put(url).body(body).send().await.expect("an answer").status().as_u16()
    }

    pub(crate) async fn get(&self, keys: &Keys, bucket: &str, key: &str) -> (u16, Vec<u8>) {
        let (bucket, credentials) = self.place(keys, bucket);
        let url = GetObject::new(&bucket, Some(&credentials), key).sign(VALID);
        let answer = self.http.get(url).send().await.expect("an answer");
        (answer.status().as_u16(), answer.bytes().await.expect("a body").to_vec())
    }

    pub(crate) async fn delete(&self, keys: &Keys, bucket: &str, key: &str) -> u16 {
        let (bucket, credentials) = self.place(keys, bucket);
        let url = DeleteObject::new(&bucket, Some(&credentials), key).sign(VALID);
        self.http.delete(url).send().await.expect("an answer").status().as_u16()
    }

    /// Any request about a bucket as a whole, such as `PUT ?tagging`.
    pub(crate) async fn on_bucket(&self, keys: &Keys, method: &str, bucket: &str, what: &str, body: &str) -> u16 {
        let (bucket, credentials) = self.place(keys, bucket);
        let method: reqwest::Method = method.parse().expect("a method");
        let signed = rusty_s3::signing::sign(
            &jiff::Timestamp::now(),
            match method.as_str() {
                "PUT" => rusty_s3::Method::Put,
                "DELETE" => rusty_s3::Method::Delete,
                _ => rusty_s3::Method::Get,
            },
            bucket.base_url().clone(),
            credentials.key(),
            credentials.secret(),
            None,
            Minio::REGION,
            VALID.as_secs(),
            Some((what, "")).filter(|(what, _)| !what.is_empty()).into_iter(),
            std::iter::empty::<(&str, &str)>(),
        );
        self.http.request(method, signed).body(body.to_owned()).send().await.expect("an answer").status().as_u16()
    }
}

#[async_trait]
impl conformance_buckets::Client for Client {
    async fn put(&self, keys: Option<&Keys>, bucket: &str, key: &str, body: &str) -> bool {
        let root = root_keys();
        Client::put(self, keys.unwrap_or(&root), bucket, key, body.to_owned()).await == 200
    }

    async fn content(&self, bucket: &str, key: &str) -> Option<String> {
        match self.get(&root_keys(), bucket, key).await {
            (200, body) => Some(String::from_utf8_lossy(&body).into_owned()),
            _ => None,
        }
    }
}
