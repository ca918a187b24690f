//! A file that has grown too long wants to be two.

use std::path::Path;

use super::Verdict;
use crate::files;

const MOST_LINES: usize = 600;

pub(crate) fn check(root: &Path) -> Verdict {
    let findings = files::read_all(root, "rs")
        .into_iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(path, lines)| format!("{} has {lines} lines, more than {MOST_LINES}", path.display()))
        .collect();
    Verdict::Findings(findings)
}
