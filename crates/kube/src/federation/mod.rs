//! What federations need, on Kubernetes: journal, vault, audit, and the Lease that says which
//! manager writes, finishes and repairs. Every read asks the apiserver; what anybody may cause before
//! he is known is one read of one object.

mod audit;
mod claim;
mod journal;
mod lease;
mod vault;

pub(crate) use audit::KubeAudit;
pub(crate) use journal::KubeJournal;
pub use lease::KubeLease;
pub(crate) use vault::KubeVault;

use oscar_engine::ports::StoreError;

use crate::layout::federation::MOST_BYTES;

/// How often a write that met another one is tried again.
const TRIES: usize = 5;

fn crowded(what: &str) -> StoreError {
    StoreError::Unavailable(format!("{what} is being changed by others all the time"))
}

fn fitting(what: &str, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    if bytes.len() <= MOST_BYTES {
        return Ok(bytes);
    }
    let (found, most) = (bytes.len() / 1024, MOST_BYTES / 1024);
    Err(StoreError::Full(format!("{what} is too large for a Kubernetes Secret ({found} KiB, at most {most} KiB)")))
}
