//! Who is in a federation, as every member knows it: a state that merges.
//!
//! Each part of a record remembers when it was written, by a Lamport time and the instance that
//! wrote it; the later one wins. Merging is commutative, associative and idempotent, so members
//! that were cut off from each other agree as soon as they have talked, whatever the order.

use std::collections::{BTreeMap, BTreeSet};

use super::topology::MemberId;

/// When and by whom something was written. Later means greater.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    pub time: u64,
    pub instance: String,
}

/// A value of which the last writer wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<T> {
    pub value: T,
    pub at: Stamp,
}

impl<T: Clone + Ord> Written<T> {
    /// Equal stamps carry equal values; should they not, the greater value wins, so that the
    /// order of merging never matters.
    fn merge(&mut self, other: &Self) {
        if (&other.at, &other.value) > (&self.at, &self.value) {
            self.clone_from(other);
        }
    }
}

/// What can be changed of a member without making it another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attributes {
    pub priority: u32,
    pub ssl_verify: bool,
    pub headers: BTreeMap<String, String>,
    pub parent: Option<String>,
}

/// Where a member's cluster is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The address of its manager.
    pub url: String,
    /// Whether its certificate must be good.
    pub verify: bool,
}

impl Place {
    pub fn new(url: impl Into<String>, verify: bool) -> Self {
        Self { url: url.into(), verify }
    }
}

/// Whether a member gets jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Duty {
    #[default]
    Active,
    /// No new jobs.
    Paused,
    /// No new jobs; it may be removed when it has finished.
    Draining,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    Present,
    /// Kept so that a member that missed the removal does not bring it back.
    Removed,
    /// Removed, and its service with it where the federation created it.
    Discarded,
}

impl Presence {
    pub fn is_present(self) -> bool {
        self == Self::Present
    }
}

/// One member as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub presence: Written<Presence>,
    pub attributes: Written<Attributes>,
    pub duty: Written<Duty>,
    pub endpoint: Written<Place>,
    /// The instances that have seen the removal.
    pub acknowledged: BTreeSet<String>,
}

/// Everything that is known of who is in a federation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    records: BTreeMap<MemberId, Record>,
    /// The greatest time that was seen.
    time: u64,
}

impl Membership {
    /// The stamp of the next change that `instance` makes here.
    fn next(&mut self, instance: &str) -> Stamp {
        self.time += 1;
        Stamp { time: self.time, instance: instance.to_owned() }
    }

    /// Adds a member, or brings a removed one back. What is there already stays as it is.
    pub fn add(&mut self, id: MemberId, attributes: Attributes, endpoint: Place, instance: &str) {
        if self.is_member(&id) {
            return;
        }
        let at = self.next(instance);
        let record = Record {
            presence: Written { value: Presence::Present, at: at.clone() },
            attributes: Written { value: attributes, at: at.clone() },
            duty: Written { value: Duty::Active, at: at.clone() },
            endpoint: Written { value: endpoint, at },
            acknowledged: BTreeSet::new(),
        };
        self.records.insert(id, record);
    }

    pub fn set_attributes(&mut self, id: &MemberId, attributes: Attributes, instance: &str) -> bool {
        self.change(id, instance, |record, at| record.attributes = Written { value: attributes, at })
    }

    pub fn set_duty(&mut self, id: &MemberId, duty: Duty, instance: &str) -> bool {
        self.change(id, instance, |record, at| record.duty = Written { value: duty, at })
    }

    pub fn set_endpoint(&mut self, id: &MemberId, endpoint: Place, instance: &str) -> bool {
        self.change(id, instance, |record, at| record.endpoint = Written { value: endpoint, at })
    }

    pub fn remove(&mut self, id: &MemberId, discard: bool, instance: &str) -> bool {
        let value = if discard { Presence::Discarded } else { Presence::Removed };
        self.change(id, instance, |record, at| {
            record.presence = Written { value, at };
            record.acknowledged = BTreeSet::new();
        })
    }

