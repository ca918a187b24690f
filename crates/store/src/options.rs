//! What the operator and the rest of the manager decide about the store.

use std::path::PathBuf;
use std::sync::Arc;

use oscar_engine::ports::buckets::Keys;
use oscar_engine::ports::clock::{Clock, Entropy};

pub struct Options {
    /// Made when it is not there; nothing else may be kept in it.
    pub folder: PathBuf,
    /// The administrator's key pair.
    pub root: Keys,
    /// The address that clients use, for presigned ones: `http://127.0.0.1:9000`.
    pub endpoint: String,
    pub region: String,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub seal: Arc<dyn Seal>,
}

/// Keeps secret keys unreadable at rest. What is sealed here already tells which key it belongs
/// to, so an adapter need not bind it to a place.
pub trait Seal: Send + Sync {
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, SealError>;
    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, SealError>;
}

/// Says why, without any of the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SealError(pub String);
