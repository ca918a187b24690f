use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use oscar_model::identity::Owner;
use oscar_model::namespace::candidates;

use crate::ports::StoreError;
use crate::ports::users::{Home, Users};

/// Namespaces by name, each with its owner.
pub struct MemoryUsers {
    prefix: String,
    owners: Mutex<BTreeMap<String, Owner>>,
}

impl MemoryUsers {
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), owners: Mutex::default() }
    }
}

#[async_trait]
impl Users for MemoryUsers {
    async fn ensure(&self, owner: &Owner, _display_name: &str) -> Result<Home, StoreError> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        for namespace in candidates(owner, &self.prefix) {
            let holder = owners.entry(namespace.clone()).or_insert_with(|| owner.clone());
            if holder == owner {
                return Ok(Home { namespace });
            }
        }
        Err(StoreError::Conflict)
    }

    async fn look(&self, owner: &Owner) -> Result<Home, StoreError> {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let free_or_own = |namespace: &String| owners.get(namespace).is_none_or(|holder| holder == owner);
        let namespace = candidates(owner, &self.prefix).into_iter().find(free_or_own);
        namespace.map(|namespace| Home { namespace }).ok_or(StoreError::Conflict)
    }
}
