//! Time and chance, so that a test can decide both.

use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;

pub trait Clock: Send + Sync {
    fn now(&self) -> SystemTime;

    /// Waits for so long.
    fn pause(&self, long: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move { tokio::time::sleep(long).await })
    }
}

/// Contract: bytes nobody can guess.
pub trait Entropy: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}
