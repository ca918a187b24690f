//! The Rust tests: everything is built first, then each test program runs on its own, so
//! that its numbers, skips and output belong to it without guessing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::records::Records;
use super::suite::Suite;
use super::{Run, libtest};
use crate::command;

/// Tests with this in their name are what other tests start as processes of their own.
const CHILD: &str = "child_";

/// One test program.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    suite: String,
    folder: PathBuf,
    path: PathBuf,
}

pub(crate) fn suites(run: &Run) -> Vec<Suite> {
    run.say("building the tests (minutes when nothing is built yet)");
    // JSON on standard output, diagnostics rendered on standard error; both end up in one
    // text, whose JSON lines all start with a brace. This builds what `cargo test --no-run`
    // would, and goes on after an error: what can be built is still tested.
    let mut build = command::cargo(&["build", "--workspace", "--tests", "--keep-going"]);
    build.arg("--message-format=json-render-diagnostics");
    let done = command::run("building the tests", &mut build, run.limit());

    let mut suites = Vec::new();
    let mut build = Suite { name: "build".to_owned(), took: done.took, ..Suite::default() };
    if done.success {
        build.passed = 1;
    } else {
        build.failed = 1;
        build.output = done.output.lines().filter(|line| is_diagnostic(line)).collect::<Vec<_>>().join("\n");
    }
    run.show(&build);
    suites.push(build);

    for program in programs(&done.output) {
        run.say(&format!("running {}", program.suite));
        let mut command = Command::new(&program.path);
        command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        if run.long {
            // What another test starts as its child does nothing without it.
            command.args(["--ignored", "--skip", CHILD]);
        }
        suites.push(run_suite(run, &program.suite, &mut command));
        if run.long && has_properties(&program.suite) {
            run.say(&format!("running {} with more cases", program.suite));
            let mut command = Command::new(&program.path);
            command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
            command.env("PROPTEST_CASES", CASES);
            suites.push(run_suite(run, &format!("{} (properties)", program.suite), &mut command));
        }
    }
    if !run.long && suites[0].failed == 0 {
        run.say("running the examples in the documentation");
        suites.push(run_suite(run, "doc-tests", &mut command::cargo(&["test", "--workspace", "--doc"])));
    }
    suites
}

/// How many cases a property gets in the long run; others each time.
const CASES: &str = "10000";

/// Whether a suite decides by pure functions, and so gains by more cases of its properties. The
/// simulator has a command of its own.
fn has_properties(suite: &str) -> bool {
    let pure = ["oscar-model", "oscar-api", "oscar-engine", "oscar-kube", "oscar-store", "oscar-supervisor"];
    let (package, target) = suite.split_once('/').unwrap_or((suite, ""));
    pure.contains(&package) && !["it", "simulation", "clients"].contains(&target)
}

fn run_suite(run: &Run, name: &str, command: &mut Command) -> Suite {
    command.envs(run.environment());
    let records = Records::attach(command);
    let done = command::run(name, command, run.limit());
    let suite = judge(name, &done.output, done.success, done.took, records.take());
    run.show(&suite);
    suite
}

/// Skipped tests returned early, so the harness counted them as passed.
fn judge(
    name: &str,
    output: &str,
    success: bool,
    took: Duration,
    (skipped, counts): (Vec<(String, String)>, std::collections::BTreeMap<String, u64>),
) -> Suite {
    let results = libtest::parse(output);
    let mut failed = results.failed;
    if failed == 0 && (!success || results.lines == 0) {
        // It crashed, hung, or did not run at all.
        failed = 1;
    }
    Suite {
        name: name.to_owned(),
        passed: results.passed.saturating_sub(skipped.len() as u64),
        failed,
        skipped,
        long: results.ignored,
        counts,
        took,
        output: output.to_owned(),
    }
}

/// Neither a message for machines nor progress.
pub(crate) fn is_diagnostic(line: &str) -> bool {
    let progress = ["Compiling", "Downloading", "Downloaded", "Blocking", "Updating", "Checking"];
    !line.starts_with('{') && !progress.iter().any(|word| line.trim_start().starts_with(word))
}

/// The test programs among cargo's messages, by suite name.
fn programs(messages: &str) -> Vec<Program> {
    let mut programs: Vec<Program> = messages
        .lines()
        .filter(|line| line.starts_with('{'))
        .filter_map(|line| program(&serde_json::from_str(line).ok()?))
        .collect();
    programs.sort_by(|a, b| a.suite.cmp(&b.suite));
    programs
}

fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = message["executable"].as_str()?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    // `path+file:///…/crates/model#oscar-model@0.1.0`, or without the name when it is the
    // folder's.
    let id = message["package_id"].as_str()?;
    let after = id.rsplit_once('#')?.1;
    let package = match after.split_once('@') {
        Some((name, _)) => name,
        None => folder.file_name()?.to_str()?,
    };
    let target = message["target"]["name"].as_str()?;
    let suite = match message["target"]["kind"][0].as_str()? {
        "lib" | "proc-macro" => package.to_owned(),
        "bin" if target == package => format!("{package}/main"),
        _ => format!("{package}/{target}"),
    };
    Some(Program { suite, folder: folder.to_owned(), path: path.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_by_package_and_target() {
        let message = |id: &str, kind: &str, target: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///x/{id}","manifest_path":"/x/kit/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"{target}"}},"profile":{{"test":true}},"executable":"/x/t"}}"#
            )
            .replace('\n', "")
        };
        let lines = [
            message("kit#oscar-kit@0.1.0", "lib", "oscar_kit"),
            message("kit#oscar-kit@0.1.0", "test", "it"),
            message("kit#0.1.0", "bin", "kit"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "warning: something".to_owned(),
        ];
        let names: Vec<String> = programs(&lines.join("\n")).into_iter().map(|program| program.suite).collect();
        assert_eq!(names, ["kit/main", "oscar-kit", "oscar-kit/it"]);
    }

    #[test]
    fn skips_are_taken_from_the_passed() {
        let output = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        let skips = vec![("a".to_owned(), "no part".to_owned())];
        let suite = judge("s", output, true, Duration::ZERO, (skips, [].into()));
        assert_eq!((suite.passed, suite.failed, suite.skips(), suite.long), (4, 0, 1, 1));
    }

    #[test]
    fn a_crash_is_a_failure() {
        let suite = judge("s", "running 3 tests", false, Duration::ZERO, (vec![], [].into()));
        assert_eq!((suite.passed, suite.failed), (0, 1));
    }
}
