//! The only place where adapters meet the engine.

mod objects;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use oscar_engine::federate::Own;
use oscar_engine::ports::audit::Audit;
use oscar_engine::ports::clock::{Clock, Entropy};
use oscar_engine::ports::identity::{Identity, NoIdentity};
use oscar_engine::ports::journal::Journal;
use oscar_engine::ports::mint::Mint;
use oscar_engine::ports::peers::Peers;
use oscar_engine::ports::services::Services;
use oscar_engine::ports::vault::Vault;
use oscar_engine::tokens::Tokens;
use oscar_engine::{FederationPorts, Manager, OwnPeer, OwnStore, Policy, Ports};
use oscar_kube::KubeWorld;
use oscar_local::{ClusterOptions, LocalCluster, LocalStore};
use oscar_model::identity::Subject;
use oscar_model::secret::Secret;
use rand::TryRngCore;

use crate::config::{Derived, Effective, World};
use crate::http::{AdminAccount, App, Facts, Limits, Prints, Traffic};
use crate::outbound::address::AddressPolicy;
use crate::outbound::oidc::{ClientSettings, GroupSource, IssuerSettings, OidcIdentity, OidcIssuers, OidcSettings};
use crate::outbound::peers::{FOREIGN_DEADLINE, HttpPeers, PeersOptions};

pub(crate) use objects::{MINIO_EVENTS, StoreAddresses};
pub(crate) use work::Work;

/// The world of a manager, with what has to be closed at its end.
pub(crate) enum Ground {
    Local { store: Arc<LocalStore>, cluster: Arc<LocalCluster> },
    Kubernetes(Box<KubeWorld>),
}

