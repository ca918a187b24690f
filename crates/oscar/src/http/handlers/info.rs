//! The cluster about itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use oscar_api::body::{
    ClusterMetrics, ClusterStatus, CpuMetrics, DeploymentStatus, GpuMetrics, Info, MemoryMetrics, MinioStatus,
    NodeCondition, NodeCpu, NodeMemory, NodeStatus, OidcStatus, OscarStatus, PodsStatus, Status,
};
use oscar_engine::StatusReport;
use oscar_engine::ports::cluster::Workload;
use oscar_model::capacity::Node;

use super::super::answer::{Refused, json_answer};
use super::super::app::{App, Facts};
use super::super::caller::authenticate;
use super::super::documented::ReadRefusals;

/// Whether the manager answers.
#[utoipa::path(get, path = "/health", security(()), responses((status = 200, description = "It does.", body = str, content_type = "text/plain")))]
pub(in super::super) async fn health() -> Response {
    (StatusCode::OK, "Ok").into_response()
}

/// Versions of the manager and of what is below it.
#[utoipa::path(get, path = "/system/info", responses(
    (status = 200, description = "Versions.", body = Info),
        ReadRefusals))]
pub(in super::super) async fn get_info(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match info(&app, &headers).await {
        Ok(info) => json_answer(StatusCode::OK, &info),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn info(app: &App, headers: &HeaderMap) -> Result<Info, Refused> {
    authenticate(app, headers).await?;
    Ok(Info {
        version: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
        git_commit: env!("OSCAR_GIT_COMMIT").to_owned(),
        architecture: go_architecture(std::env::consts::ARCH).to_owned(),
        kubernetes_version: app.manager.kubernetes_version().await,
        serverless_backend: None,
        executor: app.facts.executor.get().cloned(),
    })
}

/// Clients know Go's names.
fn go_architecture(architecture: &'static str) -> &'static str {
    match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Capacity of the cluster and state of the manager.
#[utoipa::path(get, path = "/system/status", responses(
    (status = 200, description = "Every node with what it has and what is taken.", body = Status),
        ReadRefusals))]
pub(in super::super) async fn get_status(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match status(&app, &headers).await {
        Ok(status) => json_answer(StatusCode::OK, &status),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn status(app: &App, headers: &HeaderMap) -> Result<Status, Refused> {
    let principal = authenticate(app, headers).await?;
    let report = app.manager.status(&principal).await?;
    Ok(status_body(report, &app.facts))
}

fn status_body(report: StatusReport, facts: &Facts) -> Status {
    let StatusReport { nodes, totals, deployment, workload, buckets, objects } = report;
    Status {
        cluster: ClusterStatus {
            nodes_count: nodes.len(),
            metrics: ClusterMetrics {
                cpu: CpuMetrics {
                    total_free_cores: totals.free_cores,
                    max_free_on_node_cores: totals.max_free_cores,
                    total_schedulable_cores: totals.schedulable_cores,
                    total_schedulable_on_node_cores: totals.max_schedulable_cores,
                },
                memory: MemoryMetrics {
                    total_free_bytes: totals.free_bytes,
                    max_free_on_node_bytes: totals.max_free_bytes,
                    total_schedulable_bytes: totals.schedulable_bytes,
                    max_schedulable_on_node_bytes: totals.max_schedulable_bytes,
                },
                gpu: GpuMetrics { total_gpu: totals.gpus },
            },
            nodes: nodes.into_iter().map(node_body).collect(),
        },
        oscar: OscarStatus {
            ready: deployment.ready_replicas > 0,
            jobs_count: workload.as_ref().map_or(0, |workload| workload.jobs),
            pods: pods_body(workload),
            oidc: OidcStatus {
                enabled: facts.oidc_enabled,
                issuers: blank_as_one(&facts.oidc_issuers),
                groups: blank_as_one(&facts.oidc_groups),
            },
            deployment: DeploymentStatus {
                available_replicas: deployment.available_replicas,
                ready_replicas: deployment.ready_replicas,
                replicas: deployment.replicas,
                creation_timestamp: deployment.created.map(crate::time::rfc3339_seconds),
                strategy: deployment.strategy,
                labels: deployment.labels,
            },
            deployment_name: deployment.name,
        },
        minio: MinioStatus { buckets_count: buckets as u64, total_objects: objects },
    }
}

fn pods_body(workload: Option<Workload>) -> PodsStatus {
    let Some(workload) = workload else { return PodsStatus { total: 0, states: BTreeMap::new() } };
    let phases = ["Failed", "Pending", "Running", "Succeeded", "Unknown"];
    let mut states: BTreeMap<_, _> = phases.iter().map(|phase| ((*phase).to_owned(), 0)).collect();
    states.extend(workload.pods);
    PodsStatus { total: states.values().sum(), states }
}

fn node_body(node: Node) -> NodeStatus {
    NodeStatus {
        name: node.name,
        cpu: NodeCpu {
            capacity_cores: node.capacity_cores,
            usage_cores: node.usage_cores,
            request_cores: node.request_cores,
        },
        memory: NodeMemory {
            capacity_bytes: node.capacity_bytes,
            usage_bytes: node.usage_bytes,
            request_bytes: node.request_bytes,
        },
        gpu: node.gpus,
        is_interlink: node.is_interlink,
        status: node.readiness.as_str().to_owned(),
        conditions: node.conditions.into_iter().map(|(kind, status)| NodeCondition { r#type: kind, status }).collect(),
    }
}

/// Clients know an empty list variable as a list of one blank.
pub(super) fn blank_as_one(list: &[String]) -> Vec<String> {
    if list.is_empty() { vec![String::new()] } else { list.to_vec() }
}
