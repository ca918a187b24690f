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
use super::writer::{Batch, Change, Failure};

/// The stored words for the kinds of secrets.
const ENVIRONMENT: &str = "environment";
const CLUSTER: &str = "cluster";

#[async_trait]
impl Services for LocalStore {
    async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError> {
        self.submit(Create(Draft::new(service, sensitive))).await
    }

    async fn replace(
        &self,
        service: Service,
        sensitive: Sensitive,
        expected: &Revision,
    ) -> Result<Arc<Stored>, StoreError> {
        self.submit(Replace { draft: Draft::new(service, sensitive), expected: expected.clone() }).await
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
        let name = name.as_str().to_owned();
        self.read(move |connection| reveal(connection, &name)).await?.ok_or(StoreError::NotFound)
    }
}

/// A definition on its way to the database, written out by its caller so that the writer
/// only has to store it.
struct Draft {
    service: Service,
    config: String,
    sensitive: Sensitive,
}

impl Draft {
    fn new(service: Service, sensitive: Sensitive) -> Self {
        Self { config: record::to_json(&service), service, sensitive }
    }

    fn name(&self) -> &str {
        self.service.name().as_str()
    }

    fn insert_secrets(&self, sql: &Connection) -> rusqlite::Result<()> {
        let mut insert =
            sql.prepare_cached("INSERT INTO service_secrets (service, kind, name, value) VALUES (?1, ?2, ?3, ?4)")?;
        let Sensitive { environment, cluster_passwords } = &self.sensitive;
        for (kind, values) in [(ENVIRONMENT, environment), (CLUSTER, cluster_passwords)] {
            for (name, value) in values {
                insert.execute(params![self.name(), kind, name, value.expose()])?;
            }
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
        batch.sql.prepare_cached("DELETE FROM service_secrets WHERE service = ?1")?.execute([draft.name()])?;
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
fn reveal(connection: &Connection, name: &str) -> rusqlite::Result<Option<Sensitive>> {
    let mut query = connection.prepare_cached(
        "SELECT secret.kind, secret.name, secret.value
         FROM services LEFT JOIN service_secrets AS secret ON secret.service = services.name
         WHERE services.name = ?1",
    )?;
    let mut rows = query.query([name])?;
    let mut found = None;
    while let Some(row) = rows.next()? {
        let sensitive = found.get_or_insert_with(Sensitive::default);
        // A service without secrets has one row of nulls.
        if let Some(kind) = row.get::<_, Option<String>>(0)? {
            let values = if kind == CLUSTER { &mut sensitive.cluster_passwords } else { &mut sensitive.environment };
            values.insert(row.get(1)?, Secret::new(row.get::<_, String>(2)?));
        }
    }
    Ok(found)
}
