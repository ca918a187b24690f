//! Bugs that a test can plant, so that it is known that the simulator would find them. In a
//! release there are none: the question is a constant.

/// What can be made to go wrong, and where.
#[cfg_attr(not(any(test, feature = "testing")), expect(unreachable_pub, reason = "only tests plant bugs"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An operation is begun without being written down.
    OperationNotStored,
    /// A step of a failed create is not taken back.
    UndoSkipped,
    /// A create is taken back while it is being carried out.
    RunningTakenBack,
    /// After a restart an operation goes on under another id.
    OperationRenamed,
    /// What an operation replaced is overwritten when the operation is repeated.
    FormerOverwritten,
    /// A service that was there before is deleted at the end.
    AdoptedDeleted,
    /// A replica of another federation is taken over.
    OthersTaken,
    /// Who is leaving is forgotten although nobody answered there.
    LeavingForgotten,
    /// A look writes down the record as it was when it began.
    StaleRecordWritten,
    /// Of two changes the one heard last wins, not the later one.
    LastHeardWins,
    /// A removal is forgotten before everybody has seen it.
    TombstoneForgotten,
    /// The definition does not follow the members.
    NotProjected,
    /// A change of secrets alone is not noticed.
    SecretsIgnored,
    /// A replica that its owner takes away leaves without its coordinator being told.
    LeavesSilently,
    /// The refresh token stays among the other secrets.
    RefreshTokenKept,
    /// An edit at a mesh worker is acknowledged and not written down.
    EditNotStored,
    /// A deploy is carried out that arrives after it was taken back or let go.
    LateDeployTaken,
    /// Whoever sends the marks of a replica is taken for its coordinator.
    MarksBelieved,
}

#[cfg(any(test, feature = "testing"))]
impl Bug {
    pub const ALL: [Self; 18] = [
        Self::OperationNotStored,
        Self::UndoSkipped,
        Self::RunningTakenBack,
        Self::OperationRenamed,
        Self::FormerOverwritten,
        Self::AdoptedDeleted,
        Self::OthersTaken,
        Self::LeavingForgotten,
        Self::StaleRecordWritten,
        Self::LastHeardWins,
        Self::TombstoneForgotten,
        Self::NotProjected,
        Self::SecretsIgnored,
        Self::LeavesSilently,
        Self::RefreshTokenKept,
        Self::EditNotStored,
        Self::LateDeployTaken,
        Self::MarksBelieved,
    ];
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
