//! The least number of tests of a suite, and the least sum of a counter, kept in
//! `tests-floor.toml`: a suite or a loop over seeds cannot shrink unseen.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::suite::Suite;
use crate::files;

const FILE: &str = "tests-floor.toml";
const HEAD: &str = "\
# The least number of tests per suite, and per suite the least sum of each of its counters.
# `./test` fails below a floor, and when a suite or a counter has none.
# `cargo xtask test --write-floors` writes the numbers of a whole run.
";

type Numbers = BTreeMap<String, u64>;

#[derive(Debug, Default, PartialEq, Eq)]
struct Floors {
    suites: Numbers,
    counters: Numbers,
}

/// Between a suite and its counter.
const OF: &str = ": ";

/// A suite that exists only when something is below its floor, or has none in a whole run. A
/// quick run cannot write floors, so it does not ask for them.
pub(crate) fn suite(suites: &[Suite], whole: bool) -> Option<Suite> {
    let text = std::fs::read_to_string(files::root().join(FILE)).unwrap_or_default();
    let mut findings = Vec::new();
    match parse(&text) {
        Ok(floors) => {
            findings.extend(check_floors(&floors, suites));
            if whole {
                findings.extend(check_floorless(&floors, suites));
            }
            for unjudged in unjudged(&floors, suites) {
                println!("not judged: {unjudged}");
            }
        }
        Err(finding) => findings.push(finding),
    }
    for finding in &findings {
        println!("floors: {finding}");
    }
    let failed = findings.len() as u64;
    (failed > 0).then(|| Suite { name: "floors".to_owned(), failed, ..Suite::default() })
}

/// Writes what was seen, unless it is not worth keeping.
pub(crate) fn write(suites: &[Suite]) {
    if suites.iter().any(|suite| suite.failed > 0 || suite.skips() > 0) {
        println!("{FILE} stays as it is: floors come from a run without failures and skips");
        return;
    }
    let floors = Floors { suites: tests(suites), counters: counters(suites) };
    match std::fs::write(files::root().join(FILE), render(&floors)) {
        Ok(()) => println!("{FILE} written"),
        Err(error) => println!("writing {FILE}: {error}"),
    }
}

/// Every counter, as `suite: counter`.
pub(crate) fn counters(suites: &[Suite]) -> Numbers {
    let each = suites.iter().flat_map(|suite| suite.counts.iter().map(move |(name, sum)| (suite, name, sum)));
    each.map(|(suite, name, sum)| (format!("{}{OF}{name}", suite.name), *sum)).collect()
}

fn check_floors(floors: &Floors, suites: &[Suite]) -> Vec<String> {
    if is_unbuilt(suites) {
        return Vec::new();
    }
    let mut findings = below("suite", &floors.suites, &tests(suites));
    let is_judged = |name: &String| why_unjudged(name, suites).is_none();
    let judged = floors.counters.iter().filter(|(name, _)| is_judged(name));
    let judged = judged.map(|(name, least)| (name.clone(), *least)).collect();
    findings.extend(below("counter", &judged, &counters(suites)));
    findings
}

/// What was seen and has no floor could shrink unseen.
fn check_floorless(floors: &Floors, suites: &[Suite]) -> Vec<String> {
    if is_unbuilt(suites) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (kind, seen, floors) in
        [("suite", tests(suites), &floors.suites), ("counter", counters(suites), &floors.counters)]
    {
        let without = seen.keys().filter(|name| !floors.contains_key(*name));
        findings.extend(
            without.map(|name| format!("{kind} {name} has no floor; `cargo xtask test --write-floors` writes it")),
        );
    }
    findings
}

/// The counters that are left out, with the reason.
fn unjudged(floors: &Floors, suites: &[Suite]) -> Vec<String> {
    if is_unbuilt(suites) {
        return Vec::new();
    }
    let names = floors.counters.keys();
    names.filter_map(|name| Some(format!("counter {name}, because {}", why_unjudged(name, suites)?))).collect()
}

/// A test that was skipped or failed counts nothing: the counters of its suite then say nothing.
fn why_unjudged(counter: &str, suites: &[Suite]) -> Option<String> {
    let (name, _) = counter.split_once(OF)?;
    let suite = suites.iter().find(|suite| suite.name == name)?;
    match (suite.skips(), suite.failed) {
        (0, 0) => None,
        (0, failed) => Some(format!("{failed} of its suite failed")),
        (skips, _) => Some(format!("{skips} of its suite were skipped")),
    }
}

/// Without a build there are no numbers to judge, and one failure says so already.
fn is_unbuilt(suites: &[Suite]) -> bool {
    suites.iter().any(|suite| suite.name == "build" && suite.failed > 0)
}

fn tests(suites: &[Suite]) -> Numbers {
    let all = suites.iter().map(|suite| (suite.name.clone(), suite.tests()));
    all.filter(|(_, tests)| *tests > 0).collect()
}

