//! `cargo xtask test`: every suite, one summary, and a last line that machines can read.

mod floors;
mod libtest;
mod lint;
mod records;
mod rust;
mod suite;
mod summary;

use std::time::{Duration, Instant};

pub(crate) use suite::Suite;

/// A suite that takes longer than this hangs.
const LIMIT: Duration = Duration::from_mins(30);
const LONG_LIMIT: Duration = Duration::from_hours(12);

pub(crate) struct Options {
    quick: bool,
    write_floors: bool,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options = Options { quick: false, write_floors: false };
        for word in words {
            match *word {
                "quick" => options.quick = true,
                "--write-floors" => options.write_floors = true,
                unknown => return Err(unknown.to_owned()),
            }
        }
        Ok(options)
    }
}

/// What every suite gets to know.
pub(crate) struct Run {
    started: Instant,
    quick: bool,
    long: bool,
}

impl Run {
    fn new(quick: bool, long: bool) -> Run {
        Run { started: Instant::now(), quick, long }
    }

    /// A line of progress.
    pub(crate) fn say(&self, line: &str) {
        println!("[{:>4} s] {line}", self.started.elapsed().as_secs());
    }

    /// Says how a suite went, with its output when it went wrong.
    pub(crate) fn show(&self, suite: &Suite) {
        self.say(&suite.to_string());
        if suite.failed > 0 {
            println!("{}", suite.output.trim_end());
        }
    }

    pub(crate) fn limit(&self) -> Duration {
        if self.long { LONG_LIMIT } else { LIMIT }
    }

    /// The variables by which tests know what kind of run this is.
    pub(crate) fn environment(&self) -> Vec<(&'static str, &'static str)> {
        let mut variables = Vec::new();
        if self.quick {
            variables.push(("OSCAR_TEST_QUICK", "1"));
        }
        if self.long {
            variables.push(("OSCAR_TEST_LONG", "1"));
        } else {
            // The same cases on every machine, so that a change is judged by what it changed. New
            // cases are sought by the long run and by `cargo test`.
            variables.push(("PROPTEST_RNG_SEED", "1"));
        }
        variables
    }
}

/// Every suite, in the order they run: cheap findings first. A suite of another kind (a
/// browser, a fuzzer) is one more line here.
const SUITES: [fn(&Run) -> Vec<Suite>; 3] = [lint::suites, tidy_suites, rust::suites];

/// Runs everything; true when nothing failed.
pub(crate) fn run(options: &Options) -> bool {
    let run = Run::new(options.quick, false);
    if run.quick {
        run.say("a quick run: what needs Kubernetes, an identity provider or Python is skipped");
    }
    let mut suites: Vec<Suite> = SUITES.iter().flat_map(|suites| suites(&run)).collect();
    if options.write_floors {
        floors::write(&suites);
    } else {
        suites.extend(floors::suite(&suites, !run.quick));
    }
    summary::print(&run, &suites)
}

/// Runs what takes hours: tests marked `#[ignore]`, properties with many new cases, and the
/// simulator's large set of seeds.
pub(crate) fn run_long() -> bool {
    let run = Run::new(false, true);
    run.say("the long run: hours, not minutes");
    let mut suites = rust::suites(&run);
    run.say("telling stories of federations");
    let mut stories = Suite::named("stories of federations");
    let started = Instant::now();
    if crate::simulate::run(&crate::simulate::Options::default()) {
        stories.passed = 1;
    } else {
        stories.failed = 1;
    }
    stories.took = started.elapsed();
    suites.push(stories);
    summary::print(&run, &suites)
}

fn tidy_suites(run: &Run) -> Vec<Suite> {
    let suite = crate::tidy::suite();
    run.show(&suite);
    vec![suite]
}
