//! Deeds carried out, each with the real use case of a real manager.

use std::fmt::Write as _;
use std::sync::Arc;

use oscar_model::federation::Member;
use oscar_model::federation::record::{Bearer, Role};
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::Definition;

use crate::failure::Failure;
use crate::ports::journal::Journal as _;
use crate::ports::services::Services as _;
use crate::{Guard, Manager, Terms};

use super::deeds::{Change, Deed, Wish, block};
use super::ground::Ground;
use super::ledger::{Entry, Meaning, Outcome, Spot};
use super::mint::{PLANTED, bearer, user_named};

/// Marks of the deed that wrote a definition, and of the one that wrote its secret.
pub(super) const AUTHOR: &str = "deed";
pub(super) const KEY_AUTHOR: &str = "key";
/// The secret that every service of a story has.
pub(super) const KEY: &str = "KEY";

pub(super) fn image_of(number: usize) -> String {
    format!("image-{number}")
}

pub(super) fn key_of(number: usize) -> Secret {
    Secret::new(format!("value-{number}"))
}

/// Marks a definition as the work of a deed.
fn sign(definition: &mut Definition, number: usize, secret: bool) {
    definition.image = image_of(number);
    definition.labels.insert(AUTHOR.to_owned(), number.to_string());
    if secret {
        definition.labels.insert(KEY_AUTHOR.to_owned(), number.to_string());
        definition.environment.secrets.insert(KEY.to_owned(), key_of(number));
    }
}

pub(super) fn plain(name: &ServiceName, number: usize) -> Definition {
    let mut definition = Definition::new(name.clone(), "", "script");
    sign(&mut definition, number, true);
    definition
}

fn ids(members: &[Member]) -> impl Iterator<Item = MemberId> {
    members.iter().filter_map(MemberId::of)
}

/// What the ledger should know before anything is done.
pub(super) async fn foresee(ground: &Ground, wish: &Wish) -> Entry {
    let name = match &wish.deed {
        Deed::Create(name)
        | Deed::Drift(name)
        | Deed::Found { name, .. }
        | Deed::Put { name, .. }
        | Deed::Remove { name, .. }
        | Deed::Edit { name, .. } => name,
    };
    let spot = (wish.site, name.clone());
    let federation = federation_at(ground, &spot).await;
    let mut entry = Entry {
        spot: spot.clone(),
        begun: ground.sim.millis(),
        ended: None,
        outcome: Outcome::Unclear,
        authors: matches!(wish.deed, Deed::Create(_) | Deed::Found { .. } | Deed::Put { .. }),
        marks: None,
        removes: matches!(wish.deed, Deed::Remove { .. }),
        founds: false,
        federation: None,
        detaches: matches!(wish.deed, Deed::Put { detach: true, .. } | Deed::Remove { detach: true, .. }),
        own: federation.as_ref().map(|(_, own)| own.clone()),
        meaning: Meaning::default(),
    };
    let own = federation.as_ref().map(|(_, own)| own.clone());
    match &wish.deed {
        Deed::Found { members, replaces, .. } => {
            entry.founds = !replaces || federation.is_none();
            entry.federation = Some(spot);
            entry.meaning = Meaning { adds: ids(members).collect(), all_others: true, ..Meaning::default() };
        }
        Deed::Edit { edit, .. } => {
            entry.federation = federation.map(|(spot, _)| spot);
            entry.meaning.adds = ids(&edit.add).collect();
            entry.meaning.removes =
                edit.remove.iter().filter_map(|target| MemberId::of(&member_at(target.clone()))).collect();
        }
        Deed::Put { detach: true, .. } | Deed::Remove { detach: true, .. } => {
            entry.federation = federation.map(|(spot, _)| spot);
            entry.meaning.removes.extend(own);
        }
        // What a PUT means is known when it was read what is there.
        Deed::Put { .. } => entry.federation = federation.map(|(spot, _)| spot),
        Deed::Remove { .. } => {
            entry.federation = federation.map(|(spot, _)| spot).filter(|of| *of == entry.spot);
            entry.meaning.all_others = entry.federation.is_some();
        }
        Deed::Create(_) | Deed::Drift(_) => {}
    }
    entry
}

