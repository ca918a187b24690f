//! The store through its doors: S3 over loopback, the port of the engine, and a crash.

mod support;

mod child;
mod python;
