//! Adapters: how the ports of the engine reach the world outside.

pub mod oidc;
