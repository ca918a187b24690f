//! A federation as its owner sees it, from any of its members.

use std::collections::BTreeMap;

use oscar_model::federation::edit::{member_of, members_of};
use oscar_model::federation::membership::Duty;
use oscar_model::federation::record::{FederationRecord, Role, Seconds};
use oscar_model::federation::topology::{Graph as Edges, MemberId};
use oscar_model::federation::{Delegation, Federation, Member, Topology};
use oscar_model::name::ServiceName;
use oscar_model::service::Definition;

use crate::failure::Failure;
use crate::ports::peers::Condition;

use super::Federator;

/// What one service shows of its federation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub topology: Topology,
    pub group_id: String,
    pub delegation: Delegation,
    /// What this service hands jobs to.
    pub members: Vec<Member>,
    /// Absent for a service that has no federation.
    pub graph: Option<Graph>,
    /// What went wrong at which member, and when it was seen last; as this manager knows it.
    pub conditions: Vec<(MemberId, String, Option<Seconds>)>,
    /// Members that are still to be removed.
    pub leaving: Vec<MemberId>,
}

/// The whole topology; the same at every member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    pub federation_id: String,
    pub topology: Topology,
    pub coordinator: MemberId,
    pub nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub id: MemberId,
    pub is_coordinator: bool,
    pub endpoint: String,
    pub priority: u32,
    pub duty: Duty,
    pub condition: Condition,
    /// Those that it hands jobs to.
    pub targets: Vec<MemberId>,
}

impl Federator {
    pub async fn view(&self, service: &ServiceName, definition: &Definition) -> Result<View, Failure> {
        let record = self.known(service).await?;
        let blank = Federation::blank(service.as_str());
        let federation = definition.federation.as_ref().unwrap_or(&blank);
        let Some(record) = record else {
            return Ok(View {
                topology: federation.topology,
                group_id: federation.group_id.clone(),
                delegation: federation.delegation.clone(),
                members: federation.members.clone(),
                graph: None,
                conditions: Vec::new(),
                leaving: Vec::new(),
            });
        };
        let whole = whole(federation, &record);
        let coordinator = coordinator_of(&record);
        let edges = Edges::of(coordinator.clone(), &whole);
        let own = if record.role == Role::Coordinator { &coordinator } else { &record.own };
        Ok(View {
            topology: federation.topology,
            group_id: federation.group_id.clone(),
            delegation: federation.delegation.clone(),
            members: delegates_to(&record, federation, &edges, own),
            graph: Some(self.graph(&record, &coordinator, &edges, federation.topology)),
            conditions: self.conditions(&record),
            leaving: record.leaving.keys().cloned().collect(),
        })
    }

    fn graph(&self, record: &FederationRecord, coordinator: &MemberId, edges: &Edges, topology: Topology) -> Graph {
        let states = self.memory.states.of(&record.federation_id);
        let targets = |id: &MemberId| edges.targets(id).cloned().collect();
        let endpoint = match &record.role {
            Role::Coordinator => self.own.public_url.clone(),
            Role::Worker { endpoint, .. } => endpoint.clone(),
        };
        let head = Node {
            id: coordinator.clone(),
            is_coordinator: true,
            endpoint,
            priority: 0,
            duty: Duty::Active,
            condition: Condition::InSync,
            targets: targets(coordinator),
        };
        let members = record.membership.members().map(|(id, known)| Node {
            id: id.clone(),
            is_coordinator: false,
            endpoint: known.endpoint.value.url.clone(),
            priority: known.attributes.value.priority,
            duty: known.duty.value,
            condition: states.get(id).map_or(Condition::Pending, |state| state.condition),
            targets: targets(id),
        });
        Graph {
            federation_id: record.federation_id.clone(),
            topology,
            coordinator: coordinator.clone(),
            nodes: std::iter::once(head).chain(members).collect(),
        }
    }

    fn conditions(&self, record: &FederationRecord) -> Vec<(MemberId, String, Option<Seconds>)> {
        let states: BTreeMap<_, _> = self.memory.states.of(&record.federation_id);
        let present = states.into_iter().filter(|(id, _)| record.membership.is_member(id));
        present.map(|(id, state)| (id, state.trouble, state.seen)).collect()
    }
}

/// What a service hands jobs to: everything for a coordinator, in the order of its
/// definition; children or peers for a worker.
fn delegates_to(record: &FederationRecord, federation: &Federation, edges: &Edges, own: &MemberId) -> Vec<Member> {
    if record.role == Role::Coordinator {
        let mut probe = Definition::new(own.service_name.clone(), "", "");
        probe.federation = Some(federation.clone());
        let followed = oscar_model::federation::edit::projected(&probe, &record.membership, &|_| None);
        return followed.and_then(|probe| probe.federation).map_or_else(|| federation.members.clone(), |f| f.members);
    }
    if matches!(federation.topology, Topology::None | Topology::Star) {
        return Vec::new();
    }
    let known = |id: &MemberId| record.membership.get(id).map(|known| known.attributes.value.clone());
    edges
        .targets(own)
        .map(|id| {
            let attributes = known(id).unwrap_or_else(|| oscar_model::federation::membership::Attributes {
                ssl_verify: true,
                ..Default::default()
            });
            member_of(id, &oscar_model::federation::membership::Attributes { parent: None, ..attributes })
        })
        .collect()
}

pub(crate) fn coordinator_of(record: &FederationRecord) -> MemberId {
    match &record.role {
        Role::Coordinator => record.own.clone(),
        Role::Worker { coordinator, .. } => coordinator.clone(),
    }
}

/// The block of a definition with every member of the federation in it.
fn whole(federation: &Federation, record: &FederationRecord) -> Federation {
    Federation { members: members_of(&record.membership), ..federation.clone() }
}
