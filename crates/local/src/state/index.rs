//! What the store keeps in memory: everything but the secrets.

use std::collections::HashMap;
use std::sync::Arc;

use oscar_api::record;
use oscar_engine::catalogue::Catalogue;
use oscar_engine::ports::services::{Entry, Revision, Stored};
use oscar_model::identity::Owner;
use oscar_model::namespace::candidates;
use rusqlite::{Connection, Row};

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) catalogue: Catalogue,
    /// The revisions of rows that could not be read when the store was opened. A row of that
    /// name with another revision is a readable successor.
    pub(super) broken: HashMap<String, i64>,
    /// Who has which namespace, in the stored form of an owner.
    pub(super) homes: HashMap<String, String>,
    pub(super) repositories: Vec<String>,
}

impl Index {
    /// Reads everything, with the last revision that was given out.
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<(Self, i64)> {
        let mut index = Self::default();
        let mut last: i64 =
            connection.query_row("SELECT value FROM counters WHERE name = 'revision'", (), |row| row.get(0))?;
        let mut statement = connection.prepare("SELECT name, namespace, revision, config, script FROM services")?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            // Guards against a counter that was set back by hand.
            last = last.max(index.load_service(row)?);
        }
        let mut statement = connection.prepare("SELECT namespace, owner FROM users")?;
        index.homes =
            statement.query_map((), |row| Ok((text(row, 0)?, text(row, 1)?)))?.collect::<rusqlite::Result<_>>()?;
        let mut statement = connection.prepare("SELECT repository FROM image_repositories ORDER BY position")?;
        index.repositories = statement.query_map((), |row| text(row, 0))?.collect::<rusqlite::Result<_>>()?;
        Ok((index, last))
    }

    fn load_service(&mut self, row: &Row<'_>) -> rusqlite::Result<i64> {
        let (name, namespace) = (text(row, 0)?, text(row, 1)?);
        let revision: i64 = row.get(2)?;
        let entry = match parse_service(row, &name, &namespace) {
            Ok(service) => {
                let revision = Revision::new(revision.to_string());
                Entry::Good(Arc::new(Stored { service, revision }))
            }
            Err(cause) => {
                tracing::warn!(service = name, cause, "a stored definition cannot be read");
                self.broken.insert(name.clone(), revision);
                Entry::Broken { name, namespace, cause }
            }
        };
        self.catalogue.put(entry);
        Ok(revision)
    }

    pub(super) fn put(&mut self, stored: Arc<Stored>) {
        self.broken.remove(stored.service.name().as_str());
        self.catalogue.put(Entry::Good(stored));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.broken.remove(name);
        self.catalogue.remove(name);
    }

    /// The home that the owner has: the first candidate that is not somebody else's, unless
    /// nobody has that one yet.
    pub(super) fn home_of(&self, owner: &Owner, prefix: &str) -> Option<String> {
        candidates(owner, prefix)
            .into_iter()
            .map(|namespace| (self.homes.get(&namespace), namespace))
            .find(|(holder, _)| holder.is_none_or(|holder| holder == owner.as_str()))
            .and_then(|(holder, namespace)| holder.map(|_| namespace))
    }
}

fn parse_service(row: &Row<'_>, name: &str, namespace: &str) -> Result<oscar_model::service::Service, String> {
    let column = |index: usize, what: &str| {
        let value = row.get_ref(index).map_err(|error| error.to_string())?;
        value.as_str().map_err(|_| format!("its {what} is not text"))
    };
    let service = record::from_text(column(3, "definition")?, column(4, "script")?, namespace)?;
    if service.name().as_str() == name {
        Ok(service)
    } else {
        Err(format!("it is kept as '{name}' but calls itself '{}'", service.name()))
    }
}

/// Text as far as it is valid: a damaged one must not hide the others.
fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<String> {
    let value = row.get_ref(index)?;
    Ok(String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned())
}
