//! What users do: drawn by the dice from what there is at that moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oscar_model::federation::edit::Edit;
use oscar_model::federation::membership::Duty;
use oscar_model::federation::topology::MemberId;
use oscar_model::federation::{Federation, Member, Target, Topology};
use oscar_model::name::ServiceName;
use oscar_model::service::Definition;

use crate::federate::federation_of;
use crate::ports::services::{Entry, Scope, Services as _, Stored};

use super::ground::{Ground, known_cluster};
use super::random::Random;

/// Whose federations they are.
pub(super) const OWNER: &str = "ana";
/// Who has services of the same names.
pub(super) const STRANGER: &str = "bob";

#[derive(Debug, Clone)]
pub(super) enum Deed {
    /// A plain service.
    Create(ServiceName),
    /// A service with members, new or in the place of a plain one.
    Found {
        name: ServiceName,
        topology: Topology,
        members: Vec<Member>,
        replaces: bool,
    },
    /// What is there, read, changed and sent back.
    Put {
        name: ServiceName,
        change: Change,
        guarded: bool,
        detach: bool,
    },
    Remove {
        name: ServiceName,
        detach: bool,
    },
    /// The members API.
    Edit {
        name: ServiceName,
        edit: Edit,
    },
    /// Somebody changes a replica in the store itself.
    Drift(ServiceName),
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    Image,
    Secret,
    Add(Member),
    Drop(usize),
    Topology(Topology),
    NoMembers,
}

/// A user, where, and what.
pub(super) struct Wish {
    pub(super) site: usize,
    pub(super) user: &'static str,
    pub(super) deed: Deed,
}

pub(super) fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("the names of a story are valid")
}

const REPLICAS: [&str; 3] = ["r0", "r1", "r2"];
const COORDINATORS: [&str; 2] = ["f0", "f1"];
const TOPOLOGIES: [Topology; 3] = [Topology::Star, Topology::Tree, Topology::Mesh];

/// A member, in a tree perhaps below one of the others.
fn draw_member(random: &mut Random, sites: usize, topology: Topology, others: &[Member]) -> Member {
    let kind = if random.chance(8_500) { 'c' } else { 'x' };
    let cluster_id = format!("{kind}{}", random.below(sites));
    let names = if random.chance(8_000) { &REPLICAS[..] } else { &COORDINATORS[..] };
    let service_name = name(random.pick(names).copied().unwrap_or("r0"));
    let below = topology == Topology::Tree && random.chance(5_000);
    let parent = if below { random.pick(others).and_then(MemberId::of) } else { None };
    Member {
        target: Target::Oscar { cluster_id, service_name, parent: parent.map(|id| id.to_string()) },
        priority: u32::try_from(random.below(3)).unwrap_or(0),
        ssl_verify: true,
        headers: BTreeMap::new(),
    }
}

fn draw_members(random: &mut Random, sites: usize, topology: Topology) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    let mut seen = BTreeSet::new();
    for _ in 0..=random.below(4) {
        let member = draw_member(random, sites, topology, &members);
        if let Some(id) = MemberId::of(&member)
            && seen.insert((id.cluster_id.get(1..).map(str::to_owned), id.service_name.clone()))
        {
            members.push(member);
        }
    }
    members
}

/// A service that is there, as its owner finds it in a list.
struct Seen {
    site: usize,
    stored: Arc<Stored>,
}

async fn see_all(ground: &Ground) -> Vec<Seen> {
    let mut all = Vec::new();
    for (site, cluster) in ground.sites.iter().enumerate() {
        for entry in cluster.services.list(&Scope::All).await.unwrap_or_default() {
            if let Entry::Good(stored) = entry
                && stored.service.owner.as_str() == OWNER
            {
                all.push(Seen { site, stored });
            }
        }
    }
    all
}