fn below(kind: &str, floors: &Numbers, seen: &Numbers) -> Vec<String> {
    floors
        .iter()
        .map(|(name, least)| (name, least, seen.get(name).copied().unwrap_or(0)))
        .filter(|(_, least, seen)| seen < least)
        .map(|(name, least, seen)| format!("{kind} {name}: {seen}, its floor is {least}"))
        .collect()
}

/// The little of TOML that we write: two tables of numbers.
fn parse(text: &str) -> Result<Floors, String> {
    let mut floors = Floors::default();
    let mut table = None;
    for (index, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("{FILE} line {}: {what}", index + 1);
        let line = line.trim();
        match line {
            "" => {}
            "[suites]" => table = Some(&mut floors.suites),
            "[counters]" => table = Some(&mut floors.counters),
            _ if line.starts_with('#') => {}
            _ => {
                let (name, least) = line.rsplit_once('=').ok_or_else(|| wrong("expected `name = number`"))?;
                let least = least.trim().parse().map_err(|_| wrong("expected a number"))?;
                let table = table.as_mut().ok_or_else(|| wrong("expected [suites] or [counters] first"))?;
                table.insert(name.trim().trim_matches('"').to_owned(), least);
            }
        }
    }
    Ok(floors)
}

fn render(floors: &Floors) -> String {
    let mut text = HEAD.to_owned();
    for (title, numbers) in [("suites", &floors.suites), ("counters", &floors.counters)] {
        let _ = write!(text, "\n[{title}]\n");
        for (name, least) in numbers {
            let _ = writeln!(text, "\"{name}\" = {least}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_floors() -> Floors {
        let counters = [("kit/it: kills survived".to_owned(), 10)].into();
        Floors { suites: [("kit/it".to_owned(), 3)].into(), counters }
    }

    fn mk_suite(passed: u64, kills: u64) -> Suite {
        let counts = [("kills survived".to_owned(), kills)].into();
        Suite { passed, counts, ..Suite::named("kit/it") }
    }

    #[test]
    fn floors_survive_writing_and_reading() {
        assert_eq!(parse(&render(&mk_floors())), Ok(mk_floors()));
    }

    #[test]
    fn fewer_tests_or_counts_are_findings() {
        assert_eq!(check_floors(&mk_floors(), &[mk_suite(3, 10)]), Vec::<String>::new());
        assert_eq!(check_floors(&mk_floors(), &[mk_suite(2, 10)]), ["suite kit/it: 2, its floor is 3"]);
        assert_eq!(
            check_floors(&mk_floors(), &[mk_suite(3, 9)]),
            ["counter kit/it: kills survived: 9, its floor is 10"]
        );
        assert_eq!(check_floors(&mk_floors(), &[]).len(), 2);
    }

    fn mk_skipping(name: &str) -> Suite {
        Suite { skipped: vec![("t".to_owned(), "no part".to_owned())], ..Suite::named(name) }
    }

    #[test]
    fn a_skip_counts_as_a_test_but_leaves_the_counters_of_its_suite_unjudged() {
        let skipping = [Suite { skipped: mk_skipping("").skipped, ..mk_suite(2, 0) }];
        assert_eq!(check_floors(&mk_floors(), &skipping), Vec::<String>::new());
        let said = unjudged(&mk_floors(), &skipping);
        assert_eq!(said, ["counter kit/it: kills survived, because 1 of its suite were skipped"]);
    }

    #[test]
    fn a_skip_in_another_suite_changes_nothing() {
        let suites = [mk_suite(3, 9), mk_skipping("other")];
        assert_eq!(check_floors(&mk_floors(), &suites), ["counter kit/it: kills survived: 9, its floor is 10"]);
        assert_eq!(unjudged(&mk_floors(), &suites), Vec::<String>::new());
    }

    #[test]
    fn what_has_no_floor_is_a_finding_that_says_what_to_do() {
        assert_eq!(check_floorless(&mk_floors(), &[mk_suite(3, 10), Suite::named("empty")]), Vec::<String>::new());
        let mut suites = [mk_suite(3, 10), mk_skipping("new")];
        suites[0].counts.insert("seeds".to_owned(), 1);
        let findings = check_floorless(&mk_floors(), &suites);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("suite new ") && findings[1].starts_with("counter kit/it: seeds "));
        assert!(findings.iter().all(|finding| finding.contains("--write-floors")), "{findings:?}");
    }

    #[test]
    fn a_run_that_was_not_built_is_judged_by_its_failure_alone() {
        let unbuilt = [Suite { failed: 1, ..Suite::named("build") }];
        assert!(check_floors(&mk_floors(), &unbuilt).is_empty() && check_floorless(&mk_floors(), &unbuilt).is_empty());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse("x = 1").is_err());
        assert!(parse("[suites]\nx = many").is_err());
    }
}
