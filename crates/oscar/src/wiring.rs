//! The only place where adapters meet the engine.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use oscar_engine::ports::clock::{Clock, Entropy};
use oscar_engine::ports::identity::{Identity, NoIdentity};
use oscar_engine::{Manager, OwnStore, Policy, Ports};
use oscar_kube::KubeWorld;
use oscar_local::{ClusterOptions, LocalCluster, LocalStore};
use oscar_model::identity::Subject;
use oscar_model::secret::Secret;
use rand::TryRngCore;

use crate::config::{Derived, Effective, World};
use crate::http::{AdminAccount, App, Facts, Limits, Prints};
use crate::outbound::oidc::{GroupSource, IssuerSettings, OidcIdentity, OidcSettings};

/// The world of a manager, with what has to be closed at its end.
pub(crate) enum Ground {
    Local { store: Arc<LocalStore>, cluster: Arc<LocalCluster> },
    Kubernetes(Box<KubeWorld>),
}

/// Why a manager cannot start. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("the data folder cannot be used: {0}")]
    Store(#[from] oscar_local::OpenError),
    #[error("Kubernetes cannot be reached: {0}")]
    Kubernetes(#[from] oscar_kube::ConnectError),
    #[error("the id of this manager cannot be kept: {0}")]
    InstanceId(oscar_engine::ports::StoreError),
    #[error("bearer tokens cannot be checked: {0}")]
    Identity(String),
    #[error("{what}: {cause}")]
    File { what: String, cause: std::io::Error },
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // Without randomness no token can be made; a machine without it cannot run a manager.
        rand::rngs::OsRng.try_fill_bytes(bytes).expect("the operating system gives random bytes");
    }
}

impl Ground {
    pub(crate) async fn prepare(settings: &Effective, derived: &Derived) -> Result<Self, StartError> {
        let data = &derived.data;
        match derived.world {
            World::Local => {
                let options = oscar_local::Options { namespace: settings.text("services_namespace").to_owned() };
                let store = LocalStore::open(data, options)?;
                let cluster = LocalCluster::new(
                    ClusterOptions {
                        cores: settings.quantity("cpu").map(|quantity| quantity.millis()),
                        bytes: settings.quantity("memory").map(|quantity| quantity.units()),
                        gpus: i64::try_from(settings.count("gpus")).unwrap_or(i64::MAX),
                        data: data.clone(),
                    },
                    SystemTime::now(),
                );
                Ok(Self::Local { store, cluster: Arc::new(cluster) })
            }
            World::Kubernetes => {
                let options = oscar_kube::Options {
                    name: settings.text("name").to_owned(),
                    namespace: settings.text("namespace").to_owned(),
                    services_namespace: settings.text("services_namespace").to_owned(),
                    controller_service_account: settings.text("controller_service_account").to_owned(),
                    additional_config: settings.text("additional_config").to_owned(),
                    ..oscar_kube::Options::default()
                };
                let world = KubeWorld::connect(options).await?;
                world.ready().await;
                Ok(Self::Kubernetes(Box::new(world)))
            }
        }
    }

    async fn instance_id(&self) -> Result<String, StartError> {
        match self {
            Self::Local { store, .. } => Ok(store.instance_id().to_owned()),
            Self::Kubernetes(world) => world.instance_id().await.map_err(StartError::InstanceId),
        }
    }

    fn ports(&self) -> Ports {
        let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
        match self {
            Self::Local { store, cluster } => Ports {
                services: store.clone(),
                users: store.clone(),
                settings: store.clone(),
                cluster: cluster.clone(),
                clock,
                entropy,
            },
            Self::Kubernetes(world) => Ports {
                services: world.services(),
                users: world.users(),
                settings: world.settings(),
                cluster: world.cluster(),
                clock,
                entropy,
            },
        }
    }

    /// Background work of the world, until the process ends.
    pub(crate) fn spawn_ticks(&self) {
        if let Self::Local { cluster, .. } = self {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                let mut ticks = tokio::time::interval(Duration::from_secs(5));
                loop {
                    ticks.tick().await;
                    cluster.tick_usage();
                }
            });
        }
    }

    /// What is written is on disk; nothing else holds the folder afterwards.
    pub(crate) async fn close(self) {
        if let Self::Local { store, .. } = self
            && let Err(error) = store.close().await
        {
            tracing::warn!("the data folder was not closed cleanly: {error}");
        }
    }
}

pub(crate) async fn app(
    settings: &Effective,
    derived: &Derived,
    ground: &Ground,
    password: Secret,
) -> Result<Arc<App>, StartError> {
    let policy = Policy {
        own_store: own_store(settings, derived),
        providers: settings.providers.clone(),
        registry: settings.clusters.clone(),
        groups: settings.list("oidc_groups"),
        admins: settings.list("users_admin").iter().filter_map(|text| Subject::parse(text)).collect(),
    };
    let facts = Facts {
        instance_id: ground.instance_id().await?,
        name: settings.text("name").to_owned(),
        namespace: settings.text("namespace").to_owned(),
        services_namespace: settings.text("services_namespace").to_owned(),
        controller_service_account: settings.text("controller_service_account").to_owned(),
        oidc_enabled: settings.flag("oidc_enable"),
        oidc_issuers: settings.issuers().into_iter().map(|issuer| issuer.url).collect(),
        oidc_groups: settings.list("oidc_groups"),
        cors: derived.cors,
    };
    Ok(Arc::new(App {
        manager: Manager::new(ground.ports(), policy),
        identity: identity(settings)?,
        admin: AdminAccount { username: Secret::new(settings.text("username")), password },
        facts,
        limits: Limits {
            body: Duration::from_secs(settings.count("read_timeout")),
            answer: Duration::from_secs(settings.count("write_timeout")),
        },
        prints: Prints::default(),
    }))
}

fn own_store(settings: &Effective, derived: &Derived) -> OwnStore {
    OwnStore {
        endpoint: derived.minio_endpoint.clone(),
        verify: settings.flag("minio_tls_verify"),
        region: settings.text("minio_region").to_owned(),
        access_key: settings.text("minio_access_key").to_owned(),
        secret_key: settings.secret("minio_secret_key"),
    }
}

fn identity(settings: &Effective) -> Result<Arc<dyn Identity>, StartError> {
    if !settings.flag("oidc_enable") {
        return Ok(Arc::new(NoIdentity));
    }
    let issuers = settings.issuers().into_iter().map(|issuer| IssuerSettings {
        url: issuer.url,
        audience: issuer.audience,
        groups: issuer.group_claim.map_or(GroupSource::Auto, GroupSource::Claim),
    });
    let mut oidc = OidcSettings::new(issuers.collect(), Arc::new(SystemClock));
    oidc.accepted_groups = settings.list("oidc_groups");
    oidc.leeway = Duration::from_secs(settings.count("oidc_leeway"));
    if let Some(path) = settings.given("oidc_ca") {
        let what = format!("reading oidc_ca {path}");
        oidc.extra_roots = Some(std::fs::read(&path).map_err(|cause| StartError::File { what, cause })?);
    }
    OidcIdentity::new(oidc)
        .map(|identity| Arc::new(identity) as Arc<dyn Identity>)
        .map_err(|error| StartError::Identity(error.to_string()))
}
