//! A store in a folder of its own, and a listener for it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use oscar_engine::ports::buckets::{Bucket, Keys};
use oscar_engine::ports::clock::{Clock, Entropy};
use oscar_engine::ports::seal::{Seal, SealError};
use oscar_model::identity::{Owner, Subject};
use oscar_model::secret::Secret;
use oscar_model::service::Visibility;
use oscar_store::{Options, Peer, Store};
use rand::RngCore as _;
use tempfile::TempDir;
use tower::ServiceExt as _;

pub(crate) const ROOT: &str = "root-key";
pub(crate) const ROOT_SECRET: &str = "root-secret";

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
pub(crate) struct Flipped(pub(crate) u8);

impl Seal for Flipped {
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        Ok(std::iter::once(self.0).chain(plain.iter().map(|byte| byte ^ self.0)).collect())
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        match sealed.split_first() {
            Some((first, rest)) if *first == self.0 => Ok(rest.iter().map(|byte| byte ^ self.0).collect()),
            _ => Err(SealError("another key".to_owned())),
        }
    }
}

pub(crate) fn mk_options(folder: &Path, endpoint: &str) -> Options {
    Options {
        folder: folder.to_owned(),
        root: Keys { access_key: ROOT.to_owned(), secret_key: Secret::new(ROOT_SECRET) },
        endpoint: endpoint.to_owned(),
        region: "us-east-1".to_owned(),
        clock: Arc::new(RealTime),
        entropy: Arc::new(RealChance),
        seal: Arc::new(Flipped(0x5a)),
    }
}

/// A store that is served on loopback. The folder goes when this does.
pub(crate) struct Served {
    pub(crate) store: Store,
    pub(crate) address: SocketAddr,
    pub(crate) folder: TempDir,
}

impl Served {
    pub(crate) async fn start() -> Self {
        let folder = TempDir::new().expect("a folder");
        let (store, address) = serve(folder.path()).await;
        Self { store, address, folder }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

pub(crate) async fn serve(folder: &Path) -> (Store, SocketAddr) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let store = Store::open(mk_options(folder, &format!("http://{address}"))).await.expect("the store opens");
    let endpoint = store.service();
    tokio::spawn(async move {
        loop {
            let Ok((socket, peer)) = listener.accept().await else { return };
            let endpoint = endpoint.clone().map_request(move |mut request: http::Request<_>| {
                request.extensions_mut().insert(Peer(peer.ip()));
                request
            });
            tokio::spawn(async move {
                let service = TowerToHyperService::new(endpoint);
                // A client that goes away is no failure of the server.
                let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    (store, address)
}

pub(crate) fn mk_subject(name: &str) -> Subject {
    Subject::parse(name).expect("a subject")
}

pub(crate) fn mk_bucket(name: &str, owner: Owner) -> Bucket {
    Bucket {
        name: name.to_owned(),
        owner,
        visibility: Visibility::Private,
        allowed_users: Vec::new(),
        from_service: None,
    }
}

/// Bodies that are files.
pub(crate) fn files_in(folder: &Path) -> usize {
    let folders = std::fs::read_dir(folder.join("data")).into_iter().flatten().flatten();
    folders.map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().count()).sum()
}

impl Served {
    /// Files are removed in the background.
    pub(crate) async fn wait_for_files(&self, wanted: usize) {
        let folder = self.folder.path().to_owned();
        let task = tokio::task::spawn_blocking(move || {
            let limit = std::time::Duration::from_secs(30);
            oscar_testkit::eventually("files to be removed", limit, || (files_in(&folder) == wanted).then_some(()));
        });
        task.await.expect("they were");
    }
}
