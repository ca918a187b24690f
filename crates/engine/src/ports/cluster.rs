//! The machines of a cluster and what runs on them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use async_trait::async_trait;
use oscar_model::capacity::Node;

use super::StoreError;

/// Contract: answers come from what was observed in the background, so that a decision may
/// ask without waiting for a network.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// The nodes that run jobs: workers, or all when there is no worker.
    async fn nodes(&self) -> Result<Vec<Node>, StoreError>;

    async fn workload(&self) -> Result<Workload, StoreError>;

    /// The manager's own deployment.
    async fn deployment(&self) -> Result<Deployment, StoreError>;

    /// The version of Kubernetes below, blank when there is none.
    async fn kubernetes_version(&self) -> String;
}

/// What runs for services.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workload {
    pub jobs: u64,
    /// How many are in each of Kubernetes' pod phases.
    pub pods: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    pub name: String,
    pub replicas: u32,
    pub ready_replicas: u32,
    pub available_replicas: u32,
    pub created: Option<SystemTime>,
    pub strategy: String,
    pub labels: BTreeMap<String, String>,
}