fn member_at(target: oscar_model::federation::Target) -> Member {
    Member { target, priority: 0, ssl_verify: true, headers: std::collections::BTreeMap::new() }
}

/// The coordinator of the federation that a service is in, and the service's own name in it.
async fn federation_at(ground: &Ground, spot: &Spot) -> Option<(Spot, MemberId)> {
    let record = ground.sites[spot.0].journal.federation(&spot.1).await.ok().flatten()?;
    match &record.role {
        Role::Coordinator => Some((spot.clone(), record.own)),
        Role::Worker { coordinator, endpoint } => {
            let site = ground.find(endpoint)?;
            Some(((site, coordinator.service_name.clone()), record.own))
        }
    }
}

pub(super) async fn perform(
    ground: &Arc<Ground>,
    manager: &Manager,
    number: usize,
    wish: &Wish,
) -> Result<(), Failure> {
    let principal = Principal::User(user_named(wish.user));
    let expires = ground.sim.millis() / 1000 + 1_000_300;
    let terms = Terms { bearer: Some(Bearer { token: bearer(&ground.sim, wish.user), expires }), ..Terms::default() };
    let blank = Secret::default();
    match &wish.deed {
        Deed::Create(name) => manager.create(&principal, plain(name, number), &blank, terms).await.map(drop),
        Deed::Found { name, topology, members, replaces } => {
            let mut definition = plain(name, number);
            definition.cluster_id = format!("c{}", wish.site);
            definition.federation = Some(block(name, *topology, members.clone()));
            definition.environment.secrets.insert("refresh_token".to_owned(), Secret::new(PLANTED));
            if !ground.scenario.registry {
                definition.clusters.extend(ground.scenario.clusters());
            }
            if *replaces {
                manager.update(&principal, definition, &blank, terms).await.map(drop)
            } else {
                manager.create(&principal, definition, &blank, terms).await.map(drop)
            }
        }
        Deed::Put { name, change, guarded, detach } => {
            let stored = manager.service(&principal, name).await?;
            let mut definition = stored.service.definition.clone();
            apply(ground, &mut definition, number, change, *detach);
            note_members(ground, number, &definition, *detach);
            let mark = definition.labels.get(AUTHOR).and_then(|label| label.parse().ok());
            ground.ledger().entries[number].marks = mark;
            if ground.dice(3_000) {
                let pause = ground.between(1, ground.scenario.pause);
                ground.sim.sleep(pause).await;
            }
            let guard = if *guarded { Guard::Only(vec![stored.revision.to_string()]) } else { Guard::Any };
            let terms = Terms { guard, detach: *detach, ..terms };
            manager.update(&principal, definition, &blank, terms).await.map(drop)
        }
        Deed::Remove { name, detach } => {
            let terms = Terms { detach: *detach, ..terms };
            manager.remove(&principal, name, terms).await.map(drop)
        }
        Deed::Edit { name, edit } => manager.edit_federation(&principal, name, edit, terms).await.map(drop),
        Deed::Drift(name) => {
            let services = &ground.sites[wish.site].services;
            let fail = |error| Failure::of_service(error, name);
            let Some(stored) = services.get(name).await.map_err(fail)? else { return Ok(()) };
            let mut service = stored.service.clone();
            let sensitive = services.reveal(name).await.map_err(fail)?;
            service.definition.image = "drifted".to_owned();
            services.replace(service, sensitive, &stored.revision).await.map(drop).map_err(fail)
        }
    }
}

