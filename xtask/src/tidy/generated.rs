//! Files the program writes itself: what is committed is what it would write now.

use std::path::Path;

use super::Verdict;
use crate::{command, files};

/// Path, and the arguments of the program that print its contents.
const GENERATED: [(&str, &[&str]); 1] = [("docs/openapi.json", &["openapi"])];

pub(crate) fn check(root: &Path) -> Verdict {
    let mut findings = Vec::new();
    for (path, arguments) in GENERATED {
        match print(arguments) {
            Printed::Text(fresh) => {
                let committed = std::fs::read_to_string(root.join(path)).unwrap_or_default();
                if committed.trim_end() != fresh.trim_end() {
                    findings.push(format!("{path} is stale: `cargo xtask generate` writes it"));
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
    GENERATED.iter().all(|(path, arguments)| match print(arguments) {
        Printed::Text(text) => {
            let written = std::fs::write(files::root().join(path), format!("{}\n", text.trim_end()));
            match &written {
                Ok(()) => println!("{path} written"),
                Err(error) => eprintln!("writing {path}: {error}"),
            }
            written.is_ok()
        }
        Printed::NotYet(why) | Printed::Failed(why) => {
            eprintln!("{path}: {why}");
            false
        }
    })
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
