//! The world "kubernetes": definitions, homes of users, settings and what a cluster has, on
//! the Kubernetes API, in the layout of Go OSCAR, so that either manager understands what the
//! other left.
//!
//! What objects look like is decided by the pure functions of `layout`; what was seen is kept
//! by `shelf`, which is pure too; the rest sends and waits. Nothing here keeps a secret in
//! memory longer than the call that needs it, and no read of a definition asks the apiserver.

mod calls;
mod cluster;
mod error;
mod federation;
mod index;
mod instance;
mod layout;
mod mirror;
mod options;
mod services;
mod settings;
mod shelf;
mod users;
mod watch;
mod world;

pub use federation::KubeLease;
pub use options::Options;
pub use world::{ConnectError, KubeWorld};
