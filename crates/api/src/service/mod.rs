//! A service on the wire, in both directions.

mod decode;
mod decode_parts;
mod encode;
mod encode_providers;

pub use decode::{Draft, Mode, decode};
pub use decode_parts::{clusters, providers};
pub(crate) use encode::full;
pub use encode::{DeploymentSummary, ServiceBody, encode};
