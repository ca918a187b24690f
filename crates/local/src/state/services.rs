//! Definitions of services and their secrets.

use std::sync::Arc;

use async_trait::async_trait;
use oscar_api::record;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Revision, Scope, Services, Stored};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Sensitive, Service};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::LocalStore;
use super::index::Index;
use super::seal::{Place, Seal, unopened};
use super::writer::{Batch, Change, Failure};

/// The stored words for the kinds of secrets.
const ENVIRONMENT: &str = "environment";
const CLUSTER: &str = "cluster";

const TABLE: &str = "sealed_secrets";

#[async_trait]
impl Services for LocalStore {
    async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError> {
        self.submit(Create(Draft::new(service, &sensitive, &self.seal)?)).await
    }

    async fn replace(
        &self,
        service: Service,
        sensitive: Sensitive,
        expected: &Revision,
    ) -> Result<Arc<Stored>, StoreError> {
        let draft = Draft::new(service, &sensitive, &self.seal)?;
        self.submit(Replace { draft, expected: expected.clone() }).await
    }

    async fn remove(&self, name: &ServiceName, expected: Option<&Revision>) -> Result<(), StoreError> {
        self.submit(Remove { name: name.as_str().to_owned(), expected: expected.cloned() }).await
    }

    async fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError> {
        self.index().catalogue.get(name)
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<Entry>, StoreError> {
        Ok(self.index().catalogue.list(scope))
    }

    async fn reveal(&self, name: &ServiceName) -> Result<Sensitive, StoreError> {
        let service = name.as_str().to_owned();
        let rows = self.read(move |connection| reveal(connection, &service)).await?.ok_or(StoreError::NotFound)?;
        let mut sensitive = Sensitive::default();
        for SealedSecret { kind, name: key, sealed } in rows {
            let place = Place { table: TABLE, key: &[name.as_str(), &kind, &key] };
            let value = self.seal.open(place, &sealed).and_then(|value| String::from_utf8(value).ok());
            let value = Secret::new(value.ok_or_else(|| unopened(place))?);
            let values = if kind == CLUSTER { &mut sensitive.cluster_passwords } else { &mut sensitive.environment };
            values.insert(key, value);
        }
        Ok(sensitive)
    }
}

/// A definition on its way to the database, written out by its caller so that the writer
/// only has to store it.
struct Draft {
    service: Service,
    config: String,
    secrets: Vec<SealedSecret>,
}

/// One value that a definition names, as it is stored.
struct SealedSecret {
    kind: String,
    name: String,
    sealed: Vec<u8>,
}

impl Draft {
    fn new(service: Service, sensitive: &Sensitive, seal: &Seal) -> Result<Self, StoreError> {
        let Sensitive { environment, cluster_passwords } = sensitive;
        let mut secrets = Vec::new();
        for (kind, values) in [(ENVIRONMENT, environment), (CLUSTER, cluster_passwords)] {
            for (name, value) in values {
                let place = Place { table: TABLE, key: &[service.name().as_str(), kind, name] };
                let sealed = seal.seal(place, value.expose().as_bytes())?;
                secrets.push(SealedSecret { kind: kind.to_owned(), name: name.clone(), sealed });
            }
        }
        Ok(Self { config: record::to_json(&service), service, secrets })
    }

    fn name(&self) -> &str {
        self.service.name().as_str()
    }

    fn insert_secrets(&self, sql: &Connection) -> rusqlite::Result<()> {
        let mut insert =
            sql.prepare_cached("INSERT INTO sealed_secrets (service, kind, name, sealed) VALUES (?1, ?2, ?3, ?4)")?;
        for SealedSecret { kind, name, sealed } in &self.secrets {
            insert.execute(params![self.name(), kind, name, sealed])?;
        }
        Ok(())
    }

    fn publish(self, revision: i64, index: &mut Index) -> Arc<Stored> {
        let revision = Revision::new(revision.to_string());
        let stored = Arc::new(Stored { service: self.service, revision });
        index.put(stored.clone());
        stored
    }
}

struct Create(Draft);

impl Change for Create {
    type Step = i64;
    type Output = Arc<Stored>;

