//! Who did not answer in time a moment ago: waited for again, but not as long.
//!
//! An operation calls a member several times, one after the other. A member that hangs costs it its
//! time-out once, and then a fifth of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// After so long it is waited for as long as anybody.
const REMEMBERED: Duration = Duration::from_mins(1);

const SHARE: u32 = 5;

const MANY: usize = 1024;

#[derive(Default)]
pub(super) struct Tardy {
    /// By address, when it was given up on after the whole time.
    since: Mutex<HashMap<String, Instant>>,
}

impl Tardy {
    fn since(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it is waited for, of the time that anybody gets.
    pub(super) fn patience(&self, address: &str, whole: Duration) -> Duration {
        let recent = self.since().get(address).is_some_and(|since| since.elapsed() < REMEMBERED);
        if recent { whole / SHARE } else { whole }
    }

    /// That it did not answer in a shorter time than others get says nothing new.
    pub(super) fn note_late(&self, address: &str) {
        let mut since = self.since();
        if since.len() >= MANY {
            since.retain(|_, since| since.elapsed() < REMEMBERED);
        }
        let known = since.get(address).is_some_and(|since| since.elapsed() < REMEMBERED);
        if !known && since.len() < MANY {
            since.insert(address.to_owned(), Instant::now());
        }
    }

    pub(super) fn note_answer(&self, address: &str) {
        self.since().remove(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn who_hangs_costs_its_time_once_and_is_asked_properly_again_later() {
        let tardy = Tardy::default();
        assert_eq!(tardy.patience("a", WHOLE), WHOLE);
        tardy.note_late("a");
        assert_eq!((tardy.patience("a", WHOLE), tardy.patience("b", WHOLE)), (WHOLE / 5, WHOLE));
        tokio::time::advance(REMEMBERED / 2).await;
        tardy.note_late("a");
        tokio::time::advance(REMEMBERED / 2).await;
        assert_eq!(tardy.patience("a", WHOLE), WHOLE, "what was cut short is no news");
        tardy.note_late("a");
        tardy.note_answer("a");
        assert_eq!(tardy.patience("a", WHOLE), WHOLE);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_remembered() {
        let tardy = Tardy::default();
        for index in 0..2 * MANY {
            tardy.note_late(&index.to_string());
        }
        assert_eq!(tardy.since().len(), MANY);
        tokio::time::advance(REMEMBERED).await;
        tardy.note_late("another");
        assert_eq!(tardy.since().len(), 1);
    }
}
