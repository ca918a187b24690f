//! From a service to its JSON: keys in the order that OSCAR's clients and tests rely on.

use std::collections::BTreeMap;

use oscar_model::access::View;
use oscar_model::federation::{Delegation, Federation, LocalShare, Member, OnUnknown, Target};
use oscar_model::quantity::Quantity;
use oscar_model::service::expose::Expose;
use oscar_model::service::kserve::{Kserve, Serving};
use oscar_model::service::labels::all_labels;
use oscar_model::service::storage::{ProviderRef, StorageIo, StorageProviders};
use oscar_model::service::volume::{Volume, VolumeText};
use oscar_model::service::{Cluster, Definition, Service};
use serde::Serialize;
use utoipa::ToSchema;

use super::encode_providers::{StorageProvidersBody, providers};

fn is_empty(text: &str) -> bool {
    text.is_empty()
}

/// A service as OSCAR shows it.
// It borrows, because lists of thousands are made of it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Service)]
pub struct ServiceBody<'a> {
    pub name: &'a str,
    pub cluster_id: &'a str,
    /// Kubernetes quantity, such as `256Mi`.
    pub memory: &'a str,
    /// Kubernetes quantity, such as `0.2`.
    pub cpu: &'a str,
    pub total_memory: &'a str,
    pub total_cpu: &'a str,
    pub ephemeral_storage_request: &'a str,
    pub enable_gpu: bool,
    pub enable_sgx: bool,
    pub image_prefetch: bool,
    pub synchronous: SynchronousBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub federation: Option<FederationBody>,
    pub log_level: &'a str,
    pub image: &'a str,
    pub alpine: bool,
    /// Lets its holder invoke the service; blank for readers who do not own it.
    pub token: &'a str,
    /// True *skips* the download of the input.
    pub file_stage_in: bool,
    pub input: Vec<StorageIoBody<'a>>,
    pub output: Vec<StorageIoBody<'a>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub script: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub image_pull_secrets: &'a [String],
    pub expose: ExposeBody,
    pub environment: EnvironmentBody<'a>,
    #[schema(value_type = BTreeMap<String, String>)]
    pub annotations: &'a BTreeMap<String, String>,
    pub vo: &'a str,
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "StorageProvidersBody::is_empty")]
    pub storage_providers: StorageProvidersBody,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, ClusterBody>,
    pub owner: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    pub namespace: &'a str,
    pub interlink_node_name: &'a str,
    pub visibility: &'a str,
    pub allowed_users: &'a [String],
    pub isolation_level: &'a str,
    pub bucket_list: &'a [String],
    pub mount: StorageIoBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub volume: Option<VolumeBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub volume_status: Option<VolumeStatusBody>,
    /// Only with `?include=deployment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deployment: Option<DeploymentSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub kserve: Option<KserveBody>,
    /// Only in what is stored: the owner's name for people.
    #[serde(skip_serializing_if = "is_empty")]
    #[schema(ignore)]
    pub(crate) owner_name: &'a str,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Synchronous)]
pub struct SynchronousBody {
    pub min_scale: u32,
    /// 0 is unlimited.
    pub max_scale: u32,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Federation)]
pub struct FederationBody {
    pub group_id: String,
    pub topology: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delegation: Option<DelegationBody>,
    #[serde(skip_serializing_if = "is_zero")]
    pub rescheduler_threshold: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<ReplicaBody>,
    #[serde(skip_serializing_if = "is_empty")]
    pub local: String,
    #[serde(skip_serializing_if = "is_empty")]
    pub on_unknown: String,
    #[serde(skip_serializing_if = "is_false")]
    pub share_refresh_token: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub share_secrets: bool,
}

