//! Bodies of the calls about the cluster itself.

pub mod buckets;
pub mod jobs;
pub mod metrics;

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// `GET /system/info`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Info {
    pub version: String,
    pub git_commit: String,
    pub architecture: String,
    /// Blank where there is no Kubernetes.
    pub kubernetes_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub serverless_backend: Option<ServerlessBackend>,
    /// What runs scripts, where this manager does so itself: `bubblewrap`, `container` or `process`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub executor: Option<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ServerlessBackend {
    pub name: String,
    pub version: String,
}

/// `GET /system/config`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Config {
    pub config: ConfigSection,
    pub minio_provider: MinioProvider,
    pub allowed_image_repositories: Vec<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ConfigSection {
    pub name: String,
    pub namespace: String,
    pub services_namespace: String,
    pub controller_service_account: String,
    pub gpu_available: bool,
    #[serde(rename = "interLink_available")]
    pub interlink_available: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serverless_backend: String,
    pub yunikorn_enable: bool,
    pub kueue_enable: bool,
    pub volume_enable: bool,
    pub oidc_groups: Vec<String>,
    pub minio_quota_enabled: bool,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MinioProvider {
    pub endpoint: String,
    pub verify: bool,
    pub access_key: String,
    pub secret_key: String,
    pub region: String,
}

/// `GET /system/status`. Every `*_cores` is in millicores.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Status {
    pub cluster: ClusterStatus,
    pub oscar: OscarStatus,
    pub minio: MinioStatus,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ClusterStatus {
    pub nodes_count: usize,
    pub metrics: ClusterMetrics,
    pub nodes: Vec<NodeStatus>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ClusterMetrics {
    pub cpu: CpuMetrics,
    pub memory: MemoryMetrics,
    pub gpu: GpuMetrics,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CpuMetrics {
    pub total_free_cores: i64,
    pub max_free_on_node_cores: i64,
    pub total_schedulable_cores: i64,
    /// The most on one node, whatever its name says.
    pub total_schedulable_on_node_cores: i64,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MemoryMetrics {
    pub total_free_bytes: i64,
    pub max_free_on_node_bytes: i64,
    pub total_schedulable_bytes: i64,
    pub max_schedulable_on_node_bytes: i64,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct GpuMetrics {
    pub total_gpu: i64,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NodeStatus {
    pub name: String,
    pub cpu: NodeCpu,
    pub memory: NodeMemory,
    pub gpu: i64,
    pub is_interlink: bool,
    pub status: String,
    pub conditions: Vec<NodeCondition>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NodeCpu {
    #[serde(skip_serializing_if = "is_zero")]
    pub capacity_cores: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub usage_cores: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub request_cores: i64,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NodeMemory {
    #[serde(skip_serializing_if = "is_zero")]
    pub capacity_bytes: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub usage_bytes: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub request_bytes: i64,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NodeCondition {
    pub r#type: String,
    pub status: bool,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct OscarStatus {
    pub deployment_name: String,
    pub ready: bool,
    pub deployment: DeploymentStatus,
    pub jobs_count: u64,
    pub pods: PodsStatus,
    pub oidc: OidcStatus,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DeploymentStatus {
    pub available_replicas: u32,
    pub ready_replicas: u32,
    pub replicas: u32,
    pub creation_timestamp: Option<String>,
    pub strategy: String,
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PodsStatus {
    pub total: u64,
    pub states: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct OidcStatus {
    pub enabled: bool,
    pub issuers: Vec<String>,
    pub groups: Vec<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct MinioStatus {
    pub buckets_count: u64,
    pub total_objects: u64,
}

/// What a change would do, without doing it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DryRun<'a> {
    pub dry_run: bool,
    /// `create`, `update`, `delete` or `none`.
    pub action: String,
    pub service: crate::service::ServiceBody<'a>,
    /// What it would mean for the members of a federation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub federation: Option<crate::federation::replicas::CreatedBody>,
}
