use std::collections::BTreeMap;

use async_trait::async_trait;
use oscar_model::capacity::Node;

use crate::ports::StoreError;
use crate::ports::cluster::{Cluster, Deployment, Workload};

/// A cluster of the given nodes that runs nothing.
#[derive(Default)]
pub struct MemoryCluster {
    pub nodes: Vec<Node>,
}

#[async_trait]
impl Cluster for MemoryCluster {
    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        Ok(self.nodes.clone())
    }

    async fn workload(&self) -> Result<Workload, StoreError> {
        Ok(Workload::default())
    }

    async fn deployment(&self) -> Result<Deployment, StoreError> {
        Ok(Deployment {
            name: "oscar".to_owned(),
            replicas: 1,
            ready_replicas: 1,
            available_replicas: 1,
            created: None,
            strategy: "Recreate".to_owned(),
            labels: BTreeMap::new(),
        })
    }

    async fn kubernetes_version(&self) -> String {
        String::new()
    }
}
