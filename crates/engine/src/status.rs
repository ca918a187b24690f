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
    /// Of the cluster's own store; 0 for those who do not see the whole cluster.
    pub buckets: usize,
    pub objects: u64,
}

impl Manager {
    pub async fn status(&self, principal: &Principal) -> Result<StatusReport, Failure> {
        let mut nodes = self.ports.cluster.nodes().await?;
        // Where this manager starts jobs itself there is one machine, and it holds what they need.
        if let (Some(jobs), [node]) = (&self.jobs, nodes.as_mut_slice()) {
            let held = jobs.held();
            node.request_cores += held.cores;
            node.request_bytes += held.bytes;
        }
        let deployment = self.ports.cluster.deployment().await?;
        let (workload, buckets, objects) = if self.sees_everything(principal) {
            (Some(self.workload().await?), self.count_buckets().await, self.count_objects().await)
        } else {
            (None, 0, 0)
        };
        Ok(StatusReport { totals: totals(&nodes), nodes, deployment, workload, buckets, objects })
    }

    /// What runs for services: jobs, where this manager looks after them.
    async fn workload(&self) -> Result<Workload, Failure> {
        let Some(jobs) = &self.jobs else { return Ok(self.ports.cluster.workload().await?) };
        let (counts, _) = jobs.counts().await?;
        let mut workload = Workload::default();
        for (phase, count) in counts {
            workload.jobs += count;
            *workload.pods.entry(phase.as_pod_phase().to_owned()).or_default() += count;
        }
        Ok(workload)
    }

    /// A store that does not answer hides nothing else of the state.
    async fn count_buckets(&self) -> usize {
        self.buckets(&Principal::Admin).await.map_or(0, |buckets| buckets.len())
    }

    async fn count_objects(&self) -> u64 {
        let Some(jobs) = &self.jobs else { return 0 };
        jobs.buckets().count_objects().await.ok().flatten().unwrap_or_default()
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
