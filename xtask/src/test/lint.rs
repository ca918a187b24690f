//! Formatting and lints: each is one test of the suite `lint`.

use super::Run;
use super::rust::is_diagnostic;
use super::suite::Suite;
use crate::command;

const LINTS: [(&str, &[&str]); 2] = [
    ("formatting", &["fmt", "--all", "--check"]),
    ("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
];

pub(crate) fn suites(run: &Run) -> Vec<Suite> {
    let mut suite = Suite::named("lint");
    for (name, arguments) in LINTS {
        run.say(&format!("{name} (cargo {})", arguments.join(" ")));
        let done = command::run(name, &mut command::cargo(arguments), run.limit());
        suite.took += done.took;
        if done.success {
            suite.passed += 1;
        } else {
            suite.failed += 1;
            suite.output.extend(done.output.lines().filter(|line| is_diagnostic(line)).map(|line| format!("{line}\n")));
        }
    }
    run.show(&suite);
    vec![suite]
}
