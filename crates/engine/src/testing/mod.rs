//! What tests of adapters share. Not part of a release build.

pub mod conformance;
pub mod conformance_buckets;
pub mod conformance_cluster;
pub mod conformance_federation;
pub mod conformance_jobs;
pub mod conformance_usage;
pub mod make;
pub mod world;

pub use crate::bugs::{Bug, with_bug};