    /// Changes a present member; false when there is none.
    fn change(&mut self, id: &MemberId, instance: &str, change: impl FnOnce(&mut Record, Stamp)) -> bool {
        if !self.is_member(id) {
            return false;
        }
        let at = self.next(instance);
        if let Some(record) = self.records.get_mut(id) {
            change(record, at);
        }
        true
    }

    pub fn is_member(&self, id: &MemberId) -> bool {
        self.get(id).is_some()
    }

    pub fn get(&self, id: &MemberId) -> Option<&Record> {
        self.records.get(id).filter(|record| record.presence.value.is_present())
    }

    pub fn members(&self) -> impl Iterator<Item = (&MemberId, &Record)> {
        self.records.iter().filter(|(_, record)| record.presence.value.is_present())
    }

    pub fn removed(&self) -> impl Iterator<Item = &MemberId> {
        self.records.iter().filter(|(_, record)| !record.presence.value.is_present()).map(|(id, _)| id)
    }

    /// Everything, removals too, for whoever stores or sends it.
    pub fn records(&self) -> impl Iterator<Item = (&MemberId, &Record)> {
        self.records.iter()
    }

    /// The greatest time that was seen.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// What [`Membership::records`] and [`Membership::time`] took apart. A time below that of
    /// a record is raised to it: the next change must be later than all.
    pub fn from_records(records: BTreeMap<MemberId, Record>, time: u64) -> Self {
        let greatest = records.values().flat_map(Record::times).max().unwrap_or_default();
        Self { records, time: time.max(greatest) }
    }

    /// Something happened that no record tells: whatever is said from now on is later.
    pub fn advance(&mut self) {
        self.time += 1;
    }

    /// Takes over what another member knows.
    pub fn merge(&mut self, other: &Self) {
        self.time = self.time.max(other.time);
        for (id, theirs) in &other.records {
            match self.records.get_mut(id) {
                None => {
                    self.records.insert(id.clone(), theirs.clone());
                }
                Some(ours) => ours.merge(theirs),
            }
        }
    }

    /// Notes that `instance` has seen every removal that is known here.
    pub fn acknowledge(&mut self, instance: &str) {
        for record in self.records.values_mut().filter(|record| !record.presence.value.is_present()) {
            record.acknowledged.insert(instance.to_owned());
        }
    }

    /// Forgets removals that every living instance has seen: nobody is left who could bring
    /// the member back by accident.
    pub fn forget(&mut self, living: &BTreeSet<String>) {
        self.records.retain(|_, record| record.presence.value.is_present() || !living.is_subset(&record.acknowledged));
    }
}

impl Record {
    fn times(&self) -> [u64; 4] {
        [self.presence.at.time, self.attributes.at.time, self.duty.at.time, self.endpoint.at.time]
    }

