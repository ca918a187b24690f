//! What a manager does, over ports: no Kubernetes, HTTP, S3, SQL or OIDC library is known here.

mod bugs;
pub mod catalogue;
mod deploy;
mod failure;
pub mod federate;
mod federation;
mod grants;
pub mod jobs;
mod manager;
pub mod memory;
mod onboarding;
mod own_peer;
pub mod ports;
mod replicas;
mod status;
pub mod storage;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tokens;
mod turns;
mod validate;

pub use deploy::{Action, Change, Consequences, Guard, Order, Purpose, Terms};
pub use failure::{Failure, Undertaking};
pub use federation::Shown;
pub use manager::{FederationPorts, Manager, OwnStore, Policy, Ports};
pub use own_peer::OwnPeer;
pub use status::StatusReport;