/// The policy as a word, or with its weights.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Delegation)]
pub enum DelegationBody {
    Word(String),
    Weighted { mode: String, weights: BTreeMap<String, f64> },
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Replica)]
pub struct ReplicaBody {
    pub r#type: String,
    pub cluster_id: String,
    pub service_name: String,
    pub url: String,
    pub ssl_verify: bool,
    pub priority: u32,
    pub headers: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub parent: String,
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = StorageIO)]
pub struct StorageIoBody<'a> {
    pub storage_provider: &'a str,
    pub path: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub suffix: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub prefix: &'a [String],
    #[serde(skip_serializing_if = "is_empty")]
    pub options: &'a str,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Expose)]
pub struct ExposeBody {
    pub min_scale: u32,
    pub max_scale: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_port: Vec<u16>,
    pub cpu_threshold: u32,
    pub rewrite_target: bool,
    #[serde(rename = "nodePort", skip_serializing_if = "Vec::is_empty")]
    pub node_port: Vec<u16>,
    pub default_command: bool,
    pub set_auth: bool,
    #[serde(skip_serializing_if = "is_empty")]
    pub auth_type: String,
    pub health_path: String,
    #[serde(skip_serializing_if = "is_empty")]
    pub probe_mode: String,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Environment)]
pub struct EnvironmentBody<'a> {
    #[schema(value_type = BTreeMap<String, String>)]
    pub variables: &'a BTreeMap<String, String>,
    /// Names with blank values; a blank value that is sent back keeps what is stored.
    pub secrets: BTreeMap<&'a str, &'a str>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Cluster)]
pub struct ClusterBody {
    pub endpoint: String,
    pub auth_user: String,
    /// Always blank; a blank one that is sent back keeps what is stored.
    pub auth_password: String,
    pub ssl_verify: bool,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Volume)]
pub struct VolumeBody {
    #[serde(skip_serializing_if = "is_empty")]
    pub name: String,
    pub size: String,
    pub mount_path: String,
    #[serde(skip_serializing_if = "is_empty")]
    pub lifecycle_policy: String,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = VolumeStatus)]
pub struct VolumeStatusBody {
    pub enabled: bool,
    #[serde(skip_serializing_if = "is_empty")]
    pub name: String,
}

/// How the running part of a service is doing.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DeploymentSummary {
    pub state: String,
    #[serde(skip_serializing_if = "is_empty")]
    pub reason: String,
    pub active_instances: u32,
    pub affected_instances: u32,
    pub resource_kind: String,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Kserve)]
pub struct KserveBody {
    pub r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub inference: Option<InferenceBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub llm_inference: Option<LlmInferenceBody>,
    pub storage_uri: String,
    pub api_version: String,
    pub min_scale: u32,
    pub max_scale: u32,
    pub cpu: String,
    pub memory: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_false")]
    pub enable_gpu: bool,
    pub set_auth: bool,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Inference)]
pub struct InferenceBody {
    pub model_format: String,
    #[serde(skip_serializing_if = "is_empty")]
    pub runtime: String,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = LlmInference)]
pub struct LlmInferenceBody {
    #[serde(skip_serializing_if = "is_empty")]
    pub runtime_image: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// What a reader with that view is shown.
pub fn encode(service: &Service, view: View) -> ServiceBody<'_> {
    let mut body = full(service);
    body.script = &service.definition.script;
    body.namespace = &service.namespace;
    body.volume_status = Some(volume_status(&service.definition));
    body.owner_name = "";
    hide_own_store(&mut body);
    if view == View::Guest {
        body.token = "";
        let redacted = service.definition.storage_providers.iter();
        let redacted: StorageProviders =
            redacted.map(|(id, provider)| (id.clone(), provider.clone().redacted())).collect();
        body.storage_providers = providers(&redacted);
        hide_own_store(&mut body);
        for cluster in body.clusters.values_mut() {
            cluster.auth_user.clear();
        }
        if let Some(federation) = &mut body.federation {
            // Headers and queries may carry a key of the owner's.
            for member in &mut federation.members {
                member.headers = None;
                if let Some(at) = member.url.find(['?', '#']) {
                    member.url.truncate(at);
                }
            }
        }
    }
    body
}

