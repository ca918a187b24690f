//! Definitions inside records: the same form as a stored service, and beside it what that form
//! leaves out or changes.

use std::collections::BTreeMap;

use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::{Cluster, Definition, Environment, Sensitive, Service};
use serde::{Deserialize, Serialize};

use crate::service::{Mode, decode, full};
use crate::tree::parse_json;

type Texts = BTreeMap<String, String>;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredDefinition {
    /// As a service is shown, without what stands beside it.
    config: serde_json::Value,
    script: String,
    /// Whoever reads a service bounds its maps and drops labels of the cluster; a record is
    /// read back as it was.
    #[serde(default)]
    variables: Texts,
    #[serde(default)]
    secrets: Texts,
    #[serde(default)]
    annotations: Texts,
    #[serde(default)]
    labels: Texts,
    #[serde(default)]
    clusters: BTreeMap<String, StoredCluster>,
}

#[derive(Serialize, Deserialize)]
struct StoredCluster {
    endpoint: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    password: String,
    verify: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredService {
    definition: StoredDefinition,
    owner: String,
    owner_name: String,
    token: String,
    namespace: String,
    #[serde(default)]
    buckets: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredSensitive {
    #[serde(default)]
    environment: Texts,
    #[serde(default)]
    cluster_passwords: Texts,
}

pub(super) fn to_texts(secrets: &BTreeMap<String, Secret>) -> Texts {
    secrets.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
}

pub(super) fn to_secrets(texts: Texts) -> BTreeMap<String, Secret> {
    texts.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
}

pub(super) fn owner(text: &str) -> Result<Owner, String> {
    Owner::parse(text).ok_or_else(|| "its owner is no subject".to_owned())
}

pub(super) fn boxed(stored: Option<StoredDefinition>) -> Result<Option<Box<Definition>>, String> {
    stored.map(|stored| stored.into_definition().map(Box::new)).transpose()
}

impl StoredDefinition {
    pub(super) fn from_definition(definition: &Definition) -> Self {
        let mut rest = definition.clone();
        let script = std::mem::take(&mut rest.script);
        let Environment { variables, secrets } = std::mem::take(&mut rest.environment);
        let annotations = std::mem::take(&mut rest.annotations);
        let labels = std::mem::take(&mut rest.labels);
        let clusters = std::mem::take(&mut rest.clusters);
        let bare = Service {
            definition: rest,
            owner: Owner::Admin,
            owner_name: String::new(),
            token: Secret::default(),
            namespace: String::new(),
            bucket_list: Vec::new(),
        };
        Self {
            // `ServiceBody` has string keys and no failing `Serialize`.
            config: serde_json::to_value(full(&bare)).unwrap_or_default(),
            script,
            variables,
            secrets: to_texts(&secrets),
            annotations,
            labels,
            clusters: clusters.into_iter().map(|(id, cluster)| (id, StoredCluster::from_cluster(cluster))).collect(),
        }
    }

    pub(super) fn into_definition(self) -> Result<Definition, String> {
        let Self { config, script, variables, secrets, annotations, labels, clusters } = self;
        let node = parse_json(config.to_string().as_bytes()).map_err(|_| "its definition is no map".to_owned())?;
        let draft = decode(&node, "", Mode::Stored).map_err(|faults| {
            // Only where, not what: a value may be a credential.
            let paths: Vec<_> = faults.0.iter().map(|fault| fault.path.as_str()).collect();
            format!("its definition cannot be understood at {}", paths.join(", "))
        })?;
        Ok(Definition {
            script,
            environment: Environment { variables, secrets: to_secrets(secrets) },
            annotations,
            labels,
            clusters: clusters.into_iter().map(|(id, cluster)| (id, cluster.into_cluster())).collect(),
            ..draft.definition
        })
    }
}

impl StoredCluster {
    fn from_cluster(cluster: Cluster) -> Self {
        let Cluster { endpoint, auth_user, auth_password, ssl_verify } = cluster;
        Self { endpoint, user: auth_user, password: auth_password.expose().to_owned(), verify: ssl_verify }
    }

    fn into_cluster(self) -> Cluster {
        let Self { endpoint, user, password, verify } = self;
        Cluster { endpoint, auth_user: user, auth_password: Secret::new(password), ssl_verify: verify }
    }
}

impl StoredService {
    pub(super) fn from_service(service: &Service) -> Self {
        let Service { definition, owner, owner_name, token, namespace, bucket_list } = service;
        Self {
            definition: StoredDefinition::from_definition(definition),
            owner: owner.to_string(),
            owner_name: owner_name.clone(),
            token: token.expose().to_owned(),
            namespace: namespace.clone(),
            buckets: bucket_list.clone(),
        }
    }

    pub(super) fn into_service(self) -> Result<Service, String> {
        Ok(Service {
            definition: self.definition.into_definition()?,
            owner: owner(&self.owner)?,
            owner_name: self.owner_name,
            token: Secret::new(self.token),
            namespace: self.namespace,
            bucket_list: self.buckets,
        })
    }
}

impl StoredSensitive {
    pub(super) fn from_sensitive(sensitive: &Sensitive) -> Self {
        let Sensitive { environment, cluster_passwords } = sensitive;
        Self { environment: to_texts(environment), cluster_passwords: to_texts(cluster_passwords) }
    }

    pub(super) fn into_sensitive(self) -> Sensitive {
        Sensitive { environment: to_secrets(self.environment), cluster_passwords: to_secrets(self.cluster_passwords) }
    }
}
