//! Changes of keys, inside the writer's transaction.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::Grant;
use oscar_model::secret::Secret;
use rusqlite::params;

use crate::access::Kind;
use crate::directory::{KeyEntry, grants_to_text};
use crate::record::to_millis;
use crate::store::MANAGER_KEY;
use crate::writer::{Batch, Failure};

pub(crate) struct NewKey {
    pub(crate) access_key: String,
    pub(crate) secret: Secret,
    /// Both keys, as [`crate::directory::seal_pair`] writes them, sealed.
    pub(crate) sealed: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) expires: Option<SystemTime>,
}

/// `AlreadyExists` when there is one of that name.
pub(crate) fn add(batch: &mut Batch<'_>, new: &NewKey) -> Result<(), Failure> {
    let (kind, grants): (_, &[Grant]) = match &new.kind {
        Kind::Manager | Kind::Root => ("manager", &[]),
        Kind::User(_) => ("user", &[]),
        Kind::Scoped(grants) => ("scoped", grants),
    };
    let added = batch
        .sql
        .prepare_cached(
            "INSERT INTO keys (access_key, kind, sealed, grants, expires) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![new.access_key, kind, new.sealed, grants_to_text(grants), new.expires.map(to_millis)])?;
    if added == 0 {
        return Err(Failure::Refused(StoreError::AlreadyExists.into()));
    }
    let entry = KeyEntry {
        access_key: new.access_key.clone(),
        secret: Some(new.secret.clone()),
        kind: new.kind.clone(),
        expires: new.expires,
        alive: Arc::new(AtomicBool::new(true)),
    };
    batch.show(move |directory| directory.put_key(entry));
    Ok(())
}

/// The manager's own key cannot be revoked: nobody was given it.
pub(crate) fn revoke(batch: &mut Batch<'_>, access_key: &str) -> Result<(), Failure> {
    if access_key == MANAGER_KEY { Ok(()) } else { remove(batch, access_key) }
}

pub(crate) fn remove(batch: &mut Batch<'_>, access_key: &str) -> Result<(), Failure> {
    batch.sql.prepare_cached("DELETE FROM keys WHERE access_key = ?1")?.execute([access_key])?;
    let name = access_key.to_owned();
    batch.show(move |directory| directory.drop_key(&name));
    Ok(())
}

/// Scoped keys that are past their time.
pub(crate) fn remove_expired(batch: &mut Batch<'_>) -> Result<(), Failure> {
    let expired: Vec<String> = batch
        .sql
        .prepare_cached("SELECT access_key FROM keys WHERE expires <= ?1")?
        .query_map([to_millis(batch.now)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    expired.iter().try_for_each(|access_key| revoke(batch, access_key))
}
