//! What a manager does with jobs, over ports in memory.

mod crash;
mod faults;
mod fragile;
mod lent;
mod owners;
mod patience;
mod queue;
mod removal;
mod story;
mod synchronous;
mod upkeep;
mod world;
