//! The JSON of a service: keys in the order that OSCAR's clients and tests rely on.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::encode_providers::StorageProvidersBody;

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
