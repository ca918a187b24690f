//! Files the program writes itself: what is committed is what it would write now.

use std::path::Path;

use super::Verdict;
use crate::{command, files};

struct Generated {
    path: &'static str,
    /// The arguments of the program that print it.
    arguments: &'static [&'static str],
    part: Part,
}

/// How much of a file is generated.
enum Part {
    Whole,
    /// What stands between a line `<!-- generated: … -->` that names the command and the line
    /// [`END`].
    Marked,
}

const END: &str = "<!-- generated: end -->";

const GENERATED: [Generated; 2] = [
    Generated { path: "docs/openapi.json", arguments: &["openapi"], part: Part::Whole },
    Generated { path: "docs/configuration.md", arguments: &["settings"], part: Part::Marked },
];

impl Generated {
    /// The file as it should be, given what is committed and what the program prints.
    fn fresh(&self, committed: &str, printed: &str) -> Result<String, String> {
        match self.part {
            Part::Whole => Ok(format!("{}\n", printed.trim_end())),
            Part::Marked => {
                let begin = format!("<!-- generated: oscar {} -->", self.arguments.join(" "));
                splice(committed, &begin, printed)
                    .ok_or_else(|| format!("{}: {begin} and {END} are missing", self.path))
            }
        }
    }
}

/// Puts `inner` between the two marks.
fn splice(text: &str, begin: &str, inner: &str) -> Option<String> {
    let (before, rest) = text.split_once(begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n{}\n{END}{after}", inner.trim_end()))
}

pub(crate) fn check(root: &Path) -> Verdict {
    let mut findings = Vec::new();
    for generated in &GENERATED {
        let path = generated.path;
        match print(generated.arguments) {
            Printed::Text(printed) => {
                let committed = std::fs::read_to_string(root.join(path)).unwrap_or_default();
                match generated.fresh(&committed, &printed) {
                    Ok(fresh) if committed.trim_end() == fresh.trim_end() => {}
                    Ok(_) => findings.push(format!("{path} is stale: `cargo xtask generate` writes it")),
                    Err(why) => findings.push(why),
                }
            }
            Printed::NotYet(why) => return Verdict::NotYet(why),
            Printed::Failed(why) => findings.push(why),
        }
    }
    Verdict::Findings(findings)
}

/// Writes every generated file; true when all could be written.
pub(crate) fn generate() -> bool {
    GENERATED.iter().all(|generated| match write(generated) {
        Ok(()) => {
            println!("{} written", generated.path);
            true
        }
        Err(why) => {
            eprintln!("{}: {why}", generated.path);
            false
        }
    })
}

fn write(generated: &Generated) -> Result<(), String> {
    let printed = match print(generated.arguments) {
        Printed::Text(text) => text,
        Printed::NotYet(why) | Printed::Failed(why) => return Err(why),
    };
    let path = files::root().join(generated.path);
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let fresh = generated.fresh(&committed, &printed)?;
    std::fs::write(&path, fresh).map_err(|error| error.to_string())
}

/// What the program said.
pub(crate) enum Printed {
    Text(String),
    /// The program does not know this command yet.
    NotYet(String),
    Failed(String),
}

/// Runs `oscar <arguments>`, built now.
pub(crate) fn print(arguments: &[&str]) -> Printed {
    let mut cargo = command::cargo(&["run", "--quiet", "--package", "oscar", "--bin", "oscar", "--"]);
    let what = format!("`oscar {}`", arguments.join(" "));
    let output = match cargo.args(arguments).output() {
        Ok(output) => output,
        Err(error) => return Printed::Failed(format!("running {what}: {error}")),
    };
    if output.status.success() {
        return Printed::Text(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unrecognized subcommand") || said.contains("no bin target named") {
        return Printed::NotYet(format!("{what} does not exist"));
    }
    let last: Vec<&str> = said.trim().lines().rev().take(5).collect();
    Printed::Failed(format!("{what} failed: {}", last.into_iter().rev().collect::<Vec<_>>().join(" | ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_the_marks_stays() {
        let begin = "<!-- generated: oscar x -->";
        let text = format!("head\n{begin}\nold\n{END}\ntail\n");
        assert_eq!(splice(&text, begin, "new\n"), Some(format!("head\n{begin}\nnew\n{END}\ntail\n")));
        assert_eq!(splice("no marks", begin, "new"), None);
        assert_eq!(splice(begin, begin, "new"), None, "one without an end");
    }
}
