//! The store over HTTP. The protocol itself (signatures, XML, chunks) is the library's; what a
//! request means is decided here.

mod api;
mod auth;
mod bucket_api;
pub(crate) mod checksums;
mod convert;
mod cors;
mod delete_route;
mod endpoint;
mod errors;
mod guard;
mod lent;
mod list_api;
mod multipart_api;
mod object_api;
mod rechunk;
mod subresource;
mod write_api;

pub use endpoint::{Endpoint, Peer};
