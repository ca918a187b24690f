//! Handlers: wire to domain, one use case, domain to wire.

pub(super) mod buckets;
pub(super) mod channel;
pub(super) mod config;
pub(super) mod deployment;
mod extract;
pub(super) mod federation;
mod follow;
pub(super) mod info;
pub(super) mod invoke;
pub(super) mod jobs;
pub(super) mod logs;
pub(super) mod metrics;
pub(super) mod notices;
pub(super) mod prometheus;
pub(super) mod services;
mod usage;
