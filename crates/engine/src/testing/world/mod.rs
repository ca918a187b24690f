//! Several clusters in one process, the real engine in each, and a world between them that a test
//! decides about.
//!
//! [`World`] strikes at one chosen call. [`simulate`] tells a whole story from a seed: a virtual
//! clock, a network that delays, loses, repeats and parts, managers that crash and come back,
//! users who change things meanwhile; and at the end it looks whether every promise was kept.
//! The same seed tells the same story.

mod acts;
mod check;
mod deeds;
mod drive;
mod executor;
mod ground;
mod ledger;
mod mint;
mod network;
mod random;
mod scenario;
mod stores;
mod story;
mod strike;

pub use drive::{Report, simulate, tell};
pub use story::{Figures, Violation};
pub use strike::{Cluster, Fate, Strike, World};
