//! Keeping secret values unreadable at rest.

/// Contract: what was sealed opens to the same bytes with the same key, and with no other.
/// Whoever seals says in the value itself what it belongs to.
pub trait Seal: Send + Sync {
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, SealError>;
    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, SealError>;
}

/// Says why, without any of the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SealError(pub String);
