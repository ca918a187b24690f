//! `oscar-python`, as it is published, against a manager in each world.

use std::path::Path;

use oscar_testkit::{Apiserver, Dex, DexConfig, Python, require};

use super::jobs_scene::Scene;
use super::manager::{Manager, PASSWORD};

fn run(python: &Python, manager: &Manager, prefix: &str, extra: &[(&str, &str)]) {
    run_script("published_client.py", python, manager, prefix, extra);
}

fn run_script(name: &str, python: &Python, manager: &Manager, prefix: &str, extra: &[(&str, &str)]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(name);
    let mut environment = vec![("OSCAR_TEST_ENDPOINT", manager.url.as_str()), ("OSCAR_TEST_PREFIX", prefix)];
    environment.extend(extra);
    let output = python.run(&script, &environment);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}\n{}", manager.log());
    assert!(out.trim_end().ends_with("all done"), "{out}");
}

fn both_credentials(python: &Python, manager: &Manager, dex: &Dex) {
    run(python, manager, "py-basic", &[("OSCAR_TEST_PASSWORD", PASSWORD)]);
    run(python, manager, "py-oidc", &[("OSCAR_TEST_TOKEN", &dex.token("alice").access)]);
}

fn oidc(dex: &Dex) -> Vec<(&str, &str)> {
    vec![
        ("OIDC_ENABLE", "true"),
        ("OIDC_ISSUERS", dex.issuer()),
        ("OIDC_GROUPS", "vo-a"),
        ("OIDC_GROUP_CLAIM", "groups"),
    ]
}

#[test]
fn oscar_python_manages_services_in_the_local_world() {
    let python = require!(Python::find());
    let dex = require!(Dex::start(&DexConfig::default()));
    let manager = Manager::start(&oidc(&dex));
    both_credentials(&python, &manager, &dex);
}

#[test]
fn oscar_python_uploads_runs_and_downloads() {
    let python = require!(Python::find());
    let dex = require!(Dex::start(&DexConfig::default()));
    let manager = Scene::start(&oidc(&dex)).manager;
    let script = "published_jobs.py";
    run_script(script, &python, &manager, "py-basic", &[("OSCAR_TEST_PASSWORD", PASSWORD)]);
    run_script(script, &python, &manager, "py-oidc", &[("OSCAR_TEST_TOKEN", &dex.token("alice").access)]);
}

#[test]
fn oscar_python_manages_services_on_kubernetes() {
    let python = require!(Python::find());
    let dex = require!(Dex::start(&DexConfig::default()));
    let cluster = require!(Apiserver::shared());
    let kubeconfig = cluster.admin_kubeconfig();
    cluster.apply("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: oscar\n");
    let mut environment = oidc(&dex);
    let path = kubeconfig.to_string_lossy().into_owned();
    environment.extend([("OSCAR_WORLD", "kubernetes"), ("KUBECONFIG", path.as_str())]);
    let manager = Manager::start(&environment);
    both_credentials(&python, &manager, &dex);
}
