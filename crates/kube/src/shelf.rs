//! What is known of the objects of one kind: what a watch told, and what our own writes
//! answered before the watch caught up.
//!
//! Two sources tell about one object, in any order relative to each other, so every step
//! decides which of two versions is the later one. Within one object, and for one name that
//! was removed and made again, later is the larger `resourceVersion`: Kubernetes documents
//! them as comparable whole numbers. Where they are not, the watch is believed.
//!
//! Three things cannot be told by comparing, and are remembered instead: what we removed never
//! comes back (late events of it, and of what had its name before, are ignored until the
//! watch tells its end); what the watch saw go while a write of ours was under way is not put
//! back by that write's answer; and what we wrote after a relist began may be missing from it.

use std::collections::{HashMap, HashSet};

/// Which object: its namespace (blank when it has none) and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Which state of which incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) uid: String,
    pub(crate) version: String,
}

impl Stamp {
    fn is_after(&self, other: &Self) -> bool {
        match (self.version.parse::<u64>(), other.version.parse::<u64>()) {
            (Ok(ours), Ok(theirs)) => ours > theirs,
            _ => false,
        }
    }
}

#[derive(Debug)]
struct Item<V> {
    stamp: Stamp,
    value: V,
    /// The relist that was the latest to begin when we wrote this ourselves.
    written_in: Option<u64>,
}

/// What we removed, until the watch has told its end.
#[derive(Debug)]
struct Removal {
    stamp: Stamp,
    /// The relist that was the latest to begin then.
    since: u64,
}

impl Removal {
    fn covers(&self, stamp: &Stamp) -> bool {
        self.stamp.uid == stamp.uid || self.stamp.is_after(stamp)
    }
}

/// A write of ours that is under way; given back when its answer is here.
#[derive(Debug)]
pub(crate) struct Ticket {
    finished: u64,
}

#[derive(Debug)]
pub(crate) struct Shelf<V> {
    items: HashMap<Key, Item<V>>,
    removed: HashMap<Key, Removal>,
    /// Relists begun and finished.
    begun: u64,
    finished: u64,
    listing: HashMap<Key, (Stamp, V)>,
    writes: usize,
    /// Uids whose end the watch told while a write of ours was under way.
    ended: HashSet<String>,
}

impl<V> Default for Shelf<V> {
    fn default() -> Self {
        Self {
            items: HashMap::new(),
            removed: HashMap::new(),
            begun: 0,
            finished: 0,
            listing: HashMap::new(),
            writes: 0,
            ended: HashSet::new(),
        }
    }
}

impl<V> Shelf<V> {
    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        self.items.get(key).map(|item| &item.value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.items.iter().map(|(key, item)| (key, &item.value))
    }

    /// The watch starts over: what it lists from now on is the whole.
    pub(crate) fn begin(&mut self) {
        self.begun += 1;
        self.listing.clear();
    }

    pub(crate) fn listed(&mut self, key: Key, stamp: Stamp, value: V) {
        self.listing.insert(key, (stamp, value));
    }

    /// Everything was listed. Returns the keys that changed. `Unsure` when something that we
    /// wrote after the relist began was not in it: either the list is older, and the watch
    /// will tell, or somebody removed it before it was listed, and nobody will.
    pub(crate) fn finish(&mut self) -> (Vec<Key>, Certainty) {
        let begun = self.begun;
        self.finished = begun;
        self.removed.retain(|_, removal| removal.since == begun);
        let listing = std::mem::take(&mut self.listing);
        let mut changed = Vec::new();
        let mut certainty = Certainty::Sure;
        self.items.retain(|key, item| {
            if listing.contains_key(key) {
                return true;
            }
            if item.written_in == Some(begun) {
                certainty = Certainty::Unsure;
                return true;
            }
            changed.push(key.clone());
            false
        });
        for (key, (stamp, value)) in listing {
            let ours_is_later =
                self.items.get(&key).is_some_and(|item| item.written_in == Some(begun) && item.stamp.is_after(&stamp));
            if ours_is_later || self.is_removed(&key, &stamp) {
                continue;
            }
            self.items.insert(key.clone(), Item { stamp, value, written_in: None });
            changed.push(key);
        }
        (changed, certainty)
    }

    /// The watch tells that an object is so now. Returns whether that was news.
    pub(crate) fn applied(&mut self, key: Key, stamp: Stamp, value: V) -> bool {
        let known_better = self.items.get(&key).is_some_and(|item| item.stamp.is_after(&stamp));
        if known_better || self.is_removed(&key, &stamp) {
            return false;
        }
        self.items.insert(key, Item { stamp, value, written_in: None });
        true
    }

    /// The watch tells that an object is gone, or left the selection.
    pub(crate) fn deleted(&mut self, key: &Key, stamp: &Stamp) -> bool {
        if self.removed.get(key).is_some_and(|removal| removal.stamp.uid == stamp.uid) {
            self.removed.remove(key);
        }
        if self.writes > 0 {
            self.ended.insert(stamp.uid.clone());
        }
        let goes = self.items.get(key).is_some_and(|item| item.stamp.uid == stamp.uid && !item.stamp.is_after(stamp));
        if goes {
            self.items.remove(key);
        }
        goes
    }

    pub(crate) fn begin_write(&mut self) -> Ticket {
        self.writes += 1;
        Ticket { finished: self.finished }
    }

    pub(crate) fn end_write(&mut self, _ticket: Ticket) {
        self.writes = self.writes.saturating_sub(1);
        if self.writes == 0 {
            self.ended.clear();
        }
    }

    /// Our own write answered with this state. `Unsure` when a relist finished meanwhile: the
    /// object may have come and gone unseen, and only another relist can tell.
    pub(crate) fn wrote(&mut self, ticket: &Ticket, key: Key, stamp: Stamp, value: V) -> Certainty {
        let known_better = self.items.get(&key).is_some_and(|item| item.stamp.is_after(&stamp));
        if !known_better && !self.ended.contains(&stamp.uid) && !self.is_removed(&key, &stamp) {
            self.items.insert(key, Item { stamp, value, written_in: Some(self.begun) });
        }
        if ticket.finished == self.finished { Certainty::Sure } else { Certainty::Unsure }
    }

    /// Our own removal was answered; `stamp` is what we knew of the object when we asked.
    pub(crate) fn gone(&mut self, key: &Key, stamp: Stamp) {
        let shown = self.items.get(key);
        if shown.is_some_and(|item| item.stamp.uid == stamp.uid || stamp.is_after(&item.stamp)) {
            self.items.remove(key);
        }
        if !self.ended.contains(&stamp.uid) {
            self.removed.insert(key.clone(), Removal { stamp, since: self.begun });
        }
    }

    fn is_removed(&self, key: &Key, stamp: &Stamp) -> bool {
        self.removed.get(key).is_some_and(|removal| removal.covers(stamp))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Certainty {
    Sure,
    Unsure,
}

#[cfg(test)]
#[path = "shelf_tests.rs"]
mod tests;
