//! The least number of tests of a suite, and the least sum of a counter, kept in
//! `tests-floor.toml`: a suite or a loop over seeds cannot shrink unseen.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::suite::Suite;
use crate::files;

const FILE: &str = "tests-floor.toml";
const HEAD: &str = "\
# The least number of tests per suite and the least sum per counter. `./test` fails below
# a floor. `cargo xtask test --write-floors` writes the numbers of a whole run.
";

type Numbers = BTreeMap<String, u64>;

#[derive(Debug, Default, PartialEq, Eq)]
struct Floors {
    suites: Numbers,
    counters: Numbers,
}

/// A suite that exists only when something is below its floor.
pub(crate) fn suite(suites: &[Suite]) -> Option<Suite> {
    let text = std::fs::read_to_string(files::root().join(FILE)).unwrap_or_default();
    let findings = match parse(&text) {
        Ok(floors) => check_floors(&floors, suites),
        Err(finding) => vec![finding],
    };
    for finding in &findings {
        println!("below its floor: {finding}");
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
    let floors = Floors {
        suites: suites
            .iter()
            .map(|suite| (suite.name.clone(), suite.tests()))
            .filter(|(_, least)| *least > 0)
            .collect(),
        counters: sum(suites),
    };
    match std::fs::write(files::root().join(FILE), render(&floors)) {
        Ok(()) => println!("{FILE} written"),
        Err(error) => println!("writing {FILE}: {error}"),
    }
}

/// The counters of all suites together.
pub(crate) fn sum(suites: &[Suite]) -> Numbers {
    let mut sums = Numbers::new();
    for (name, by) in suites.iter().flat_map(|suite| &suite.counts) {
        *sums.entry(name.clone()).or_insert(0) += by;
    }
    sums
}

fn check_floors(floors: &Floors, suites: &[Suite]) -> Vec<String> {
    // Without a build there are no numbers to judge, and one failure says so already.
    if suites.iter().any(|suite| suite.name == "build" && suite.failed > 0) {
        return Vec::new();
    }
    let tests: Numbers = suites.iter().map(|suite| (suite.name.clone(), suite.tests())).collect();
    let mut findings = below("suite", &floors.suites, &tests);
    // A skipped test counts nothing: its counters say nothing either.
    if suites.iter().all(|suite| suite.skipped.is_empty() && suite.failed == 0) {
        findings.extend(below("counter", &floors.counters, &sum(suites)));
    }
    findings
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
        Floors { suites: [("kit/it".to_owned(), 3)].into(), counters: [("kills survived".to_owned(), 10)].into() }
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
        assert_eq!(check_floors(&mk_floors(), &[mk_suite(3, 9)]), ["counter kills survived: 9, its floor is 10"]);
        assert_eq!(check_floors(&mk_floors(), &[]).len(), 2);
    }

    #[test]
    fn a_skip_counts_as_a_test_but_leaves_counters_unjudged() {
        let mut suite = mk_suite(2, 0);
        suite.skipped.push(("t".to_owned(), "no part".to_owned()));
        assert_eq!(check_floors(&mk_floors(), &[suite]), Vec::<String>::new());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse("x = 1").is_err());
        assert!(parse("[suites]\nx = many").is_err());
    }
}
