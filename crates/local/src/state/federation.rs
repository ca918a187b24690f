//! What federations need: journal, vault and audit.
//!
//! Everything but the audit is sealed. Nothing of it is on the path of a request, so it is read
//! from the database and not kept in memory.

use std::sync::Arc;

use async_trait::async_trait;
use oscar_api::federation::Kept;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::audit::Audit;
use oscar_engine::ports::journal::Journal;
use oscar_engine::ports::vault::Vault;
use oscar_model::federation::record::{AuditRecord, FederationRecord, Fence, Former, Grant, Operation, Seconds};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::LocalStore;
use super::index::Index;
use super::seal::{Place, unopened};
use super::writer::{Batch, Change, Failure};

/// Enough to look back; older ones are forgotten.
const MOST_RECORDS: i64 = 10_000;

/// A table of sealed records.
struct Table {
    name: &'static str,
    /// Each with the key of its row first, and the value last.
    all: &'static str,
    put: &'static str,
    remove: &'static str,
}

const OPERATIONS: Table = Table {
    name: "operations",
    all: "SELECT id, sealed FROM operations",
    put: "INSERT INTO operations (id, sealed) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET sealed = excluded.sealed",
    remove: "DELETE FROM operations WHERE id = ?1",
};

const FEDERATIONS: Table = Table {
    name: "federations",
    all: "SELECT federation_id, service, sealed FROM federations ORDER BY federation_id, service",
    put: "INSERT INTO federations (federation_id, service, sealed) VALUES (?1, ?2, ?3)
          ON CONFLICT DO UPDATE SET sealed = excluded.sealed",
    remove: "DELETE FROM federations WHERE federation_id = ?1 AND service = ?2",
};

const FORMERS: Table = Table {
    name: "formers",
    all: "SELECT name, label, sealed FROM formers",
    // The first of one label wins.
    put: "INSERT INTO formers (name, label, sealed) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    remove: "DELETE FROM formers WHERE name = ?1 AND label = ?2",
};

const FENCES: Table = Table {
    name: "fences",
    all: "SELECT service, label, sealed FROM fences",
    put: "INSERT INTO fences (service, label, sealed) VALUES (?1, ?2, ?3)
          ON CONFLICT DO UPDATE SET sealed = excluded.sealed",
    remove: "DELETE FROM fences WHERE service = ?1 AND label = ?2",
};

const GRANTS: Table = Table {
    name: "grants",
    all: "SELECT id, sealed FROM grants ORDER BY id",
    put: "INSERT INTO grants (id, sealed) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET sealed = excluded.sealed",
    remove: "DELETE FROM grants WHERE id = ?1",
};

/// The key of a row and its sealed value.
struct Sealed {
    key: Vec<String>,
    value: Vec<u8>,
}

impl LocalStore {
    pub fn journal(self: &Arc<Self>) -> Arc<dyn Journal> {
        self.clone()
    }

    pub fn vault(self: &Arc<Self>) -> Arc<dyn Vault> {
        self.clone()
    }

    pub fn audit(self: &Arc<Self>) -> Arc<dyn Audit> {
        self.clone()
    }

    async fn put(&self, table: &Table, key: &[&str], record: &impl Kept) -> Result<(), StoreError> {
        let value = self.seal.seal(Place { table: table.name, key }, &record.to_bytes())?;
        let texts = key.iter().map(|&part| Value::from(part.to_owned()));
        self.submit(Execute { sql: table.put, values: texts.chain([Value::from(value)]).collect() }).await
    }

    async fn delete(&self, table: &Table, key: &[&str]) -> Result<(), StoreError> {
        let values = key.iter().map(|&part| Value::from(part.to_owned())).collect();
        self.submit(Execute { sql: table.remove, values }).await
    }

    async fn select(&self, sql: &'static str, values: Vec<String>) -> Result<Vec<Sealed>, StoreError> {
        self.read(move |connection| select(connection, sql, values)).await
    }

