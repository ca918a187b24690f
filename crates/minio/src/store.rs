//! The store with everything that its parts share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Bucket, Keys, STAGING_BUCKET};
use oscar_engine::ports::clock::{Clock, Entropy};
use oscar_engine::ports::seal::Seal;
use oscar_model::secret::Secret;
use tokio::sync::{Notify, OnceCell};

use crate::admin::Admin;
use crate::error::OpenError;
use crate::inspect;
use crate::ledger::Ledger;
use crate::sign::Signer;
use crate::webhook::WebhookState;
use crate::wire::Wire;

/// Larger objects are copied in parts, as S3 has it.
const LARGEST_COPY: u64 = 5 << 30;

pub struct Options {
    /// Where the store is: `https://minio.example:9000`.
    pub endpoint: String,
    pub region: String,
    /// Whether the store's certificate is looked at.
    pub verify: bool,
    /// The administrator's key pair.
    pub root: Keys,
    /// For what is remembered; made when it is not there.
    pub folder: PathBuf,
    pub webhook: Webhook,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub seal: Arc<dyn Seal>,
    /// Objects above this are copied in parts; S3's own limit unless a test has smaller ones.
    pub copy_limit: Option<u64>,
}

/// The one webhook of the store that tells this manager of uploads to all services.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The name that the store's configuration gives it.
    pub name: String,
    /// What the store shows in order to be believed.
    pub token: Secret,
    /// The path under which the manager listens.
    pub path: String,
}

/// An external store. Clones are the same one.
#[derive(Clone)]
pub struct MinioStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) wire: Arc<Wire>,
    pub(crate) admin: Admin,
    pub(crate) ledger: Ledger,
    pub(crate) root: Keys,
    pub(crate) region: String,
    pub(crate) webhook: Webhook,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) seal: Arc<dyn Seal>,
    pub(crate) copy_limit: u64,
    /// Rights and notifications are read, changed and written: one at a time.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Buckets as they were when they were last looked at.
    pub(crate) known: Mutex<BTreeMap<String, Bucket>>,
    pub(crate) staging: OnceCell<()>,
    pub(crate) arrivals: Notify,
    /// A key that ends soon was made.
    pub(crate) short_key: Notify,
    /// The store has no webhook to tell us by: look more often.
    pub(crate) unheard: AtomicBool,
}

impl MinioStore {
    /// Opens what is remembered; the store itself is not called.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let Options { endpoint, region, verify, root, folder, webhook, clock, entropy, seal, copy_limit } = options;
        let signer =
            Signer { access_key: root.access_key.clone(), secret_key: root.secret_key.clone(), region: region.clone() };
        let wire = Arc::new(Wire::new(&endpoint, verify, signer, clock.clone())?);
        let ledger = Ledger::open(&folder)?;
        let inner = Inner {
            admin: Admin::new(wire.clone(), entropy.clone()),
            wire,
            ledger,
            root,
            region,
            webhook,
            clock,
            entropy,
            seal,
            copy_limit: copy_limit.unwrap_or(LARGEST_COPY),
            turn: tokio::sync::Mutex::default(),
            known: Mutex::default(),
            staging: OnceCell::new(),
            arrivals: Notify::new(),
            short_key: Notify::new(),
            unheard: AtomicBool::new(false),
        };
        // What waited when the last manager ended.
        inner.arrivals.notify_one();
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How the store is configured to tell of uploads.
    pub async fn webhook_state(&self) -> Result<WebhookState, StoreError> {
        let Webhook { name, path, .. } = &self.inner.webhook;
        inspect::asked(&self.inner.admin, name, path).await
    }
}

impl Inner {
    pub(crate) fn now(&self) -> i64 {
        let since = self.clock.now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// Letters and digits that nobody can guess.
    pub(crate) fn random_text(&self, length: usize) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789xy";
        let mut bytes = vec![0; length];
        self.entropy.fill(&mut bytes);
        bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 64)])).collect()
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, BTreeMap<String, Bucket>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bucket of staged outputs, made when it is first needed.
    pub(crate) async fn ensure_staging(&self) -> Result<(), StoreError> {
        let made = self.staging.get_or_try_init(|| async { self.wire.create_bucket(STAGING_BUCKET).await.map(drop) });
        made.await?;
        Ok(())
    }
}
