//! What a test tells the test runner beyond pass and fail: skips with reasons, and numbers
//! (seeds, kills survived) that must not quietly shrink.
//!
//! Both are lines appended to a file the runner names in the environment. Without a runner
//! they are only printed.

use std::fs::OpenOptions;
use std::io::Write;

/// The file that receives `test<TAB>reason` lines.
const SKIPS: &str = "OSCAR_TEST_SKIPS";
/// The file that receives `name number` lines.
const COUNTS: &str = "OSCAR_TEST_COUNTS";
/// Set by the runner for the long run, where tests may take hours.
const LONG: &str = "OSCAR_TEST_LONG";

/// Records that `test` did not run, and why.
pub fn skip(test: &str, why: &str) {
    let why = one_line(why);
    println!("skipped {test}: {why}");
    append(SKIPS, &format!("{}\t{why}\n", one_line(test)));
}

/// Adds `by` to the counter `name` of this run.
pub fn count(name: &str, by: u64) {
    println!("counted {name}: {by}");
    append(COUNTS, &format!("{} {by}\n", one_line(name)));
}

/// True in `cargo xtask long`: a test may use far more seeds than usual.
pub fn long_run() -> bool {
    std::env::var_os(LONG).is_some_and(|value| value != "0")
}

/// The path of the test that `probe`, a function declared inside it, stands in.
pub fn test_name<T>(probe: &T) -> String {
    let name = std::any::type_name_of_val(probe);
    let name = name.strip_suffix("::here").unwrap_or(name);
    name.replace("::{{closure}}", "")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn append(variable: &str, line: &str) {
    let Some(path) = std::env::var_os(variable) else {
        return;
    };
    // One write in append mode: lines of concurrent tests do not mix.
    let written =
        OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("recording in {} ({variable}): {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_knows_its_name() {
        fn here() {}
        assert_eq!(test_name(&here), "oscar_testkit::record::tests::a_test_knows_its_name");
    }

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(one_line("first\n  second\t third "), "first second third");
    }
}
