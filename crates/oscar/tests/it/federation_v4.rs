//! Federations with members that answer and call as Go OSCAR 4 does.

use axum::http::StatusCode;
use oscar_testkit::{Dex, DexConfig, require};
use reqwest::Method;
use serde_json::{Value, json};

use super::federation_scene::{A, HOME, Scene, member};
use super::manager::mk_body;
use super::upstream_v4::{self, V4};

const V: &str = "v4";
const W: &str = "v4-too";

/// The definition of alice, with members at all these clusters.
fn mk_service(scene: &Scene, topology: &str, members: &[(&str, &str)]) -> Value {
    let mut service = mk_body("plants");
    service["environment"] =
        json!({"variables": {"A": "1"}, "secrets": {"refresh_token": scene.alice.refresh, "KEY": "stays"}});
    service["input"] = json!([{"storage_provider": "minio.default", "path": "plants/in"}]);
    service["output"] = json!([{"storage_provider": "minio.default", "path": "plants/out"}]);
    let clusters = members.iter().map(|(id, url)| ((*id).to_owned(), json!({"endpoint": url})));
    service["clusters"] = Value::Object(clusters.collect());
    let members: Vec<_> = members.iter().map(|(id, _)| member(id, &format!("plants-{id}"))).collect();
    service["federation"] = json!({"topology": topology, "delegation": "random", "members": members});
    service
}

async fn submit(scene: &Scene, service: &Value) -> (StatusCode, String) {
    let answer = scene.ask(HOME, Method::POST, "/system/services", Some(service)).await;
    (answer.status(), answer.text().await.expect("a body"))
}

async fn edit_script(scene: &Scene, script: &str) {
    let mut service = scene.service(HOME, "plants").await.expect("there");
    service["script"] = json!(script);
    let answer = scene.ask(HOME, Method::PUT, "/system/services", Some(&service)).await;
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap_or_default());
}