fn apply(ground: &Ground, definition: &mut Definition, number: usize, change: &Change, detach: bool) {
    if let Change::Secret = change {
        // Nothing else changes: no manager shows a secret.
        definition.environment.secrets.insert(KEY.to_owned(), key_of(number));
        return;
    }
    sign(definition, number, detach);
    if detach {
        // Whoever takes a replica for himself sends a definition of his own.
        *definition = plain(&definition.name, number);
        return;
    }
    let Some(federation) = &mut definition.federation else { return };
    match change {
        Change::Image | Change::Secret => {}
        Change::Add(member) => {
            federation.members.push(member.clone());
            if let Some(id) = MemberId::of(member)
                && let Some(site) = ground.scenario.site_of(&id.cluster_id)
            {
                definition.clusters.insert(id.cluster_id, super::ground::known_cluster(site));
            }
        }
        Change::Drop(index) => {
            if *index < federation.members.len() {
                federation.members.remove(*index);
            }
        }
        Change::Topology(topology) => federation.topology = *topology,
        Change::NoMembers => federation.members.clear(),
    }
}

fn note_members(ground: &Ground, number: usize, definition: &Definition, detach: bool) {
    if detach {
        return;
    }
    if definition.is_worker() {
        // Either refused, or corrected by its coordinator.
        ground.ledger().entries[number].authors = false;
        return;
    }
    let members = definition.federation.as_ref().map_or(&[][..], |federation| &federation.members);
    let meaning = Meaning { adds: ids(members).collect(), all_others: true, ..Meaning::default() };
    let mut ledger = ground.ledger();
    let entry = &mut ledger.entries[number];
    (entry.meaning, entry.federation) = (meaning, Some(entry.spot.clone()));
}

/// The deed as a sentence.
pub(super) fn describe(wish: &Wish) -> String {
    let mut text = format!("{} at c{}: ", wish.user, wish.site);
    // Writing to a string does not fail.
    let _ = match &wish.deed {
        Deed::Create(name) => write!(text, "create the plain service {name}"),
        Deed::Found { name, topology, members, replaces } => {
            let verb = if *replaces { "turn the plain service into" } else { "create" };
            write!(text, "{verb} the {} {name} with {}", topology.as_str(), list(members))
        }
        Deed::Put { name, change, guarded, detach } => {
            let how = match change {
                Change::Image => "another image".to_owned(),
                Change::Secret => "another secret".to_owned(),
                Change::Add(member) => format!("{} added", list(std::slice::from_ref(member))),
                Change::Drop(index) => format!("member {index} dropped"),
                Change::Topology(topology) => format!("topology {}", topology.as_str()),
                Change::NoMembers => "no members".to_owned(),
            };
            let guard = if *guarded { ", as it was read" } else { "" };
            let detach = if *detach { ", detached" } else { "" };
            write!(text, "PUT {name} with {how}{guard}{detach}")
        }
        Deed::Remove { name, detach } => write!(text, "DELETE {name}{}", if *detach { ", detached" } else { "" }),
        Deed::Edit { name, edit } => {
            let add = list(&edit.add);
            let remove: Vec<Member> = edit.remove.iter().cloned().map(member_at).collect();
            let update: Vec<Member> = edit.update.iter().map(|(_, member)| member.clone()).collect();
            write!(
                text,
                "edit members of {name}: add {add}, update {}, remove {} (delete {}, reparent {}), duties {:?}",
                list(&update),
                list(&remove),
                edit.delete,
                edit.reparent,
                edit.duties.iter().map(|(_, duty)| duty).collect::<Vec<_>>()
            )
        }
        Deed::Drift(name) => write!(text, "somebody changes {name} in the store"),
    };
    text
}

fn list(members: &[Member]) -> String {
    let words: Vec<String> = members
        .iter()
        .map(|member| match &member.target {
            oscar_model::federation::Target::Oscar { cluster_id, service_name, parent } => {
                let below = parent.as_ref().map(|parent| format!(" below {parent}")).unwrap_or_default();
                format!("{cluster_id}/{service_name}{below}")
            }
            oscar_model::federation::Target::Endpoint { url } => url.clone(),
        })
        .collect();
    format!("[{}]", words.join(", "))
}
