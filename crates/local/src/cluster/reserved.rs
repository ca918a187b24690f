//! What the manager has promised to jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The sum of all promises that are held.
#[derive(Debug, Default)]
pub struct Reserved {
    cores: AtomicI64,
    bytes: AtomicI64,
}

impl Reserved {
    /// Promises millicores and bytes for as long as the returned value lives.
    pub fn hold(self: &Arc<Self>, cores: i64, bytes: i64) -> Reservation {
        self.cores.fetch_add(cores, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Reservation { of: self.clone(), cores, bytes }
    }

    pub fn cores(&self) -> i64 {
        self.cores.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> i64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// One promise, given back when it is dropped.
#[derive(Debug)]
#[must_use = "what is not kept is given back at once"]
pub struct Reservation {
    of: Arc<Reserved>,
    cores: i64,
    bytes: i64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.of.cores.fetch_sub(self.cores, Ordering::Relaxed);
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
