//! The object store of the local world: S3 in the manager's own process, in one folder.
//!
//! Metadata and small objects are rows of one SQLite database that one thread writes; larger
//! bodies are files that are whole on disk before a row names them. So an acknowledged object
//! survives a crash, and a torn one is never seen. Keys of objects never become file names.
//!
//! This crate must never decide what an event leads to, and never know HTTP servers, identity
//! providers or services beyond their names.

mod access;
mod bucket_changes;
mod content;
mod database;
mod directory;
mod error;
mod events;
mod files;
mod intake;
mod key_changes;
mod listing;
mod moves;
mod multipart;
mod names;
mod object_changes;
mod object_reads;
mod options;
mod port;
mod presign;
mod record;
mod s3;
mod store;
#[cfg(test)]
mod trouble;
mod writer;

pub use content::ContentStream;
pub use error::OpenError;
pub use options::Options;
pub use s3::{Endpoint, Peer};
pub use store::{MANAGER_KEY, Stat, Store, Totals, Usage};
