//! Whether an issuer works, told in the log when that changes and not at every try.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What is read from an issuer for everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Discovery,
    Keys,
}

/// What a try changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The first trouble.
    Down,
    /// The last trouble is over.
    Back,
    Nothing,
}

/// The troubles of one issuer. Its sources fail together when it is down: that is one trouble.
pub(super) struct Standing {
    issuer: String,
    failing: Mutex<BTreeSet<Source>>,
}

impl Standing {
    pub(super) fn new(issuer: &str) -> Self {
        Self { issuer: issuer.to_owned(), failing: Mutex::default() }
    }

    pub(super) fn failed(&self, source: Source, cause: &str) -> Turn {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = if failing.is_empty() { Turn::Down } else { Turn::Nothing };
        failing.insert(source);
        if turn == Turn::Down {
            tracing::warn!(issuer = %self.issuer, cause, "identity provider cannot be read");
        }
        turn
    }

    pub(super) fn answered(&self, source: Source) -> Turn {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = if failing.remove(&source) && failing.is_empty() { Turn::Back } else { Turn::Nothing };
        if turn == Turn::Back {
            tracing::info!(issuer = %self.issuer, "identity provider answers again");
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_that_is_down_is_told_once_and_its_return_once() {
        let standing = Standing::new("https://issuer.example");
        assert_eq!(standing.answered(Source::Discovery), Turn::Nothing, "it was never down");
        assert_eq!(standing.failed(Source::Discovery, "refused"), Turn::Down);
        assert_eq!(standing.failed(Source::Keys, "refused"), Turn::Nothing, "the same trouble");
        assert_eq!(standing.failed(Source::Discovery, "refused"), Turn::Nothing, "still");
        assert_eq!(standing.answered(Source::Discovery), Turn::Nothing, "its keys are not there yet");
        assert_eq!(standing.answered(Source::Keys), Turn::Back);
        assert_eq!(standing.answered(Source::Keys), Turn::Nothing);
        assert_eq!(standing.failed(Source::Keys, "502"), Turn::Down, "another trouble");
        assert_eq!(standing.answered(Source::Keys), Turn::Back);
    }
}
