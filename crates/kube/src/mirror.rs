//! A shelf of what matters of each object of a kind, fed by a watch.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::shelf::{Certainty, Key, Shelf, Stamp, Ticket};
use crate::watch::{Link, Sink};

pub(crate) struct Mirror<K, V> {
    shelf: RwLock<Shelf<V>>,
    link: Link,
    reduce: fn(K) -> V,
}

pub(crate) fn key_of(meta: &ObjectMeta) -> Key {
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

pub(crate) fn stamp_of(meta: &ObjectMeta) -> Stamp {
    Stamp { uid: meta.uid.clone().unwrap_or_default(), version: meta.resource_version.clone().unwrap_or_default() }
}

impl<K, V> Mirror<K, V>
where
    K: Resource<DynamicType = ()> + Send + 'static,
    V: Send + Sync + 'static,
{
    /// `reduce` keeps what readers need, so that memory follows the answers and not the
    /// objects.
    pub(crate) fn new(reduce: fn(K) -> V) -> Self {
        Self { shelf: RwLock::default(), link: Link::default(), reduce }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Shelf<V>> {
        self.shelf.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shelf<V>> {
        self.shelf.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin_write(&self) -> Ticket {
        self.write().begin_write()
    }

    /// Ends a write of ours; `answer` is what the apiserver made of it, when it did.
    pub(crate) fn end_write(&self, ticket: Ticket, answer: Option<K>) {
        let answer = answer.map(|object| (key_of(object.meta()), stamp_of(object.meta()), (self.reduce)(object)));
        let mut known = self.write();
        let certainty = match answer {
            Some((key, stamp, value)) => known.wrote(&ticket, key, stamp, value),
            None => Certainty::Sure,
        };
        known.end_write(ticket);
        drop(known);
        if certainty == Certainty::Unsure {
            self.link.doubt();
        }
    }
}

impl<K, V> Sink<K> for Mirror<K, V>
where
    K: Resource<DynamicType = ()> + Send + 'static,
    V: Send + Sync + 'static,
{
    fn begin(&self) {
        self.write().begin();
    }

    fn listed(&self, object: K) {
        let (key, stamp) = (key_of(object.meta()), stamp_of(object.meta()));
        let value = (self.reduce)(object);
        self.write().listed(key, stamp, value);
    }

    fn finish(&self) {
        if self.write().finish().1 == Certainty::Unsure {
            self.link.doubt();
        }
    }

    fn applied(&self, object: K) {
        let (key, stamp) = (key_of(object.meta()), stamp_of(object.meta()));
        let value = (self.reduce)(object);
        self.write().applied(key, stamp, value);
    }

    fn deleted(&self, object: K) {
        self.write().deleted(&key_of(object.meta()), &stamp_of(object.meta()));
    }

    fn link(&self) -> &Link {
        &self.link
    }
}
