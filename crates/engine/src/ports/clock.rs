//! Time and chance, so that a test can decide both.

use std::time::SystemTime;

pub trait Clock: Send + Sync {
    fn now(&self) -> SystemTime;
}

/// Contract: bytes nobody can guess.
pub trait Entropy: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}
