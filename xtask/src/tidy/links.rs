//! Relative links in Markdown files point at files and headings that exist.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use super::Verdict;
use crate::files;

pub(crate) fn check(root: &Path) -> Verdict {
    let documents: HashMap<PathBuf, String> = files::read_all(root, "md").into_iter().collect();
    let exists = |path: &Path| root.join(path).exists();
    let mut findings: Vec<String> =
        documents.keys().flat_map(|path| check_document(path, &documents, &exists)).collect();
    findings.sort();
    Verdict::Findings(findings)
}

fn check_document(path: &Path, documents: &HashMap<PathBuf, String>, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    for (line, target) in links(&documents[path]) {
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let file = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
        let at = format!("{}:{line}: {target}", path.display());
        if !exists(&file) {
            findings.push(format!("{at} does not exist"));
        } else if let (false, Some(document)) = (anchor.is_empty(), documents.get(&file))
            && !anchors(document).contains(anchor)
        {
            findings.push(format!("{at} has no such heading"));
        }
    }
    findings
}

/// `target` as seen from the document at `from`; a leading slash means the project's root.
fn resolve(from: &Path, target: &str) -> PathBuf {
    let start = if target.starts_with('/') { Path::new("") } else { from.parent().unwrap_or(Path::new("")) };
    let mut resolved = PathBuf::new();
    for component in start.join(target.trim_start_matches('/')).components() {
        match component {
            // Above the root nothing is ours: the step is kept, so that it does not exist.
            Component::ParentDir if !resolved.pop() => resolved.push(".."),
            Component::Normal(name) => resolved.push(name),
            _ => {}
        }
    }
    resolved
}

/// The lines that are text, with code spans blanked: links in code are examples.
fn prose(document: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    document.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            fenced = !fenced;
            return None;
        }
        let text = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        (!fenced).then_some((index + 1, text))
    })
}

/// Line number and target of every relative link: `[text](target)` and `[name]: target`.
fn links(document: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(document) {
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let reference = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target.trim());
        for target in inline.chain(reference) {
            let target = target.trim_matches(['<', '>']);
            let foreign = target.contains("://") || target.starts_with("mailto:") || target.starts_with("data:");
            if !target.is_empty() && !foreign {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The anchors a renderer gives to headings, and those written as HTML.
fn anchors(document: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut fenced = false;
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for mark in ["id=\"", "name=\""] {
            anchors.extend(line.split(mark).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
        let heading = line.trim_start_matches('#');
        if heading.len() < line.len() && heading.starts_with(' ') {
            let slug = slug(heading.trim());
            let mut unique = slug.clone();
            let mut repetition = 0;
            while !anchors.insert(unique) {
                repetition += 1;
                unique = format!("{slug}-{repetition}");
            }
        }
    }
    anchors
}

/// As GitHub does it: lower case, punctuation dropped, spaces to hyphens; of a link only
/// its text.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text.to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_findings(document: &str) -> Vec<String> {
        let documents: HashMap<PathBuf, String> = [
            (PathBuf::from("docs/a.md"), document.to_owned()),
            (PathBuf::from("README.md"), "# The `oscar` way\n## Twice\n## Twice\n".to_owned()),
        ]
        .into();
        check_document(Path::new("docs/a.md"), &documents, &|path| documents.contains_key(path))
    }

    #[test]
    fn good_links_are_no_findings() {
        let document = "# Here\n[a](../README.md) [b](../README.md#the-oscar-way) [c](#here) [d](../README.md#twice-1)\n\
            [e](https://example.org/x) `[f](nowhere.md)` [g](/README.md \"title\")\n```\n[h](nowhere.md)\n```\n[i]: ../README.md\n";
        assert_eq!(mk_findings(document), Vec::<String>::new());
    }

    #[test]
    fn bad_links_are_findings() {
        assert_eq!(mk_findings("text [a](b.md)"), ["docs/a.md:1: b.md does not exist"]);
        assert_eq!(mk_findings("\n[a](../README.md#nope)"), ["docs/a.md:2: ../README.md#nope has no such heading"]);
        assert_eq!(mk_findings("[a](../../README.md)").len(), 1);
        assert_eq!(mk_findings("[a]: gone.md").len(), 1);
    }
}
