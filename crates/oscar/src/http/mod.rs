//! The manager's HTTP side: routes, callers, handlers, and the server below them.

mod answer;
mod app;
mod caller;
mod documented;
mod handlers;
mod openapi;
mod printed;
mod router;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod traffic;

pub use app::{AdminAccount, App, Facts, Limits};
pub use openapi::openapi_json;
pub use printed::Prints;
pub use router::{Access, ROUTES, Route, service};
pub use server::serve;
pub use store::{store_only, with_store};
pub use traffic::Traffic;
