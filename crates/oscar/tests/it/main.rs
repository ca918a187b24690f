//! The real binary over real HTTP.

mod access;
mod demo;
mod federation;
mod federation_edits;
mod federation_go;
mod federation_kill;
mod federation_kubernetes;
mod federation_scene;
mod federation_v4;
mod jobs;
mod jobs_full_disk;
mod jobs_kills;
mod jobs_providers;
mod jobs_scene;
mod jobs_users;
mod keycloak;
mod kill;
mod leaks;
mod manager;
mod minio;
mod published_clients;
mod running;
mod services;
mod tokens;
mod upstream_v4;