    fn unseal<T: Kept>(&self, table: &Table, row: &Sealed) -> Result<T, StoreError> {
        let key: Vec<_> = row.key.iter().map(String::as_str).collect();
        let place = Place { table: table.name, key: &key };
        let bytes = self.seal.open(place, &row.value).ok_or_else(|| unopened(place))?;
        T::from_bytes(&bytes).map_err(|cause| StoreError::Broken(format!("a record of {}: {cause}", table.name)))
    }

    /// Every readable record. One that is not keeps no other from being worked on.
    async fn all<T: Kept>(&self, table: &Table) -> Result<Vec<T>, StoreError> {
        let rows = self.select(table.all, vec![]).await?;
        let read = rows.iter().filter_map(|row| {
            let record = self.unseal(table, row);
            if let Err(error) = &record {
                tracing::error!(table = table.name, key = ?row.key, %error, "a stored record cannot be read");
            }
            record.ok()
        });
        Ok(read.collect())
    }

    /// The one record of a query, when there is one.
    async fn one<T: Kept>(&self, table: &Table, sql: &'static str, key: &[&str]) -> Result<Option<T>, StoreError> {
        let rows = self.select(sql, key.iter().map(|&part| part.to_owned()).collect()).await?;
        rows.first().map(|row| self.unseal(table, row)).transpose()
    }
}

fn select(connection: &Connection, sql: &str, values: Vec<String>) -> rusqlite::Result<Vec<Sealed>> {
    let mut query = connection.prepare_cached(sql)?;
    let last = query.column_count() - 1;
    let read = |row: &Row<'_>| {
        Ok(Sealed { key: (0..last).map(|n| row.get(n)).collect::<rusqlite::Result<_>>()?, value: row.get(last)? })
    };
    query.query_map(params_from_iter(values), read)?.collect()
}

/// One statement, whatever it finds.
struct Execute {
    sql: &'static str,
    values: Vec<Value>,
}

impl Change for Execute {
    type Step = ();
    type Output = ();

    fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
        batch.sql.prepare_cached(self.sql)?.execute(params_from_iter(&self.values))?;
        Ok(())
    }

    fn publish(self, (): (), _index: &mut Index) {}
}

#[async_trait]
impl Journal for LocalStore {
    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError> {
        self.put(&OPERATIONS, &[&operation.id], operation).await
    }

    async fn remove_operation(&self, id: &str) -> Result<(), StoreError> {
        self.delete(&OPERATIONS, &[id]).await
    }

    async fn operations(&self) -> Result<Vec<Operation>, StoreError> {
        let mut operations: Vec<Operation> = self.all(&OPERATIONS).await?;
        operations.sort_by(|a, b| (a.begun, &a.id).cmp(&(b.begun, &b.id)));
        Ok(operations)
    }

    async fn put_federation(&self, federation: &FederationRecord) -> Result<(), StoreError> {
        let key = [federation.federation_id.as_str(), federation.own.service_name.as_str()];
        self.put(&FEDERATIONS, &key, federation).await
    }