/// Looks ten times, and expects that nothing is written.
async fn expect_idle(scene: &Scene, peer: &V4) {
    let reconcile = async || {
        let answer = scene.ask(HOME, Method::POST, "/system/federation/plants/reconcile", None).await;
        assert_eq!(answer.status(), 200);
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(body.get("warnings"), None, "{body}");
    };
    reconcile().await;
    let (writes, looks) = (peer.writes(), peer.looks());
    for _ in 0..10 {
        reconcile().await;
    }
    assert!(peer.looks() >= looks + 10, "it was looked at");
    assert_eq!(peer.writes(), writes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_star_reaches_a_v4_member_in_the_shape_that_it_expects() {
    let scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    let peer = V4::start().await;
    let (status, text) = submit(&scene, &mk_service(&scene, "star", &[(V, &peer.url)])).await;
    assert_eq!(status, 201, "{text}");
    let writes = peer.writes();
    let [(what, sent)] = writes.as_slice() else { panic!("one write: {writes:?}") };
    assert_eq!(what, "POST /system/services");
    let home = scene.service(HOME, "plants").await.expect("there");
    let home_id = home["cluster_id"].as_str().expect("a name");
    assert_eq!((&sent["name"], &sent["cluster_id"]), (&json!("plants-v4"), &json!(V)));
    assert_eq!(sent["script"], home["script"]);
    assert_eq!(sent["token"], home["token"], "one token is valid everywhere");
    assert_eq!(sent["federation"]["topology"], "star");
    assert!(sent["federation"].get("members").is_none_or(Value::is_null), "{}", sent["federation"]);
    assert_eq!(sent["environment"], json!({"variables": {"A": "1"}, "secrets": {"KEY": ""}}));
    assert_eq!(sent["annotations"]["oscar.grycap/federation-worker"], "true");
    assert_eq!(sent["annotations"]["oscar.grycap/origin-cluster"], home_id);
    assert_eq!(sent["annotations"]["oscar.grycap/origin-service"], "plants");
    let there = json!({"endpoint": scene.url(HOME), "auth_user": "", "auth_password": "", "ssl_verify": true});
    assert_eq!(sent["clusters"][home_id], there);
    assert_eq!(peer.buckets(), ["plants"], "a worker of a star makes its own");
    expect_idle(&scene, &peer).await;

    edit_script(&scene, "#!/bin/sh\necho changed\n").await;
    scene
        .wait("the script arrives", async || {
            peer.service("plants-v4").expect("there")["script"] == "#!/bin/sh\necho changed\n"
        })
        .await;
    assert_eq!(peer.writes().len(), 2);
    expect_idle(&scene, &peer).await;

    scene.delete(HOME, "plants").await;
    scene.wait("the worker goes", async || peer.service("plants-v4").is_none()).await;
    assert!(peer.buckets().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_one_v4_member_refuses_every_other_one_is_as_before() {
    let scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    let (first, second) = (V4::start().await, V4::start().await);
    let refusals = [
        (StatusCode::INTERNAL_SERVER_ERROR, "Error creating the service: image is not allowed"),
        (StatusCode::CONFLICT, "A service with the provided name already exists"),
        (StatusCode::FORBIDDEN, "bucket quota exceeded"),
    ];
    for (status, words) in refusals {
        second.refuse_creates(status, words);
        let members = [(A, scene.url(A)), (V, &first.url), (W, &second.url)];
        let (answered, text) = submit(&scene, &mk_service(&scene, "star", &members)).await;
        assert!(answered.is_client_error() || answered.is_server_error(), "{answered}: {text}");
        assert!(text.contains("v4-too/plants-v4-too") && text.contains(words), "it is quoted: {text}");
        assert_eq!(first.service("plants-v4"), None);
        assert_eq!((first.secret("plants-v4"), first.buckets()), (None, Vec::new()));
        assert_eq!(second.service("plants-v4-too"), None);
        assert_eq!(scene.service(A, "plants-oscar-cluster-a").await, None);
        assert_eq!(scene.service(HOME, "plants").await, None);
    }
    let last = first.writes().pop().expect("it was written to");
    assert_eq!(last.0, "DELETE /system/services/plants-v4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mesh_with_a_v4_member_needs_and_gets_the_refresh_token() {
    let scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    let peer = V4::start().await;
    let mut service = mk_service(&scene, "mesh", &[(A, scene.url(A)), (V, &peer.url)]);
    let (status, text) = submit(&scene, &service).await;
    assert!(status.is_client_error() && text.contains("share_refresh_token"), "{status}: {text}");
    assert!(peer.writes().is_empty(), "nothing was sent");

    service["federation"]["share_refresh_token"] = json!(true);
    let (status, text) = submit(&scene, &service).await;
    assert_eq!(status, 201, "{text}");
    let worker = peer.service("plants-v4").expect("there");
    let listed: Vec<_> = worker["federation"]["members"].as_array().expect("a list").iter().collect();
    let names: Vec<_> = listed.iter().filter_map(|member| member["service_name"].as_str()).collect();
    assert_eq!(names, ["plants-oscar-cluster-a", "plants"], "everybody else");
    assert_eq!(listed[1]["priority"], 0);
    let shared = peer.secret("plants-v4").expect("there");
    assert!(shared["refresh_token"].as_str().is_some_and(|token| token.len() > 10), "the token itself");
    assert_eq!(shared["KEY"], "", "the others stay");
    assert!(peer.buckets().is_empty());
    expect_idle(&scene, &peer).await;

    edit_script(&scene, "#!/bin/sh\necho changed\n").await;
    scene
        .wait("the script arrives", async || {
            peer.service("plants-v4").expect("there")["script"] == "#!/bin/sh\necho changed\n"
        })
        .await;
    assert_eq!(peer.secret("plants-v4"), Some(shared), "an update does not erase it");
    scene.delete(HOME, "plants").await;
    scene.wait_empty().await;
    scene.wait("the worker goes", async || peer.service("plants-v4").is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_v4_worker_that_takes_itself_for_the_root_adds_members_and_no_more() {
    let scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    let (peer, other) = (V4::start().await, V4::start().await);
    let mut service = mk_service(&scene, "mesh", &[(A, scene.url(A)), (V, &peer.url)]);
    service["federation"]["share_refresh_token"] = json!(true);
    let (status, text) = submit(&scene, &service).await;
    assert_eq!(status, 201, "{text}");
    let before = scene.service(HOME, "plants").await.expect("there");

    let added = (&member(W, "plants-v4-too"), &json!({"endpoint": other.url, "ssl_verify": true}));
    let answers = peer.add_member("plants-v4", added, &scene.alice.access).await;
    let status = |id: &str| answers.iter().find(|(cluster, ..)| cluster == id).map(|(_, status, _)| status.as_u16());
    assert!(status(HOME).is_some_and(|status| status < 300), "{answers:?}");

    scene.wait("the coordinator deploys it", async || other.service("plants-v4-too").is_some()).await;
    let mut after = scene.service(HOME, "plants").await.expect("there");
    let members = after["federation"]["members"].as_array().expect("a list").len();
    assert_eq!(members, 3);
    assert_eq!(after["clusters"][W]["endpoint"], other.url);
    after["federation"]["members"].as_array_mut().expect("a list").truncate(2);
    after["clusters"].as_object_mut().expect("an object").remove(W);
    assert_eq!(after, before, "nothing else changed");
    scene
        .wait("the member of our kind hears of it", async || {
            let service = scene.service(A, "plants-oscar-cluster-a").await.expect("there");
            service["federation"]["members"].to_string().contains("plants-v4-too")
        })
        .await;
    scene
        .wait("both foreign workers are as the coordinator wants them", async || {
            let (worker, other) = (peer.service("plants-v4").expect("there"), other.service("plants-v4-too"));
            let other = other.expect("there");
            [&worker, &other].iter().all(|worker| worker["annotations"]["oscar.grycap/origin-service"] == "plants")
                && worker["federation"]["members"].to_string().contains("plants-v4-too")
                && other["federation"]["members"].to_string().contains("plants-v4")
        })
        .await;
    expect_idle(&scene, &peer).await;
    expect_idle(&scene, &other).await;
}

/// What a coordinator of that kind does to its members, done to us.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_v4_coordinator_deploys_updates_and_rolls_back_here() {
    let scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    for topology in ["star", "mesh"] {
        let mut root = mk_service(&scene, topology, &[(A, scene.url(A)), (V, "https://v4.example.org")]);
        root["cluster_id"] = json!("root");
        root["token"] = json!("ab".repeat(32));
        root["clusters"]["root"] =
            json!({"endpoint": "https://root.example.org", "auth_user": "", "auth_password": "", "ssl_verify": true});
        root["annotations"] = json!({});
        let secret = root["environment"]["secrets"].clone();
        let worker = upstream_v4::worker(&root, Some(&secret), &member(A, "plants-a"));
        let ask = async |method, path: &str, body| scene.ask(A, method, path, body).await.status().as_u16();
        let path = "/system/services/plants-a";

        assert_eq!(ask(Method::GET, path, None).await, 404, "{topology}: a free name passes its pre-flight");
        assert_eq!(ask(Method::PUT, "/system/services", Some(&worker)).await, 404, "an update creates nothing");
        let answer = scene.ask(A, Method::POST, "/system/services", Some(&worker)).await;
        let (status, text) = (answer.status(), answer.text().await.expect("a body"));
        assert_eq!(status, 201, "{topology}: {text}");
        let shown = scene.service(A, "plants-a").await.expect("there");
        assert_eq!(shown["token"], root["token"], "the coordinator's token is valid here");
        assert_eq!(shown["annotations"]["oscar.grycap/origin-cluster"], "root");
        assert!(!shown.to_string().contains(&scene.alice.refresh), "a token that came along is not shown");

        let mut changed = worker.clone();
        changed["script"] = json!("#!/bin/sh\necho changed\n");
        assert!(ask(Method::PUT, "/system/services", Some(&changed)).await < 400);
        let shown = scene.service(A, "plants-a").await.expect("there");
        assert_eq!((&shown["script"], &shown["token"]), (&changed["script"], &root["token"]));
        let again = ask(Method::POST, "/system/services", Some(&worker)).await;
        assert!((400..500).contains(&again), "a name that is taken: {again}");
        assert_eq!(ask(Method::DELETE, path, None).await, 204);
        assert_eq!(ask(Method::DELETE, path, None).await, 404, "it deletes at everybody, also where nothing is");
    }
    // Nobody was told to be somebody's member by it.
    scene.wait_empty().await;
}
