//! Not asking a broken neighbour again at once.

use std::time::{Duration, SystemTime};

/// Remembers failures of one neighbour. The wait doubles with each failure in a row.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    max: Duration,
    trouble: Option<Trouble>,
}

#[derive(Debug)]
struct Trouble {
    in_a_row: u32,
    retry_at: SystemTime,
    cause: String,
}

impl Backoff {
    pub(super) fn new(first: Duration, max: Duration) -> Self {
        Self { first: first.min(max), max, trouble: None }
    }

    /// Why the neighbour should not be asked now.
    pub(super) fn blocks(&self, now: SystemTime) -> Option<&str> {
        let trouble = self.trouble.as_ref()?;
        // A wait longer than the longest one means that the clock was set back.
        let wait = trouble.retry_at.duration_since(now).ok()?;
        (!wait.is_zero() && wait <= self.max).then_some(trouble.cause.as_str())
    }

    /// The last failure, as long as nothing succeeded since.
    pub(super) fn cause(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| trouble.cause.as_str())
    }

    /// Returns whether this is the first failure after a success.
    pub(super) fn fail(&mut self, now: SystemTime, cause: String) -> bool {
        let before = self.trouble.as_ref().map_or(0, |trouble| trouble.in_a_row);
        let wait = self.first.saturating_mul(1 << before.min(16)).min(self.max);
        let in_a_row = before.saturating_add(1);
        self.trouble = Some(Trouble { in_a_row, retry_at: now + wait, cause });
        before == 0
    }

    /// Returns whether there was trouble.
    pub(super) fn clear(&mut self) -> bool {
        self.trouble.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_bound_and_a_success_ends_it() {
        let second = Duration::from_secs(1);
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(24);
        let mut backoff = Backoff::new(second, 5 * second);
        assert_eq!(backoff.blocks(now), None);

        for wait in [1, 2, 4, 5, 5] {
            assert_eq!(backoff.fail(now, "down".to_owned()), wait == 1);
            assert_eq!(backoff.blocks(now + wait * second - Duration::from_millis(1)), Some("down"));
            assert_eq!(backoff.blocks(now + wait * second), None);
        }
        assert_eq!(backoff.cause(), Some("down"));

        assert!(backoff.clear());
        assert_eq!(backoff.blocks(now), None);
        assert_eq!(backoff.cause(), None);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_prolong_the_wait() {
        let second = Duration::from_secs(1);
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(24);
        let mut backoff = Backoff::new(second, 5 * second);
        backoff.fail(now, "down".to_owned());
        assert_eq!(backoff.blocks(now - Duration::from_hours(1)), None);
    }
}
