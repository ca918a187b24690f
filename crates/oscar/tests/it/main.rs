//! The real binary over real HTTP.

mod access;
mod keycloak;
mod kill;
mod leaks;
mod manager;
mod published_clients;
mod running;
mod services;
mod tokens;
