//! What wiring can say about calls to other managers.

use std::sync::Arc;
use std::time::Duration;

use oscar_engine::ports::clock::Entropy;
use oscar_engine::ports::peers::Peers;
use reqwest::dns::Resolve;

use crate::outbound::address::AddressPolicy;

use super::resolver::SystemLookup;

/// How long a change at a foreign manager may take.
pub const FOREIGN_DEADLINE: Duration = Duration::from_secs(30);

/// Everything the adapter needs to know.
#[derive(Clone)]
pub struct PeersOptions {
    pub policy: AddressPolicy,
    /// Takes the calls that name this manager itself; it can also be given later, with
    /// [`super::HttpPeers::set_own`].
    pub own: Option<Arc<dyn Peers>>,
    /// The addresses of this manager: its public one, and its listener.
    pub own_urls: Vec<String>,
    /// Certificate authorities (PEM) to trust besides those of the system.
    pub extra_roots: Option<Vec<u8>>,
    pub connect_timeout: Duration,
    /// For one call, from its first request to the last byte of its answer.
    pub deadline: Duration,
    /// The same for a change at a foreign manager: Go OSCAR restarts its store before it answers
    /// a create, and a change that was given up on has to be undone.
    pub foreign_deadline: Duration,
    /// Calls under way at once: to all managers, for one owner, and for one owner to one machine.
    pub most_calls: usize,
    pub most_calls_per_owner: usize,
    pub most_calls_per_host: usize,
    /// More bytes of an answer are not read.
    pub longest_answer: usize,
    /// Finds the addresses of a name; what it finds is judged by the policy.
    pub lookup: Arc<dyn Resolve>,
    pub entropy: Arc<dyn Entropy>,
}

impl PeersOptions {
    pub fn new(policy: AddressPolicy, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            policy,
            own: None,
            own_urls: Vec::new(),
            extra_roots: None,
            connect_timeout: Duration::from_secs(3),
            deadline: Duration::from_secs(10),
            foreign_deadline: FOREIGN_DEADLINE,
            most_calls: 128,
            most_calls_per_owner: 48,
            most_calls_per_host: 32,
            longest_answer: 4 << 20,
            lookup: Arc::new(SystemLookup),
            entropy,
        }
    }
}

/// Why the options cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeersError {
    #[error("the extra certificate authorities cannot be used: {0}")]
    ExtraRoots(String),
    #[error("the HTTPS client cannot be set up: {0}")]
    Client(String),
}
