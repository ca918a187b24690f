use serde_json::{Value, json};

use super::super::metrics::Used;
use super::*;

fn mk_pod(spec: &Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).expect("a pod")
}

fn container(cpu: &str, memory: &str) -> Value {
    json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

fn sidecar(cpu: &str, memory: &str) -> Value {
    let mut sidecar = container(cpu, memory);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

fn amounts(spec: &Value) -> (i64, i64) {
    let share = share(mk_pod(spec)).expect("it has a node");
    (share.cores, share.bytes)
}

#[test]
fn a_pod_takes_the_sum_of_its_containers_or_its_heaviest_start() {
    let two = json!({"nodeName": "n", "containers": [container("500m", "1Ki"), container("0.25", "1Ki")]});
    assert_eq!(amounts(&two), (750, 2048));
    let heavy = json!({
        "nodeName": "n", "containers": [container("100m", "1Ki")],
        "initContainers": [container("2", "512"), container("1", "4Ki")],
    });
    assert_eq!(amounts(&heavy), (2000, 4096));
}

#[test]
fn sidecars_count_while_others_start_and_run() {
    let spec = json!({
        "nodeName": "n", "containers": [container("100m", "0")],
        "initContainers": [container("300m", "0"), sidecar("200m", "0"), container("250m", "0")],
    });
    // Running: 100 + 200; the second start: 200 + 250.
    assert_eq!(amounts(&spec).0, 450);
}

#[test]
fn a_request_of_the_whole_pod_and_its_overhead_count() {
    let spec = json!({
        "nodeName": "n", "containers": [container("100m", "1Ki")],
        "resources": {"requests": {"cpu": "1"}}, "overhead": {"cpu": "50m"},
    });
    assert_eq!(amounts(&spec), (1050, 1024));
}

#[test]
fn a_pod_without_a_node_takes_nothing() {
    assert_eq!(share(mk_pod(&json!({"containers": [container("1", "1")]}))), None);
}

#[test]
fn a_node_is_what_it_can_give() {
    let found: KubeNode = serde_json::from_value(json!({
        "metadata": {"name": "n1", "labels": {"virtual-node.interlink/type": "virtual-kubelet"}},
        "status": {
            "capacity": {"cpu": "8", "memory": "16Gi"},
            "allocatable": {"cpu": "7500m", "memory": "15Gi", "nvidia.com/gpu": "2"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True"},
            ],
        },
    }))
    .expect("a node");
    let machine = machine(found);
    assert!(!machine.is_control_plane && machine.node.is_interlink);
    assert_eq!((machine.node.capacity_cores, machine.node.gpus), (7500, 2));
    assert_eq!(machine.node.capacity_bytes, 15 << 30);
    assert_eq!(machine.node.readiness, Readiness::Ready);
    assert_eq!(machine.node.conditions, [("MemoryPressure".to_owned(), false), ("Ready".to_owned(), true)]);
}

#[test]
fn usage_is_what_was_promised_where_it_is_not_measured() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    let promised = HashMap::from([("n1".to_owned(), (300, 30))]);
    let node = Node { name: "n1".to_owned(), ..Node::default() };
    let usage = |asked| Usage { nodes: HashMap::from([("n1".to_owned(), Used { cores: 7, bytes: 70 })]), asked };
    let seen = |usage: &Usage| {
        let node = loaded(node.clone(), &promised, usage, now);
        (node.request_cores, node.usage_cores, node.usage_bytes)
    };
    assert_eq!(seen(&Usage::default()), (300, 300, 30));
    assert_eq!(seen(&usage(Some(now - Duration::from_secs(10)))), (300, 7, 70));
    assert_eq!(seen(&usage(Some(now - Duration::from_secs(500)))), (300, 300, 30));
}

#[test]
fn a_job_counts_its_pods() {
    let job = |status: Value| tries(serde_json::from_value(json!({"metadata": {}, "status": status})).expect("a job"));
    assert_eq!(job(json!({"active": 1, "succeeded": 2, "failed": 1})), 4);
    assert_eq!(job(json!({})), 0);
}
