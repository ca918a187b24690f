//! The API is what its document says: schemathesis sends what the OpenAPI document allows
//! and what it forbids to a real manager, and looks at every answer.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use oscar_testkit::{Python, Scratch, Server, eventually, require};
use serde_json::Value;

const PASSWORD: &str = "test-admin-password";

/// What every answer is checked for. Not among them: `unsupported_method`, because OSCAR
/// answers a wrong method like an unknown path; `positive_data_acceptance`, because rules on
/// several fields at once cannot be said in the document; `ensure_resource_availability` and
/// `use_after_free`, because a dry run creates and deletes nothing.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,negative_data_rejection,missing_required_header,ignored_auth";

/// What cannot succeed at a manager that is alone; `it/federation` and `it/minio` ask for it.
const NEEDS_OTHERS: [&str; 4] = ["/join", "/sync", "/token", "/events/minio"];

/// What needs a job or a bucket of a known name; `http/tests` and `it/jobs` ask for it.
const NEEDS_A_NAME: [&str; 4] = ["{jobName}", "{jobName}/cancel", "{bucketName}", "{bucketName}/presign"];

/// What strangers wrote is not run here, and a script that fails is a 500 by OSCAR's own rule.
const RUNS: &str = "/run/{serviceName}";

#[test]
fn every_answer_is_in_the_document() {
    let python = require!(Python::find());
    let folder = Scratch::new("schemathesis");
    let document = oscar::http::openapi_json();
    folder.write("openapi.json", &document);
    let (_manager, url) = start_manager(folder.path());
    let examples = if oscar_testkit::long_run() { "500" } else { "30" };
    let run = Command::new(python.program("schemathesis"))
        .args(["run", "openapi.json", "--url", &url, "--auth", &format!("oscar:{PASSWORD}")])
        .args(["--checks", CHECKS, "--seed", "1", "--max-examples", examples])
        // More workers make hypothesis stumble over a fault of CPython's parser.
        .args(["--exclude-path", RUNS])
        .args(["--workers", "1", "--no-color", "--continue-on-failure"])
        .args(["--report", "har", "--report-har-path", "report.har"])
        .current_dir(folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("no_proxy", "127.0.0.1,localhost")
        .output()
        .expect("schemathesis runs");
    let report = String::from_utf8_lossy(&run.stdout);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{report}\n{said}");

    let document = serde_json::from_str(&document).expect("JSON");
    let exchanges = exchanges(folder.path(), &document);
    // Refusals alone would also be in the document: each operation has to succeed as well.
    let succeeded: BTreeSet<_> = exchanges
        .iter()
        .filter(|(.., status)| (200..300).contains(status))
        .map(|(method, path, _)| (method.clone(), path.clone()))
        .collect();
    let all = operations(&document).map(|(path, method)| (method.to_uppercase(), path.clone()));
    let alone = |path: &str| path == RUNS || NEEDS_OTHERS.iter().chain(&NEEDS_A_NAME).any(|end| path.ends_with(end));
    let never: Vec<_> = all.filter(|operation| !succeeded.contains(operation) && !alone(&operation.1)).collect();
    assert!(never.is_empty(), "never succeeded: {never:?}\n{report}");
    oscar_testkit::count("schemathesis requests", exchanges.len() as u64);
}

fn start_manager(folder: &Path) -> (Server, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oscar"));
    command
        // Neither settings of this machine nor a cluster that the test itself may run in.
        .env_clear()
        .env("HOME", folder)
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder.join("data"))
        .env("OSCAR_PASSWORD", PASSWORD);
    let manager = Server::spawn("oscar", folder, &mut command);
    let url = eventually("the manager is ready", Duration::from_secs(30), || {
        let output = manager.output();
        let line = output.lines().find_map(|line| line.strip_prefix("ready "))?;
        line.split_whitespace().next().map(str::to_owned)
    });
    (manager, url)
}

/// Method, path as the document has it, and status.
type Exchange = (String, String, u64);

/// Path and method of every operation.
fn operations(document: &Value) -> impl Iterator<Item = (&String, &String)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    paths.flat_map(|(path, methods)| methods.as_object().expect("methods").keys().map(move |method| (path, method)))
}

/// What was sent to documented routes, and how it was answered.
fn exchanges(folder: &Path, document: &Value) -> Vec<Exchange> {
    let text = std::fs::read(folder.join("report.har")).expect("a report");
    let report: Value = serde_json::from_slice(&text).expect("JSON");
    let entries = report["log"]["entries"].as_array().expect("entries").iter();
    let read = |entry: &Value| {
        let url = entry["request"]["url"].as_str()?;
        let path = url.split_once("://")?.1.split_once('/')?.1.split('?').next()?.trim_end_matches('/').to_owned();
        let method = entry["request"]["method"].as_str()?;
        let template = operations(document).map(|(template, _)| template).find(|template| matches(template, &path))?;
        Some((method.to_owned(), template.clone(), entry["response"]["status"].as_u64()?))
    };
    entries.filter_map(read).collect()
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template[1..].split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(path).all(|(part, found)| part.starts_with('{') || *part == found)
}
