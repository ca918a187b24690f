//! Federations: a service and its replicas on other clusters, kept as one.
//!
//! A *create* is all or nothing: it is journalled before the first call and taken back when one
//! fails. Everything later changes only what is wanted, durably; [`Federator::tick_reconcile`]
//! then makes it so, however often it takes.

mod create;
mod member;
mod reconcile;

use std::sync::Arc;

use oscar_model::federation::plan::Found;
use oscar_model::federation::topology::MemberId;

use crate::ports::journal::Journal;
use crate::ports::peers::Peers;
use crate::ports::services::Services;

pub use create::{Create, CreateFailure};
pub use member::Member;

/// The coordinator's side.
pub struct Federator {
    pub services: Arc<dyn Services>,
    pub journal: Arc<dyn Journal>,
    pub peers: Arc<dyn Peers>,
}

/// What became of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberOutcome {
    pub member: MemberId,
    /// Blank when all is well.
    pub trouble: String,
}

/// Why a member cannot be planned for, as a sentence.
pub(crate) fn describe(found: &Found) -> String {
    match found {
        Found::OtherFederation => "its service of that name belongs to another federation".to_owned(),
        Found::SomebodyElses => "its service of that name belongs to somebody else".to_owned(),
        Found::Refused(cause) => format!("the credentials were refused: {cause}"),
        Found::Unreachable(cause) => format!("it cannot be reached: {cause}"),
        Found::Nothing | Found::Plain | Found::Replica { .. } => String::new(),
    }
}
