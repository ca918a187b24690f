//! The machine as a cluster of one node.

mod cgroup;
mod machine;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::cluster::{Cluster, Deployment, Workload};
use oscar_model::capacity::{Node, Readiness};

use machine::{CpuTimes, Disk, Machine};

/// A sample older than this is taken anew by whoever asks, when nobody ticks.
const STALE: Duration = Duration::from_secs(10);

/// What the operator decides about the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Millicores for jobs; all that the machine (or the container around us) has when absent.
    pub cores: Option<i64>,
    /// Bytes of memory for jobs; likewise.
    pub bytes: Option<i64>,
    /// Devices are not looked for: the operator says how many there are.
    pub gpus: i64,
    /// Where data is kept: its disk decides about disk pressure.
    pub data: PathBuf,
    /// What the manager is called.
    pub deployment: String,
}

/// The port `Cluster` on this machine. A node's *usage* is what others than our jobs leave us
/// no room for, so that capacity minus usage is really free, also when the operator gave OSCAR
/// only a part of the machine.
pub struct LocalCluster {
    name: String,
    machine: Machine,
    capacity: Amounts,
    gpus: i64,
    data: PathBuf,
    started: SystemTime,
    deployment: String,
    sample: Mutex<Sample>,
}

/// Millicores and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amounts {
    cores: i64,
    bytes: i64,
}

#[derive(Debug)]
struct Sample {
    taken: Instant,
    cpu: Option<CpuTimes>,
    free: Amounts,
    memory_pressure: bool,
    disk_pressure: bool,
}

impl LocalCluster {
    pub fn new(options: ClusterOptions, started: SystemTime) -> Self {
        Self::on(Machine::of_this_process(), options, started)
    }

    fn on(machine: Machine, options: ClusterOptions, started: SystemTime) -> Self {
        let ClusterOptions { cores, bytes, gpus, data, deployment } = options;
        let capacity = Amounts {
            cores: cores.unwrap_or_else(|| machine.cores()).max(0),
            bytes: bytes.unwrap_or_else(|| machine.bytes()).max(0),
        };
        let sample = Sample {
            taken: Instant::now(),
            cpu: machine.cpu_times(),
            free: capacity,
            memory_pressure: false,
            disk_pressure: false,
        };
        let cluster = Self {
            name: machine.name(),
            machine,
            capacity,
            gpus,
            data,
            started,
            deployment,
            sample: Mutex::new(sample),
        };
        cluster.tick_usage();
        cluster
    }

    /// Looks at the machine once: a few small files, well below a millisecond. The processor's
    /// usage is the mean since the last look, so it wants to be called every few seconds.
    pub fn tick_usage(&self) {
        let cpu = self.machine.cpu_times();
        let free_bytes = self.machine.free_bytes().unwrap_or(self.capacity.bytes).clamp(0, self.capacity.bytes);
        let disk = Disk::of(&self.data);
        let mut sample = self.sample();
        if let (Some(before), Some(now)) = (sample.cpu, cpu)
            && let Some(idle) = now.idle_millicores_since(before)
        {
            sample.free.cores = idle.clamp(0, self.capacity.cores);
        }
        sample.cpu = cpu.or(sample.cpu);
        sample.free.bytes = free_bytes;
        sample.memory_pressure = is_memory_short(free_bytes, self.capacity.bytes);
        sample.disk_pressure = disk.is_some_and(Disk::is_short);
        sample.taken = Instant::now();
    }

    fn sample(&self) -> MutexGuard<'_, Sample> {
        self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As a kubelet sees it: less than 100 MiB, or a twentieth on a small machine.
fn is_memory_short(free: i64, capacity: i64) -> bool {
    free < (capacity / 20).min(100 << 20)
}

#[async_trait]
impl Cluster for LocalCluster {
    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        let is_stale = self.sample().taken.elapsed() > STALE;
        if is_stale {
            self.tick_usage();
        }
        let sample = self.sample();
        Ok(vec![Node {
            name: self.name.clone(),
            capacity_cores: self.capacity.cores,
            usage_cores: self.capacity.cores - sample.free.cores,
            // What is promised to jobs the job engine knows.
            request_cores: 0,
            capacity_bytes: self.capacity.bytes,
            usage_bytes: self.capacity.bytes - sample.free.bytes,
            request_bytes: 0,
            gpus: self.gpus,
            is_interlink: false,
            readiness: Readiness::Ready,
            conditions: vec![
                ("MemoryPressure".to_owned(), sample.memory_pressure),
                ("DiskPressure".to_owned(), sample.disk_pressure),
                ("Ready".to_owned(), true),
            ],
        }])
    }

