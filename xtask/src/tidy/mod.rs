//! `cargo xtask tidy`: what the compiler cannot check. Each check looks at the files and
//! returns findings; none changes anything.

mod deny;
mod edges;
mod error_pages;
mod generated;
mod links;
mod routes;
mod sizes;
mod words;

use std::path::Path;
use std::time::Instant;

use crate::files;
use crate::test::Suite;

pub(crate) use generated::generate;

/// What a check has to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Empty: all is well.
    Findings(Vec<String>),
    /// There is nothing to look at yet.
    NotYet(String),
}

type Check = fn(&Path) -> Verdict;

const CHECKS: [(&str, Check); 8] = [
    ("dependencies follow the architecture", edges::check),
    ("dependencies are licensed and of one TLS stack", deny::check),
    ("every error code has a page", error_pages::check),
    ("links in documents resolve", links::check),
    ("generated files are fresh", generated::check),
    ("every route is documented", routes::check),
    ("no file names what it must not", words::check),
    ("no Rust file is too long", sizes::check),
];

/// Prints findings; true when there are none.
pub(crate) fn run() -> bool {
    let suite = suite();
    print!("{}", suite.output);
    for (check, why) in &suite.skipped {
        println!("not yet: {check}: {why}");
    }
    println!("{suite}");
    suite.failed == 0
}

/// The checks as a suite of tests.
pub(crate) fn suite() -> Suite {
    let started = Instant::now();
    let mut suite = Suite::named("tidy");
    for (name, check) in CHECKS {
        match check(files::root()) {
            Verdict::NotYet(why) => suite.skipped.push((name.to_owned(), why)),
            Verdict::Findings(findings) if findings.is_empty() => suite.passed += 1,
            Verdict::Findings(findings) => {
                suite.failed += 1;
                suite.output.extend(findings.iter().map(|finding| format!("{name}: {finding}\n")));
            }
        }
    }
    suite.took = started.elapsed();
    suite
}
