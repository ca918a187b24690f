//! What is told of a definition that is not right: the place as its author numbers it, all at
//! once, and nothing secret.

use oscar_api::service::{Mode, decode, read};
use oscar_api::tree::parse_json;
use oscar_model::federation::check;
use serde_json::{Value, json};

fn mk_service(parts: &Value) -> Value {
    let mut service = json!({"name": "plants", "image": "a/b", "script": "echo"});
    service.as_object_mut().expect("a map").extend(parts.as_object().expect("a map").clone());
    service
}

fn faults(parts: &Value) -> Vec<(String, String)> {
    let node = parse_json(mk_service(parts).to_string().as_bytes()).expect("JSON");
    let faults = decode(&node, "", Mode::Json).expect_err("it is not valid");
    faults.0.into_iter().map(|fault| (fault.path, fault.found)).collect()
}

fn paths(parts: &Value) -> Vec<String> {
    faults(parts).into_iter().map(|(path, _)| path).collect()
}

#[test]
fn an_entry_behind_one_that_cannot_be_read_keeps_its_number() {
    let unreadable = json!({"storage_provider": "ftp", "path": "in"});
    let short = json!({"storage_provider": "minio", "path": "x/in"});
    let found = paths(&json!({"input": [unreadable, short], "output": [unreadable, unreadable, short]}));
    let expected = [
        "input[0].storage_provider",
        "input[1].path",
        "output[0].storage_provider",
        "output[1].storage_provider",
        "output[2].path",
    ];
    assert_eq!(found, expected);
    assert_eq!(paths(&json!({"allowed_users": [" ", "a\u{7}b"]})), ["allowed_users[1]"]);
}

#[test]
fn a_member_behind_one_that_cannot_be_read_keeps_its_number() {
    let members = json!([
        {"type": "ftp", "url": "ftp://x"},
        {"cluster_id": "one", "service_name": "No Name"},
        {"cluster_id": "one", "service_name": "No Name"},
        {"type": "endpoint", "url": "x"},
    ]);
    let service =
        mk_service(&json!({"federation": {"members": members}, "clusters": {"one": {"endpoint": "https://o"}}}));
    let node = parse_json(service.to_string().as_bytes()).expect("JSON");
    let (draft, faults) = read(&node, "", Mode::Json);
    let paths: Vec<_> = faults.0.iter().map(|fault| fault.path.as_str()).collect();
    let at = |index: usize, key: &str| format!("federation.members[{index}].{key}");
    assert_eq!(paths, [at(0, "type"), at(1, "service_name"), at(2, "service_name")]);
    let more = check::check(&draft.definition, &|_| false, true);
    let paths: Vec<_> = more.0.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(paths, [at(3, "url")], "what stands in has no fault of its own: {more}");
}

#[test]
fn what_no_process_can_be_given_is_refused_and_not_quoted() {
    let long = "planted".repeat(20_000);
    let variables = json!({"NUL": "planted\u{0}", "LONG": long, "FITS": "x".repeat((128 << 10) - 6)});
    let secrets = json!({"ZERO": "planted\u{0}", "OVER": "y".repeat((128 << 10) - 5)});
    let found = faults(&json!({"environment": {"variables": variables, "secrets": secrets}}));
    let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
    let expected = ["variables.LONG", "variables.NUL", "secrets.OVER", "secrets.ZERO"];
    assert_eq!(paths, expected.map(|rest| format!("environment.{rest}")));
    assert!(!format!("{found:?}").contains("planted"), "{found:?}");
    let many: serde_json::Map<_, _> = (0..20).map(|n| (format!("V{n}"), json!("x".repeat(60_000)))).collect();
    assert_eq!(paths_of_variables(&many), ["environment"]);
}

fn paths_of_variables(variables: &serde_json::Map<String, Value>) -> Vec<String> {
    paths(&json!({"environment": {"variables": variables}}))
}

#[test]
fn the_password_of_an_address_is_not_told_back() {
    let found = faults(&json!({"clusters": {"c1": {"endpoint": "http://u:planted@x"}}}));
    assert_eq!(found, [("clusters.c1.endpoint".to_owned(), "\"http://…@x\"".to_owned())]);
}
