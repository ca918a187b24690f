//! The binary as a library, so that its parts can be tested one by one.

pub mod cli;
pub mod config;
pub mod demo;
pub mod devidp;
pub mod http;
pub mod outbound;
pub mod serve;
mod supervise;
mod telemetry;
mod time;
mod wiring;

pub use supervise::supervise;
