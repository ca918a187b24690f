//! What `/system/status` tells.

use oscar_model::capacity::{Node, Totals, totals};
use oscar_model::identity::Principal;

use crate::failure::Failure;
use crate::manager::Manager;
use crate::ports::cluster::{Deployment, Workload};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusReport {
    pub nodes: Vec<Node>,
    pub totals: Totals,
    pub deployment: Deployment,
    /// Only for those who see the whole cluster.
    pub workload: Option<Workload>,
}

impl Manager {
    pub async fn status(&self, principal: &Principal) -> Result<StatusReport, Failure> {
        let nodes = self.ports.cluster.nodes().await?;
        let deployment = self.ports.cluster.deployment().await?;
        let workload = if self.sees_everything(principal) { Some(self.ports.cluster.workload().await?) } else { None };
        Ok(StatusReport { totals: totals(&nodes), nodes, deployment, workload })
    }

    pub async fn kubernetes_version(&self) -> String {
        self.ports.cluster.kubernetes_version().await
    }

    pub async fn has_gpus(&self) -> bool {
        self.ports.cluster.nodes().await.is_ok_and(|nodes| nodes.iter().any(|node| node.gpus > 0))
    }

    pub async fn has_interlink(&self) -> bool {
        self.ports.cluster.nodes().await.is_ok_and(|nodes| nodes.iter().any(|node| node.is_interlink))
    }
}
