//! A service: what its owner says of it, and what the cluster adds.

pub mod expose;
pub mod kserve;
pub mod labels;
pub mod storage;
pub mod volume;

use std::collections::BTreeMap;

use crate::federation::Federation;
use crate::identity::Owner;
use crate::name::ServiceName;
use crate::quantity::Quantity;
use crate::secret::Secret;

use expose::Expose;
use kserve::Kserve;
use storage::{StorageIo, StorageProviders};
use volume::Volume;

pub const DEFAULT_CPU: &str = "0.2";
pub const DEFAULT_MEMORY: &str = "256Mi";

/// Marks a service that a coordinator deployed here.
pub const WORKER_ANNOTATION: &str = "oscar.grycap/federation-worker";
pub const ORIGIN_CLUSTER_ANNOTATION: &str = "oscar.grycap/origin-cluster";
pub const ORIGIN_SERVICE_ANNOTATION: &str = "oscar.grycap/origin-service";

/// What the owner of a service says of it: valid, with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub name: ServiceName,
    pub cluster_id: String,
    pub memory: Quantity,
    pub cpu: Quantity,
    pub total_memory: Option<Quantity>,
    pub total_cpu: Option<Quantity>,
    pub ephemeral_storage_request: Option<Quantity>,
    pub enable_gpu: bool,
    pub enable_sgx: bool,
    pub image_prefetch: bool,
    pub synchronous: Synchronous,
    pub federation: Option<Federation>,
    pub log_level: LogLevel,
    pub image: String,
    pub alpine: bool,
    /// Despite its name: true *skips* the download of the input.
    pub file_stage_in: bool,
    pub input: Vec<StorageIo>,
    pub output: Vec<StorageIo>,
    pub script: String,
    pub image_pull_secrets: Vec<String>,
    pub expose: Expose,
    pub environment: Environment,
    pub annotations: BTreeMap<String, String>,
    pub vo: String,
    /// The user's own labels; those of the cluster are added by [`labels::all_labels`].
    pub labels: BTreeMap<String, String>,
    pub storage_providers: StorageProviders,
    pub clusters: BTreeMap<String, Cluster>,
    pub interlink_node_name: String,
    pub visibility: Visibility,
    pub allowed_users: Vec<String>,
    pub isolation: Isolation,
    pub mount: Option<StorageIo>,
    pub volume: Option<Volume>,
    pub kserve: Option<Kserve>,
}

impl Definition {
    /// The least that a service needs, every default filled in.
    pub fn new(name: ServiceName, image: &str, script: &str) -> Self {
        let default = |text: &str| Quantity::parse(text).expect("the defaults are quantities");
        Self {
            name,
            cluster_id: String::new(),
            memory: default(DEFAULT_MEMORY),
            cpu: default(DEFAULT_CPU),
            total_memory: None,
            total_cpu: None,
            ephemeral_storage_request: None,
            enable_gpu: false,
            enable_sgx: false,
            image_prefetch: false,
            synchronous: Synchronous::default(),
            federation: None,
            log_level: LogLevel::default(),
            image: image.to_owned(),
            alpine: false,
            file_stage_in: false,
            input: Vec::new(),
            output: Vec::new(),
            script: script.to_owned(),
            image_pull_secrets: Vec::new(),
            expose: Expose::default(),
            environment: Environment::default(),
            annotations: BTreeMap::new(),
            vo: String::new(),
            labels: BTreeMap::new(),
            storage_providers: StorageProviders::new(),
            clusters: BTreeMap::new(),
            interlink_node_name: String::new(),
            visibility: Visibility::default(),
            allowed_users: Vec::new(),
            isolation: Isolation::default(),
            mount: None,
            volume: None,
            kserve: None,
        }
    }

    /// Whether another cluster's coordinator deployed it.
    pub fn is_worker(&self) -> bool {
        self.annotations.get(WORKER_ANNOTATION).is_some_and(|value| value == "true")
    }

    /// The service name whose bucket a bucket-less output goes to.
    fn output_bucket(&self, provider: &storage::ProviderRef) -> &str {
        let origin = self.annotations.get(ORIGIN_SERVICE_ANNOTATION);
        match origin {
            Some(origin) if provider.is_own_store() && self.annotations.contains_key(ORIGIN_CLUSTER_ANNOTATION) => {
                origin
            }
            _ => self.name.as_str(),
        }
    }

