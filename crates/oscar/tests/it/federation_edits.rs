//! Changing a federation that is there: from everywhere, under both names, while members are
//! away; and what a definition's own changes mean for it.

use oscar_testkit::{Dex, DexConfig};
use reqwest::Method;
use serde_json::{Value, json};

use super::federation_scene::{A, B, C, HOME, Scene, member, quickstart_members};
use super::manager::mk_body;

const TRIO: [(&str, &str); 3] = [(HOME, "grayifyr0"), (A, "grayifyr1"), (B, "grayifyr2")];
const QUARTET: [(&str, &str); 4] = [(HOME, "grayifyr0"), (A, "grayifyr1"), (B, "grayifyr2"), (C, "grayifyr3")];

async fn mk_federation(topology: &str) -> Option<Scene> {
    let dex = match Dex::start(&DexConfig::default()) {
        Ok(dex) => dex,
        Err(missing) => {
            oscar_testkit::skip!(missing);
            return None;
        }
    };
    let scene = Scene::start(dex);
    scene.deploy(topology, &quickstart_members()).await;
    scene.wait_agreed(&TRIO).await;
    Some(scene)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_changed_under_both_names_from_everywhere() {
    for topology in ["star", "mesh"] {
        let Some(scene) = mk_federation(topology).await else { return };
        // Added at the coordinator, under the seeds' name; twice is once.
        let body = json!({"replicas": [member(C, "grayifyr3")]});
        for _ in 0..2 {
            let answer = scene.ask(HOME, Method::POST, "/system/replicas/grayifyr0", Some(&body)).await;
            let (status, text) = (answer.status(), answer.text().await.expect("a body"));
            assert_eq!(status, 200, "{text}");
            let shown: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(shown["replicas"].as_array().map(Vec::len), Some(3), "{shown}");
            assert_eq!(shown.get("members"), None, "one name at a time");
        }
        scene.wait_agreed(&QUARTET).await;
        // Changed at a worker, under the other name.
        let mut urgent = member(C, "grayifyr3");
        urgent["priority"] = json!(7);
        let body = json!({"members": [member(C, "grayifyr3")], "update": [urgent]});
        let answer = scene.ask(A, Method::PUT, "/system/federation/grayifyr1", Some(&body)).await;
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap_or_default());
        scene
            .wait("the priority is known everywhere", async || {
                let mut known = true;
                for (id, name) in QUARTET {
                    let graph = scene.graph(id, name).await;
                    let nodes = graph["nodes"].as_array().cloned().unwrap_or_default();
                    known &= nodes.iter().any(|node| node["service_name"] == "grayifyr3" && node["priority"] == 7);
                }
                known
            })
            .await;
        // Removed at another worker, with its service.
        let body = json!({"members": [member(C, "grayifyr3")], "delete": true});
        let answer = scene.ask(B, Method::DELETE, "/system/federation/grayifyr2", Some(&body)).await;
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap_or_default());
        scene.wait("its service is gone", async || scene.service(C, "grayifyr3").await.is_none()).await;
        scene.wait_agreed(&TRIO).await;
        let members = &scene.service(HOME, "grayifyr0").await.expect("there")["federation"]["members"];
        assert_eq!(members.as_array().map(Vec::len), Some(2));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_away_has_the_edit_after_its_return() {
    let Some(mut scene) = mk_federation("star").await else { return };
    scene.managers.get_mut(B).expect("there").kill();
    let mut service = scene.service(HOME, "grayifyr0").await.expect("there");
    service["image"] = json!("ghcr.io/grycap/edited");
    let answer = scene.ask(HOME, Method::PUT, "/system/services", Some(&service)).await;
    let (status, text) = (answer.status(), answer.text().await.expect("a body"));
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("oscar-cluster-b/grayifyr2: it cannot be reached"), "{text}");
    assert_eq!(scene.service(A, "grayifyr1").await.expect("there")["image"], "ghcr.io/grycap/edited");
    scene
        .wait("it is seen that it is away", async || {
            let graph = scene.graph(HOME, "grayifyr0").await;
            graph["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| node["state"] == "unreachable"))
        })
        .await;
    scene.managers.get_mut(B).expect("there").start_again_there();
    scene.wait_agreed(&TRIO).await;
    assert_eq!(scene.service(B, "grayifyr2").await.expect("there")["image"], "ghcr.io/grycap/edited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_a_definition_lists_or_drops_come_and_go() {
    let Some(scene) = mk_federation("mesh").await else { return };
    // Another member, another topology.
    let mut service = scene.service(HOME, "grayifyr0").await.expect("there");
    service["federation"]["members"].as_array_mut().expect("a list").push(member(C, "grayifyr3"));
    service["federation"]["topology"] = json!("star");
    let answer = scene.ask(HOME, Method::PUT, "/system/services", Some(&service)).await;
    assert_eq!(answer.status(), 204, "{}", answer.text().await.unwrap_or_default());
    scene.wait_agreed(&QUARTET).await;
    let worker = scene.service(A, "grayifyr1").await.expect("there");
    assert_eq!(worker["federation"]["topology"], "star");
    assert_eq!(worker["federation"]["members"], Value::Null, "a star's worker hands on to nobody");
    // Fewer members: what was created for them goes with them.
    service["federation"]["members"] = json!([member(A, "grayifyr1")]);
    let answer = scene.ask(HOME, Method::PUT, "/system/services", Some(&service)).await;
    assert_eq!(answer.status(), 204, "{}", answer.text().await.unwrap_or_default());
    scene.wait("b is gone", async || scene.service(B, "grayifyr2").await.is_none()).await;
    scene.wait("c is gone", async || scene.service(C, "grayifyr3").await.is_none()).await;
    // None at all: a service of its own again.
    service.as_object_mut().expect("an object").remove("federation");
    let answer = scene.ask(HOME, Method::PUT, "/system/services", Some(&service)).await;
    assert_eq!(answer.status(), 204, "{}", answer.text().await.unwrap_or_default());
    scene.wait("a is gone", async || scene.service(A, "grayifyr1").await.is_none()).await;
    let shown = scene.get(HOME, "/system/replicas/grayifyr0").await;
    assert_eq!(shown["replicas"], Value::Null, "nobody is `null`, not an empty list");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_a_plain_service_are_created_whole_or_not_at_all() {
    let Some(mut scene) = mk_federation("star").await else { return };
    scene.delete(HOME, "grayifyr0").await;
    scene.wait_empty().await;
    // The former refresh token was used, and ended with its federation.
    scene.alice = scene.dex.token("alice");
    let made = scene.ask(HOME, Method::POST, "/system/services", Some(&mk_body("later"))).await;
    assert_eq!(made.status(), 201);
    let mut service = scene.service(HOME, "later").await.expect("there");
    service["clusters"] = json!({A: {"endpoint": scene.url(A)}, B: {"endpoint": "http://127.0.0.1:1"}});
    service["environment"]["secrets"] = json!({"refresh_token": scene.alice.refresh});
    service["federation"] = json!({"topology": "star", "members": [member(A, "later-a"), member(B, "later-b")]});
    let answer = scene.ask(HOME, Method::PUT, "/system/services", Some(&service)).await;
    assert_eq!(answer.status(), 502, "{}", answer.text().await.unwrap_or_default());
    assert_eq!(scene.service(A, "later-a").await, None);
    assert_eq!(scene.service(HOME, "later").await.expect("there").get("federation"), None, "it is as it was");
    service["clusters"][B] = json!({"endpoint": scene.url(B)});
    let answer = scene.ask(HOME, Method::PUT, "/system/services", Some(&service)).await;
    assert_eq!(answer.status(), 204, "{}", answer.text().await.unwrap_or_default());
    scene.wait_agreed(&[(HOME, "later"), (A, "later-a"), (B, "later-b")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_its_coordinators_until_it_is_detached() {
    let Some(scene) = mk_federation("star").await else { return };
    let mut replica = scene.service(A, "grayifyr1").await.expect("there");
    replica["image"] = json!("by-hand");
    let answer = scene.ask(A, Method::PUT, "/system/services", Some(&replica)).await;
    assert_eq!(answer.status(), 409);
    assert!(answer.text().await.expect("a body").contains("oscar-cluster-home/grayifyr0"));
    let answer = scene.ask(A, Method::DELETE, "/system/services/grayifyr1", None).await;
    assert_eq!(answer.status(), 409);
    let answer = scene.ask(A, Method::DELETE, "/system/services/grayifyr1?detach=true", None).await;
    assert_eq!(answer.status(), 204, "{}", answer.text().await.unwrap_or_default());
    scene.wait_agreed(&[(HOME, "grayifyr0"), (B, "grayifyr2")]).await;
    assert_eq!(scene.service(A, "grayifyr1").await, None);
}

/// Upstream tests a whole star on one manager, with workers that are there already, under names
/// that no manager was configured with and a token that is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_ids_may_name_one_manager_also_the_coordinators_own() {
    let Some(scene) = mk_federation("star").await else { return };
    let home = scene.at(HOME);
    for name in ["worker-one", "worker-two"] {
        assert_eq!(home.create(&mk_body(name)).await, 201);
    }
    let before = home.read("worker-one").await;
    let mut service = mk_body("star-head");
    service["cluster_id"] = json!("id-zero");
    service["environment"] = json!({"secrets": {"refresh_token": "dummy-token"}});
    service["clusters"] = json!({
        "id-one": {"endpoint": home.url}, "id-two": {"endpoint": format!("{}/", home.url)}, "id-three": scene.login(C),
    });
    service["federation"] = json!({
        "topology": "star",
        "members": [member("id-one", "worker-one"), member("id-two", "worker-two"), member("id-three", "worker-three")],
    });
    assert_eq!(home.create(&service).await, 201);
    assert_eq!(home.read("worker-one").await["annotations"]["oscar.grycap/federation-worker"], "true");
    let remove = json!({"members": [member("id-one", "worker-one"), member("id-two", "worker-two")], "delete": false});
    let request = home.as_admin(Method::DELETE, "/system/federation/star-head").json(&remove);
    let answer = request.send().await.expect("sent");
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap_or_default());
    scene.wait("the adopted one is back", async || home.read("worker-one").await == before).await;
    let remove = json!({"members": [member("id-three", "worker-three")], "delete": false});
    let request = home.as_admin(Method::DELETE, "/system/federation/star-head").json(&remove);
    assert_eq!(request.send().await.expect("sent").status(), 200);
    let still = scene.at(C).read("worker-three").await;
    assert_eq!(still["annotations"], json!({}), "it stays, as a plain service");
    let shown = home.as_admin(Method::GET, "/system/federation/star-head").send().await.expect("sent");
    let shown: Value = shown.json().await.expect("JSON");
    assert_eq!(shown["members"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_token_reads_and_changes_only_what_the_operator_vouches_for() {
    let Some(scene) = mk_federation("mesh").await else { return };
    let token = scene.service(HOME, "grayifyr0").await.expect("there")["token"].as_str().expect("text").to_owned();
    let home = scene.at(HOME);
    let shown = home.as_nobody(Method::GET, "/system/replicas/grayifyr0").bearer_auth(&token).send().await;
    assert_eq!(shown.expect("sent").status(), 200);
    let body = json!({"replicas": [member(C, "grayifyr3")]});
    let request = home.as_nobody(Method::POST, "/system/replicas/grayifyr0").bearer_auth(&token).json(&body);
    let answer = request.send().await.expect("sent");
    assert_eq!(answer.status(), 403);
    assert!(answer.text().await.expect("a body").contains("sign in as the owner"));
    assert_eq!(scene.service(C, "grayifyr3").await, None);
}
