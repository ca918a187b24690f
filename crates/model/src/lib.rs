//! What a service, a user and a cluster *are*, and every decision that needs no I/O.
//!
//! Nothing here is async, reads a clock, draws a random number or touches a file: times
//! and seeds are parameters. Wire formats live in `oscar-api`.

pub mod access;
pub mod capacity;
pub mod fault;
pub mod federation;
pub mod identity;
pub mod image;
pub mod job;
pub mod name;
pub mod namespace;
pub mod quantity;
pub mod secret;
pub mod service;
