//! A service on the wire, in both directions.

mod bodies;
mod decode;
mod decode_parts;
mod encode;
mod encode_peer;
mod encode_providers;
mod request;
mod request_parts;

pub use bodies::{DelegationBody, DeploymentSummary, ReplicaBody, ServiceBody};
pub use decode::{Draft, Mode, decode, read};
pub(crate) use decode_parts::members;
pub use decode_parts::{clusters, providers};
pub(crate) use encode::full;
pub(crate) use encode::{delegation_body, replica_body};
pub use encode::{encode, hide_credentials};
pub use encode_peer::{encode_for_peer, with_single_port};
pub use request::{DefinitionFile, ServiceRequest};

/// In lists for the administrator: names of services whose stored definition cannot be read.
pub const UNREADABLE_HEADER: &str = "oscar-unreadable";