/// Why a manager cannot start. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// Its sentences name the data folder, or the file in it.
    #[error(transparent)]
    Store(#[from] oscar_local::OpenError),
    #[error("Kubernetes cannot be reached: {0}")]
    Kubernetes(#[from] oscar_kube::ConnectError),
    #[error("the id of this manager cannot be kept: {0}")]
    InstanceId(oscar_engine::ports::StoreError),
    #[error("bearer tokens cannot be checked: {0}")]
    Identity(String),
    #[error("the object store cannot be used: {0}")]
    Objects(String),
    #[error("other managers cannot be called: {0}")]
    Peers(String),
    #[error("{what}: {cause}")]
    File { what: String, cause: std::io::Error },
}

pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

pub(crate) struct SystemEntropy;

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
                let options = oscar_local::Options {
                    namespace: settings.text("services_namespace").to_owned(),
                    key: given_key(settings)?,
                };
                let store = LocalStore::open(data, options)?;
                let cluster = LocalCluster::new(
                    ClusterOptions {
                        cores: settings.quantity("cpu").map(|quantity| quantity.millis()),
                        bytes: settings.quantity("memory").map(|quantity| quantity.units()),
                        gpus: i64::try_from(settings.count("gpus")).unwrap_or(i64::MAX),
                        data: data.clone(),
                        deployment: settings.text("name").to_owned(),
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

    fn ports(&self, federation: FederationPorts, work: Option<&Work>) -> Ports {
        let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
        match self {
            Self::Local { store, cluster } => Ports {
                services: work.map_or_else(|| store.clone() as Arc<dyn Services>, |work| work.furnished.clone()),
                users: store.clone(),
                settings: store.clone(),
                cluster: cluster.clone(),
                clock,
                entropy,
                federation,
                jobs: work.map(|work| work.dispatcher.clone()),
            },
            Self::Kubernetes(world) => Ports {
                services: world.services(),
                users: world.users(),
                settings: world.settings(),
                cluster: world.cluster(),
                clock,
                entropy,
                federation,
                jobs: None,
            },
        }
    }

    /// Where federations are remembered.
    fn archive(&self) -> Archive {
        match self {
            Self::Local { store, .. } => Archive { journal: store.clone(), vault: store.clone(), audit: store.clone() },
            Self::Kubernetes(world) => Archive { journal: world.journal(), vault: world.vault(), audit: world.audit() },
        }
    }

    /// During a roll-out two managers share one journal: what the other works on is left alone as
    /// long as it may be working.
    fn grace(&self, settings: &Effective) -> u64 {
        match self {
            Self::Local { .. } => 0,
            Self::Kubernetes(_) => settings.count("write_timeout") + 60,
        }
    }

    /// Whether this manager is the one that looks after federations: the only one, or on
    /// Kubernetes the one that holds the Lease.
    pub(crate) fn is_in_charge(&self) -> bool {
        match self {
            Self::Local { .. } => true,
            Self::Kubernetes(world) => world.lease().holds(),
        }
    }

    /// What runs jobs here; nothing on Kubernetes yet.
    pub(crate) async fn work(
        &self,
        settings: &Effective,
        derived: &Derived,
        addresses: StoreAddresses,
    ) -> Result<Option<Work>, StartError> {
        match self {
            Self::Local { store, cluster } => {
                Work::prepare(settings, derived, store, cluster, addresses).await.map(Some)
            }
            Self::Kubernetes(_) => Ok(None),
        }
    }

    /// Background work of the world, until the process ends.
    pub(crate) fn spawn_ticks(&self) {
        match self {
            Self::Local { cluster, .. } => {
                let cluster = cluster.clone();
                tokio::spawn(async move {
                    let mut ticks = tokio::time::interval(Duration::from_secs(5));
                    loop {
                        ticks.tick().await;
                        cluster.tick_usage();
                    }
                });
            }
            Self::Kubernetes(world) => {
                let lease = world.lease();
                tokio::spawn(async move { lease.hold_forever().await });
            }
        }
    }

    /// What is written is on disk; nothing else holds the folder afterwards.
    pub(crate) async fn close(self) {
        match self {
            Self::Local { store, .. } => {
                if let Err(error) = store.close().await {
                    tracing::warn!("the data folder was not closed cleanly: {error}");
                }
            }
            // The next manager need not wait for it to run out; it does when this fails.
            Self::Kubernetes(world) => drop(world.lease().release().await),
        }
    }
}

struct Archive {
    journal: Arc<dyn Journal>,
    vault: Arc<dyn Vault>,
    audit: Arc<dyn Audit>,
}

/// Where a manager is.
pub(crate) struct Addresses {
    /// For others.
    pub(crate) public: String,
    /// For this machine.
    pub(crate) here: String,
    /// The port that was really taken.
    pub(crate) bound: SocketAddr,
}

pub(crate) async fn app(
    settings: &Effective,
    derived: &Derived,
    ground: &Ground,
    password: Secret,
    addresses: &Addresses,
    work: Option<&Work>,
) -> Result<Arc<App>, StartError> {
    let own_store = work.map_or_else(|| own_store(settings, derived), |work| work.own_store.clone());
    let policy = Policy {
        taken_subjects: vec![own_store.access_key.clone(), oscar_store::MANAGER_KEY.to_owned()],
        own_store,
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
        executor: work.map(|work| work.executor.clone()).unwrap_or_default(),
        oldest_refresh_token: Duration::from_secs(settings.count("refresh_token_age")),
    };
    let oidc = oidc_settings(settings)?;
    let own = Own {
        public_url: addresses.public.clone(),
        urls: own_urls(addresses),
        instance_id: facts.instance_id.clone(),
        cluster_id: settings.text("cluster_id").to_owned(),
        grace: ground.grace(settings),
        // A look, a change at a foreign manager, and a word with everybody, each once.
        patience: Some(FOREIGN_DEADLINE + 3 * Duration::from_secs(settings.count("peer_timeout"))),
    };
    let own_peer = Arc::new(OwnPeer::default());
    let archive = ground.archive();
    let federation = FederationPorts {
        peers: peers(settings, addresses, &own, own_peer.clone())?,
        mint: mint(&archive, &oidc)?,
        journal: archive.journal,
        audit: archive.audit,
        own,
    };
    let manager = Arc::new(Manager::new(ground.ports(federation, work), policy));
    own_peer.bind(Arc::downgrade(&manager));
    Ok(Arc::new(App {
        manager,
        identity: identity(settings, oidc)?,
        admin: AdminAccount { username: Secret::new(settings.text("username")), password },
        facts,
        limits: Limits {
            body: Duration::from_secs(settings.count("read_timeout")),
            answer: Duration::from_secs(settings.count("write_timeout")),
            page: usize::try_from(settings.count("job_listing_limit")).unwrap_or(usize::MAX),
        },
        prints: Prints::default(),
        traffic: Arc::new(Traffic::new()),
        notices: work.and_then(|work| work.objects.notices()),
    }))
}

/// Every address that is this manager itself, so that a member there needs no network.
fn own_urls(addresses: &Addresses) -> Vec<String> {
    let listener = addresses.bound;
    let mut urls = vec![addresses.public.clone(), addresses.here.clone(), format!("http://{listener}")];
    if listener.ip().is_loopback() || listener.ip().is_unspecified() {
        urls.push(format!("http://localhost:{}", listener.port()));
        urls.push(format!("http://127.0.0.1:{}", listener.port()));
    }
    urls.sort();
    urls.dedup();
    urls
}

fn peers(
    settings: &Effective,
    addresses: &Addresses,
    own: &Own,
    own_peer: Arc<OwnPeer>,
) -> Result<Arc<dyn Peers>, StartError> {
    let networks = settings.list("peer_networks");
    let loopback = addresses.bound.ip().is_loopback();
    let policy = AddressPolicy::parse(networks.iter().map(String::as_str), loopback).map_err(StartError::Peers)?;
    let mut options = PeersOptions::new(policy, Arc::new(SystemEntropy));
    options.own = Some(own_peer);
    options.own_urls.clone_from(&own.urls);
    options.deadline = Duration::from_secs(settings.count("peer_timeout"));
    if let Some(path) = settings.given("peer_ca") {
        options.extra_roots = Some(read_file("peer_ca", &path)?);
    }
    let peers = HttpPeers::new(options).map_err(|error| StartError::Peers(error.to_string()))?;
    Ok(Arc::new(peers))
}

fn mint(archive: &Archive, oidc: &OidcSettings) -> Result<Arc<dyn Mint>, StartError> {
    let issuers = OidcIssuers::new(oidc).map_err(|error| StartError::Identity(error.to_string()))?;
    let (vault, audit) = (archive.vault.clone(), archive.audit.clone());
    Ok(Arc::new(Tokens::new(vault, Arc::new(issuers), Arc::new(SystemClock), audit)))
}

fn read_file(setting: &str, path: &str) -> Result<Vec<u8>, StartError> {
    let what = format!("reading {setting} {path}");
    std::fs::read(path).map_err(|cause| StartError::File { what, cause })
}

/// The operator's own key of the local store.
fn given_key(settings: &Effective) -> Result<Option<[u8; 32]>, StartError> {
    let Some(path) = settings.given("secret_key_file") else { return Ok(None) };
    let text = read_file("secret_key_file", &path)?;
    let key = parse_key(&text).ok_or_else(|| StartError::File {
        what: format!("reading secret_key_file {path}"),
        cause: std::io::Error::other("it must hold 64 hexadecimal characters"),
    })?;
    Ok(Some(key))
}

fn parse_key(text: &[u8]) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let mut key = [0u8; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(key)
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

fn identity(settings: &Effective, oidc: OidcSettings) -> Result<Arc<dyn Identity>, StartError> {
    if !settings.flag("oidc_enable") {
        return Ok(Arc::new(NoIdentity));
    }
    OidcIdentity::new(oidc)
        .map(|identity| Arc::new(identity) as Arc<dyn Identity>)
        .map_err(|error| StartError::Identity(error.to_string()))
}

fn oidc_settings(settings: &Effective) -> Result<OidcSettings, StartError> {
    let issuers = settings.issuers().into_iter().map(|issuer| IssuerSettings {
        url: issuer.url,
        audience: issuer.audience,
        groups: issuer.group_claim.map_or(GroupSource::Auto, GroupSource::Claim),
        client: issuer.client.map(|client| ClientSettings { id: client.id, secret: client.secret }),
        refresh_scope: issuer.refresh_scope,
        subject_suffix: issuer.subject_suffix.unwrap_or_default(),
    });
    let mut oidc = OidcSettings::new(issuers.collect(), Arc::new(SystemClock));
    let unmarked = oidc.issuers.iter().filter(|issuer| issuer.subject_suffix.is_empty()).count();
    if unmarked > 1 {
        tracing::warn!(
            "{unmarked} issuers are accepted without a subject_suffix: people whom two of them give the same `sub` are \
             one person here"
        );
    }
    oidc.accepted_groups = settings.list("oidc_groups");
    oidc.leeway = Duration::from_secs(settings.count("oidc_leeway"));
    if let Some(path) = settings.given("oidc_ca") {
        oidc.extra_roots = Some(read_file("oidc_ca", &path)?);
    }
    Ok(oidc)
}
