//! The index of services that adapters keep in memory, so that no request scans a store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use oscar_model::identity::{Owner, Subject};
use oscar_model::name::ServiceName;
use oscar_model::service::Visibility;

use crate::ports::StoreError;
use crate::ports::services::{Entry, Scope, Stored};

/// Entries by name, with the names that each user may see.
#[derive(Debug, Default)]
pub struct Catalogue {
    entries: BTreeMap<String, Entry>,
    public: BTreeSet<String>,
    /// Own services and restricted ones that name the user.
    by_user: HashMap<String, BTreeSet<String>>,
}

impl Catalogue {
    pub fn put(&mut self, entry: Entry) {
        let name = entry.name().to_owned();
        self.remove(&name);
        if let Entry::Good(stored) = &entry {
            for user in named_users(stored) {
                self.by_user.entry(user).or_default().insert(name.clone());
            }
            if stored.service.definition.visibility == Visibility::Public {
                self.public.insert(name.clone());
            }
        }
        self.entries.insert(name, entry);
    }

    pub fn remove(&mut self, name: &str) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        self.public.remove(name);
        if let Entry::Good(stored) = &entry {
            for user in named_users(stored) {
                if let Some(names) = self.by_user.get_mut(&user) {
                    names.remove(name);
                    if names.is_empty() {
                        self.by_user.remove(&user);
                    }
                }
            }
        }
        Some(entry)
    }

    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    pub fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError> {
        match self.entries.get(name.as_str()) {
            None => Ok(None),
            Some(Entry::Good(stored)) => Ok(Some(stored.clone())),
            Some(Entry::Broken { cause, .. }) => Err(StoreError::Broken(cause.clone())),
        }
    }

    pub fn list(&self, scope: &Scope) -> Vec<Entry> {
        match scope {
            Scope::All => self.entries.values().cloned().collect(),
            Scope::VisibleTo(subject) => self.visible_to(subject),
        }
    }

    fn visible_to(&self, subject: &Subject) -> Vec<Entry> {
        let nothing = BTreeSet::new();
        let own = self.by_user.get(subject.as_str()).unwrap_or(&nothing);
        self.public.union(own).filter_map(|name| self.entries.get(name).cloned()).collect()
    }
}

/// The users whom a service is shown to by name.
fn named_users(stored: &Stored) -> Vec<String> {
    let service = &stored.service;
    let mut users = Vec::new();
    if let Owner::User(subject) = &service.owner {
        users.push(subject.as_str().to_owned());
    }
    if service.definition.visibility == Visibility::Restricted {
        users.extend(service.definition.allowed_users.iter().cloned());
    }
    users
}
