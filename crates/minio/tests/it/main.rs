//! The adapter with a real MinIO: the contract, rights, crashes and lost messages.

mod scene;

mod catch_up;
mod conformance;
mod moves;
mod rights;
