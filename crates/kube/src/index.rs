//! Every service of the cluster by name, from the watched records.
//!
//! Kubernetes keeps names apart by namespace only, so somebody can put two records of one
//! name beside each other. Both are listed, as broken; neither is answered for the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_openapi::api::core::v1::ConfigMap;
use oscar_engine::catalogue::Catalogue;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Scope, Stored};
use oscar_model::name::ServiceName;

use crate::layout::record::{Keeping, Row, read_record};
use crate::mirror::{key_of, stamp_of};
use crate::shelf::{Certainty, Key, Shelf, Stamp, Ticket};
use crate::watch::{Link, Sink};

#[derive(Default)]
pub(crate) struct Index {
    inner: RwLock<Inner>,
    link: Link,
}

#[derive(Default)]
struct Inner {
    shelf: Shelf<Row>,
    catalogue: Catalogue,
    /// In which namespaces each name is.
    places: BTreeMap<String, BTreeSet<String>>,
    /// Names that are in more than one.
    doubled: BTreeSet<String>,
    /// Records of ours that somebody else deleted: their secrets may still be there.
    orphaned: BTreeSet<Key>,
}

/// Where a name is.
#[derive(Debug)]
pub(crate) enum Found {
    Nowhere,
    At(Key, Row),
    /// In several namespaces, in the words of an error.
    Doubled(String),
}

impl Index {
    pub(crate) fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError> {
        self.check()?;
        self.read().catalogue.get(name)
    }

    pub(crate) fn list(&self, scope: &Scope) -> Result<Vec<Entry>, StoreError> {
        self.check()?;
        Ok(self.read().list(scope))
    }

    pub(crate) fn find(&self, name: &str) -> Result<Found, StoreError> {
        self.check()?;
        Ok(self.read().find(name))
    }

    fn check(&self) -> Result<(), StoreError> {
        self.link.check("services")
    }

    /// To be called before the apiserver is asked to write a record.
    pub(crate) fn writing(&self) -> Writing<'_> {
        let ticket = self.write().shelf.begin_write();
        Writing { index: self, ticket: Some(ticket) }
    }

    /// Records whose secrets may have been left behind; each is told once.
    pub(crate) fn take_orphaned(&self) -> BTreeSet<Key> {
        std::mem::take(&mut self.write().orphaned)
    }

    pub(crate) fn note_orphaned(&self, key: Key) {
        self.write().orphaned.insert(key);
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write of ours that is under way. Dropped, it had no effect that we know of.
pub(crate) struct Writing<'a> {
    index: &'a Index,
    ticket: Option<Ticket>,
}

impl Writing<'_> {
    /// The apiserver stored this record.
    pub(crate) fn wrote(mut self, record: &ConfigMap) -> Row {
        let row = read_record(record);
        let key = key_of(&record.metadata);
        let Some(ticket) = self.ticket.take() else { return row };
        let mut inner = self.index.write();
        let certainty = inner.shelf.wrote(&ticket, key.clone(), stamp_of(&record.metadata), row.clone());
        inner.shelf.end_write(ticket);
        inner.refresh(&key);
        drop(inner);
        if certainty == Certainty::Unsure {
            self.index.link.doubt();
        }
        row
    }

    /// The apiserver deleted this record.
    pub(crate) fn deleted(mut self, key: &Key, stamp: Stamp) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut inner = self.index.write();
        inner.shelf.gone(key, stamp);
        inner.shelf.end_write(ticket);
        inner.refresh(key);
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.index.write().shelf.end_write(ticket);
        }
    }
}

impl Inner {
    /// Makes everything else agree with the shelf about one name.
    fn refresh(&mut self, key: &Key) {
        let name = key.name.as_str();
        let places = self.places.entry(name.to_owned()).or_default();
        if self.shelf.get(key).is_some() {
            places.insert(key.namespace.clone());
        } else {
            places.remove(&key.namespace);
        }
        let count = places.len();
        if count == 0 {
            self.places.remove(name);
        }
        if count > 1 {
            self.doubled.insert(name.to_owned());
        } else {
            self.doubled.remove(name);
        }
        match self.find(name) {
            Found::Nowhere => drop(self.catalogue.remove(name)),
            Found::At(_, row) => self.catalogue.put(row.entry),
            Found::Doubled(cause) => {
                let namespace = self.places.get(name).and_then(BTreeSet::first).cloned().unwrap_or_default();
                self.catalogue.put(Entry::Broken { name: name.to_owned(), namespace, cause });
            }
        }
    }

    fn find(&self, name: &str) -> Found {
        let Some(places) = self.places.get(name) else { return Found::Nowhere };
        if places.len() > 1 {
            let all = places.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
            return Found::Doubled(format!(
                "service '{name}' has a ConfigMap in each of the namespaces {all}; delete all but one"
            ));
        }
        let at = places.first().map(|namespace| Key::new(namespace, name));
        match at.and_then(|key| self.shelf.get(&key).map(|row| (key, row.clone()))) {
            Some((key, row)) => Found::At(key, row),
            None => Found::Nowhere,
        }
    }

