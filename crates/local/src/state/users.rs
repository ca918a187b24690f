//! Homes of owners.

use async_trait::async_trait;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::users::{Home, Users};
use oscar_model::identity::Owner;
use oscar_model::namespace::candidates;
use rusqlite::OptionalExtension as _;

use super::LocalStore;
use super::index::Index;
use super::writer::{Batch, Change, Failure};

#[async_trait]
impl Users for LocalStore {
    async fn ensure(&self, owner: &Owner, display_name: &str) -> Result<Home, StoreError> {
        let known = self.index().home_of(owner, &self.namespace);
        if let Some(namespace) = known {
            return Ok(Home { namespace });
        }
        let candidates = candidates(owner, &self.namespace);
        let (owner, display_name) = (owner.as_str().to_owned(), display_name.to_owned());
        self.submit(Settle { owner, display_name, candidates }).await
    }

    async fn look(&self, owner: &Owner) -> Result<Home, StoreError> {
        let index = self.index();
        let free_or_own = |namespace: &String| index.homes.get(namespace).is_none_or(|holder| holder == owner.as_str());
        let namespace = candidates(owner, &self.namespace).into_iter().find(free_or_own);
        namespace.map(|namespace| Home { namespace }).ok_or(StoreError::Conflict)
    }
}

/// Gives an owner the first candidate that is nobody else's.
struct Settle {
    owner: String,
    display_name: String,
    candidates: Vec<String>,
}

impl Change for Settle {
    type Step = String;
    type Output = Home;

    fn apply(&self, batch: &mut Batch<'_>) -> Result<String, Failure> {
        let mut holder_of = batch.sql.prepare_cached("SELECT owner FROM users WHERE namespace = ?1")?;
        for namespace in &self.candidates {
            let holder: Option<String> = holder_of.query_row([namespace], |row| row.get(0)).optional()?;
            match holder {
                Some(holder) if holder == self.owner => return Ok(namespace.clone()),
                Some(_) => {}
                None => {
                    batch
                        .sql
                        .prepare_cached("INSERT INTO users (namespace, owner, display_name) VALUES (?1, ?2, ?3)")?
                        .execute([namespace, &self.owner, &self.display_name])?;
                    return Ok(namespace.clone());
                }
            }
        }
        Err(Failure::Refused(StoreError::Conflict))
    }

    fn publish(self, namespace: String, index: &mut Index) -> Home {
        index.homes.insert(namespace.clone(), self.owner);
        Home { namespace }
    }
}
