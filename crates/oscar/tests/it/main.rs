//! The real binary over real HTTP.

mod access;
mod kill;
mod manager;
mod published_clients;
mod running;
mod services;