    fn merge(&mut self, other: &Self) {
        // Acknowledgements belong to one removal: those of an older one count for nothing.
        match other.presence.at.cmp(&self.presence.at) {
            std::cmp::Ordering::Greater => self.acknowledged.clone_from(&other.acknowledged),
            std::cmp::Ordering::Equal => self.acknowledged.extend(other.acknowledged.iter().cloned()),
            std::cmp::Ordering::Less => {}
        }
        self.presence.merge(&other.presence);
        self.attributes.merge(&other.attributes);
        self.duty.merge(&other.duty);
        self.endpoint.merge(&other.endpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ServiceName;
    use proptest::prelude::*;

    fn id(index: u8) -> MemberId {
        let service_name = ServiceName::parse(&format!("s{index}")).expect("valid");
        MemberId { cluster_id: format!("c{index}"), service_name }
    }

    /// One change that somebody makes.
    #[derive(Debug, Clone)]
    enum Edit {
        Add(u8),
        Remove(u8),
        Priority(u8, u32),
        Pause(u8),
        Move(u8),
        Acknowledge,
    }

    fn edit() -> impl Strategy<Value = Edit> {
        prop_oneof![
            (0u8..4).prop_map(Edit::Add),
            (0u8..4).prop_map(Edit::Remove),
            (0u8..4, 0u32..5).prop_map(|(index, priority)| Edit::Priority(index, priority)),
            (0u8..4).prop_map(Edit::Pause),
            (0u8..4).prop_map(Edit::Move),
            Just(Edit::Acknowledge),
        ]
    }

    fn apply(state: &mut Membership, edit: &Edit, instance: &str) {
        match *edit {
            Edit::Add(index) => {
                state.add(id(index), Attributes::default(), Place::new(format!("https://{index}"), true), instance);
            }
            Edit::Remove(index) => drop(state.remove(&id(index), index % 2 == 0, instance)),
            Edit::Priority(index, priority) => {
                let attributes = Attributes { priority, ..Attributes::default() };
                state.set_attributes(&id(index), attributes, instance);
            }
            Edit::Pause(index) => drop(state.set_duty(&id(index), Duty::Paused, instance)),
            Edit::Move(index) => drop(state.set_endpoint(&id(index), Place::new("https://moved", false), instance)),
            Edit::Acknowledge => state.acknowledge(instance),
        }
    }

    fn mk_state(edits: &[Edit], instance: &str) -> Membership {
        let mut state = Membership::default();
        for edit in edits {
            apply(&mut state, edit, instance);
        }
        state
    }

    fn merged(a: &Membership, b: &Membership) -> Membership {
        let mut both = a.clone();
        both.merge(b);
        both
    }

    proptest! {
        #[test]
        fn merging_is_a_join(
            a in prop::collection::vec(edit(), 0..12),
            b in prop::collection::vec(edit(), 0..12),
            c in prop::collection::vec(edit(), 0..12),
        ) {
            let (a, b, c) = (mk_state(&a, "a"), mk_state(&b, "b"), mk_state(&c, "c"));
            prop_assert_eq!(merged(&a, &b), merged(&b, &a), "commutative");
            prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)), "associative");
            prop_assert_eq!(merged(&a, &a), a.clone(), "idempotent");
        }

        #[test]
        fn two_halves_agree_after_they_have_talked(
            before in prop::collection::vec(edit(), 0..8),
            left in prop::collection::vec(edit(), 0..8),
            right in prop::collection::vec(edit(), 0..8),
        ) {
            let start = mk_state(&before, "a");
            let (mut one, mut two) = (start.clone(), start);
            for edit in &left {
                apply(&mut one, edit, "a");
            }
            for edit in &right {
                apply(&mut two, edit, "b");
            }
            prop_assert_eq!(merged(&one, &two), merged(&two, &one));
        }
    }

    #[test]
    fn edits_of_different_members_both_survive() {
        let mut start = Membership::default();
        start.add(id(0), Attributes::default(), Place::default(), "a");
        start.add(id(1), Attributes::default(), Place::default(), "a");
        let (mut one, mut two) = (start.clone(), start);
        one.set_duty(&id(0), Duty::Paused, "a");
        two.remove(&id(1), true, "b");
        two.add(id(2), Attributes::default(), Place::default(), "b");
        let both = merged(&one, &two);
        assert_eq!(both.get(&id(0)).map(|record| record.duty.value), Some(Duty::Paused));
        assert!(!both.is_member(&id(1)) && both.is_member(&id(2)));
    }

    #[test]
    fn a_removal_is_forgotten_when_every_living_member_has_seen_it() {
        let mut state = Membership::default();
        state.add(id(0), Attributes::default(), Place::default(), "a");
        let missed = state.clone();
        state.remove(&id(0), false, "a");
        state.acknowledge("a");
        let living = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        state.forget(&living);
        assert_eq!(state.removed().count(), 1, "b has not seen it");
        assert!(!merged(&state, &missed).is_member(&id(0)), "who missed it does not bring it back");
        state.acknowledge("b");
        state.forget(&living);
        assert_eq!(state.removed().count(), 0);
    }
}