    /// Paths of inputs and outputs in OSCAR's normal form.
    pub fn normalise_paths(&mut self) {
        let name = self.name.as_str().to_owned();
        self.input = std::mem::take(&mut self.input).into_iter().map(|io| io.normalised(&name)).collect();
        let outputs = std::mem::take(&mut self.output);
        self.output = outputs
            .into_iter()
            .map(|io| {
                let bucket = self.output_bucket(&io.provider).to_owned();
                io.normalised(&bucket)
            })
            .collect();
    }
}

/// A definition that lives in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub definition: Definition,
    pub owner: Owner,
    /// The owner's name for people; blank when unknown.
    pub owner_name: String,
    /// 64 hexadecimal characters; lets its holder invoke the service.
    pub token: Secret,
    /// The namespace it lives in.
    pub namespace: String,
    /// Buckets of single users, made for `USER` isolation.
    pub bucket_list: Vec<String>,
}

impl Service {
    pub fn name(&self) -> &ServiceName {
        &self.definition.name
    }
}

/// Values that a definition names but that are stored and handed out apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sensitive {
    /// Values of `environment.secrets`.
    pub environment: BTreeMap<String, Secret>,
    /// `clusters.<id>.auth_password`.
    pub cluster_passwords: BTreeMap<String, Secret>,
}

impl Sensitive {
    /// Takes the values out of a definition, leaving blanks.
    pub fn take_from(definition: &mut Definition) -> Self {
        let environment = definition
            .environment
            .secrets
            .iter_mut()
            .map(|(name, value)| (name.clone(), std::mem::take(value)))
            .collect();
        let cluster_passwords = definition
            .clusters
            .iter_mut()
            .map(|(id, cluster)| (id.clone(), std::mem::take(&mut cluster.auth_password)))
            .filter(|(_, password)| !password.is_blank())
            .collect();
        Self { environment, cluster_passwords }
    }

    /// On an update a blank value means "keep what is stored"; a key that is absent goes away.
    #[must_use]
    pub fn keeping(mut self, stored: &Self, clusters: &BTreeMap<String, Cluster>) -> Self {
        for (name, value) in &mut self.environment {
            if value.is_blank()
                && let Some(kept) = stored.environment.get(name)
            {
                *value = kept.clone();
            }
        }
        for id in clusters.keys() {
            if !self.cluster_passwords.contains_key(id)
                && let Some(kept) = stored.cluster_passwords.get(id)
            {
                self.cluster_passwords.insert(id.clone(), kept.clone());
            }
        }
        self
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Synchronous {
    pub min_scale: u32,
    /// Zero is unlimited.
    pub max_scale: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pub variables: BTreeMap<String, String>,
    pub secrets: BTreeMap<String, Secret>,
}

/// Another cluster, as the user of a definition knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    pub endpoint: String,
    pub auth_user: String,
    pub auth_password: Secret,
    pub ssl_verify: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Visibility {
    #[default]
    Private,
    Restricted,
    Public,
}

impl Visibility {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "private" => Some(Self::Private),
            "restricted" => Some(Self::Restricted),
            "public" => Some(Self::Public),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Restricted => "restricted",
            Self::Public => "public",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    #[default]
    Unset,
    Service,
    User,
}

impl Isolation {
    /// Supervisors compare the word exactly, so it is stored in upper case.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_uppercase().as_str() {
            "" => Some(Self::Unset),
            "SERVICE" => Some(Self::Service),
            "USER" => Some(Self::User),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Service => "SERVICE",
            Self::User => "USER",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogLevel {
    NotSet,
    Debug,
    #[default]
    Info,
    Warning,
    Error,
    Critical,
}

impl LogLevel {
    /// OSCAR takes every other word for `INFO`, and published definitions rely on it.
    pub fn parse(text: &str) -> Self {
        match text.to_ascii_uppercase().as_str() {
            "NOTSET" => Self::NotSet,
            "DEBUG" => Self::Debug,
            "WARNING" => Self::Warning,
            "ERROR" => Self::Error,
            "CRITICAL" => Self::Critical,
            _ => Self::Info,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotSet => "NOTSET",
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
            Self::Critical => "CRITICAL",
        }
    }
}
