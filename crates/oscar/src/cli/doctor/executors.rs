use std::collections::BTreeMap;

use oscar_exec::{Finding as Way, Findings, Kind};

use crate::cli::doctor::Finding;
use crate::config::{Effective, Sources};

/// How a manager would run scripts here, and why not in other ways.
pub(super) async fn check() -> Vec<Finding> {
    let (settings, _) = Effective::gather(&Sources::of_process(BTreeMap::new(), None));
    let wish = settings.text("executor").parse().unwrap_or(Kind::Auto);
    told(&oscar_exec::probe(wish, &oscar_exec::Settings::default()).await)
}

fn told(found: &Findings) -> Vec<Finding> {
    let (first, used) = match &found.chosen {
        Ok(executor) => {
            let described = executor.describe();
            let text = format!("scripts would be run by {} ({}; {})", described.kind, described.with, described.limits);
            let weak = described.weaknesses.join("; ");
            let finding = if weak.is_empty() {
                Finding::fine(text)
            } else {
                Finding::doubtful(format!("{text}: {weak}"), "docs/isolation.md tells what each way is good for")
            };
            (finding, Some(described.kind))
        }
        Err(why) => {
            let text = format!("a manager could run no script here: {why}");
            (Finding::doubtful(text, "install bubblewrap, or podman"), None)
        }
    };
    let others = found.ways.iter().filter(|way| Some(way.kind) != used);
    std::iter::once(first).chain(others.map(other)).collect()
}

fn other(way: &Way) -> Finding {
    Finding::fine(match &way.result {
        Ok(described) => format!("{} would work, too ({})", way.kind, described.with),
        Err(why) => format!("{} is not used: {why}", way.kind),
    })
}
