//! Federations with a real foreign member: Go OSCAR on a real API server and a real MinIO.

use std::sync::OnceLock;

use oscar_testkit::{Apiserver, GoOscar, Keycloak, Minio, Missing, require};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use super::federation_scene::{PATIENCE, member};
use super::manager::{Manager, mk_body};
use super::upstream_v4::{self, V4};

const HOME: &str = "home";
const GO: &str = "go";

/// Go OSCAR makes five calls to its cluster in a second, and needs three to show a service: who
/// looks all the time waits for himself.
const INTERVAL: (&str, &str) = ("OSCAR_RECONCILE_INTERVAL", "5");

/// What upstream's manager runs on, and the manager.
struct Ground {
    // In the order in which they have to end.
    go: GoOscar,
    store: Minio,
    cluster: Apiserver,
}

impl Ground {
    fn start() -> Result<Self, Missing> {
        let store = Minio::start()?;
        // Users' namespaces need a bound claim, which its controllers bind.
        let cluster = Apiserver::start()?.with_controller_manager();
        let go = GoOscar::start(&cluster, &store, &[])?;
        Ok(Self { go, store, cluster })
    }

    /// One test at a time: every service that is created or deleted restarts the store under
    /// the others' feet.
    async fn borrow() -> Result<MutexGuard<'static, Self>, Missing> {
        static GROUND: OnceLock<Result<Mutex<Ground>, Missing>> = OnceLock::new();
        let ground = tokio::task::block_in_place(|| GROUND.get_or_init(|| Self::start().map(Mutex::new)));
        Ok(ground.as_ref().map_err(Clone::clone)?.lock().await)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Response {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let request = http.request(method, format!("{}{path}", self.go.url()));
        let request = request.basic_auth(GoOscar::USER, Some(GoOscar::PASSWORD));
        let request = if let Some(body) = body { request.json(body) } else { request };
        request.send().await.expect("an answer")
    }

    async fn service(&self, name: &str) -> Option<Value> {
        let answer = self.ask(Method::GET, &format!("/system/services/{name}"), None).await;
        match answer.status().as_u16() {
            404 => None,
            200 => Some(answer.json().await.expect("JSON")),
            other => panic!("{name}: {other}\n{}", self.go.log()),
        }
    }

    /// The account of its administrator, for definitions of ours.
    fn login(&self) -> Value {
        json!({"endpoint": self.go.url(), "auth_user": GoOscar::USER, "auth_password": GoOscar::PASSWORD})
    }
}

/// Everything that was asked of it and may have changed something.
fn writes(go: &GoOscar) -> Vec<String> {
    go.answered().into_iter().filter(|request| !request.contains(" GET ")).collect()
}

fn mk_home() -> Manager {
    Manager::start(&[("OSCAR_CLUSTER_ID", HOME), INTERVAL])
}

/// A star with the service `<name>-go` at the Go manager and whatever else is given.
fn mk_star(ground: &Ground, name: &str) -> Value {
    let mut service = mk_body(name);
    service["input"] = json!([{"storage_provider": "minio.default", "path": format!("{name}/in")}]);
    service["output"] = json!([{"storage_provider": "minio.default", "path": format!("{name}/out")}]);
    // It keeps definitions as YAML, which not everything survives.
    let variables = json!({"A": "1", "BLANK": "", "LINES": "a\n\n b\n", "TAB": "\ta ", "SIGNS": "- a: 'b' #\"c\\"});
    service["environment"] = json!({"variables": variables, "secrets": {"refresh_token": "none", "KEY": "stays"}});
    service["labels"] = json!({"mine": "yes"});
    service["clusters"] = json!({GO: ground.login()});
    service["federation"] = json!({
        "topology": "star", "delegation": "random", "members": [member(GO, &format!("{name}-go"))],
    });
    service
}

async fn put(home: &Manager, service: &Value) {
    let answer = home.as_admin(Method::PUT, "/system/services").json(service).send().await.expect("an answer");
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap_or_default());
}

async fn deploy(home: &Manager, service: &Value) {
    let answer = home.as_admin(Method::POST, "/system/services").json(service).send().await.expect("an answer");
    let (status, text) = (answer.status(), answer.text().await.expect("a body"));
    assert_eq!(status, 201, "{text}");
}

