//! What tests told us beyond pass and fail: the other side of the test kit's `record`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::files;

/// Two files that the tests of one suite append to.
pub(crate) struct Records {
    skips: PathBuf,
    counts: PathBuf,
}

impl Records {
    /// Fresh files, named to `command` by its environment.
    pub(crate) fn attach(command: &mut Command) -> Records {
        let folder = files::root().join("target/test-records");
        // The tests complain when they cannot append.
        let _ = std::fs::create_dir_all(&folder);
        let id = std::process::id();
        let records =
            Records { skips: folder.join(format!("{id}.skips")), counts: folder.join(format!("{id}.counts")) };
        records.remove();
        command.env("OSCAR_TEST_SKIPS", &records.skips).env("OSCAR_TEST_COUNTS", &records.counts);
        records
    }

    /// What was recorded: skips by test, so that a test that skips twice counts once, and
    /// the sums of the counters.
    pub(crate) fn take(self) -> (Vec<(String, String)>, BTreeMap<String, u64>) {
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let recorded = (parse_skips(&read(&self.skips)), parse_counts(&read(&self.counts)));
        self.remove();
        recorded
    }

    fn remove(&self) {
        for path in [&self.skips, &self.counts] {
            // Usually there is none.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn parse_skips(text: &str) -> Vec<(String, String)> {
    let skips: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    skips.into_iter().map(|(test, why)| (test.to_owned(), why.to_owned())).collect()
}

fn parse_counts(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, Ok(by))) = line.rsplit_once(' ').map(|(name, by)| (name, by.parse::<u64>())) {
            *counts.entry(name.to_owned()).or_insert(0) += by;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_skips_twice_is_one_skip() {
        let skips = parse_skips("a::b\tno kubernetes\na::b\tno dex\nc\tno dex\n");
        assert_eq!(skips.iter().map(|(test, _)| test.as_str()).collect::<Vec<_>>(), ["a::b", "c"]);
    }

    #[test]
    fn counters_add_up_and_may_have_spaces() {
        let counts = parse_counts("seeds 10\nkills survived 2\nseeds 5\nnonsense\n");
        assert_eq!(counts["seeds"], 15);
        assert_eq!(counts["kills survived"], 2);
        assert_eq!(counts.len(), 2);
    }
}
