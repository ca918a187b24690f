//! What the operator and the rest of the manager decide about the store.

use std::path::PathBuf;
use std::sync::Arc;

use oscar_engine::ports::buckets::Keys;
use oscar_engine::ports::clock::{Clock, Entropy};
use oscar_engine::ports::seal::Seal;

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
    /// For secret keys. What is sealed tells which key it belongs to, so it need not be bound to a place.
    pub seal: Arc<dyn Seal>,
}
