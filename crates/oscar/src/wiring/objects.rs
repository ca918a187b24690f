//! The object store of the local world: the embedded one, or an external MinIO when the operator
//! names one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oscar_engine::OwnStore;
use oscar_engine::ports::buckets::{Buckets, Keys, Notices, Uploads};
use oscar_engine::ports::seal::{Seal, SealError};
use oscar_engine::ports::services::{Scope, Services as _};
use oscar_local::LocalStore;
use oscar_minio::MinioStore;
use oscar_model::secret::Secret;
use oscar_store::{Endpoint, Store};

use super::{StartError, SystemClock, SystemEntropy};
use crate::config::{Derived, Effective};

/// The access key of the administrator when the operator gave none.
const ROOT_KEY: &str = "oscar-admin";

/// Where an external store tells of uploads.
pub(crate) const MINIO_EVENTS: &str = "/system/events/minio";

/// Where the embedded object store is.
pub(crate) struct StoreAddresses {
    /// For clients.
    pub(crate) public: String,
    /// For attempts on this machine.
    pub(crate) here: String,
}

pub(crate) enum Objects {
    Embedded(Store),
    External(MinioStore),
}

impl Objects {
    /// With what definitions say of it.
    pub(crate) async fn open(
        settings: &Effective,
        derived: &Derived,
        records: &Arc<LocalStore>,
        addresses: &StoreAddresses,
    ) -> Result<(Self, OwnStore), StartError> {
        let unusable = |error: String| StartError::Objects(error);
        records.will_seal_elsewhere().await.map_err(|error| unusable(error.to_string()))?;
        if !derived.minio_endpoint.is_empty() {
            let seal = Arc::new(RecordSeal { records: records.clone(), place: "external-store" });
            let options = minio_options(settings, derived, seal)?;
            let own = OwnStore {
                endpoint: options.endpoint.clone(),
                verify: options.verify,
                region: options.region.clone(),
                access_key: options.root.access_key.clone(),
                secret_key: options.root.secret_key.clone(),
            };
            let store = MinioStore::open(options).map_err(|error| unusable(error.to_string()))?;
            return Ok((Self::External(store), own));
        }
        let root = root_keys(settings, &derived.data)?;
        let own = OwnStore {
            endpoint: addresses.public.clone(),
            verify: true,
            region: settings.text("minio_region").to_owned(),
            access_key: root.access_key.clone(),
            secret_key: root.secret_key.clone(),
        };
        let folder = derived.data.join("objects");
        if !folder.exists() {
            warn_of_missing_objects(records).await;
        }
        let opened = Store::open(oscar_store::Options {
            folder,
            root,
            endpoint: own.endpoint.clone(),
            region: own.region.clone(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            seal: Arc::new(RecordSeal { records: records.clone(), place: "object-store" }),
        });
        let store = opened.await.map_err(|error| unusable(error.to_string()))?;
        Ok((Self::Embedded(store), own))
    }

    pub(crate) fn buckets(&self) -> Arc<dyn Buckets> {
        match self {
            Self::Embedded(store) => Arc::new(store.clone()),
            Self::External(store) => Arc::new(store.clone()),
        }
    }

    pub(crate) fn uploads(&self) -> Arc<dyn Uploads> {
        match self {
            Self::Embedded(store) => Arc::new(store.clone()),
            Self::External(store) => Arc::new(store.clone()),
        }
    }

    pub(crate) fn notices(&self) -> Option<Arc<dyn Notices>> {
        match self {
            Self::Embedded(_) => None,
            Self::External(store) => Some(Arc::new(store.clone())),
        }
    }

    /// What is served here.
    pub(crate) fn service(&self) -> Option<Endpoint> {
        match self {
            Self::Embedded(store) => Some(store.service()),
            Self::External(_) => None,
        }
    }

    /// The store as attempts on this machine reach it.
    pub(crate) fn endpoint_here(&self, own: &OwnStore, addresses: &StoreAddresses) -> String {
        match self {
            Self::Embedded(_) => addresses.here.clone(),
            Self::External(_) => own.endpoint.clone(),
        }
    }

    /// Looks after it until the process ends.
    pub(crate) fn keep(&self) {
        match self {
            Self::Embedded(store) => drop(tokio::spawn(keep_tidy(store.clone()))),
            Self::External(store) => {
                let store = store.clone();
                tokio::spawn(async move { store.keep().await });
            }
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Embedded(store) => store.close().await,
            // Everything that was answered is on disk, here and there.
            Self::External(_) => {}
        }
    }
}

/// A backup of the definitions alone has been restored, or the folder was lost: whoever restored
/// it should not find out from users.
async fn warn_of_missing_objects(records: &LocalStore) {
    let services = records.list(&Scope::All).await.map_or(0, |entries| entries.len());
    if services > 0 {
        tracing::warn!(
            services,
            "there are services, but no object store: an empty one is made; a copy of `oscar.db` holds no objects"
        );
    }
}

/// What the settings say of an external MinIO.
fn minio_options(
    settings: &Effective,
    derived: &Derived,
    seal: Arc<dyn Seal>,
) -> Result<oscar_minio::Options, StartError> {
    let secret_key = settings.secret("minio_secret_key");
    let access_key = settings.text("minio_access_key").to_owned();
    if access_key.is_empty() || secret_key.is_blank() {
        let text = "minio_access_key and minio_secret_key (MINIO_ACCESS_KEY, MINIO_SECRET_KEY) are needed with \
                    minio_endpoint: the keys of an administrator of that MinIO";
        return Err(StartError::Objects(text.to_owned()));
    }
    let token = match settings.secret("minio_webhook_token") {
        given if !given.is_blank() => given,
        _ => kept_secret(&derived.data.join("minio-webhook.secret"))?,
    };
    Ok(oscar_minio::Options {
        endpoint: derived.minio_endpoint.trim_end_matches('/').to_owned(),
        region: settings.text("minio_region").to_owned(),
        verify: settings.flag("minio_tls_verify"),
        root: Keys { access_key, secret_key },
        folder: derived.data.join("minio"),
        webhook: oscar_minio::Webhook {
            name: settings.text("minio_webhook").to_owned(),
            token,
            path: MINIO_EVENTS.to_owned(),
        },
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        seal,
        copy_limit: None,
    })
}

async fn keep_tidy(store: Store) {
    let mut ticks = tokio::time::interval(Duration::from_mins(10));
    loop {
        ticks.tick().await;
        if let Err(error) = store.tick_tidy().await {
            tracing::warn!("the object store could not be tidied up: {error}");
        }
    }
}

/// The administrator's keys: given, kept from an earlier start, or made now.
fn root_keys(settings: &Effective, data: &Path) -> Result<Keys, StartError> {
    let access_key = match settings.text("minio_access_key") {
        "" => ROOT_KEY.to_owned(),
        given => given.to_owned(),
    };
    let given = settings.secret("minio_secret_key");
    if !given.is_blank() {
        return Ok(Keys { access_key, secret_key: given });
    }
    Ok(Keys { access_key, secret_key: kept_secret(&data.join("s3.secret"))? })
}

/// Kept from an earlier start, or made now.
fn kept_secret(path: &Path) -> Result<Secret, StartError> {
    let failed = |cause| StartError::File { what: format!("keeping {}", path.display()), cause };
    match crate::serve::read_private(path) {
        Ok(kept) => Ok(Secret::new(kept.trim())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = uuid::Uuid::new_v4().simple().to_string();
            crate::serve::write_private(path, &made).map_err(failed)?;
            Ok(Secret::new(made))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Secrets of stores are sealed with the key of the data folder.
struct RecordSeal {
    records: Arc<LocalStore>,
    /// Which store: what one sealed the other does not open.
    place: &'static str,
}

impl Seal for RecordSeal {
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        self.records.seal_value(self.place, plain).map_err(|error| SealError(error.to_string()))
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let opened = self.records.open_value(self.place, sealed);
        opened.ok_or_else(|| SealError("it was sealed with another key".to_owned()))
    }
}