    fn list(&self, scope: &Scope) -> Vec<Entry> {
        let listed = self.catalogue.list(scope);
        if self.doubled.is_empty() {
            return listed;
        }
        let mut all: Vec<Entry> = listed.into_iter().filter(|entry| !self.doubled.contains(entry.name())).collect();
        for name in &self.doubled {
            all.extend(self.halves(name, scope));
        }
        all.sort_by(|one, other| one.name().cmp(other.name()));
        all
    }

    /// One broken row for each record of a doubled name that the scope would show alone.
    fn halves(&self, name: &str, scope: &Scope) -> Vec<Entry> {
        let Found::Doubled(cause) = self.find(name) else { return Vec::new() };
        let mut rows = Vec::new();
        for namespace in self.places.get(name).into_iter().flatten() {
            let Some(row) = self.shelf.get(&Key::new(namespace, name)) else { continue };
            let mut alone = Catalogue::default();
            alone.put(row.entry.clone());
            if !alone.list(scope).is_empty() {
                let (name, namespace, cause) = (name.to_owned(), namespace.clone(), cause.clone());
                rows.push(Entry::Broken { name, namespace, cause });
            }
        }
        rows
    }
}

impl Sink<ConfigMap> for Index {
    fn begin(&self) {
        self.write().shelf.begin();
    }

    fn listed(&self, record: ConfigMap) {
        let row = read_record(&record);
        self.write().shelf.listed(key_of(&record.metadata), stamp_of(&record.metadata), row);
    }

    fn finish(&self) {
        let mut inner = self.write();
        let (changed, certainty) = inner.shelf.finish();
        for key in changed {
            inner.refresh(&key);
        }
        if certainty == Certainty::Unsure {
            self.link.doubt();
        }
    }

    fn applied(&self, record: ConfigMap) {
        let row = read_record(&record);
        let key = key_of(&record.metadata);
        let mut inner = self.write();
        if inner.shelf.applied(key.clone(), stamp_of(&record.metadata), row) {
            inner.refresh(&key);
        }
    }

    fn deleted(&self, record: ConfigMap) {
        let key = key_of(&record.metadata);
        let mut inner = self.write();
        if inner.shelf.deleted(&key, &stamp_of(&record.metadata)) {
            inner.refresh(&key);
            if matches!(Keeping::read(&record.metadata), Keeping::Kept(_)) {
                inner.orphaned.insert(key);
            }
        }
    }

    fn link(&self) -> &Link {
        &self.link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::record::build_record;
    use oscar_engine::testing::make::{mk_owner, mk_service, mk_subject};

    fn mk_record(name: &str, namespace: &str, owner: &str, version: u64) -> ConfigMap {
        let mut service = mk_service(name, &mk_owner(owner));
        namespace.clone_into(&mut service.namespace);
        let mut record = build_record(&service, &Keeping::Upstream);
        record.metadata.uid = Some(format!("{namespace}-{name}"));
        record.metadata.resource_version = Some(version.to_string());
        record
    }

    fn mk_synced() -> Index {
        let index = Index::default();
        index.begin();
        index.finish();
        index
    }

    fn shown(index: &Index, scope: &Scope) -> Vec<String> {
        let row = |entry: &Entry| match entry {
            Entry::Good(stored) => stored.service.name().to_string(),
            Entry::Broken { name, namespace, .. } => format!("{namespace}/{name}!"),
        };
        index.read().list(scope).iter().map(row).collect()
    }

    #[test]
    fn a_doubled_name_is_broken_until_one_is_gone() {
        let index = mk_synced();
        index.applied(mk_record("same", "a", "alice", 1));
        index.applied(mk_record("other", "a", "alice", 2));
        index.applied(mk_record("same", "b", "bob", 3));
        assert_eq!(shown(&index, &Scope::All), ["other", "a/same!", "b/same!"]);
        let alice = Scope::VisibleTo(mk_subject("alice"));
        assert_eq!(shown(&index, &alice), ["other", "a/same!"]);
        let name = ServiceName::parse("same").expect("valid");
        let Err(StoreError::Broken(cause)) = index.read().catalogue.get(&name) else { panic!("it is broken") };
        assert!(cause.contains("a and b"), "{cause}");
        index.deleted(mk_record("same", "a", "alice", 4));
        assert_eq!(shown(&index, &Scope::All), ["other", "same"]);
        assert_eq!(shown(&index, &alice), ["other"]);
    }

    #[test]
    fn nothing_is_answered_before_the_whole_was_seen() {
        let index = Index::default();
        assert!(matches!(index.list(&Scope::All), Err(StoreError::Unavailable(_))));
    }
}
