//! Buckets and keys in memory: what every request asks for first. Only the writer changes it,
//! after a commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use oscar_engine::ports::buckets::{Bucket, Grant, Verb};
use oscar_engine::ports::seal::Seal;
use oscar_model::identity::{Owner, Subject};
use oscar_model::secret::Secret;
use oscar_model::service::Visibility;
use rusqlite::{Connection, Row};

use crate::access::{Caller, Door, Kind};
use crate::record::{StoredGrant, from_millis, from_text, to_text};

#[derive(Default)]
pub(crate) struct Directory {
    pub(crate) buckets: HashMap<String, Arc<BucketEntry>>,
    pub(crate) keys: HashMap<String, Arc<KeyEntry>>,
}

#[derive(Debug, Clone)]
pub(crate) struct BucketEntry {
    pub(crate) id: i64,
    pub(crate) door: Door,
    pub(crate) from_service: Option<String>,
    pub(crate) created: SystemTime,
}

pub(crate) struct KeyEntry {
    pub(crate) access_key: String,
    /// Absent when it was sealed with another key.
    pub(crate) secret: Option<Secret>,
    pub(crate) kind: Kind,
    pub(crate) expires: Option<SystemTime>,
    pub(crate) alive: Arc<AtomicBool>,
}

impl KeyEntry {
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(self.access_key.clone(), self.kind.clone(), Arc::clone(&self.alive))
    }
}

impl Directory {
    pub(crate) fn load(connection: &Connection, seal: &dyn Seal) -> rusqlite::Result<Self> {
        let mut found = Self::default();
        let mut buckets = connection.prepare(&format!("{BUCKET_COLUMNS} FROM buckets"))?;
        for bucket in buckets.query_map((), to_bucket)? {
            found.put_bucket(bucket?);
        }
        let mut keys = connection.prepare("SELECT access_key, kind, sealed, grants, expires FROM keys")?;
        for key in keys.query_map((), |row| to_key(row, seal))? {
            found.put_key(key?);
        }
        Ok(found)
    }

    pub(crate) fn put_bucket(&mut self, bucket: BucketEntry) {
        self.buckets.insert(bucket.door.name.clone(), Arc::new(bucket));
    }

    pub(crate) fn put_key(&mut self, key: KeyEntry) {
        self.keys.insert(key.access_key.clone(), Arc::new(key));
    }

    /// Whoever holds it notices at the next step of what is under way.
    pub(crate) fn drop_key(&mut self, access_key: &str) {
        if let Some(key) = self.keys.remove(access_key) {
            key.alive.store(false, Ordering::Release);
        }
    }
}

impl BucketEntry {
    pub(crate) fn to_port(&self) -> Bucket {
        Bucket {
            name: self.door.name.clone(),
            owner: self.door.owner.clone(),
            visibility: self.door.visibility,
            allowed_users: self.door.allowed_users.clone(),
            from_service: self.from_service.clone(),
        }
    }
}

pub(crate) const BUCKET_COLUMNS: &str = "SELECT id, name, owner, visibility, allowed, from_service, created";

pub(crate) fn to_bucket(row: &Row<'_>) -> rusqlite::Result<BucketEntry> {
    let allowed: Vec<String> = from_text(row.get_ref(4)?.as_str()?)?;
    Ok(BucketEntry {
        id: row.get(0)?,
        door: Door {
            name: row.get(1)?,
            // What cannot be read opens the bucket to nobody but the administrator.
            owner: Owner::parse(row.get_ref(2)?.as_str()?).unwrap_or(Owner::Admin),
            visibility: Visibility::parse(row.get_ref(3)?.as_str()?).unwrap_or(Visibility::Private),
            allowed_users: allowed.iter().filter_map(|user| Subject::parse(user)).collect(),
        },
        from_service: row.get(5)?,
        created: from_millis(row.get(6)?),
    })
}

fn to_key(row: &Row<'_>, seal: &dyn Seal) -> rusqlite::Result<KeyEntry> {
    let access_key: String = row.get(0)?;
    let kind: String = row.get(1)?;
    let secret = unseal(seal, &access_key, row.get_ref(2)?.as_blob()?);
    if secret.is_none() {
        tracing::warn!("a key of the object store was sealed with another key and cannot be used");
    }
    let grants = grants_from_text(row.get_ref(3)?.as_str()?)?;
    let kind = match (kind.as_str(), Subject::parse(&access_key)) {
        ("manager", _) => Kind::Manager,
        ("user", Some(subject)) => Kind::User(subject),
        // No grants: a key that opens nothing.
        _ => Kind::Scoped(grants.into()),
    };
    let expires: Option<i64> = row.get(4)?;
    let alive = Arc::new(AtomicBool::new(true));
    Ok(KeyEntry { access_key, secret, kind, expires: expires.map(from_millis), alive })
}

/// The access key is sealed with the secret one, so that no row can be exchanged for another.
pub(crate) fn seal_pair(access_key: &str, secret: &Secret) -> Vec<u8> {
    [access_key.as_bytes(), b"\0", secret.expose().as_bytes()].concat()
}

fn unseal(seal: &dyn Seal, access_key: &str, sealed: &[u8]) -> Option<Secret> {
    let plain = String::from_utf8(seal.open(sealed).ok()?).ok()?;
    let (name, secret) = plain.split_once('\0')?;
    (name == access_key).then(|| Secret::new(secret))
}

pub(crate) fn grants_to_text(grants: &[Grant]) -> String {
    let stored: Vec<StoredGrant> = grants
        .iter()
        .map(|grant| StoredGrant {
            bucket: grant.bucket.clone(),
            prefix: grant.prefix.clone(),
            verbs: grant.verbs.iter().map(|verb| verb_name(*verb).to_owned()).collect(),
        })
        .collect();
    to_text(&stored)
}

fn grants_from_text(text: &str) -> rusqlite::Result<Vec<Grant>> {
    let stored: Vec<StoredGrant> = from_text(text)?;
    let verb = |name: &String| VERBS.into_iter().find(|verb| verb_name(*verb) == name);
    let grant = |stored: StoredGrant| Grant {
        verbs: stored.verbs.iter().filter_map(verb).collect(),
        bucket: stored.bucket,
        prefix: stored.prefix,
    };
    Ok(stored.into_iter().map(grant).collect())
}

const VERBS: [Verb; 4] = [Verb::Read, Verb::Write, Verb::List, Verb::Delete];

fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::Read => "read",
        Verb::Write => "write",
        Verb::List => "list",
        Verb::Delete => "delete",
    }
}
