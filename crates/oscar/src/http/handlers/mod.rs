//! Handlers: wire to domain, one use case, domain to wire.

pub(super) mod channel;
pub(super) mod config;
mod extract;
pub(super) mod federation;
pub(super) mod info;
pub(super) mod services;
