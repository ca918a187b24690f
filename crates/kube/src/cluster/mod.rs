//! What the cluster has and what runs on it, from watches; usage from the metrics API, which
//! cannot be watched and may be missing.

mod metrics;
mod reduce;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::Deployment as KubeDeployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node as KubeNode, Pod};
use kube::Api;
use kube::runtime::watcher::watcher;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::cluster::{Cluster, Deployment, Workload};
use oscar_model::capacity::Node;
use tokio::task::JoinHandle;

use crate::calls::Calls;
use crate::layout::SERVICE_LABEL;
use crate::mirror::Mirror;
use crate::options::Options;
use crate::shelf::Key;
use crate::watch::{self, Sink};

use metrics::Usage;
use reduce::{Machine, Share};

/// Pods that will never run again take nothing.
const NOT_OVER: &str = "status.phase!=Succeeded,status.phase!=Failed";

pub(crate) struct KubeCluster {
    options: Arc<Options>,
    nodes: Arc<Mirror<KubeNode, Machine>>,
    /// What each pod that is not over takes of its node.
    shares: Arc<Mirror<Pod, Option<Share>>>,
    /// The phase of each pod of a service.
    phases: Arc<Mirror<Pod, String>>,
    /// How many pods each job of a service has or had.
    jobs: Arc<Mirror<Job, u64>>,
    deployment: Arc<Mirror<KubeDeployment, Deployment>>,
    usage: Arc<RwLock<Usage>>,
    version: Arc<RwLock<String>>,
}

impl KubeCluster {
    pub(crate) fn start(calls: &Calls, options: &Arc<Options>, tasks: &mut Vec<JoinHandle<()>>) -> Arc<Self> {
        let client = &calls.client;
        let nodes = Arc::new(Mirror::new(reduce::machine));
        let api: Api<KubeNode> = Api::all(client.clone());
        let open = move || watcher(api.clone(), watch::settings());
        tasks.push(tokio::spawn(watch::follow("nodes", nodes.clone(), open)));

        let shares = Arc::new(Mirror::new(reduce::share));
        let pods: Api<Pod> = Api::all(client.clone());
        let api = pods.clone();
        let open = move || watcher(api.clone(), watch::settings().fields(NOT_OVER));
        tasks.push(tokio::spawn(watch::follow("pods", shares.clone(), open)));

        let phases = Arc::new(Mirror::new(reduce::phase));
        let open = move || watcher(pods.clone(), watch::settings().labels(SERVICE_LABEL));
        tasks.push(tokio::spawn(watch::follow("pods of services", phases.clone(), open)));

        let jobs = Arc::new(Mirror::new(reduce::tries));
        let api: Api<Job> = Api::all(client.clone());
        let open = move || watcher(api.clone(), watch::settings().labels(SERVICE_LABEL));
        tasks.push(tokio::spawn(watch::follow("jobs of services", jobs.clone(), open)));

        let deployment = Arc::new(Mirror::new(reduce::deployment));
        let api: Api<KubeDeployment> = Api::namespaced(client.clone(), &options.namespace);
        let only = format!("metadata.name={}", options.name);
        let open = move || watcher(api.clone(), watch::settings().fields(&only));
        tasks.push(tokio::spawn(watch::follow("the manager's deployment", deployment.clone(), open)));

        let usage = Arc::<RwLock<Usage>>::default();
        let version = Arc::<RwLock<String>>::default();
        let poll = metrics::poll(client.clone(), usage.clone(), version.clone(), options.metrics_interval);
        tasks.push(tokio::spawn(poll));
        Arc::new(Self { options: options.clone(), nodes, shares, phases, jobs, deployment, usage, version })
    }
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        self.nodes.link().check("nodes")?;
        self.shares.link().check("pods")?;
        let promised = reduce::promised(self.shares.read().iter().filter_map(|(_, share)| share.as_ref()));
        let usage = self.usage.read().unwrap_or_else(PoisonError::into_inner);
        let machines = self.nodes.read();
        let mut machines: Vec<_> = machines.iter().map(|(_, machine)| machine).collect();
        machines.sort_by(|one, other| one.node.name.cmp(&other.node.name));
        if machines.iter().any(|machine| !machine.is_control_plane) {
            machines.retain(|machine| !machine.is_control_plane);
        }
        let whole = |machine: &&Machine| reduce::loaded(machine.node.clone(), &promised, &usage, SystemTime::now());
        Ok(machines.iter().map(whole).collect())
    }

    async fn workload(&self) -> Result<Workload, StoreError> {
        self.phases.link().check("pods of services")?;
        self.jobs.link().check("jobs of services")?;
        let ours = |key: &Key| self.options.holds_services(&key.namespace);
        let mut workload = Workload::default();
        for (_, phase) in self.phases.read().iter().filter(|(key, _)| ours(key)) {
            *workload.pods.entry(phase.clone()).or_default() += 1;
        }
        workload.jobs = self.jobs.read().iter().filter(|(key, _)| ours(key)).map(|(_, tries)| tries).sum();
        Ok(workload)
    }

    async fn deployment(&self) -> Result<Deployment, StoreError> {
        self.deployment.link().check("deployments")?;
        let Options { name, namespace, .. } = &*self.options;
        let seen = self.deployment.read().get(&Key::new(namespace, name)).cloned();
        // A manager that runs outside of a Deployment is one that runs.
        Ok(seen.unwrap_or_else(|| Deployment {
            name: name.clone(),
            replicas: 1,
            ready_replicas: 1,
            available_replicas: 1,
            created: None,
            strategy: String::new(),
            labels: std::collections::BTreeMap::new(),
        }))
    }

    async fn kubernetes_version(&self) -> String {
        self.version.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
