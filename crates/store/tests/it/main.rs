//! The store through its doors: S3 over loopback, the port of the engine, and a crash.

mod child;
mod client;
mod support;

mod conformance;
mod crash;
mod events;
mod keys;
mod memory;
mod moves;
mod objects;
mod python;
mod refused;
