//! Jobs against stores that misbehave, and scripts that do.

mod binary;
mod inputs;
mod outputs;
mod responses;
mod scripts;
mod secrets;
mod store;
mod world;
