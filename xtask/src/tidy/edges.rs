//! The direction of dependencies: what each crate of the workspace may use.

use std::path::Path;

use serde_json::Value;

use super::Verdict;
use crate::command;

/// What one crate may use. Dev-dependencies are free, but for the binary's crate.
struct Rule {
    package: &'static str,
    /// The crates of this workspace it may depend on.
    may: &'static [&'static str],
    /// Foreign crates it must not name.
    never: &'static [&'static str],
    /// Foreign crates it may name only behind a feature.
    optional: &'static [&'static str],
}

const RULES: [Rule; 14] = [
    Rule {
        package: "oscar-model",
        may: &[],
        never: &["axum", "hyper", "k8s-openapi", "kube", "rand", "reqwest", "rusqlite", "tokio"],
        optional: &[],
    },
    Rule {
        package: "oscar-engine",
        may: &["oscar-model"],
        never: &["axum", "hyper", "jsonwebtoken", "k8s-openapi", "kube", "reqwest", "rusqlite"],
        optional: &[],
    },
    Rule {
        package: "oscar-api",
        may: &["oscar-model"],
        never: &["axum", "k8s-openapi", "kube", "rusqlite"],
        optional: &["reqwest"],
    },
    Rule { package: "oscar-kube", may: &["oscar-model", "oscar-engine", "oscar-api"], never: &[], optional: &[] },
    Rule {
        package: "oscar-local",
        may: &["oscar-model", "oscar-engine", "oscar-api", "oscar-exec", "oscar-supervisor"],
        never: &[],
        optional: &[],
    },
    Rule { package: "oscar-exec", may: &["oscar-model"], never: &["reqwest", "rusqlite"], optional: &[] },
    Rule { package: "oscar-store", may: &["oscar-model", "oscar-engine"], never: &["axum"], optional: &[] },
    Rule { package: "oscar-minio", may: &["oscar-model", "oscar-engine"], never: &["axum"], optional: &[] },
    Rule { package: "oscar-supervisor", may: &["oscar-model", "oscar-api"], never: &[], optional: &[] },
    Rule {
        package: "oscar",
        may: &[
            "oscar-model",
            "oscar-engine",
            "oscar-api",
            "oscar-exec",
            "oscar-kube",
            "oscar-local",
            "oscar-minio",
            "oscar-store",
        ],
        never: &[],
        optional: &[],
    },
    Rule {
        package: "oscar-bench",
        may: &[
            "oscar-model",
            "oscar-engine",
            "oscar-api",
            "oscar-kube",
            "oscar-local",
            "oscar-store",
            "oscar",
            "oscar-testkit",
        ],
        never: &[],
        optional: &[],
    },
    Rule {
        package: "oscar-fuzz",
        may: &["oscar-model", "oscar-engine", "oscar-api", "oscar"],
        never: &[],
        optional: &["libfuzzer-sys"],
    },
    Rule { package: "oscar-testkit", may: &[], never: &[], optional: &[] },
    Rule { package: "xtask", may: &[], never: &[], optional: &[] },
];

/// Who may use the binary's crate in tests.
const MAY_TEST_WITH_OSCAR: [&str; 2] = ["oscar-bench", "xtask"];

pub(crate) fn check(_root: &Path) -> Verdict {
    let output = command::cargo(&["metadata", "--format-version=1", "--no-deps"]).output();
    let metadata = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    Verdict::Findings(match metadata {
        Some(metadata) => check_metadata(&metadata),
        None => vec!["`cargo metadata` did not answer".to_owned()],
    })
}

fn check_metadata(metadata: &Value) -> Vec<String> {
    let packages: Vec<&Value> = metadata["packages"].as_array().into_iter().flatten().collect();
    let ours: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(rule) = RULES.iter().find(|rule| rule.package == name) else {
            findings.push(format!("{name} has no rule yet: add one to xtask/src/tidy/edges.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let wrong = check_edge(rule, dependency, &ours);
            findings.extend(wrong.map(|why| format!("{name} {why}")));
        }
    }
    findings
}

fn check_edge(rule: &Rule, dependency: &Value, ours: &[&str]) -> Option<String> {
    let name = dependency["name"].as_str()?;
    if dependency["kind"] == "dev" {
        let stranger = name == "oscar" && !MAY_TEST_WITH_OSCAR.contains(&rule.package);
        return stranger.then(|| "must not use oscar in its tests".to_owned());
    }
    if ours.contains(&name) && !rule.may.contains(&name) {
        return Some(format!("must not depend on {name}"));
    }
    if rule.never.contains(&name) {
        return Some(format!("must not use {name}"));
    }
    if rule.optional.contains(&name) && dependency["optional"] != true {
        return Some(format!("may use {name} only behind a feature"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mk_metadata(package: &str, dependency: &Value) -> Value {
        json!({"packages": [
            {"name": package, "dependencies": [dependency]},
            {"name": "oscar", "dependencies": []},
            {"name": "oscar-testkit", "dependencies": []},
        ]})
    }

    #[test]
    fn layers_do_not_point_upwards() {
        let bad = [
            ("oscar-model", json!({"name": "tokio", "kind": null})),
            ("oscar-engine", json!({"name": "oscar", "kind": null})),
            ("oscar-api", json!({"name": "reqwest", "kind": null, "optional": false})),
            ("oscar-kube", json!({"name": "oscar-testkit", "kind": null})),
            ("oscar-local", json!({"name": "oscar", "kind": "dev"})),
            ("newcomer", json!({"name": "serde", "kind": null})),
        ];
        for (package, dependency) in bad {
            assert_eq!(check_metadata(&mk_metadata(package, &dependency)).len(), 1, "{package} {dependency}");
        }
    }

    #[test]
    fn what_is_allowed_is_no_finding() {
        let good = [
            ("oscar-model", json!({"name": "proptest", "kind": "dev"})),
            ("oscar-api", json!({"name": "reqwest", "kind": null, "optional": true})),
            ("oscar-kube", json!({"name": "oscar-testkit", "kind": "dev"})),
            ("oscar-bench", json!({"name": "oscar", "kind": null})),
        ];
        for (package, dependency) in good {
            assert_eq!(check_metadata(&mk_metadata(package, &dependency)), Vec::<String>::new());
        }
    }
}
