//! OSCAR's wire: JSON bodies, definition files, stored formats, error bodies, and the client
//! that speaks them. Used by the server, the command line, peers and the stores.

pub mod body;
#[cfg(feature = "client")]
pub mod client;
pub mod event;
pub mod fdl;
pub mod federation;
pub mod job;
pub mod json;
pub mod problem;
pub mod record;
pub mod service;
pub mod tree;
