//! `oscar doctor`: looks for what is wrong and says what to do about it.
//!
//! A check is a function from the surroundings to findings; [`CHECKS`] is the list. A check
//! changes nothing, prints nothing, and never fails itself: what it cannot find out is a finding.

mod clusters;
mod executors;
mod federation;
mod local;
mod settings;
mod store;

use std::future::Future;
use std::pin::Pin;

use serde_json::json;

use super::exit::{Exit, Failure};
use super::places::Places;
use super::screen::{self, Screen, Style, printable};
use super::target::{self, Target};
use super::{Session, progress};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Fine,
    /// Works, but is worth a look.
    Doubtful,
    Broken,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    pub text: String,
    pub hints: Vec<String>,
}

impl Finding {
    pub fn fine(text: impl Into<String>) -> Self {
        Self { level: Level::Fine, text: text.into(), hints: Vec::new() }
    }

    pub fn doubtful(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { level: Level::Doubtful, text: text.into(), hints: vec![hint.into()] }
    }

    pub fn broken(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { level: Level::Broken, text: text.into(), hints: vec![hint.into()] }
    }
}

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Self {
        Self { level: Level::Broken, text: failure.message, hints: failure.hints }
    }
}

type Findings<'a> = Pin<Box<dyn Future<Output = Vec<Finding>> + Send + 'a>>;

struct Check {
    title: &'static str,
    /// The cluster is the one that was named, if one was.
    look: for<'a> fn(&'a Places, Option<&'a Target>) -> Findings<'a>,
}

const CHECKS: &[Check] = &[
    Check { title: "settings", look: |places, _| Box::pin(async { settings::check(places) }) },
    Check { title: "clusters", look: |places, only| Box::pin(clusters::check(places, only)) },
    Check { title: "this machine", look: |places, _| Box::pin(async { local::check(places) }) },
    Check { title: "object store", look: |places, _| Box::pin(store::check(places)) },
    Check { title: "scripts", look: |_, _| Box::pin(executors::check()) },
];

pub(super) async fn run(session: &Session) -> Result<(), Failure> {
    // A cluster that was named is looked at alone; one that is not there is told at once.
    let only = session.cluster.as_deref().map(|name| target::by_name(session, name)).transpose()?;
    let mut all = Vec::new();
    for check in CHECKS {
        let look = (check.look)(&session.places, only.as_ref());
        let findings = progress::during(&format!("looking at {}", check.title), look).await;
        if !session.screen.json {
            show(session.screen, check.title, &findings);
        }
        all.extend(findings.into_iter().map(|finding| (check.title, finding)));
    }
    if session.screen.json {
        let rows = all.iter().map(|(title, finding)| {
            let level = match finding.level {
                Level::Fine => "fine",
                Level::Doubtful => "doubtful",
                Level::Broken => "broken",
            };
            json!({"check": title, "level": level, "text": finding.text, "hints": finding.hints})
        });
        screen::value(&rows.collect());
    }
    match all.iter().filter(|(_, finding)| finding.level == Level::Broken).count() {
        0 => Ok(()),
        // Programs have them all already.
        _ if session.screen.json => Err(Failure::told(Exit::Failed)),
        1 => Err(Failure::new(Exit::Failed, "one thing is broken")),
        broken => Err(Failure::new(Exit::Failed, format!("{broken} things are broken"))),
    }
}

fn show(screen: Screen, title: &str, findings: &[Finding]) {
    screen::line(&screen.paint.on(Style::Bold, title));
    for finding in findings {
        let (style, mark) = match finding.level {
            Level::Fine => (Style::Green, "✓"),
            Level::Doubtful => (Style::Yellow, "!"),
            Level::Broken => (Style::Red, "✗"),
        };
        screen::line(&format!("  {} {}", screen.paint.on(style, mark), printable(&finding.text)));
        for hint in &finding.hints {
            screen::line(&format!("    {} {}", screen.paint.on(Style::Cyan, "hint:"), printable(hint)));
        }
    }
}
