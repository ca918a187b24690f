//! Puts the parts together: one client, the watches, and the ports that read from them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use oscar_engine::ports;
use oscar_engine::ports::StoreError;
use tokio::task::JoinHandle;

use crate::calls::Calls;
use crate::cluster::KubeCluster;
use crate::federation::{KubeAudit, KubeJournal, KubeLease, KubeVault};
use crate::options::Options;
use crate::services::KubeServices;
use crate::settings::KubeSettings;
use crate::users::KubeUsers;

/// Why there is no connection. Nothing of a credential is in it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("neither a kubeconfig nor the configuration of a pod was found: {0}")]
    NoConfiguration(String),
    #[error("the client for the apiserver cannot be made: {0}")]
    NoClient(String),
}

/// A cluster as the engine sees it. The watches end when the last of it is dropped; the ports
/// keep answering from what was seen until then.
pub struct KubeWorld {
    services: Arc<KubeServices>,
    users: Arc<KubeUsers>,
    settings: Arc<KubeSettings>,
    cluster: Arc<KubeCluster>,
    lease: Arc<KubeLease>,
    journal: Arc<KubeJournal>,
    vault: Arc<KubeVault>,
    audit: Arc<KubeAudit>,
    calls: Calls,
    options: Arc<Options>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for KubeWorld {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl KubeWorld {
    /// Connects with `KUBECONFIG` (or `~/.kube/config`) and otherwise as a pod of the cluster.
    /// Returns before anything was read: see [`KubeWorld::ready`].
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        // The one provider of this program; somebody may have installed it before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config =
            kube::Config::infer().await.map_err(|error| ConnectError::NoConfiguration(error.to_string()))?;
        config.connect_timeout = Some(Duration::from_secs(5));
        let client = Client::try_from(config).map_err(|error| ConnectError::NoClient(error.to_string()))?;
        Ok(Self::with_client(client, options))
    }

    /// The same with a client of the caller's making.
    pub fn with_client(client: Client, options: Options) -> Self {
        let options = Arc::new(options);
        let calls = Calls { client };
        let mut tasks = Vec::new();
        let services = KubeServices::start(&calls, &options, &mut tasks);
        let users = KubeUsers::start(&calls, &options, &mut tasks);
        let settings = KubeSettings::start(&calls, &options, &mut tasks);
        let cluster = KubeCluster::start(&calls, &options, &mut tasks);
        let lease = Arc::new(KubeLease::new(&calls, &options));
        let journal = Arc::new(KubeJournal::new(&calls, &options, &lease));
        let vault = Arc::new(KubeVault::new(&calls, &options));
        let audit = KubeAudit::start(&calls, &options, &mut tasks);
        Self { services, users, settings, cluster, lease, journal, vault, audit, calls, options, tasks }
    }

    pub fn services(&self) -> Arc<dyn ports::services::Services> {
        self.services.clone()
    }

    pub fn users(&self) -> Arc<dyn ports::users::Users> {
        self.users.clone()
    }

    pub fn settings(&self) -> Arc<dyn ports::settings::Settings> {
        self.settings.clone()
    }

    pub fn cluster(&self) -> Arc<dyn ports::cluster::Cluster> {
        self.cluster.clone()
    }

    pub fn journal(&self) -> Arc<dyn ports::journal::Journal> {
        self.journal.clone()
    }

    pub fn vault(&self) -> Arc<dyn ports::vault::Vault> {
        self.vault.clone()
    }

    pub fn audit(&self) -> Arc<dyn ports::audit::Audit> {
        self.audit.clone()
    }

    /// Which of the managers of this cluster finishes and repairs. Nobody tries to hold it
    /// until [`KubeLease::hold_forever`] or [`KubeLease::tick_hold`] is called.
    pub fn lease(&self) -> Arc<KubeLease> {
        self.lease.clone()
    }

    /// The permanent id of this cluster's manager, made at the first call.
    pub async fn instance_id(&self) -> Result<String, StoreError> {
        crate::instance::instance_id(&self.calls, &self.options).await
    }

    /// Whether everything that definitions depend on was seen once. Nodes and pods are not
    /// waited for: a manager without them still serves.
    pub fn is_synced(&self) -> bool {
        self.services.link().is_synced() && self.users.link().is_synced() && self.settings.link().is_synced()
    }

    /// Waits until [`KubeWorld::is_synced`]. What stands in the way is logged, and answered
    /// by every read until then.
    pub async fn ready(&self) {
        join_all([self.services.link().synced(), self.users.link().synced(), self.settings.link().synced()]).await;
    }

    /// What keeps it from being ready, for a health page.
    pub fn obstacle(&self) -> Option<StoreError> {
        let links =
            [(self.services.link(), "services"), (self.users.link(), "namespaces"), (self.settings.link(), "settings")];
        links.into_iter().find_map(|(link, what)| link.check(what).err())
    }

    /// Finishes what crashed managers left unfinished; also runs by itself. Returns how many
    /// names it settled.
    pub async fn tick_settle(&self) -> Result<usize, StoreError> {
        self.services.tick_settle().await
    }
}
