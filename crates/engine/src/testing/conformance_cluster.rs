//! What the contract of the port `Cluster` promises, asked of any adapter.

use std::collections::BTreeSet;

use futures::future::join_all;

use crate::ports::cluster::Cluster;

/// The phases of Kubernetes' pods; other worlds speak of their jobs in the same words.
const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];

/// Everything the contract says of a cluster that has at least one node.
pub async fn cluster(cluster: &dyn Cluster) {
    nodes_are_told_apart_and_hold_no_more_than_they_have(cluster).await;
    a_deployment_is_named_and_counts_itself_once(cluster).await;
    what_runs_is_in_a_known_phase(cluster).await;
    many_may_ask_at_once(cluster).await;
    let version = cluster.kubernetes_version().await;
    assert!(!version.contains(char::is_control), "a version is one line, or blank: {version:?}");
}

async fn nodes_are_told_apart_and_hold_no_more_than_they_have(cluster: &dyn Cluster) {
    let nodes = cluster.nodes().await.expect("nodes are known");
    assert!(!nodes.is_empty(), "something runs jobs");
    let names: BTreeSet<_> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names.len(), nodes.len(), "each has a name of its own: {nodes:?}");
    for node in &nodes {
        assert!(node.capacity_cores >= 0 && node.capacity_bytes >= 0 && node.gpus >= 0, "{node:?}");
        assert!(node.request_cores >= 0 && node.request_bytes >= 0, "{node:?}");
        assert!((0..=node.capacity_cores).contains(&node.usage_cores), "used is what it has at most: {node:?}");
        assert!((0..=node.capacity_bytes).contains(&node.usage_bytes), "used is what it has at most: {node:?}");
        let conditions: BTreeSet<_> = node.conditions.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(conditions.len(), node.conditions.len(), "each condition is told once: {node:?}");
    }
}

async fn a_deployment_is_named_and_counts_itself_once(cluster: &dyn Cluster) {
    let deployment = cluster.deployment().await.expect("the manager knows itself");
    assert!(!deployment.name.trim().is_empty(), "{deployment:?}");
    assert!(deployment.ready_replicas <= deployment.replicas, "{deployment:?}");
    assert!(deployment.available_replicas <= deployment.replicas, "{deployment:?}");
}

async fn what_runs_is_in_a_known_phase(cluster: &dyn Cluster) {
    let workload = cluster.workload().await.expect("what runs is known");
    let unknown: Vec<_> = workload.pods.keys().filter(|phase| !PHASES.contains(&phase.as_str())).collect();
    assert!(unknown.is_empty(), "{workload:?}");
}

async fn many_may_ask_at_once(cluster: &dyn Cluster) {
    let answers = join_all((0..50).map(|_| cluster.nodes())).await;
    let names = |nodes: &[oscar_model::capacity::Node]| nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    let answers: Vec<_> = answers.into_iter().map(|nodes| names(&nodes.expect("answered"))).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "they are told the same: {answers:?}");
}

#[cfg(test)]
mod tests {
    use oscar_model::capacity::Node;

    use crate::memory::MemoryCluster;

    #[tokio::test]
    async fn a_cluster_in_memory_conforms() {
        let node = |name: &str| Node { name: name.to_owned(), capacity_cores: 4000, ..Node::default() };
        super::cluster(&MemoryCluster { nodes: vec![node("a"), node("b")] }).await;
    }
}
