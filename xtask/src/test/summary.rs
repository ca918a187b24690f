//! The end of a run: a table, the reasons of skips, and one line for machines.

use super::suite::Suite;
use super::{Run, floors};

/// Set by continuous integration, where a skip hides something.
const STRICT: &str = "OSCAR_TEST_STRICT";

/// Prints the summary; true when the run is good.
pub(crate) fn print(run: &Run, suites: &[Suite]) -> bool {
    let width = suites.iter().map(|suite| suite.name.len()).max().unwrap_or(0).max(5);
    println!("\n{:<width$}  passed  failed  skipped    long   seconds", "suite");
    // A crate without tests is no suite.
    for suite in suites.iter().filter(|suite| suite.tests() + suite.long > 0) {
        println!(
            "{:<width$}  {:>6}  {:>6}  {:>7}  {:>6}  {:>8.1}",
            suite.name,
            suite.passed,
            suite.failed,
            suite.skips(),
            suite.long,
            suite.took.as_secs_f64(),
        );
    }
    let counters = floors::counters(suites);
    if !counters.is_empty() {
        println!("\ncounted");
        for (name, sum) in counters {
            println!("  {name}: {sum}");
        }
    }
    let skips: Vec<_> = suites.iter().flat_map(|suite| suite.skipped.iter().map(move |skip| (suite, skip))).collect();
    if !skips.is_empty() {
        println!("\nskipped");
        for (suite, (test, why)) in &skips {
            println!("  {} {test}: {why}", suite.name);
        }
    }
    if suites.iter().any(|suite| suite.long > 0) && !run.long {
        println!("\n`cargo xtask long` runs those marked as long");
    }

    let passed: u64 = suites.iter().map(|suite| suite.passed).sum();
    let failed: u64 = suites.iter().map(|suite| suite.failed).sum();
    let skipped = skips.len();
    let strict = std::env::var_os(STRICT).is_some_and(|value| value != "0");
    if strict && skipped > 0 {
        println!("\na strict run: a skip is a failure");
    }
    println!("\ntook {} s", run.started.elapsed().as_secs());
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    failed == 0 && !(strict && skipped > 0)
}
