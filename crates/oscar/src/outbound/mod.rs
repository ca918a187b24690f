//! Adapters: how the ports of the engine reach the world outside.

pub mod address;
pub mod oidc;
pub mod peers;
