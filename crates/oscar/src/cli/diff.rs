//! What would change, line by line, as in a patch.

use similar::{ChangeTag, TextDiff};

use super::screen::{Paint, Style};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 2;

/// The differences between two texts, each line indented; blank when there are none.
pub(super) fn render(old: &str, new: &str, paint: Paint) -> String {
    let diff = TextDiff::from_lines(old, new);
    let mut out = String::new();
    for (index, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if index > 0 {
            out.push_str(&paint.on(Style::Dim, "    …"));
            out.push('\n');
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let text = change.value().trim_end_matches('\n');
            let line = match change.tag() {
                ChangeTag::Delete => paint.on(Style::Red, &format!("  - {text}")),
                ChangeTag::Insert => paint.on(Style::Green, &format!("  + {text}")),
                ChangeTag::Equal => paint.on(Style::Dim, &format!("    {text}")),
            };
            out.push_str(&line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        let old = "a: 1\nb: 2\nc: 3\nd: 4\ne: 5\nf: 6\ng: 7\nh: 8\ni: 9\n";
        let new = "a: 1\nb: 2\nc: 3\nd: 40\ne: 5\nf: 6\ng: 7\nh: 8\ni: 9\nj: 10\n";
        let expected =
            "    b: 2\n    c: 3\n  - d: 4\n  + d: 40\n    e: 5\n    f: 6\n    …\n    h: 8\n    i: 9\n  + j: 10\n";
        assert_eq!(render(old, new, Paint(false)), expected);
        assert_eq!(render(old, old, Paint(false)), "");
    }

    #[test]
    fn everything_of_something_new_is_added() {
        assert_eq!(render("", "a: 1\nb: 2\n", Paint(false)), "  + a: 1\n  + b: 2\n");
        assert!(render("", "a: 1\n", Paint(true)).starts_with("\x1b[32m  + a: 1"));
    }
}
