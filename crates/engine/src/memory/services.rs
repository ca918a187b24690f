use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use oscar_model::name::ServiceName;
use oscar_model::service::{Sensitive, Service};

use crate::catalogue::Catalogue;
use crate::ports::StoreError;
use crate::ports::services::{Entry, Revision, Scope, Services, Stored};

#[derive(Default)]
pub struct MemoryServices {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    catalogue: Catalogue,
    sensitive: HashMap<String, Sensitive>,
    last_revision: u64,
    is_full: bool,
}

impl State {
    fn put(&mut self, service: Service, sensitive: Sensitive) -> Arc<Stored> {
        self.last_revision += 1;
        let revision = Revision::new(self.last_revision.to_string());
        let stored = Arc::new(Stored { service, revision });
        self.sensitive.insert(stored.service.name().to_string(), sensitive);
        self.catalogue.put(Entry::Good(stored.clone()));
        stored
    }
}

impl MemoryServices {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing more can be written, or it can again.
    pub fn fill(&self, is_full: bool) {
        self.state().is_full = is_full;
    }

    /// Plants a definition that cannot be read, as a broken store would hold it.
    pub fn plant_broken(&self, name: &str, cause: &str) {
        self.state().catalogue.put(Entry::Broken {
            name: name.to_owned(),
            namespace: "oscar-svc".to_owned(),
            cause: cause.to_owned(),
        });
    }
}

#[async_trait]
impl Services for MemoryServices {
    async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError> {
        let mut state = self.state();
        if state.catalogue.entry(service.name().as_str()).is_some() {
            return Err(StoreError::AlreadyExists);
        }
        Ok(state.put(service, sensitive))
    }

    async fn replace(
        &self,
        service: Service,
        sensitive: Sensitive,
        expected: &Revision,
    ) -> Result<Arc<Stored>, StoreError> {
        let mut state = self.state();
        let stored = state.catalogue.get(service.name())?.ok_or(StoreError::NotFound)?;
        if stored.revision != *expected {
            return Err(StoreError::Conflict);
        }
        if state.is_full {
            return Err(StoreError::Full("planted".to_owned()));
        }
        Ok(state.put(service, sensitive))
    }

    async fn remove(&self, name: &ServiceName, expected: Option<&Revision>) -> Result<(), StoreError> {
        let mut state = self.state();
        match (state.catalogue.entry(name.as_str()), expected) {
            (None, _) => return Err(StoreError::NotFound),
            (Some(Entry::Good(stored)), Some(expected)) if stored.revision != *expected => {
                return Err(StoreError::Conflict);
            }
            (Some(_), _) => {}
        }
        state.catalogue.remove(name.as_str());
        state.sensitive.remove(name.as_str());
        Ok(())
    }

    async fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError> {
        self.state().catalogue.get(name)
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<Entry>, StoreError> {
        Ok(self.state().catalogue.list(scope))
    }

    async fn reveal(&self, name: &ServiceName) -> Result<Sensitive, StoreError> {
        self.state().sensitive.get(name.as_str()).cloned().ok_or(StoreError::NotFound)
    }
}
