//! What happened, so that a person can read it.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use super::executor::Millis;

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub promise: String,
    /// What was found instead.
    pub found: String,
}

impl Violation {
    pub(super) fn new(promise: &str, found: impl Into<String>) -> Self {
        Self { promise: promise.to_owned(), found: found.into() }
    }
}

/// How often what went wrong on purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    pub calls: u64,
    pub requests_lost: u64,
    pub answers_lost: u64,
    pub repeated: u64,
    pub cuts: u64,
    pub crashes: u64,
    pub hang_ups: u64,
    pub strays: u64,
    pub deeds: u64,
    pub acknowledged: u64,
}

impl Figures {
    pub fn faults(&self) -> u64 {
        let Self { requests_lost, answers_lost, repeated, cuts, crashes, hang_ups, strays, .. } = self;
        requests_lost + answers_lost + repeated + cuts + crashes + hang_ups + strays
    }

    pub fn add(&mut self, other: &Self) {
        let Self { calls, requests_lost, answers_lost, repeated, cuts, crashes, hang_ups, strays, deeds, acknowledged } =
            other;
        self.calls += calls;
        self.requests_lost += requests_lost;
        self.answers_lost += answers_lost;
        self.repeated += repeated;
        self.cuts += cuts;
        self.crashes += crashes;
        self.hang_ups += hang_ups;
        self.strays += strays;
        self.deeds += deeds;
        self.acknowledged += acknowledged;
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{} deeds of users ({} acknowledged), {} calls between managers, {} faults ({} requests lost, {} answers \
             lost, {} repeated, {} cuts, {} crashes, {} hang-ups, {} strays)",
            self.deeds,
            self.acknowledged,
            self.calls,
            self.faults(),
            self.requests_lost,
            self.answers_lost,
            self.repeated,
            self.cuts,
            self.crashes,
            self.hang_ups,
            self.strays,
        )
    }
}

/// Written down only when somebody will read it: most stories end well.
pub(super) struct Story {
    wanted: bool,
    lines: Mutex<Vec<(Millis, String)>>,
}

impl Story {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, lines: Mutex::default() }
    }

    pub(super) fn tell(&self, at: Millis, line: impl FnOnce() -> String) {
        if self.wanted {
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).push((at, line()));
        }
    }

    pub(super) fn read(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (number, (at, line)) in lines.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{:>4}  {:>6}.{:03} s  {line}", number + 1, at / 1000, at % 1000);
        }
        text
    }
}
