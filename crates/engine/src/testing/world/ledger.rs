//! Who made what, who asked for what, and what became of it: the other half of every check.

use std::collections::{BTreeMap, BTreeSet};

use oscar_model::federation::topology::MemberId;
use oscar_model::name::ServiceName;
use oscar_model::service::Service;

use crate::failure::Failure;
use crate::federate::federation_of;

use super::executor::Millis;
use super::story::Violation;

/// A service of a cluster.
pub(super) type Spot = (usize, ServiceName);

/// Who made a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// Its owner; or a federation that let it go.
    User,
    Federation(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Not answered: under way, or its manager is gone.
    Unclear,
    Done,
    /// Answered with a failure, and nothing was changed.
    Refused(String),
}

/// What a deed means for the members of a federation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) adds: BTreeSet<MemberId>,
    pub(super) removes: BTreeSet<MemberId>,
    /// Whoever is not added is removed.
    pub(super) all_others: bool,
}

impl Meaning {
    pub(super) fn removes(&self, member: &MemberId) -> bool {
        self.removes.contains(member) || (self.all_others && !self.adds.contains(member))
    }
}

/// One thing that a user did.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) spot: Spot,
    pub(super) begun: Millis,
    pub(super) ended: Option<Millis>,
    pub(super) outcome: Outcome,
    /// It writes the definition of its spot, marked with its number.
    pub(super) authors: bool,
    /// The mark that it leaves, when it sends back that of another.
    pub(super) marks: Option<usize>,
    /// It removes the service of its spot.
    pub(super) removes: bool,
    /// It makes a federation, all or nothing.
    pub(super) founds: bool,
    /// The coordinator whose members it changes.
    pub(super) federation: Option<Spot>,
    /// It takes a replica out, of whatever federation that is in then.
    pub(super) detaches: bool,
    /// What the federation calls the service that was asked.
    pub(super) own: Option<MemberId>,
    pub(super) meaning: Meaning,
}

#[derive(Default)]
pub(super) struct Ledger {
    pub(super) origins: BTreeMap<Spot, Origin>,
    /// Somebody wanted it removed.
    pub(super) asked: BTreeSet<Spot>,
    pub(super) entries: Vec<Entry>,
    /// Seen while the story went on.
    pub(super) violations: Vec<Violation>,
}

impl Ledger {
    pub(super) fn created(&mut self, site: usize, service: &Service) {
        let spot = (site, service.name().clone());
        // Who asked while it was being made still waits for it to be removed.
        let waiting = |entry: &Entry| entry.removes && entry.ended.is_none() && entry.spot == spot;
        if !self.entries.iter().any(waiting) {
            self.asked.remove(&spot);
        }
        let federation = federation_of(&service.definition);
        let origin = if service.definition.is_worker() && !federation.is_empty() {
            Origin::Federation(federation.to_owned())
        } else {
            Origin::User
        };
        self.origins.insert(spot, origin);
    }

    pub(super) fn replaced(&mut self, site: usize, service: &Service) {
        if !service.definition.is_worker() {
            self.origins.insert((site, service.name().clone()), Origin::User);
        }
    }

    pub(super) fn removed(&mut self, site: usize, name: &ServiceName) {
        let spot = (site, name.clone());
        let origin = self.origins.remove(&spot);
        if origin == Some(Origin::User) && !self.asked.contains(&spot) {
            let found = format!("{name} at c{site} was its owner's, and nobody wanted it removed");
            self.violations.push(Violation::new("I3: nothing is deleted that the federation did not create", found));
        }
    }

    pub(super) fn leaked(&mut self, found: String) {
        self.violations.push(Violation::new("I9: a refresh token is found nowhere but in its store", found));
    }

    /// Something is begun; returns its number.
    pub(super) fn begin(&mut self, entry: Entry) -> usize {
        if entry.removes {
            self.asked.insert(entry.spot.clone());
        }
        self.entries.push(entry);
        self.entries.len() - 1
    }

    pub(super) fn end(&mut self, number: usize, at: Millis, outcome: Outcome) {
        let entry = &mut self.entries[number];
        (entry.ended, entry.outcome) = (Some(at), outcome);
    }

    /// Those deeds of which the last one counts, for a spot: the last that was acknowledged, and
    /// whatever may have come after it.
    pub(super) fn last_words<'a>(
        &'a self,
        concerns: impl Fn(&Entry) -> bool + 'a,
    ) -> impl Iterator<Item = (usize, &'a Entry)> {
        let concerned: Vec<_> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| !matches!(entry.outcome, Outcome::Refused(_)) && concerns(entry))
            .collect();
        let last = concerned.iter().filter(|(_, entry)| entry.outcome == Outcome::Done);
        let since = last.map(|(_, entry)| entry.begun).max().unwrap_or(0);
        concerned.into_iter().filter(move |(_, entry)| entry.ended.is_none_or(|ended| ended >= since))
    }
}

/// What a failure says about what was changed.
pub(super) fn judge(failure: &Failure) -> Outcome {
    match failure {
        Failure::CoordinatorSilent { .. } | Failure::Store(_) => Outcome::Unclear,
        other => Outcome::Refused(other.to_string()),
    }
}
