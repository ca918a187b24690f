//! The program against a manager of another kind: no dry run, no `ETag`, its own words.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::{any, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::home::Home;

/// As OSCAR in Go answers, as far as the program asks.
#[derive(Clone)]
struct Fake {
    version: &'static str,
    services: Arc<Mutex<BTreeMap<String, Value>>>,
    /// `POST /system/services {…}`
    changes: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Fake {
    fn start(version: &'static str) -> (Self, String, tokio::runtime::Runtime) {
        let fake = Self { version, services: Arc::default(), changes: Arc::default() };
        let routes = Router::new()
            .route("/system/info", get(info))
            .route("/system/services", any(change))
            .route("/system/services/{name}", get(service))
            .route("/system/logs/{name}", get(logs))
            .route("/job/{name}", post(job))
            .with_state(fake.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        runtime.spawn(async move { axum::serve(listener, routes).await });
        (fake, url, runtime)
    }

    fn changes(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.changes.lock().expect("not poisoned"))
    }
}

async fn info(State(fake): State<Fake>, headers: HeaderMap) -> impl IntoResponse {
    if !headers.contains_key("authorization") {
        return (StatusCode::UNAUTHORIZED, Json(json!(null)));
    }
    (StatusCode::OK, Json(json!({"version": fake.version, "kubernetes_version": "v1.33.1"})))
}

async fn service(State(fake): State<Fake>, Path(name): Path<String>) -> impl IntoResponse {
    match fake.services.lock().expect("not poisoned").get(&name) {
        Some(service) => Json(service.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Two pages, by name and in no order.
async fn logs(Path(name): Path<String>, uri: Uri) -> impl IntoResponse {
    let job = |status: &str| {
        json!({"status": status, "creation_time": "2026-06-12T09:05:29Z", "start_time": "2026-06-12T09:05:30Z",
            "finish_time": "2026-06-12T09:05:42Z"})
    };
    if uri.query().unwrap_or_default().contains("page=a+%26+b") {
        return Json(json!({"jobs": {format!("{name}-1"): job("Failed")}}));
    }
    Json(json!({"jobs": {format!("{name}-2"): job("Succeeded")}, "next_page": "a & b", "remaining_jobs": 1}))
}

async fn job() -> impl IntoResponse {
    StatusCode::CREATED
}

async fn change(State(fake): State<Fake>, method: axum::http::Method, uri: Uri, body: Bytes) -> impl IntoResponse {
    let sent: Value = serde_json::from_slice(&body).expect("JSON");
    fake.changes.lock().expect("not poisoned").push((format!("{method} {uri}"), sent.clone()));
    if sent["image"] == "refused/image" {
        return (StatusCode::BAD_REQUEST, "The service specification is not valid: Key: 'Service.Image'")
            .into_response();
    }
    let mut stored = sent;
    stored["owner"] = json!("cluster_admin");
    stored["token"] = json!("service-token");
    stored["labels"]["oscar_service"] = stored["name"].clone();
    for secret in stored["environment"]["secrets"].as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        *secret = json!("");
    }
    stored["storage_providers"]["minio"]["default"] = json!({"endpoint": "https://minio", "verify": true,
        "access_key": "hidden", "secret_key": "hidden", "region": "us-east-1"});
    let name = stored["name"].as_str().expect("a name").to_owned();
    fake.services.lock().expect("not poisoned").insert(name, stored);
    if method == "POST" { StatusCode::CREATED } else { StatusCode::NO_CONTENT }.into_response()
}

fn home(url: &str) -> Home {
    let home = Home::new();
    home.run_with(&["cluster", "add", "go", url, "--password-stdin"], &[], "pass")
        .ends(0)
        .says("on Kubernetes v1.33.1");
    home
}

const FILE: &str = "name: plants\nimage: a/b\nscript: echo hi\ncpu: 1\n\
    environment: {variables: {PORT: 80}}\nexpose: {api_port: 80}\n";

#[test]
fn a_dry_run_is_worked_out_here_because_the_manager_would_create() {
    let (fake, url, _runtime) = Fake::start("v4.1.2");
    let home = home(&url);
    home.write("f.yaml", FILE);
    home.run(&["apply", "f.yaml", "--dry-run"]).ends(0).says("create plants").says("+ image: a/b").says("1 to create");
    assert_eq!(fake.changes(), []);
    home.run(&["apply", "f.yaml", "--yes"]).ends(0).says("1 created");
    let changes = fake.changes();
    assert_eq!(changes[0].0, "POST /system/services");
    let body = &changes[0].1;
    assert_eq!((&body["cpu"], &body["environment"]["variables"]["PORT"]), (&json!("1"), &json!("80")));
    assert_eq!(body["expose"]["api_port"], json!([80]));

    home.run(&["apply", "f.yaml"]).ends(0).says("1 unchanged");
    home.write("f.yaml", &FILE.replace("cpu: 1", "cpu: 2"));
    home.run(&["apply", "f.yaml", "--yes"]).ends(0).says("- cpu: \"1\"").says("+ cpu: \"2\"").says("1 updated");
    assert_eq!(fake.changes()[0].0, "PUT /system/services");
}

#[test]
fn managers_before_4_1_get_one_port() {
    let (fake, url, _runtime) = Fake::start("v4.0.0");
    let home = home(&url);
    home.write("f.yaml", FILE);
    home.run(&["apply", "f.yaml", "--yes"]).ends(0);
    assert_eq!(fake.changes()[0].1["expose"]["api_port"], 80);
    home.run(&["apply", "f.yaml"]).ends(0).says("1 unchanged");
}

#[test]
fn it_is_told_before_a_secret_would_be_forgotten() {
    let (fake, url, _runtime) = Fake::start("v4.1.2");
    let home = home(&url);
    home.write(
        "f.yaml",
        &format!("{FILE}annotations: {{a: b}}\n").replace("{variables:", "{secrets: {KEY: hunter2}, variables:"),
    );
    home.run(&["apply", "f.yaml", "--yes"]).ends(0).never_says("hunter2");
    assert_eq!(fake.changes()[0].1["environment"]["secrets"]["KEY"], "hunter2");
    let edit = [("EDITOR", "sed -i 's/^cpu:.*/cpu: 3/'")];
    home.run_with(&["service", "edit", "plants"], &edit, "").ends(6).says("this manager forgets a secret");
    assert_eq!(fake.changes(), []);
    let edit = [("EDITOR", "sed -i -e 's/(hidden 1)/again/' -e 's/cpu:.*/cpu: 3/'")];
    home.run_with(&["service", "edit", "plants"], &edit, "").ends(0).says("updated plants");
    assert_eq!(fake.changes()[0].1["environment"]["secrets"]["KEY"], "again");
}

#[test]
fn its_words_for_a_bad_definition_are_understood() {
    let (_fake, url, _runtime) = Fake::start("devel");
    let home = home(&url);
    home.write("f.yaml", &FILE.replace("a/b", "refused/image"));
    home.run(&["apply", "f.yaml", "--yes"])
        .ends(6)
        .says("error: create plants: The service specification")
        .says("1 failed");
}

#[test]
fn a_service_goes_to_the_cluster_that_its_file_names() {
    let (one, url, _runtime) = Fake::start("v4.1.2");
    let (two, other, _runtime_too) = Fake::start("v4.1.2");
    let home = home(&url);
    home.run_with(&["cluster", "add", "second", &other, "--password-stdin"], &[], "pass").ends(0);
    let service = |cluster: &str, name: &str| {
        format!("  - {cluster}:\n      name: {name}\n      image: a/b\n      script: echo hi\n")
    };
    let text = format!("functions:\n  oscar:\n{}{}", service("second", "there"), service("nowhere", "here"));
    home.write("f.yaml", &text);
    home.run(&["apply", "f.yaml", "--yes"])
        .ends(0)
        .says("services of `nowhere` go to go")
        .says("create there on second");
    let names = |fake: &Fake| fake.changes().iter().map(|(_, body)| body["name"].clone()).collect::<Vec<_>>();
    assert_eq!((names(&one), names(&two)), (vec![json!("here")], vec![json!("there")]));

    home.run(&["--cluster", "go", "apply", "f.yaml", "--yes"]).ends(0).says("by `--cluster`");
    assert_eq!((names(&one), names(&two)), (vec![json!("there")], vec![]), "the flag is an order for all");
}

#[test]
fn jobs_are_listed_and_started_as_far_as_the_manager_tells() {
    let (_fake, url, _runtime) = Fake::start("v4.1.2");
    let home = home(&url);
    let ran = home.run(&["job", "list", "plants"]).ends(0);
    ran.says("plants-2").says("succeeded").says("12 s").says("1 more: --all-pages").never_says("plants-1");
    let all = home.run(&["job", "list", "plants", "--all-pages", "--json"]).json();
    assert_eq!((&all[0]["name"], &all[1]["state"]), (&json!("plants-2"), &json!("failed")));
    home.run(&["job", "run", "plants", "--text", "x"]).ends(0).says("`oscar job list plants` shows it");
    home.run(&["job", "run", "plants", "--text", "x", "--wait"]).ends(1).says("does not tell its name");
    home.run(&["service", "delete", "plants", "--keep-data", "--yes"]).ends(2).says("keep its data");
}
