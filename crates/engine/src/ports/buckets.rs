//! The object store of a cluster, as services and their owners need it.
//!
//! Objects themselves go over S3; this port is about what OSCAR manages: which buckets there
//! are, who may use them, and what it is told when an object arrives.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use oscar_model::identity::{Owner, Subject};
use oscar_model::secret::Secret;
use oscar_model::service::Visibility;

use super::StoreError;

/// Contract:
/// - [`Buckets::ensure`] is idempotent for the same owner, so that several services of one
///   owner share a bucket; a bucket of somebody else is `AlreadyExists`, untouched.
/// - Only the named visibility is ever given: there is no default that opens a bucket.
/// - Creating, changing or removing one bucket interrupts no other.
/// - A key made by [`Buckets::scoped_key`] opens nothing outside its scope, and nothing at all
///   once it expired or [`Buckets::revoke`] returned.
/// - Every object-created event below a [`Subscription`] reaches the engine at least once,
///   also when it happened while the manager was down; events carry the identity of the
///   object's version, so that the same version can be recognised.
#[async_trait]
pub trait Buckets: Send + Sync {
    async fn ensure(&self, bucket: &Bucket) -> Result<(), StoreError>;

    async fn get(&self, name: &str) -> Result<Option<Bucket>, StoreError>;

    /// Buckets that `viewer` may use; all for the administrator.
    async fn list(&self, viewer: &Owner) -> Result<Vec<Bucket>, StoreError>;

    async fn set_visibility(
        &self,
        name: &str,
        visibility: Visibility,
        allowed_users: &[Subject],
    ) -> Result<(), StoreError>;

    /// Removes the bucket with everything in it.
    async fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// Makes the folder visible in listings even while it is empty.
    async fn ensure_folder(&self, bucket: &str, folder: &str) -> Result<(), StoreError>;

    /// Objects below a prefix in ascending order, at most `limit`, after `page`.
    async fn objects(&self, bucket: &str, page: Option<&str>, limit: usize) -> Result<Page, StoreError>;

    /// The user's own keys, made at the first call.
    async fn user_keys(&self, owner: &Owner) -> Result<Keys, StoreError>;

    async fn scoped_key(&self, scope: &[Grant], expires: SystemTime) -> Result<Keys, StoreError>;

    async fn revoke(&self, access_key: &str) -> Result<(), StoreError>;

    /// An address that lets its holder do one thing without a key.
    async fn presign(&self, request: &Presign) -> Result<String, StoreError>;

    async fn subscribe(&self, subscription: &Subscription) -> Result<(), StoreError>;

    async fn unsubscribe(&self, subscription: &Subscription) -> Result<(), StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    pub name: String,
    pub owner: Owner,
    pub visibility: Visibility,
    pub allowed_users: Vec<Subject>,
    /// The service that made it, when one did.
    pub from_service: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub objects: Vec<Object>,
    /// What to ask for next; absent on the last page.
    pub next: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub key: String,
    pub bytes: u64,
    pub modified: SystemTime,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    pub access_key: String,
    pub secret_key: Secret,
}

/// One thing that a scoped key may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub bucket: String,
    /// Blank is the whole bucket.
    pub prefix: String,
    pub verbs: Vec<Verb>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Read,
    Write,
    List,
    Delete,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presign {
    pub bucket: String,
    pub key: String,
    pub upload: bool,
    pub content_type: Option<String>,
    pub valid_for: Duration,
}

/// Which objects start which service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub bucket: String,
    /// Ends with a slash.
    pub prefix: String,
    pub service: String,
}