/// The keys of the cluster's own store are shown to nobody. Older managers stored them in
/// every definition.
fn hide_own_store(body: &mut ServiceBody<'_>) {
    if let Some(own) = body.storage_providers.minio.get_mut(ProviderRef::DEFAULT_ID) {
        "hidden".clone_into(&mut own.access_key);
        "hidden".clone_into(&mut own.secret_key);
    }
}

/// Everything that is stored of a service beside its script and its secrets.
pub(crate) fn full<'a>(service: &'a Service) -> ServiceBody<'a> {
    let Service { definition, owner, owner_name, token, namespace: _, bucket_list } = service;
    let Definition {
        name,
        cluster_id,
        memory,
        cpu,
        total_memory,
        total_cpu,
        ephemeral_storage_request,
        enable_gpu,
        enable_sgx,
        image_prefetch,
        synchronous,
        federation,
        log_level,
        image,
        alpine,
        file_stage_in,
        input,
        output,
        script: _,
        image_pull_secrets,
        expose,
        environment,
        annotations,
        vo,
        labels: _,
        storage_providers,
        clusters,
        interlink_node_name,
        visibility,
        allowed_users,
        isolation,
        mount,
        volume,
        kserve,
    } = definition;
    let optional = |quantity: &'a Option<Quantity>| quantity.as_ref().map_or("", Quantity::as_str);
    ServiceBody {
        name: name.as_str(),
        cluster_id,
        memory: memory.as_str(),
        cpu: cpu.as_str(),
        total_memory: optional(total_memory),
        total_cpu: optional(total_cpu),
        ephemeral_storage_request: optional(ephemeral_storage_request),
        enable_gpu: *enable_gpu,
        enable_sgx: *enable_sgx,
        image_prefetch: *image_prefetch,
        synchronous: SynchronousBody { min_scale: synchronous.min_scale, max_scale: synchronous.max_scale },
        federation: federation.as_ref().map(federation_body),
        log_level: log_level.as_str(),
        image,
        alpine: *alpine,
        token: token.expose(),
        file_stage_in: *file_stage_in,
        input: input.iter().map(storage_io).collect(),
        output: output.iter().map(storage_io).collect(),
        script: "",
        image_pull_secrets,
        expose: expose_body(expose),
        environment: EnvironmentBody {
            variables: &environment.variables,
            secrets: environment.secrets.keys().map(|key| (key.as_str(), "")).collect(),
        },
        annotations,
        vo,
        labels: all_labels(service),
        storage_providers: providers(storage_providers),
        clusters: clusters.iter().map(|(id, cluster)| (id.clone(), cluster_body(cluster))).collect(),
        owner: owner.as_str(),
        namespace: "",
        interlink_node_name,
        visibility: visibility.as_str(),
        allowed_users,
        isolation_level: isolation.as_str(),
        bucket_list,
        mount: mount.as_ref().map(storage_io).unwrap_or_default(),
        volume: volume.as_ref().map(volume_body),
        volume_status: None,
        deployment: None,
        kserve: kserve.as_ref().map(kserve_body),
        owner_name,
    }
}

fn storage_io(io: &StorageIo) -> StorageIoBody<'_> {
    let StorageIo { provider_text, provider: _, path, suffix, prefix, options } = io;
    StorageIoBody { storage_provider: provider_text, path, suffix, prefix, options }
}

fn expose_body(expose: &Expose) -> ExposeBody {
    let Expose {
        min_scale,
        max_scale,
        api_port,
        cpu_threshold,
        rewrite_target,
        node_port,
        default_command,
        set_auth,
        auth_type,
        health_path,
        probe_mode,
    } = expose.clone();
    ExposeBody {
        min_scale,
        max_scale,
        api_port,
        cpu_threshold,
        rewrite_target,
        node_port,
        default_command,
        set_auth,
        auth_type,
        health_path,
        probe_mode,
    }
}

