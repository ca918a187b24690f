//! Every error code has a page, and every page a code.

use std::collections::BTreeSet;
use std::path::Path;

use super::Verdict;

const CODES: &str = "crates/api/src/problem.rs";
const PAGES: &str = "docs/errors";

pub(crate) fn check(root: &Path) -> Verdict {
    let Ok(source) = std::fs::read_to_string(root.join(CODES)) else {
        return Verdict::NotYet(format!("{CODES} is not there"));
    };
    let codes = parse_codes(&source);
    if codes.is_empty() {
        return Verdict::Findings(vec![format!("{CODES} has no line of the form `Code::Name => \"code\",`")]);
    }
    let pages = std::fs::read_dir(root.join(PAGES))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".md").map(str::to_owned))
        .filter(|page| page != "README" && page != "index")
        .collect();
    Verdict::Findings(check_pages(&codes, &pages))
}

/// The codes of the lines `Code::Name => "code",`.
fn parse_codes(source: &str) -> BTreeSet<String> {
    source
        .lines()
        .filter_map(|line| line.trim().split_once(" => "))
        .filter(|(variant, _)| variant.starts_with("Code::") || variant.starts_with("Self::"))
        .filter_map(|(_, code)| code.trim_end_matches(',').strip_prefix('"')?.strip_suffix('"'))
        .map(str::to_owned)
        // Titles and hints stand in such lines too: a code is kebab-case.
        .filter(|code| {
            !code.is_empty() && code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
        .collect()
}

fn check_pages(codes: &BTreeSet<String>, pages: &BTreeSet<String>) -> Vec<String> {
    let without_page = codes.difference(pages).map(|code| format!("{PAGES}/{code}.md is missing"));
    let without_code = pages.difference(codes).map(|page| format!("{PAGES}/{page}.md names no code of {CODES}"));
    without_page.chain(without_code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_from_the_match() {
        let source = "match self {\n    Code::NotFound => \"not-found\",\n    Self::Busy => \"busy\",\n    Code::X => \"A title\",\n}";
        assert_eq!(parse_codes(source).into_iter().collect::<Vec<_>>(), ["busy", "not-found"]);
    }

    #[test]
    fn both_directions_are_checked() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(check_pages(&set(&["a", "b"]), &set(&["b", "c"])).len(), 2);
    }
}
