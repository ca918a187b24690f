//! A cluster of one machine: the ports of the engine on a folder and the machine itself.
//!
//! What is promised here is kept across a crash: a change is answered only when it is on disk.

pub mod attempt;
pub mod cluster;
pub mod runtime;
pub mod state;

pub use cluster::{ClusterOptions, LocalCluster};
pub use runtime::{LocalRuntime, RuntimeOptions};
pub use state::{LocalStore, OpenError, Options};
