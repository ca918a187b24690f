//! What is kept of each object, and how it adds up. Pure.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::apps::v1::Deployment as KubeDeployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, Node as KubeNode, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as KubeQuantity;
use oscar_engine::ports::cluster::Deployment;
use oscar_model::capacity::{Node, Readiness};
use oscar_model::quantity::Quantity;

use super::metrics::Usage;

const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
const INTERLINK: (&str, &str) = ("virtual-node.interlink/type", "virtual-kubelet");
const GPU: &str = "nvidia.com/gpu";

/// Usage that was asked for longer ago than this says nothing about now.
const STALE: Duration = Duration::from_mins(2);

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) node: Node,
    pub(crate) is_control_plane: bool,
}

/// Millicores and bytes that a pod was promised, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) node: String,
    pub(crate) cores: i64,
    pub(crate) bytes: i64,
}

type Amounts = BTreeMap<String, KubeQuantity>;

pub(crate) fn machine(found: KubeNode) -> Machine {
    let labels = found.metadata.labels.unwrap_or_default();
    let status = found.status.unwrap_or_default();
    let (conditions, readiness) = conditions(status.conditions.unwrap_or_default());
    let node = Node {
        name: found.metadata.name.unwrap_or_default(),
        capacity_cores: millis(status.allocatable.as_ref(), "cpu"),
        capacity_bytes: units(status.allocatable.as_ref(), "memory"),
        gpus: units(status.allocatable.as_ref(), GPU),
        is_interlink: labels.get(INTERLINK.0).is_some_and(|value| value == INTERLINK.1),
        readiness,
        conditions,
        ..Node::default()
    };
    Machine { node, is_control_plane: CONTROL_PLANE.iter().any(|label| labels.contains_key(*label)) }
}

fn conditions(found: Vec<k8s_openapi::api::core::v1::NodeCondition>) -> (Vec<(String, bool)>, Readiness) {
    let ready = found.iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status.as_str());
    let readiness = match ready {
        Some("True") => Readiness::Ready,
        Some("False") => Readiness::NotReady,
        _ => Readiness::Unknown,
    };
    let conditions = found.into_iter().map(|condition| (condition.type_, condition.status == "True")).collect();
    (conditions, readiness)
}

/// `None` while the pod has no node.
pub(crate) fn share(pod: Pod) -> Option<Share> {
    let spec = pod.spec?;
    let node = spec.node_name.clone().filter(|node| !node.is_empty())?;
    Some(Share { node, cores: requested(&spec, "cpu", millis), bytes: requested(&spec, "memory", units) })
}

/// What the scheduler counts: all containers together, or the heaviest moment of the start if
/// that is more. Containers that are started first and stay (sidecars) count in both.
fn requested(spec: &PodSpec, resource: &str, amount: fn(Option<&Amounts>, &str) -> i64) -> i64 {
    let of = |container: &Container| {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        amount(requests, resource)
    };
    let (mut sidecars, mut heaviest) = (0, 0);
    for container in spec.init_containers.iter().flatten() {
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars += of(container);
            heaviest = heaviest.max(sidecars);
        } else {
            heaviest = heaviest.max(sidecars + of(container));
        }
    }
    let running: i64 = spec.containers.iter().map(of).sum::<i64>() + sidecars;
    let of_containers = running.max(heaviest);
    // A request of the pod as a whole stands for those of its containers.
    let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let asked = if whole.is_some_and(|requests| requests.contains_key(resource)) {
        amount(whole, resource)
    } else {
        of_containers
    };
    asked + amount(spec.overhead.as_ref(), resource)
}

pub(crate) fn phase(pod: Pod) -> String {
    pod.status.and_then(|status| status.phase).unwrap_or_else(|| "Unknown".to_owned())
}

pub(crate) fn tries(job: Job) -> u64 {
    let status = job.status.unwrap_or_default();
    let counts = [status.active, status.succeeded, status.failed];
    counts.into_iter().flatten().filter_map(|count| u64::try_from(count).ok()).sum()
}

pub(crate) fn deployment(found: KubeDeployment) -> Deployment {
    let status = found.status.unwrap_or_default();
    let count = |count: Option<i32>| count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let strategy = found.spec.and_then(|spec| spec.strategy).and_then(|strategy| strategy.type_);
    Deployment {
        name: found.metadata.name.unwrap_or_default(),
        replicas: count(status.replicas),
        ready_replicas: count(status.ready_replicas),
        available_replicas: count(status.available_replicas),
        created: found.metadata.creation_timestamp.map(|time| time.0.into()),
        strategy: strategy.unwrap_or_default(),
        labels: found.metadata.labels.unwrap_or_default(),
    }
}

/// What is promised of each node.
pub(crate) fn promised<'a>(shares: impl Iterator<Item = &'a Share>) -> HashMap<String, (i64, i64)> {
    let mut sums: HashMap<String, (i64, i64)> = HashMap::new();
    for share in shares {
        let sum = sums.entry(share.node.clone()).or_default();
        sum.0 = sum.0.saturating_add(share.cores);
        sum.1 = sum.1.saturating_add(share.bytes);
    }
    sums
}

/// The node with its load. What it uses is unknown without recent metrics, and what it
/// promised is the best guess then.
pub(crate) fn loaded(mut node: Node, promised: &HashMap<String, (i64, i64)>, usage: &Usage, now: SystemTime) -> Node {
    (node.request_cores, node.request_bytes) = promised.get(&node.name).copied().unwrap_or_default();
    let recent = usage.asked.is_some_and(|asked| now.duration_since(asked).is_ok_and(|age| age < STALE));
    (node.usage_cores, node.usage_bytes) = match usage.nodes.get(&node.name) {
        Some(used) if recent => (used.cores, used.bytes),
        _ => (node.request_cores, node.request_bytes),
    };
    node
}

fn parsed(amounts: Option<&Amounts>, resource: &str) -> Option<Quantity> {
    Quantity::parse(&amounts?.get(resource)?.0)
}

fn millis(amounts: Option<&Amounts>, resource: &str) -> i64 {
    parsed(amounts, resource).map_or(0, |amount| amount.millis())
}

fn units(amounts: Option<&Amounts>, resource: &str) -> i64 {
    parsed(amounts, resource).map_or(0, |amount| amount.units())
}

#[cfg(test)]
#[path = "reduce_tests.rs"]
mod tests;
