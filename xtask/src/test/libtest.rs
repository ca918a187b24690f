//! What Rust's test harness prints.

/// The numbers of one or more `test result:` lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    pub(crate) lines: u64,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

/// Adds up every `test result: ok. 4 passed; 0 failed; 1 ignored; ...` line.
pub(crate) fn parse(output: &str) -> Results {
    let mut results = Results::default();
    for line in output.lines() {
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else { continue };
        let Some((_, numbers)) = rest.split_once(". ") else { continue };
        results.lines += 1;
        for part in numbers.split(';') {
            let Some((number, what)) = part.trim().split_once(' ') else { continue };
            let number = number.parse::<u64>().unwrap_or(0);
            match what {
                "passed" => results.passed += number,
                "failed" => results.failed += number,
                "ignored" => results.ignored += number,
                _ => {}
            }
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_binaries_add_up() {
        let output = "running 3 tests\ntest a ... ok\n\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n   \
            Doc-tests other\n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s\n";
        assert_eq!(parse(output), Results { lines: 2, passed: 3, failed: 2, ignored: 1 });
    }

    #[test]
    fn a_crash_has_no_result() {
        assert_eq!(parse("running 1 test\nSegmentation fault").lines, 0);
    }
}
