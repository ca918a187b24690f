//! The object store of a cluster, as services and their owners need it.
//!
//! Objects themselves go over S3; this port is about what OSCAR manages: which buckets there
//! are, who may use them, and what it is told when an object arrives.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use oscar_model::identity::{Owner, Subject};
use oscar_model::secret::Secret;
use oscar_model::service::Visibility;

use super::StoreError;

/// Where attempts put their outputs until they are committed. No user can list or reach it; only
/// scoped keys and the manager itself can.
pub const STAGING_BUCKET: &str = "oscar-staging";

/// The name of the user metadata (`x-amz-meta-…`) that tells which job made an object.
pub const JOB_METADATA: &str = "oscar-job";

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
/// - [`Buckets::commit`] is idempotent: a repeated move, also one that was cut off by a crash,
///   changes nothing and makes no second event. An error other than `Unavailable` has moved
///   nothing. Readers see the old object or the new one, never a part of either.
/// - [`Buckets::discard`] is idempotent.
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

    /// The bucket belongs to no service any more, and stays when that service goes.
    async fn release(&self, name: &str) -> Result<(), StoreError>;

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

    /// An address that lets its holder do one thing without a key, and only with the headers
    /// that it was signed for. It is good by the right of `signer`, and what comes by it is his.
    async fn presign(&self, signer: &Owner, request: &Presign) -> Result<String, StoreError>;

    async fn subscribe(&self, subscription: &Subscription) -> Result<(), StoreError>;

    /// Also drops the events of this subscription that nobody settled.
    async fn unsubscribe(&self, subscription: &Subscription) -> Result<(), StoreError>;

    /// Moves staged outputs to their places, each as one new object whose metadata names the job.
    /// `NotFound` when a source is missing that was not moved before.
    async fn commit(&self, moves: &[Move]) -> Result<(), StoreError>;

    /// How many objects there are in all buckets together but that of staged outputs; none where
    /// finding out would mean to look at each.
    async fn count_objects(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    /// Removes everything below a prefix: what a dead attempt staged.
    async fn discard(&self, bucket: &str, prefix: &str) -> Result<(), StoreError>;
}

/// The events of [`Subscription`]s, taken by whoever turns them into jobs.
///
/// Contract: an event is given out again and again until it was settled, also after a restart;
/// one version of an object makes one event per service.
#[async_trait]
pub trait Uploads: Send + Sync {
    /// What is not settled, the oldest first, without waiting.
    async fn next(&self, limit: usize) -> Result<Vec<ObjectEvent>, StoreError>;

    /// These need not be given out again. Unknown ids are no error.
    async fn settle(&self, ids: &[u64]) -> Result<(), StoreError>;

    /// Resolves when something may be waiting. An event that came since the last time it resolved
    /// is never missed; resolving for nothing is allowed.
    async fn arrival(&self);
}

/// What an object store that runs elsewhere tells the manager of uploads.
///
/// Contract: what was taken is durable and comes out of [`Uploads`]. What is told twice is told
/// once there. What is no event at all is taken and dropped, because refusing it would hold up
/// everything behind it.
#[async_trait]
pub trait Notices: Send + Sync {
    /// Whether this is the secret that the store was given. Takes the same time for every guess.
    fn is_from_store(&self, token: &str) -> bool;

    async fn take(&self, body: &[u8]) -> Result<(), StoreError>;
}

/// An object was created where a service waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEvent {
    pub id: u64,
    pub service: String,
    pub bucket: String,
    pub key: String,
    pub bytes: u64,
    pub etag: String,
    /// Which write of this object; never used twice.
    pub version: String,
    /// Blank when the uploader gave none.
    pub content_type: String,
    /// Names without `x-amz-meta-`.
    pub user_metadata: BTreeMap<String, String>,
    /// The access key of the uploader: the subject of a user.
    pub principal: String,
    /// Blank when the manager itself wrote it.
    pub source_ip: String,
    pub time: SystemTime,
    /// The job that left it, when it came by that job's own key or was put in place for it. One
    /// that it writes again starts nothing again.
    pub job: Option<String>,
}

/// A staged output and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub from_bucket: String,
    pub from_key: String,
    pub to_bucket: String,
    pub to_key: String,
    /// The job that made it, for whose sake it is moved at most once.
    pub job: String,
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
    /// Blank is the whole bucket; with a slash at its end a folder; otherwise one object.
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
    /// What else the holder has to send, as it is here; names in small letters. Whoever asks has
    /// made sure that none of them changes what the address is for.
    pub headers: BTreeMap<String, String>,
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
