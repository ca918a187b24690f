//! Bugs that a test can plant, so that it is known that the simulator would find them. In a
//! release there are none: the question is a constant.

/// What can be made to go wrong, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An operation is begun without being written down.
    OperationNotStored,
    /// What an operation replaced is overwritten when the operation is repeated.
    FormerOverwritten,
}

#[cfg(any(test, feature = "testing"))]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Runs `work` on this thread with a bug in the engine.
    pub fn with_bug<T>(bug: Bug, work: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(bug));
        let done = work();
        PLANTED.set(None);
        done
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(any(test, feature = "testing"))]
pub use switch::with_bug;

#[cfg(any(test, feature = "testing"))]
pub(crate) use switch::planted;

#[cfg(not(any(test, feature = "testing")))]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}
