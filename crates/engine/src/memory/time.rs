use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::ports::clock::{Clock, Entropy};

/// A clock that stands still.
pub struct FixedClock(pub SystemTime);

impl Clock for FixedClock {
    fn now(&self) -> SystemTime {
        self.0
    }
}

/// Numbers that repeat with their seed (splitmix64): for tests, never for secrets.
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut z = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let word = (z ^ (z >> 31)).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}
