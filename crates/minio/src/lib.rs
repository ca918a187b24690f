//! An external MinIO as the object store of a cluster: the ports [`Buckets`] and [`Uploads`]
//! over S3 and MinIO's administrative interface.
//!
//! What belongs to whom is written on the buckets themselves, in tags and policies as Go OSCAR
//! has them. What has to be remembered here (sealed keys of users, subscriptions, uploads that
//! are not jobs yet, moves that were made) is in a small database of the data folder. This crate
//! never restarts the store, and never gives a user a right to say whose a bucket is.
//!
//! [`Buckets`]: oscar_engine::ports::buckets::Buckets
//! [`Uploads`]: oscar_engine::ports::buckets::Uploads

mod admin;
mod error;
mod inbox;
mod inspect;
mod keys;
mod ledger;
mod moves;
mod notices;
mod owners;
mod policy;
mod port;
mod rights;
mod s3;
mod scan;
mod sealed;
mod sign;
mod store;
mod webhook;
mod wire;
mod xml;

pub use error::OpenError;
pub use inspect::Server;
pub use store::{MinioStore, Options, Webhook};
pub use webhook::WebhookState;
