//! What every executor promises, tried on each that works on this machine: `bubblewrap` and
//! `process` as they are, `process` without namespaces, and containers with podman.

mod bench;
mod ends;
mod fetching;
mod hides;
mod leftovers;
mod limits;
mod probing;
mod streams;