/// What is wished next; nothing when the dice fell on something that is not there.
pub(super) async fn draw(ground: &Ground) -> Option<Wish> {
    let all = see_all(ground).await;
    let coordinators: Vec<&Seen> = all.iter().filter(|seen| is_coordinator(&seen.stored.service.definition)).collect();
    let workers: Vec<&Seen> = all.iter().filter(|seen| seen.stored.service.definition.is_worker()).collect();
    let plain: Vec<&Seen> = all
        .iter()
        .filter(|seen| {
            federation_of(&seen.stored.service.definition).is_empty() && !seen.stored.service.definition.is_worker()
        })
        .collect();
    let members = members_known(ground).await;
    let sites = ground.sites.len();
    ground.sim.with_random(|random| {
        let wish = |site, deed| Some(Wish { site, user: OWNER, deed });
        let dice = if coordinators.is_empty() { random.below(30) } else { random.below(100) };
        match dice {
            0..24 => {
                let topology = *random.pick(&TOPOLOGIES)?;
                let members = draw_members(random, sites, topology);
                let site = random.below(sites);
                let name = name(random.pick(&COORDINATORS)?);
                wish(site, Deed::Found { name, topology, members, replaces: false })
            }
            24..27 => {
                let seen = random.pick(&plain)?;
                let topology = *random.pick(&TOPOLOGIES)?;
                let members = draw_members(random, sites, topology);
                wish(seen.site, Deed::Found { name: name_of(seen), topology, members, replaces: true })
            }
            27..30 => wish(random.below(sites), Deed::Create(name(random.pick(&REPLICAS)?))),
            30..45 => {
                let seen = random.pick(&coordinators)?;
                let change = draw_change(random, sites, &seen.stored.service.definition);
                let guarded = random.chance(3_000);
                wish(seen.site, Deed::Put { name: name_of(seen), change, guarded, detach: false })
            }
            45..80 => {
                // At the coordinator, or at any other member of its federation.
                let at_worker = random.chance(4_000) && !workers.is_empty();
                let seen = random.pick(if at_worker { &workers } else { &coordinators })?;
                let known = members.get(federation_of(&seen.stored.service.definition))?;
                let edit = draw_edit(random, sites, topology_of(&seen.stored.service.definition), known)?;
                wish(seen.site, Deed::Edit { name: name_of(seen), edit })
            }
            80..87 => {
                let seen = random.pick(&coordinators)?;
                wish(seen.site, Deed::Remove { name: name_of(seen), detach: false })
            }
            87..91 => {
                let (seen, detach) = (random.pick(&workers)?, random.chance(7_000));
                wish(seen.site, Deed::Remove { name: name_of(seen), detach })
            }
            91..94 => {
                let (seen, detach) = (random.pick(&workers)?, random.chance(7_000));
                wish(seen.site, Deed::Put { name: name_of(seen), change: Change::Image, guarded: false, detach })
            }
            94..96 => {
                let seen = random.pick(&plain)?;
                let change = if random.chance(5_000) { Change::Image } else { Change::Secret };
                wish(seen.site, Deed::Put { name: name_of(seen), change, guarded: false, detach: false })
            }
            96..97 => {
                wish(random.pick(&plain)?.site, Deed::Remove { name: name_of(random.pick(&plain)?), detach: false })
            }
            _ => {
                let seen = random.pick(&workers)?;
                wish(seen.site, Deed::Drift(name_of(seen)))
            }
        }
    })
}

fn name_of(seen: &Seen) -> ServiceName {
    seen.stored.service.name().clone()
}

pub(super) fn is_coordinator(definition: &Definition) -> bool {
    !definition.is_worker() && !federation_of(definition).is_empty()
}

/// The members of every federation, as its coordinator knows them.
async fn members_known(ground: &Ground) -> BTreeMap<String, Vec<Member>> {
    use oscar_model::federation::edit::member_of;
    use oscar_model::federation::record::Role;
    let mut known = BTreeMap::new();
    for site in &ground.sites {
        for record in crate::ports::journal::Journal::federations(&*site.journal).await.unwrap_or_default() {
            if record.role == Role::Coordinator && record.deleted.is_none() {
                let members = record.membership.members().map(|(id, known)| member_of(id, &known.attributes.value));
                known.insert(record.federation_id.clone(), members.collect());
            }
        }
    }
    known
}

fn draw_change(random: &mut Random, sites: usize, definition: &Definition) -> Change {
    let members = definition.federation.as_ref().map_or(&[][..], |federation| &federation.members);
    let topology = topology_of(definition);
    match random.below(10) {
        0..3 => Change::Image,
        3..5 => Change::Secret,
        5..7 => Change::Add(draw_member(random, sites, topology, members)),
        7..8 => Change::Drop(random.below(members.len())),
        8..9 => Change::Topology(*random.pick(&TOPOLOGIES).unwrap_or(&Topology::Star)),
        _ => Change::NoMembers,
    }
}

fn topology_of(definition: &Definition) -> Topology {
    definition.federation.as_ref().map_or(Topology::None, |federation| federation.topology)
}

fn draw_edit(random: &mut Random, sites: usize, topology: Topology, known: &[Member]) -> Option<Edit> {
    let mut edit = Edit::default();
    match random.below(10) {
        0..4 => {
            let member = draw_member(random, sites, topology, known);
            if let Some(id) = MemberId::of(&member)
                && let Some(site) = id.cluster_id.get(1..).and_then(|digits| digits.parse().ok())
            {
                edit.clusters.insert(id.cluster_id, known_cluster(site));
            }
            edit.add.push(member);
        }
        4..7 => {
            edit.remove.push(random.pick(known)?.target.clone());
            edit.delete = random.chance(6_000);
            edit.reparent = random.chance(5_000);
        }
        7..8 => {
            let mut member = random.pick(known)?.clone();
            let was = member.target.clone();
            if topology != Topology::Tree || random.chance(5_000) {
                member.priority += 1;
            } else if let Target::Oscar { parent, .. } = &mut member.target {
                *parent = random.pick(known).and_then(MemberId::of).map(|id| id.to_string());
            }
            edit.update.push((was, member));
        }
        _ => {
            let duty = *random.pick(&[Duty::Active, Duty::Paused, Duty::Draining])?;
            edit.duties.push((random.pick(known)?.target.clone(), duty));
        }
    }
    Some(edit)
}

/// The block of a federation that is founded.
pub(super) fn block(name: &ServiceName, topology: Topology, members: Vec<Member>) -> Federation {
    Federation { topology, members, ..Federation::blank(name.as_str()) }
}
