//! What has to be done where, decided before anything is done, each step with its undo.
//!
//! A plan leaves no choice to its execution. Nothing is deleted that this federation did not
//! make, and what it changed can be put back as it was.

use std::collections::{BTreeMap, BTreeSet};

use crate::service::Definition;

use super::expand::Worker;
use super::sync::in_sync;
use super::topology::MemberId;

/// How a replica came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origination {
    /// This federation made it, and may remove it.
    Created,
    /// It was there before, outside any federation; it is given back as it was.
    Adopted,
}

/// What a member's cluster has under the name of the replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// A replica of this federation.
    Replica {
        origination: Origination,
        definition: Box<Definition>,
    },
    /// A service of the same owner, outside any federation.
    Plain(Box<Definition>),
    /// A service of another federation.
    OtherFederation,
    /// Somebody else's service.
    SomebodyElses,
    /// The credentials were refused.
    Refused(String),
    Unreachable(String),
}

/// One thing to do at one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Create,
    /// Turn a service that is there into a replica; the member keeps the former one.
    Adopt,
    Update,
    /// Only ever of what this federation created.
    Delete,
    /// Give an adopted service back as it was.
    Release,
}

/// How a step is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undo {
    /// Delete what the step created, and nothing else.
    DeleteCreated,
    /// Put back the revision that the member kept under the operation.
    RestoreFormer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub member: MemberId,
    pub act: Act,
    pub undo: Undo,
    /// What is written; absent when something is removed.
    pub definition: Option<Box<Definition>>,
    /// What was found there before, its secrets blank.
    pub former: Option<Box<Definition>>,
}

/// Why a member stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    OtherFederation,
    SomebodyElses,
    Refused(String),
    Unreachable(String),
    /// Nobody looked there.
    NotLooked,
}

/// Steps that do not depend on each other: all may run at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// Members that could not be planned for, with the reason.
    pub obstacles: BTreeMap<MemberId, Obstacle>,
}

impl Plan {
    /// All or nothing: a create goes ahead only when nothing stands in its way.
    pub fn is_clear(&self) -> bool {
        self.obstacles.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.obstacles.is_empty()
    }
}

/// The steps from what was found to `wanted`. Members that were found but are no longer wanted
/// are removed: deleted when created, given back when adopted, left alone when not ours.
pub fn plan(wanted: &[Worker], found: &BTreeMap<MemberId, Found>) -> Plan {
    let mut plan = Plan::default();
    for worker in wanted {
        match decide(worker, found.get(&worker.id)) {
            Ok(Some(act)) => plan.steps.push(step(&worker.id, act, Some(&worker.definition), found.get(&worker.id))),
            Ok(None) => {}
            Err(obstacle) => {
                plan.obstacles.insert(worker.id.clone(), obstacle);
            }
        }
    }
    let wanted: BTreeSet<_> = wanted.iter().map(|worker| &worker.id).collect();
    for (id, found) in found.iter().filter(|(id, _)| !wanted.contains(id)) {
        match depart(id, found, true) {
            Ok(step) => plan.steps.extend(step),
            Err(obstacle) => {
                plan.obstacles.insert(id.clone(), obstacle);
            }
        }
    }
    plan
}

/// How a member leaves. Without `delete` its service stays, as a plain one.
pub fn depart(id: &MemberId, found: &Found, delete: bool) -> Result<Option<Step>, Obstacle> {
    let act = removal(found)?;
    let act = act.map(|act| if delete { act } else { Act::Release });
    Ok(act.map(|act| step(id, act, None, Some(found))))
}

fn decide(worker: &Worker, found: Option<&Found>) -> Result<Option<Act>, Obstacle> {
    match found.ok_or(Obstacle::NotLooked)? {
        Found::Nothing => Ok(Some(Act::Create)),
        Found::Plain(_) => Ok(Some(Act::Adopt)),
        Found::Replica { definition, .. } if in_sync(&worker.definition, definition) => Ok(None),
        Found::Replica { .. } => Ok(Some(Act::Update)),
        other => Err(obstacle(other)),
    }
}

fn removal(found: &Found) -> Result<Option<Act>, Obstacle> {
    match found {
        Found::Replica { origination: Origination::Created, .. } => Ok(Some(Act::Delete)),
        Found::Replica { origination: Origination::Adopted, .. } => Ok(Some(Act::Release)),
        // Not ours, so nothing to remove.
        Found::Nothing | Found::Plain(_) | Found::OtherFederation | Found::SomebodyElses => Ok(None),
        other => Err(obstacle(other)),
    }
}

fn obstacle(found: &Found) -> Obstacle {
    match found {
        Found::OtherFederation => Obstacle::OtherFederation,
        Found::SomebodyElses => Obstacle::SomebodyElses,
        Found::Refused(cause) => Obstacle::Refused(cause.clone()),
        Found::Unreachable(cause) => Obstacle::Unreachable(cause.clone()),
        Found::Nothing | Found::Plain(_) | Found::Replica { .. } => Obstacle::NotLooked,
    }
}

fn step(member: &MemberId, act: Act, definition: Option<&Definition>, found: Option<&Found>) -> Step {
    let undo = match act {
        Act::Create => Undo::DeleteCreated,
        Act::Adopt | Act::Update | Act::Delete | Act::Release => Undo::RestoreFormer,
    };
    let former = match found {
        Some(Found::Plain(former) | Found::Replica { definition: former, .. }) => Some(former.clone()),
        _ => None,
    };
    Step { member: member.clone(), act, undo, definition: definition.cloned().map(Box::new), former }
}
