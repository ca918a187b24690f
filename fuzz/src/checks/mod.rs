//! What has to hold for every input.

mod definition;
mod fdl;
mod quantity;
mod record;
#[cfg(feature = "request")]
mod request;
mod service;

pub use fdl::fdl;
pub use quantity::quantity;
pub use record::record;
#[cfg(feature = "request")]
pub use request::request;
pub use service::service;
