//! What a manager does, over ports: no Kubernetes, HTTP, S3, SQL or OIDC library is known here.

pub mod catalogue;
mod deploy;
mod failure;
// pub mod federate;
mod manager;
pub mod memory;
mod onboarding;
pub mod ports;
mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tokens;
mod turns;
mod validate;

pub use deploy::{Action, Change, Guard};
pub use failure::Failure;
pub use manager::{Manager, OwnStore, Policy, Ports};
pub use status::StatusReport;