    fn apply(&self, batch: &mut Batch<'_>) -> Result<i64, Failure> {
        let Self(draft) = self;
        if revision_of(&batch.sql, draft.name())?.is_some() {
            return Err(Failure::Refused(StoreError::AlreadyExists));
        }
        let revision = batch.next_revision();
        let definition = &draft.service.definition;
        batch
            .sql
            .prepare_cached(
                "INSERT INTO services (name, namespace, revision, config, script) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![draft.name(), draft.service.namespace, revision, draft.config, definition.script])?;
        draft.insert_secrets(&batch.sql)?;
        Ok(revision)
    }

    fn publish(self, revision: i64, index: &mut Index) -> Arc<Stored> {
        self.0.publish(revision, index)
    }
}

struct Replace {
    draft: Draft,
    expected: Revision,
}

impl Change for Replace {
    type Step = i64;
    type Output = Arc<Stored>;

    fn apply(&self, batch: &mut Batch<'_>) -> Result<i64, Failure> {
        let Self { draft, expected } = self;
        match condition(batch, draft.name())? {
            Condition::Absent => return Err(Failure::Refused(StoreError::NotFound)),
            Condition::Broken(cause) => return Err(Failure::Refused(StoreError::Broken(cause))),
            Condition::Good(found) if found != *expected => return Err(Failure::Refused(StoreError::Conflict)),
            Condition::Good(_) => {}
        }
        let revision = batch.next_revision();
        let definition = &draft.service.definition;
        batch
            .sql
            .prepare_cached(
                "UPDATE services SET namespace = ?2, revision = ?3, config = ?4, script = ?5 WHERE name = ?1",
            )?
            .execute(params![draft.name(), draft.service.namespace, revision, draft.config, definition.script])?;
        batch.sql.prepare_cached("DELETE FROM sealed_secrets WHERE service = ?1")?.execute([draft.name()])?;
        draft.insert_secrets(&batch.sql)?;
        Ok(revision)
    }

    fn publish(self, revision: i64, index: &mut Index) -> Arc<Stored> {
        self.draft.publish(revision, index)
    }
}

struct Remove {
    name: String,
    expected: Option<Revision>,
}

impl Change for Remove {
    type Step = ();
    type Output = ();

    fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
        match (condition(batch, &self.name)?, &self.expected) {
            (Condition::Absent, _) => return Err(Failure::Refused(StoreError::NotFound)),
            (Condition::Good(found), Some(expected)) if found != *expected => {
                return Err(Failure::Refused(StoreError::Conflict));
            }
            (Condition::Good(_) | Condition::Broken(_), _) => {}
        }
        // The secrets go with it: the schema cascades.
        batch.sql.prepare_cached("DELETE FROM services WHERE name = ?1")?.execute([&self.name])?;
        Ok(())
    }

    fn publish(self, (): (), index: &mut Index) {
        index.remove(&self.name);
    }
}

/// What stands under a name, as the changes before this one left it.
enum Condition {
    Absent,
    Good(Revision),
    Broken(String),
}

fn condition(batch: &Batch<'_>, name: &str) -> rusqlite::Result<Condition> {
    let Some(revision) = revision_of(&batch.sql, name)? else { return Ok(Condition::Absent) };
    let index = batch.index.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Another revision than the broken one was written after it, by this batch.
    Ok(match index.catalogue.entry(name) {
        Some(Entry::Broken { cause, .. }) if index.broken.get(name) == Some(&revision) => {
            Condition::Broken(cause.clone())
        }
        _ => Condition::Good(Revision::new(revision.to_string())),
    })
}

fn revision_of(sql: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    sql.prepare_cached("SELECT revision FROM services WHERE name = ?1")?.query_row([name], |row| row.get(0)).optional()
}

/// One statement, hence one moment: never half of what a change wrote.
fn reveal(connection: &Connection, name: &str) -> rusqlite::Result<Option<Vec<SealedSecret>>> {
    let mut query = connection.prepare_cached(
        "SELECT secret.kind, secret.name, secret.sealed
         FROM services LEFT JOIN sealed_secrets AS secret ON secret.service = services.name
         WHERE services.name = ?1",
    )?;
    let mut rows = query.query([name])?;
    let mut found = None;
    while let Some(row) = rows.next()? {
        let secrets = found.get_or_insert_with(Vec::new);
        // A service without secrets has one row of nulls.
        if let Some(kind) = row.get(0)? {
            secrets.push(SealedSecret { kind, name: row.get(1)?, sealed: row.get(2)? });
        }
    }
    Ok(found)
}
