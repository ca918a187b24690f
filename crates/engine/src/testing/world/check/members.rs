//! Who is in a federation is who was put there by the last word that was acknowledged.

use std::collections::BTreeSet;
use std::sync::Arc;

use oscar_model::federation::Topology;
use oscar_model::federation::topology::MemberId;

use super::super::ground::Ground;
use super::super::ledger::{Entry, Ledger, Outcome, Spot};
use super::super::story::Violation;
use super::End;

pub(super) fn check(ground: &Arc<Ground>, end: &End, found: &mut Vec<Violation>) {
    let ledger = ground.ledger();
    for (site, record) in end.coordinated() {
        let spot = (site, record.own.service_name.clone());
        let definition = end.at(site, &spot.1).map(|(stored, _)| &stored.service.definition);
        let federation = definition.and_then(|definition| definition.federation.as_ref());
        if federation.is_none_or(|federation| federation.topology == Topology::None) {
            // Nobody is deployed by it any more.
            continue;
        }
        let entries = entries_of(&ledger, &spot);
        let named: BTreeSet<&MemberId> =
            entries.iter().flat_map(|entry| entry.meaning.adds.iter().chain(&entry.meaning.removes)).collect();
        for member in named {
            let there = record.membership.is_member(member);
            // What was said where nobody knew the federation yet may have been said of this one.
            let unsure: Vec<&Entry> = ledger.entries.iter().filter(|e| e.federation.is_none()).collect();
            let mut adds: Vec<&Entry> = entries.iter().filter(|e| e.meaning.adds.contains(member)).copied().collect();
            let place = ground.scenario.site_of(&member.cluster_id).map(|site| (site, member.service_name.clone()));
            let mut removes: Vec<&Entry> = entries.iter().filter(|e| e.meaning.removes(member)).copied().collect();
            removes.extend(ledger.entries.iter().filter(|e| e.detaches && place.as_ref() == Some(&e.spot)));
            // What was said at a member that has left since may have left with it.
            let stays = |entry: &&Entry| {
                entry.spot == spot || entry.own.as_ref().is_some_and(|own| record.membership.is_member(own))
            };
            removes.extend(unsure.iter().filter(|e| e.meaning.removes(member)));
            let heard: Vec<&Entry> = adds.iter().copied().filter(stays).collect();
            if !there && is_settled(&heard, &removes) {
                let text = format!("{member} of {} at c{site} was added, not removed, and is not there", spot.1);
                found.push(Violation::new("I8: no member is lost that was added", text));
            }
            adds.extend(unsure.iter().filter(|e| e.meaning.adds.contains(member)));
            let heard: Vec<&Entry> = removes.iter().copied().filter(stays).collect();
            if there && is_settled(&heard, &adds) {
                let text = format!("{member} of {} at c{site} was removed, not added again, and is there", spot.1);
                found.push(Violation::new("I8: no member is there that was removed", text));
            }
        }
    }
}

fn entries_of<'a>(ledger: &'a Ledger, spot: &Spot) -> Vec<&'a Entry> {
    let concerned = ledger.entries.iter().filter(|entry| entry.federation.as_ref() == Some(spot));
    concerned.filter(|entry| !matches!(entry.outcome, Outcome::Refused(_))).collect()
}

/// Whether something was acknowledged and the opposite cannot have been said after it, whichever
/// of two managers that do not hear each other counts as the later one.
fn is_settled(said: &[&Entry], opposite: &[&Entry]) -> bool {
    said.iter().filter(|entry| entry.outcome == Outcome::Done).any(|entry| {
        opposite.iter().all(|other| {
            let before = other.ended.is_some_and(|ended| ended < entry.begun);
            // Whoever is in a federation knows that it was founded.
            let same_place = other.spot == entry.spot || other.founds;
            before && same_place && other.outcome == Outcome::Done
        })
    })
}