async fn wait(what: &str, home: &Manager, ground: &Ground, probe: impl AsyncFn() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !probe().await {
        let logs = || format!("{}\n--- Go\n{}", home.log(), ground.go.log());
        assert!(std::time::Instant::now() < deadline, "not in time: {what}\n{}", logs());
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

/// Looks ten times, and expects that all is well and that nothing is written.
async fn expect_idle(go: &GoOscar, reconcile: impl AsyncFn() -> Response) {
    let look = async || {
        let answer = reconcile().await;
        assert_eq!(answer.status(), 200);
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(body.get("warnings"), None, "{body}");
        let nodes = body["graph"]["nodes"].as_array().expect("a list").clone();
        assert!(nodes.iter().all(|node| node["state"] == "in-sync"), "{body}");
    };
    look().await;
    let before = writes(go);
    for _ in 0..10 {
        look().await;
    }
    assert_eq!(writes(go), before);
}

/// The same for a service of the administrator.
async fn expect_idle_of(name: &str, home: &Manager, ground: &Ground) {
    let path = format!("/system/federation/{name}/reconcile");
    expect_idle(&ground.go, async || home.as_admin(Method::POST, &path).send().await.expect("an answer")).await;
}

/// Deletes the coordinator, and waits until the Go manager has done its part: it says so long
/// after the service is gone, and restarts its store meanwhile.
async fn delete(home: &Manager, ground: &Ground, name: &str) {
    let answer = home.as_admin(Method::DELETE, &format!("/system/services/{name}")).send().await.expect("an answer");
    assert_eq!(answer.status(), 204, "{}", answer.text().await.unwrap_or_default());
    wait("nothing is left to remove", home, ground, async || {
        let answer = home.as_admin(Method::GET, "/system/federation").send().await.expect("an answer");
        let known: Value = answer.json().await.expect("JSON");
        !known.to_string().contains(&format!("{name}-go"))
    })
    .await;
}

/// What is told from one PUT to the next: it makes a new token each time.
fn without_token(mut service: Value) -> Value {
    service["token"] = json!("");
    service
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_go_member_is_deployed_to_updated_corrected_and_left() {
    let ground = require!(Ground::borrow().await);
    let home = mk_home();
    deploy(&home, &mk_star(&ground, "plants")).await;
    let worker = ground.service("plants-go").await.expect("deployed");
    let coordinator = home.read("plants").await;
    for key in ["script", "image", "memory", "cpu", "input", "output", "log_level", "visibility"] {
        assert_eq!(worker[key], coordinator[key], "{key}");
    }
    assert_eq!(worker["cluster_id"], GO);
    assert_eq!(worker["environment"]["secrets"], json!({"KEY": ""}));
    let (kept, sent) = (&worker["environment"]["variables"], &coordinator["environment"]["variables"]);
    for name in ["A", "BLANK", "LINES", "SIGNS"] {
        assert_eq!(kept[name], sent[name]);
    }
    assert_eq!(kept["TAB"], "\ta", "3.7.1 loses a blank at the end, and is in sync all the same");
    assert_eq!(worker["labels"]["mine"], "yes");
    assert_eq!(worker["annotations"]["oscar.grycap/federation-worker"], "true");
    assert_eq!(worker["annotations"]["oscar.grycap/origin-cluster"], HOME);
    assert_eq!(worker["annotations"]["oscar.grycap/origin-service"], "plants");
    assert_eq!(worker["clusters"][HOME]["endpoint"], home.url);
    // What 3.7.1 does not know or does its own way.
    assert_eq!(worker.get("federation"), None);
    assert_ne!(worker["token"], coordinator["token"]);
    assert_eq!(worker["storage_providers"]["minio"]["default"]["endpoint"], ground.store.url());
    assert_eq!(ground.store.buckets(), ["plants"]);
    expect_idle_of("plants", &home, &ground).await;

    let mut service = coordinator;
    service["script"] = json!("#!/bin/sh\necho changed\n");
    put(&home, &service).await;
    wait("the script arrives", &home, &ground, async || {
        ground.service("plants-go").await.is_some_and(|worker| worker["script"] == service["script"])
    })
    .await;

    // It does what it is told, restarts its store, and answers 500 all the same.
    let more = json!({"storage_provider": "minio.default", "path": "plants-more/out"});
    service["output"].as_array_mut().expect("a list").push(more);
    put(&home, &service).await;
    wait("another bucket arrives, and the answer is a success in the end", &home, &ground, async || {
        let known = home.as_admin(Method::GET, "/system/federation/plants").send().await.expect("an answer");
        let known: Value = known.json().await.expect("JSON");
        let nodes = known["graph"]["nodes"].as_array().expect("a list").clone();
        ground.service("plants-go").await.is_some_and(|worker| worker["output"] == service["output"])
            && nodes.iter().all(|node| node["state"] == "in-sync")
    })
    .await;
    assert_eq!(ground.store.buckets(), ["plants", "plants-more"]);

    let mut meddled = ground.service("plants-go").await.expect("there");
    meddled["image"] = json!("somebody/elses");
    assert_eq!(ground.ask(Method::PUT, "/system/services", Some(&meddled)).await.status(), 204);
    wait("what somebody changed there is put right", &home, &ground, async || {
        ground.service("plants-go").await.is_some_and(|worker| worker["image"] == service["image"])
    })
    .await;
    expect_idle_of("plants", &home, &ground).await;

    delete(&home, &ground, "plants").await;
    assert_eq!(ground.service("plants-go").await, None);
    assert!(ground.store.buckets().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_go_member_is_as_before_when_another_one_refuses() {
    let ground = require!(Ground::borrow().await);
    let (home, other) = (mk_home(), V4::start().await);
    other.refuse_creates(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "Error creating the service: no room");
    let mut service = mk_star(&ground, "rolled");
    service["clusters"]["other"] =
        json!({"endpoint": other.url, "auth_user": upstream_v4::USER, "auth_password": upstream_v4::PASSWORD});
    service["federation"]["members"].as_array_mut().expect("a list").push(member("other", "rolled"));
    let refused = async || {
        let answer = home.as_admin(Method::POST, "/system/services").json(&service).send().await.expect("an answer");
        let (status, text) = (answer.status(), answer.text().await.expect("a body"));
        assert!(
            status.is_server_error() && text.contains("no room") && text.contains("taken back"),
            "{status}: {text}"
        );
    };
    refused().await;
    assert_eq!(ground.service("rolled-go").await, None, "what was created is gone");
    assert!(ground.store.buckets().is_empty());

    // A service of that name was there before.
    let mut plain = mk_body("rolled-go");
    plain["environment"] = json!({"variables": {"OWN": "yes"}});
    // Its administrator cannot give a service that is there another bucket: it says 500.
    plain["input"] = service["input"].clone();
    plain["output"] = service["output"].clone();
    assert_eq!(ground.ask(Method::POST, "/system/services", Some(&plain)).await.status(), 201);
    let before = without_token(ground.service("rolled-go").await.expect("there"));
    refused().await;
    assert_eq!(ground.service("rolled-go").await.map(without_token).as_ref(), Some(&before), "it is given back");

    // And when nobody refuses, it is given back in the end.
    service["federation"]["members"].as_array_mut().expect("a list").pop();
    deploy(&home, &service).await;
    assert_eq!(ground.service("rolled-go").await.expect("there")["cluster_id"], GO);
    expect_idle_of("rolled", &home, &ground).await;
    delete(&home, &ground, "rolled").await;
    assert_eq!(ground.service("rolled-go").await.map(without_token).as_ref(), Some(&before), "it is given back");
    let gone = ground.ask(Method::DELETE, "/system/services/rolled-go", None).await;
    assert_eq!(gone.status(), 204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exposed_service_reaches_a_go_member_that_knows_one_port_only() {
    let ground = require!(Ground::borrow().await);
    let home = mk_home();
    let mut service = mk_star(&ground, "exposed");
    service["expose"] = json!({"min_scale": 1, "max_scale": 2, "api_port": [5000], "cpu_threshold": 80});
    deploy(&home, &service).await;
    let worker = ground.service("exposed-go").await.expect("deployed");
    assert_eq!(worker["expose"]["api_port"], 5000);
    expect_idle_of("exposed", &home, &ground).await;
    delete(&home, &ground, "exposed").await;
    assert_eq!(ground.service("exposed-go").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_go_member_lets_the_owner_in_by_a_token_of_keycloak() {
    let ground = require!(Ground::borrow().await);
    let keycloak = require!(tokio::task::block_in_place(Keycloak::shared));
    let oidc = [("OIDC_ENABLE", "true"), ("OIDC_ISSUERS", keycloak.issuer()), ("OIDC_GROUPS", "vo-a")];
    let go = require!(GoOscar::start(&ground.cluster, &ground.store, &oidc));
    let home = Manager::start(
        &[
            &[("OSCAR_CLUSTER_ID", HOME), INTERVAL, ("OIDC_GROUP_CLAIM", "groups")][..],
            &[("OIDC_CLIENT_ID", keycloak.client_id())],
            &oidc,
        ]
        .concat(),
    );
    let alice = tokio::task::block_in_place(|| keycloak.token("alice"));
    let mut service = mk_star(&ground, "owned");
    service["clusters"] = json!({GO: {"endpoint": go.url()}});
    service["environment"]["secrets"]["refresh_token"] = json!(alice.refresh);
    let ask = async |method, path: &str, body: Option<&Value>| {
        let request = home.as_nobody(method, path).bearer_auth(&alice.access);
        let request = if let Some(body) = body { request.json(body) } else { request };
        request.send().await.expect("an answer")
    };
    let answer = ask(Method::POST, "/system/services", Some(&service)).await;
    let (status, text) = (answer.status(), answer.text().await.expect("a body"));
    assert_eq!(status, 201, "{text}\n{}", go.log());
    let worker = ground.service("owned-go").await.expect("deployed");
    assert_eq!(worker["owner"], alice.subject());
    assert_eq!(worker["namespace"].as_str().map(|name| name.starts_with("oscar-svc-")), Some(true));
    let reconcile = async || ask(Method::POST, "/system/federation/owned/reconcile", None).await;
    let mut service: Value = ask(Method::GET, "/system/services/owned", None).await.json().await.expect("JSON");
    service["script"] = json!("#!/bin/sh\necho changed\n");
    let answer = ask(Method::PUT, "/system/services", Some(&service)).await;
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap_or_default());
    wait("the script arrives", &home, &ground, async || {
        ground.service("owned-go").await.is_some_and(|worker| worker["script"] == service["script"])
    })
    .await;
    expect_idle(&go, reconcile).await;
    assert_eq!(ask(Method::DELETE, "/system/services/owned", None).await.status(), 204);
    let deleted = "204 DELETE /system/services/owned-go";
    wait("the worker goes", &home, &ground, async || writes(&go).iter().any(|request| request == deleted)).await;
    assert_eq!(ground.service("owned-go").await, None);
    assert!(ground.store.buckets().is_empty());
}