    async fn workload(&self) -> Result<Workload, StoreError> {
        Ok(Workload::default())
    }

    async fn deployment(&self) -> Result<Deployment, StoreError> {
        Ok(Deployment {
            name: self.deployment.clone(),
            replicas: 1,
            ready_replicas: 1,
            available_replicas: 1,
            created: Some(self.started),
            strategy: "Recreate".to_owned(),
            labels: BTreeMap::from([("app".to_owned(), self.deployment.clone())]),
        })
    }

    async fn kubernetes_version(&self) -> String {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::machine::tests::mk_machine;
    use super::*;

    fn mk_cluster(machine: Machine, options: ClusterOptions) -> LocalCluster {
        LocalCluster::on(machine, options, SystemTime::UNIX_EPOCH)
    }

    async fn node(cluster: &LocalCluster) -> Node {
        cluster.nodes().await.expect("the machine is there").remove(0)
    }

    #[tokio::test]
    async fn the_node_is_the_machine_and_follows_it() {
        let (root, machine) = mk_machine(8 << 20, 6 << 20, "cpu 100 0 0 300 0 0 0 0\ncpu0 1\ncpu1 1\n");
        let options = ClusterOptions { cores: Some(2000), ..ClusterOptions::default() };
        let cluster = mk_cluster(machine, options);
        let before = node(&cluster).await;
        assert_eq!((before.capacity_cores, before.capacity_bytes), (2000, 8 << 30));
        assert_eq!(before.usage_bytes, 2 << 30);
        assert_eq!(before.usage_cores, 0, "nothing is known after one look");

        // A hundred ticks later, of which 25 were idle, on two processors.
        root.write("proc/stat", "cpu 175 0 0 325 0 0 0 0\ncpu0 1\ncpu1 1\n");
        cluster.tick_usage();
        assert_eq!(node(&cluster).await.usage_cores, 1500);
        cluster.tick_usage();
        assert_eq!(node(&cluster).await.usage_cores, 1500, "no time passed, nothing new is known");
    }

    #[tokio::test]
    async fn a_part_of_the_machine_is_free_when_the_machine_has_room_for_it() {
        let (root, machine) = mk_machine(8 << 20, 2 << 20, "cpu 0 0 0 0 0 0 0 0\ncpu0\ncpu1\ncpu2\ncpu3\n");
        let options = ClusterOptions { cores: Some(1000), bytes: Some(4 << 30), gpus: 1, ..ClusterOptions::default() };
        let cluster = mk_cluster(machine, options);
        root.write("proc/stat", "cpu 50 0 0 50 0 0 0 0\ncpu0\ncpu1\ncpu2\ncpu3\n");
        cluster.tick_usage();
        let node = node(&cluster).await;
        assert_eq!((node.capacity_cores, node.usage_cores), (1000, 0), "two of four processors are idle");
        assert_eq!((node.capacity_bytes, node.usage_bytes), (4 << 30, 2 << 30), "only 2 GiB are left of our 4");
        assert_eq!(node.gpus, 1);
    }

    #[tokio::test]
    async fn this_machine_has_a_name_and_room() {
        let (data, deployment) = (std::env::temp_dir(), "my-oscar".to_owned());
        let options = ClusterOptions { data, deployment, ..ClusterOptions::default() };
        let cluster = LocalCluster::new(options, SystemTime::UNIX_EPOCH);
        let node = node(&cluster).await;
        assert!(!node.name.is_empty() && node.capacity_cores > 0 && node.capacity_bytes > 0, "{node:?}");
        assert!(node.usage_bytes >= 0 && node.usage_bytes <= node.capacity_bytes, "{node:?}");
        assert_eq!(node.conditions.last(), Some(&("Ready".to_owned(), true)));
        let deployment = cluster.deployment().await.expect("it is us");
        assert_eq!((deployment.replicas, deployment.created), (1, Some(SystemTime::UNIX_EPOCH)));
        assert_eq!((deployment.name.as_str(), deployment.labels["app"].as_str()), ("my-oscar", "my-oscar"));
    }

    #[test]
    fn memory_is_short_below_a_hundred_mebibytes() {
        assert!(is_memory_short(99 << 20, 64 << 30));
        assert!(!is_memory_short(101 << 20, 64 << 30));
        assert!(!is_memory_short(60 << 20, 1 << 30), "a small machine is not always short");
        assert!(!is_memory_short(0, 0), "what is not known is not short");
    }
}
