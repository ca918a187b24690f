//! Who delegates to whom: the graph that a federation block describes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::name::ServiceName;
use crate::service::Definition;

use super::{Federation, Member, Target, Topology};

/// One service of a federation: which service on which cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId {
    /// The user's name for the cluster.
    pub cluster_id: String,
    pub service_name: ServiceName,
}

impl MemberId {
    pub fn of(member: &Member) -> Option<Self> {
        match &member.target {
            Target::Oscar { cluster_id, service_name, .. } => {
                Some(Self { cluster_id: cluster_id.clone(), service_name: service_name.clone() })
            }
            Target::Endpoint { .. } => None,
        }
    }

    /// The service that a definition is.
    pub fn own(definition: &Definition) -> Self {
        Self { cluster_id: definition.cluster_id.clone(), service_name: definition.name.clone() }
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.cluster_id, self.service_name)
    }
}

/// The edges of a federation, from each service to those that it hands jobs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    pub coordinator: MemberId,
    edges: BTreeMap<MemberId, BTreeSet<MemberId>>,
}

impl Graph {
    /// The graph of a valid block. A parent that cannot be found counts as the coordinator:
    /// `check` has refused such a block before.
    pub fn of(coordinator: MemberId, federation: &Federation) -> Self {
        let members: BTreeSet<_> = federation.members.iter().filter_map(MemberId::of).collect();
        let mut edges: BTreeMap<_, BTreeSet<_>> =
            members.iter().chain([&coordinator]).map(|id| (id.clone(), BTreeSet::new())).collect();
        match federation.topology {
            Topology::None | Topology::Star => {
                edges.insert(coordinator.clone(), members);
            }
            Topology::Mesh => {
                let all: BTreeSet<_> = edges.keys().cloned().collect();
                for (id, targets) in &mut edges {
                    targets.extend(all.iter().filter(|other| *other != id).cloned());
                }
            }
            Topology::Tree => {
                for member in &federation.members {
                    if let Some(id) = MemberId::of(member) {
                        let parent = parent_of(member, &members).unwrap_or_else(|| coordinator.clone());
                        edges.entry(parent).or_default().insert(id);
                    }
                }
            }
        }
        Self { coordinator, edges }
    }

    /// Those that `id` hands jobs to, in order.
    pub fn targets(&self, id: &MemberId) -> impl Iterator<Item = &MemberId> {
        self.edges.get(id).into_iter().flatten()
    }

    pub fn members(&self) -> impl Iterator<Item = &MemberId> {
        self.edges.keys().filter(|id| **id != self.coordinator)
    }

    /// Whether others hang off it: an inner node of a tree, and every node of a mesh.
    pub fn delegates(&self, id: &MemberId) -> bool {
        self.edges.get(id).is_some_and(|targets| !targets.is_empty())
    }

    pub fn contains(&self, id: &MemberId) -> bool {
        self.edges.contains_key(id)
    }
}

/// The member that a parent reference names: `<cluster>/<service>`, or `<cluster>` when one
/// member alone is there.
pub fn find_parent(reference: &str, members: &BTreeSet<MemberId>) -> Option<MemberId> {
    if let Some(exact) = members.iter().find(|id| id.to_string() == reference) {
        return Some(exact.clone());
    }
    let mut there = members.iter().filter(|id| id.cluster_id == reference);
    there.next().filter(|_| there.next().is_none()).cloned()
}

fn parent_of(member: &Member, members: &BTreeSet<MemberId>) -> Option<MemberId> {
    match &member.target {
        Target::Oscar { parent: Some(parent), .. } => find_parent(parent, members),
        Target::Oscar { parent: None, .. } | Target::Endpoint { .. } => None,
    }
}
