//! What a cluster has, and what is taken of it.

/// One machine that runs jobs. Cores are millicores, as everywhere in OSCAR.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub capacity_cores: i64,
    pub usage_cores: i64,
    pub request_cores: i64,
    pub capacity_bytes: i64,
    pub usage_bytes: i64,
    pub request_bytes: i64,
    pub gpus: i64,
    pub is_interlink: bool,
    pub readiness: Readiness,
    /// Every condition that the node reports, with whether it holds.
    pub conditions: Vec<(String, bool)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotReady,
    #[default]
    Unknown,
}

impl Readiness {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Unknown => "Unknown",
        }
    }
}

/// Sums over the nodes of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub free_cores: i64,
    pub max_free_cores: i64,
    pub schedulable_cores: i64,
    pub max_schedulable_cores: i64,
    pub free_bytes: i64,
    pub max_free_bytes: i64,
    pub schedulable_bytes: i64,
    pub max_schedulable_bytes: i64,
    pub gpus: i64,
}

/// Free is what is not used; schedulable is what is not promised. A node that is not ready
/// has neither.
pub fn totals(nodes: &[Node]) -> Totals {
    let mut sum = Totals::default();
    for node in nodes.iter().filter(|node| node.readiness == Readiness::Ready) {
        let free_cores = (node.capacity_cores - node.usage_cores).max(0);
        let free_bytes = (node.capacity_bytes - node.usage_bytes).max(0);
        let open_cores = (node.capacity_cores - node.request_cores).max(0);
        let open_bytes = (node.capacity_bytes - node.request_bytes).max(0);
        sum.free_cores += free_cores;
        sum.free_bytes += free_bytes;
        sum.schedulable_cores += open_cores;
        sum.schedulable_bytes += open_bytes;
        sum.max_free_cores = sum.max_free_cores.max(free_cores);
        sum.max_free_bytes = sum.max_free_bytes.max(free_bytes);
        sum.max_schedulable_cores = sum.max_schedulable_cores.max(open_cores);
        sum.max_schedulable_bytes = sum.max_schedulable_bytes.max(open_bytes);
        sum.gpus += node.gpus;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_count_ready_nodes_only() {
        let ready = Node {
            capacity_cores: 4000,
            usage_cores: 1000,
            request_cores: 3000,
            capacity_bytes: 8,
            readiness: Readiness::Ready,
            ..Node::default()
        };
        let lost = Node { readiness: Readiness::NotReady, ..ready.clone() };
        let sum = totals(&[ready, lost]);
        assert_eq!((sum.free_cores, sum.max_free_cores), (3000, 3000));
        assert_eq!((sum.schedulable_cores, sum.free_bytes), (1000, 8));
    }
}
