//! Every port in memory: honest about its contract, forgetful about everything else.

mod buckets;
mod cluster;
mod faults;
mod identity;
mod issuers;
mod jobs;
mod journal;
mod runtime;
mod services;
mod settings;
mod time;
mod users;
mod vault;

pub use buckets::MemoryBuckets;
pub use cluster::MemoryCluster;
pub use faults::When;
pub use identity::MemoryIdentity;
pub use issuers::MemoryIssuers;
pub use jobs::MemoryJobs;
pub use journal::MemoryJournal;
pub use runtime::MemoryRuntime;
pub use services::MemoryServices;
pub use settings::MemorySettings;
pub use time::{FixedClock, SeededEntropy};
pub use users::MemoryUsers;
pub use vault::{MemoryAudit, MemoryVault};
