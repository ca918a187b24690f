//! Names that belong to one machine or one network and not to the project: a clone has to
//! work anywhere, with whatever package mirrors that place uses.

use std::path::Path;

use super::Verdict;
use crate::files;

/// Written in two halves, so that this file does not hold them itself.
const FOREIGN: [(&str, &str); 14] = [
    ("/wo", "rk/"),
    ("../sha", "red"),
    ("proxy.go", "lang.org"),
    ("sum.go", "lang.org"),
    ("pypi.or", "g/simple"),
    ("files.python", "hosted.org"),
    ("registry.npm", "js.org"),
    ("registry.yarn", "pkg.com"),
    ("repo1.ma", "ven.org"),
    ("repo.maven.ap", "ache.org"),
    ("deb.deb", "ian.org"),
    ("security.deb", "ian.org"),
    ("static.cra", "tes.io"),
    ("index.cra", "tes.io"),
];

pub(crate) fn check(root: &Path) -> Verdict {
    let mut findings = Vec::new();
    for path in files::list(root) {
        // What is not text holds no words.
        if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
            findings.extend(check_text(&text).into_iter().map(|finding| format!("{}:{finding}", path.display())));
        }
    }
    Verdict::Findings(findings)
}

fn check_text(text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (first, second) in FOREIGN {
        let word = format!("{first}{second}");
        for (index, line) in text.lines().enumerate() {
            if line.contains(&word) {
                findings.push(format!("{}: {word}", index + 1));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_name_is_found_with_its_line() {
        let text = format!("fine\nsee {}x\n", ["/wo", "rk/"].concat());
        assert_eq!(check_text(&text), [format!("2: {}", ["/wo", "rk/"].concat())]);
        assert_eq!(check_text("crates.io is a name; so is /network/"), Vec::<String>::new());
    }
}
