//! Nodes, pods, jobs and the deployment, as somebody else writes them.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use oscar_model::capacity::Readiness;
use oscar_testkit::{Apiserver, require};
use serde_json::json;

use crate::support::{admin, eventually, options, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_cluster_has_is_seen() {
    // A node would be seen by every other test: this one has a cluster of its own.
    let cluster = require!(Apiserver::start());
    let mut options = options(&cluster, "cap").await;
    options.metrics_interval = std::time::Duration::from_millis(200);
    let world = world(&cluster, &options).await;
    let ports = world.cluster();
    assert_eq!(ports.deployment().await.map(|own| own.replicas).ok().or(Some(1)), Some(1));

    let client = admin(&cluster).await;
    let nodes: Api<Node> = Api::all(client.clone());
    for (name, labels) in [
        ("worker", json!({"virtual-node.interlink/type": "virtual-kubelet"})),
        ("head", json!({"node-role.kubernetes.io/control-plane": ""})),
    ] {
        let node = json!({"metadata": {"name": name, "labels": labels}});
        let node: Node = serde_json::from_value(node).expect("a node");
        nodes.create(&PostParams::default(), &node).await.expect("created");
        let status = json!({"metadata": {"name": name}, "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"},
            "capacity": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m"}],
        }});
        let patch = kube::api::Patch::Merge(status);
        nodes.patch_status(name, &kube::api::PatchParams::default(), &patch).await.expect("patched");
    }
    let seen = eventually("the worker is seen", async || {
        let nodes = ports.nodes().await.ok()?;
        (nodes.len() == 1 && nodes[0].capacity_cores == 4000).then(|| nodes[0].clone())
    })
    .await;
    assert_eq!((seen.name.as_str(), seen.gpus, seen.is_interlink), ("worker", 1, true));
    assert_eq!(seen.readiness, Readiness::Ready);
    assert_eq!((seen.request_cores, seen.usage_cores), (0, 0));

    let pods: Api<Pod> = Api::namespaced(client.clone(), &options.services_namespace);
    let pod = json!({
        "metadata": {"name": "p", "labels": {"oscar_service": "s"}},
        "spec": {"nodeName": "worker", "automountServiceAccountToken": false, "serviceAccountName": "default",
                 "containers": [{"name": "c", "image": "i",
                                 "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
    });
    let account = json!({"metadata": {"name": "default"}});
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(client.clone(), &options.services_namespace);
    let account = serde_json::from_value(account).expect("an account");
    accounts.create(&PostParams::default(), &account).await.expect("created");
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    pods.create(&PostParams::default(), &pod).await.expect("created");
    eventually("the pod's share is counted", async || {
        let node = ports.nodes().await.ok()?.pop()?;
        (node.request_cores == 500 && node.request_bytes == 1 << 30 && node.usage_cores == 500).then_some(())
    })
    .await;
    let workload = eventually("the pod is counted", async || {
        ports.workload().await.ok().filter(|workload| !workload.pods.is_empty())
    })
    .await;
    assert_eq!(workload.pods.get("Pending"), Some(&1));

    let over = kube::api::Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("p", &kube::api::PatchParams::default(), &over).await.expect("patched");
    eventually("a pod that is over takes nothing", async || {
        let node = ports.nodes().await.ok()?.pop()?;
        let pods = ports.workload().await.ok()?.pods;
        (node.request_cores == 0 && pods.get("Succeeded") == Some(&1)).then_some(())
    })
    .await;

    let jobs: Api<Job> = Api::namespaced(client.clone(), &options.services_namespace);
    let job = json!({"metadata": {"name": "j", "labels": {"oscar_service": "s"}},
                     "spec": {"template": {"spec": {"restartPolicy": "Never",
                                                     "containers": [{"name": "c", "image": "i"}]}}}});
    let job: Job = serde_json::from_value(job).expect("a job");
    jobs.create(&PostParams::default(), &job).await.expect("created");
    let active = kube::api::Patch::Merge(json!({"status": {"active": 1, "startTime": "2026-01-01T00:00:00Z"}}));
    jobs.patch_status("j", &kube::api::PatchParams::default(), &active).await.expect("patched");
    eventually("the job is counted", async || (ports.workload().await.ok()?.jobs == 1).then_some(())).await;

    let deployments: Api<Deployment> = Api::namespaced(client, &options.namespace);
    let own = json!({"metadata": {"name": "oscar", "labels": {"app": "oscar"}},
                     "spec": {"selector": {"matchLabels": {"app": "oscar"}},
                              "template": {"metadata": {"labels": {"app": "oscar"}},
                                           "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let own: Deployment = serde_json::from_value(own).expect("a deployment");
    deployments.create(&PostParams::default(), &own).await.expect("created");
    let own = eventually("the deployment is seen", async || {
        ports.deployment().await.ok().filter(|own| own.created.is_some())
    })
    .await;
    assert_eq!((own.name.as_str(), own.strategy.as_str(), own.replicas), ("oscar", "RollingUpdate", 0));
    deployments.delete("oscar", &DeleteParams::default()).await.expect("deleted");
    let version = eventually("the version is known", async || {
        Some(ports.kubernetes_version().await).filter(|version| !version.is_empty())
    })
    .await;
    assert!(version.starts_with("v1."), "{version}");
}
