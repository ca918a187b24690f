//! Every port in memory: honest about its contract, forgetful about everything else.

mod cluster;
mod identity;
mod issuers;
mod journal;
mod services;
mod settings;
mod time;
mod users;
mod vault;

pub use cluster::MemoryCluster;
pub use identity::MemoryIdentity;
pub use issuers::MemoryIssuers;
pub use journal::MemoryJournal;
pub use services::MemoryServices;
pub use settings::MemorySettings;
pub use time::{FixedClock, SeededEntropy};
pub use users::MemoryUsers;
pub use vault::{MemoryAudit, MemoryVault};