fn cluster_body(cluster: &Cluster) -> ClusterBody {
    let Cluster { endpoint, auth_user, auth_password: _, ssl_verify } = cluster.clone();
    ClusterBody { endpoint, auth_user, auth_password: String::new(), ssl_verify }
}

fn volume_body(volume: &Volume) -> VolumeBody {
    let VolumeText { name, size, mount_path, lifecycle_policy } = volume.to_text();
    VolumeBody { name, size, mount_path, lifecycle_policy }
}

fn volume_status(definition: &Definition) -> VolumeStatusBody {
    let name = match &definition.volume {
        None => String::new(),
        Some(Volume::Attach { name, .. } | Volume::Create { name: Some(name), .. }) => name.clone(),
        Some(Volume::Create { name: None, .. }) => definition.name.to_string(),
    };
    VolumeStatusBody { enabled: definition.volume.is_some(), name }
}

fn kserve_body(kserve: &Kserve) -> KserveBody {
    let Kserve {
        serving,
        storage_uri,
        api_version,
        min_scale,
        max_scale,
        cpu,
        memory,
        args,
        env,
        enable_gpu,
        set_auth,
    } = kserve.clone();
    let (kind, inference, llm_inference) = match serving {
        Serving::Inference { model_format, runtime } => {
            ("inference", Some(InferenceBody { model_format, runtime }), None)
        }
        Serving::Llm { runtime_image } => ("llm_inference", None, Some(LlmInferenceBody { runtime_image })),
    };
    KserveBody {
        r#type: kind.to_owned(),
        inference,
        llm_inference,
        storage_uri,
        api_version,
        min_scale,
        max_scale,
        cpu: cpu.to_string(),
        memory: memory.to_string(),
        args,
        env,
        enable_gpu,
        set_auth,
    }
}

pub(crate) fn federation_body(federation: &Federation) -> FederationBody {
    let Federation {
        group_id,
        topology,
        delegation,
        rescheduler_threshold,
        members,
        local,
        on_unknown,
        share_refresh_token,
        share_secrets,
    } = federation;
    FederationBody {
        group_id: group_id.clone(),
        topology: topology.as_str().to_owned(),
        delegation: delegation_body(delegation),
        rescheduler_threshold: *rescheduler_threshold,
        members: members.iter().map(replica_body).collect(),
        local: if *local == LocalShare::First { String::new() } else { local.as_str().to_owned() },
        on_unknown: if *on_unknown == OnUnknown::Wait { String::new() } else { on_unknown.as_str().to_owned() },
        share_refresh_token: *share_refresh_token,
        share_secrets: *share_secrets,
    }
}

pub(crate) fn delegation_body(delegation: &Delegation) -> Option<DelegationBody> {
    let mode = delegation.mode.map(|mode| mode.as_str().to_owned());
    if delegation.weights.is_empty() {
        return mode.map(DelegationBody::Word);
    }
    let weights = delegation.weights.iter().map(|(name, weight)| (name.clone(), f64::from(*weight) / 1000.0)).collect();
    Some(DelegationBody::Weighted { mode: mode.unwrap_or_default(), weights })
}

pub(crate) fn replica_body(member: &Member) -> ReplicaBody {
    let Member { target, priority, ssl_verify, headers } = member.clone();
    let (kind, cluster_id, service_name, url, parent) = match target {
        Target::Oscar { cluster_id, service_name, parent } => {
            ("oscar", cluster_id, service_name.to_string(), String::new(), parent.unwrap_or_default())
        }
        Target::Endpoint { url } => ("endpoint", String::new(), String::new(), url, String::new()),
    };
    ReplicaBody {
        r#type: kind.to_owned(),
        cluster_id,
        service_name,
        url,
        ssl_verify,
        priority,
        headers: Some(headers).filter(|headers| !headers.is_empty()),
        parent,
    }
}