    async fn federation(&self, service: &ServiceName) -> Result<Option<FederationRecord>, StoreError> {
        let sql = "SELECT federation_id, service, sealed FROM federations WHERE service = ?1 ORDER BY federation_id";
        for row in self.select(sql, vec![service.to_string()]).await? {
            // Whether a broken one lives cannot be told, so it counts.
            let record: FederationRecord = self.unseal(&FEDERATIONS, &row)?;
            if record.deleted.is_none() {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    async fn federation_with_id(
        &self,
        federation_id: &str,
        service: &ServiceName,
    ) -> Result<Option<FederationRecord>, StoreError> {
        let sql = "SELECT federation_id, service, sealed FROM federations WHERE federation_id = ?1 AND service = ?2";
        let record: Option<FederationRecord> = self.one(&FEDERATIONS, sql, &[federation_id, service.as_str()]).await?;
        Ok(record.filter(|record| record.deleted.is_none()))
    }

    async fn federations(&self) -> Result<Vec<FederationRecord>, StoreError> {
        self.all(&FEDERATIONS).await
    }

    async fn remove_federation(&self, federation_id: &str, service: &ServiceName) -> Result<(), StoreError> {
        self.delete(&FEDERATIONS, &[federation_id, service.as_str()]).await
    }

    async fn keep_former(&self, former: &Former) -> Result<(), StoreError> {
        self.put(&FORMERS, &[former.name.as_str(), &former.label], former).await
    }

    async fn former(&self, name: &ServiceName, label: &str) -> Result<Option<Former>, StoreError> {
        let sql = "SELECT name, label, sealed FROM formers WHERE name = ?1 AND label = ?2";
        self.one(&FORMERS, sql, &[name.as_str(), label]).await
    }

    async fn formers(&self) -> Result<Vec<(ServiceName, String)>, StoreError> {
        let kept: Vec<Former> = self.all(&FORMERS).await?;
        Ok(kept.into_iter().map(|former| (former.name, former.label)).collect())
    }

    async fn forget_former(&self, name: &ServiceName, label: &str) -> Result<(), StoreError> {
        self.delete(&FORMERS, &[name.as_str(), label]).await
    }

    async fn put_fence(&self, fence: &Fence) -> Result<(), StoreError> {
        self.put(&FENCES, &[fence.service.as_str(), &fence.label()], fence).await
    }

    async fn fences(&self, service: &ServiceName) -> Result<Vec<Fence>, StoreError> {
        let sql = "SELECT service, label, sealed FROM fences WHERE service = ?1 ORDER BY label";
        let rows = self.select(sql, vec![service.to_string()]).await?;
        // One that cannot be read may be the one that counts.
        rows.iter().map(|row| self.unseal(&FENCES, row)).collect()
    }

    async fn fences_of(&self, owner: &Owner) -> Result<Vec<Fence>, StoreError> {
        let standing: Vec<Fence> = self.all(&FENCES).await?;
        Ok(standing.into_iter().filter(|fence| fence.owner == *owner).collect())
    }

    async fn forget_fences(&self, before: Seconds) -> Result<(), StoreError> {
        let standing: Vec<Fence> = self.all(&FENCES).await?;
        for fence in standing.iter().filter(|fence| fence.since < before) {
            self.delete(&FENCES, &[fence.service.as_str(), &fence.label()]).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Vault for LocalStore {
    async fn put_grant(&self, grant: &Grant) -> Result<(), StoreError> {
        self.put(&GRANTS, &[&grant.id], grant).await
    }

    async fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        self.one(&GRANTS, "SELECT id, sealed FROM grants WHERE id = ?1", &[id]).await
    }

    async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        self.all(&GRANTS).await
    }

    async fn remove_grant(&self, id: &str) -> Result<(), StoreError> {
        self.delete(&GRANTS, &[id]).await
    }
}

#[async_trait]
impl Audit for LocalStore {
    async fn append(&self, record: AuditRecord) {
        let AuditRecord { at, actor, owner, act, service, target, outcome } = &record;
        tracing::info!(target: "audit", at, actor, owner, act, service, target, outcome, "an act for another cluster");
        let text = String::from_utf8_lossy(&record.to_bytes()).into_owned();
        if let Err(error) = self.submit(Append(text)).await {
            tracing::warn!(%error, "an audit record is in the log only");
        }
    }

    async fn recent(&self, most: usize) -> Result<Vec<AuditRecord>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let texts = self
            .read(move |connection| {
                let mut query = connection.prepare_cached("SELECT record FROM audit ORDER BY number DESC LIMIT ?1")?;
                query.query_map([most], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()
            })
            .await?;
        let read = |text: &String| AuditRecord::from_bytes(text.as_bytes()).map_err(StoreError::Broken);
        texts.iter().map(read).collect()
    }
}

struct Append(String);

impl Change for Append {
    type Step = ();
    type Output = ();

    fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
        batch.sql.prepare_cached("INSERT INTO audit (record) VALUES (?1)")?.execute([&self.0])?;
        let oldest = batch.sql.last_insert_rowid() - MOST_RECORDS;
        batch.sql.prepare_cached("DELETE FROM audit WHERE number <= ?1")?.execute([oldest])?;
        Ok(())
    }

    fn publish(self, (): (), _index: &mut Index) {}
}
