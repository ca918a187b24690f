//! What the engine needs from the world. Each port is a contract that every adapter keeps;
//! the suites in `testing::conformance` check it.

pub mod audit;
pub mod buckets;
pub mod clock;
pub mod cluster;
pub mod identity;
pub mod issuers;
pub mod jobs;
pub mod journal;
pub mod mint;
pub mod peers;
pub mod runtime;
pub mod seal;
pub mod services;
pub mod settings;
pub mod usage;
pub mod users;
pub mod vault;

/// Why a store did not do what it was asked. The text is for the operator's log and for the
/// caller; it holds no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Something of that name is there.
    #[error("it exists already")]
    AlreadyExists,
    /// Something that is not the manager's stands where it would be kept. Nothing was changed.
    #[error("something else stands in its place: {0}")]
    Occupied(String),
    #[error("it does not exist")]
    NotFound,
    /// It was changed since the revision that the caller named.
    #[error("it was changed meanwhile")]
    Conflict,
    /// It is there, but what is stored cannot be read.
    #[error("what is stored cannot be read: {0}")]
    Broken(String),
    /// No room. Nothing was changed.
    #[error("the store is full: {0}")]
    Full(String),
    /// The manager itself lacks a permission. Nothing was changed.
    #[error("the manager is not permitted: {0}")]
    Forbidden(String),
    /// It may work later. Whether something was changed is not known.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
}
