//! After everything has healed: one graph, every member as it is wanted, nobody without a
//! coordinator.

use std::collections::BTreeMap;
use std::sync::Arc;

use oscar_model::federation::expand::{Origin, Worker, expand};
use oscar_model::federation::record::{FederationRecord, Role};
use oscar_model::federation::sync::in_sync;
use oscar_model::federation::topology::MemberId;
use oscar_model::service::Definition;

use crate::federate::{Graph, federation_of};

use super::super::acts::KEY;
use super::super::deeds::OWNER;
use super::super::ground::{Ground, endpoint};
use super::super::ledger::Spot;
use super::super::story::Violation;
use super::End;

const ONE_GRAPH: &str = "I8: after everything has healed there is one graph";
const NO_ORPHANS: &str = "I8: no orphans";
const WHOLE: &str = "I4, I10: what is wanted is there, at every member";

pub(super) async fn check(ground: &Arc<Ground>, end: &End, found: &mut Vec<Violation>) {
    orphans(ground, end, found);
    for (site, record) in end.coordinated() {
        members(ground, end, site, record, found);
        graphs(ground, end, site, record, found).await;
    }
}

/// Where a member is.
fn spot_of(ground: &Ground, member: &MemberId) -> Option<Spot> {
    Some((ground.scenario.site_of(&member.cluster_id)?, member.service_name.clone()))
}

fn orphans(ground: &Ground, end: &End, found: &mut Vec<Violation>) {
    for (spot, (stored, _)) in &end.services {
        let definition = &stored.service.definition;
        let federation = federation_of(definition);
        if federation.is_empty() {
            continue;
        }
        let coordinated = end.coordinated().find(|(_, record)| record.federation_id == federation);
        let known = coordinated.is_some_and(|(site, record)| {
            let is_itself = site == spot.0 && record.own.service_name == spot.1;
            let mut members = record.membership.members();
            is_itself || members.any(|(id, _)| spot_of(ground, id).as_ref() == Some(spot))
        });
        if !known {
            let text = format!("{} at c{} is in a federation that does not know it", spot.1, spot.0);
            found.push(Violation::new(NO_ORPHANS, text));
        }
    }
}

fn members(ground: &Ground, end: &End, site: usize, record: &FederationRecord, found: &mut Vec<Violation>) {
    let name = &record.own.service_name;
    let Some((coordinator, secrets)) = end.at(site, name) else { return };
    let mut definition = coordinator.service.definition.clone();
    if ground.scenario.registry {
        for (id, cluster) in ground.scenario.clusters() {
            definition.clusters.entry(id).or_insert(cluster);
        }
    }
    let wanted: BTreeMap<MemberId, Definition> = wanted(&definition, site, record);
    let listed: Vec<&MemberId> = wanted.keys().collect();
    let known: Vec<&MemberId> = record.membership.members().map(|(id, _)| id).collect();
    if listed != known {
        let text = format!("{name} at c{site} lists {} and knows {}", words(&listed), words(&known));
        found.push(Violation::new(ONE_GRAPH, text));
    }
    if !faults(&definition).is_empty() {
        // Edits at places that did not hear each other can make a circle of a tree: its members
        // refuse that, in sight.
        return;
    }
    for (id, wanted) in &wanted {
        let Some(spot) = spot_of(ground, id) else { continue };
        let mut say = |text: &str| found.push(Violation::new(WHOLE, format!("{id} of {name} at c{site} {text}")));
        match end.services.get(&spot) {
            None => say("is not deployed"),
            Some((stored, sensitive)) => {
                let there = &stored.service.definition;
                let replica = there.is_worker() && federation_of(there) == record.federation_id;
                if !replica {
                    let free = stored.service.owner.as_str() == OWNER && federation_of(there).is_empty();
                    if free {
                        say("was not adopted");
                    }
                } else if !is_double(ground, id, &known) {
                    if !in_sync(wanted, there) {
                        say("is not as it is wanted");
                    }
                    if sensitive.environment.get(KEY) != secrets.environment.get(KEY) {
                        say("has another secret");
                    }
                    if stored.service.token != coordinator.service.token {
                        say("has another token");
                    }
                }
            }
        }
    }
}

fn faults(definition: &Definition) -> oscar_model::fault::Faults {
    let mut whole = definition.clone();
    whole.environment.secrets.entry("refresh_token".to_owned()).or_default();
    oscar_model::federation::check::check(&whole, &|_| true, true)
}

/// Two names of one service: edits at two places that did not hear each other can bring that
/// about, and only one of the two can be as it is wanted.
fn is_double(ground: &Ground, id: &MemberId, known: &[&MemberId]) -> bool {
    let spot = spot_of(ground, id);
    known.iter().filter(|other| spot_of(ground, other) == spot).count() > 1
}

fn wanted(definition: &Definition, site: usize, record: &FederationRecord) -> BTreeMap<MemberId, Definition> {
    let origin =
        Origin { endpoint: endpoint(site), federation_id: record.federation_id.clone(), operation: String::new() };
    expand(definition, &origin).into_iter().map(|Worker { id, definition }| (id, definition)).collect()
}

fn words(ids: &[&MemberId]) -> String {
    let words: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!("[{}]", words.join(" "))
}

async fn graphs(ground: &Ground, end: &End, site: usize, record: &FederationRecord, found: &mut Vec<Violation>) {
    let Some(head) = graph(ground, end, site, record).await else { return };
    for (id, _) in record.membership.members() {
        let Some(spot) = spot_of(ground, id) else { continue };
        let replica = end.services.get(&spot).is_some_and(|(stored, _)| {
            stored.service.definition.is_worker() && federation_of(&stored.service.definition) == record.federation_id
        });
        if !replica {
            continue;
        }
        let known = end.records.iter().find(|(there, known)| {
            *there == spot.0
                && known.own.service_name == spot.1
                && known.federation_id == record.federation_id
                && matches!(known.role, Role::Worker { .. })
        });
        let Some((there, known)) = known else {
            found.push(Violation::new(ONE_GRAPH, format!("{id} does not know its federation")));
            continue;
        };
        let seen = graph(ground, end, *there, known).await;
        if seen.as_ref() != Some(&head) {
            let text = format!("{id} sees\n{seen:?}\nand its coordinator\n{head:?}");
            found.push(Violation::new(ONE_GRAPH, text));
        }
    }
}

async fn graph(ground: &Ground, end: &End, site: usize, record: &FederationRecord) -> Option<Graph> {
    let (stored, _) = end.at(site, &record.own.service_name)?;
    let manager = ground.sites[site].manager()?;
    let view = manager.federator().view(&record.own.service_name, &stored.service.definition).await;
    view.ok().and_then(|view| view.graph)
}
