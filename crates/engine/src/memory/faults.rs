use std::sync::{Mutex, PoisonError};

/// Whether a planted failure comes before the call had its effect, or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

/// Failures that a test planted, each for the next call of a name.
#[derive(Default)]
pub(super) struct Faults(Mutex<Vec<(&'static str, When)>>);

impl Faults {
    pub(super) fn plant(&self, call: &'static str, when: When) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((call, when));
    }

    /// Whether the call fails here. Each failure happens once.
    pub(super) fn strike(&self, call: &'static str, when: When) -> bool {
        let mut planted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = planted.iter().position(|fault| *fault == (call, when));
        place.map(|place| planted.remove(place)).is_some()
    }
}
