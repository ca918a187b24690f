//! The outcome of one suite.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Test and reason.
    pub(crate) skipped: Vec<(String, String)>,
    /// Marked as long: not part of an ordinary run, and no skip.
    pub(crate) long: u64,
    /// Numbers counted by its tests.
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) took: Duration,
    /// Shown when it failed.
    pub(crate) output: String,
}

impl Suite {
    pub(crate) fn named(name: &str) -> Suite {
        Suite { name: name.to_owned(), ..Suite::default() }
    }

    pub(crate) fn skips(&self) -> u64 {
        self.skipped.len() as u64
    }

    /// How many tests it has, however they went.
    pub(crate) fn tests(&self) -> u64 {
        self.passed + self.failed + self.skips()
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} passed", self.name, self.passed)?;
        if self.failed > 0 {
            write!(f, ", {} FAILED", self.failed)?;
        }
        if !self.skipped.is_empty() {
            write!(f, ", {} skipped", self.skips())?;
        }
        write!(f, " ({:.1} s)", self.took.as_secs_f64())
    }
}
