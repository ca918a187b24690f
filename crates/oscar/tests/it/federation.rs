//! Federations of real managers with a real identity provider: deployed whole or not at all, the
//! same from everywhere, and gone without a trace.

use std::collections::BTreeMap;
use std::path::Path;

use oscar_testkit::{Dex, DexConfig, require};
use reqwest::Method;
use serde_json::{Value, json};

use super::federation_scene::{A, B, C, HOME, Scene, member, quickstart_members};

const TRIO: [(&str, &str); 3] = [(HOME, "grayifyr0"), (A, "grayifyr1"), (B, "grayifyr2")];

/// What differs from run to run, as words.
fn masked(mut service: Value, scene: &Scene) -> Value {
    service["token"] = json!("<token>");
    service["owner"] = json!("<owner>");
    service["namespace"] = json!("<namespace>");
    for key in ["oscar.grycap/federation-id", "oscar.grycap/federation-op"] {
        if let Some(value) = service["annotations"].get_mut(key) {
            *value = json!("<id>");
        }
    }
    if let Some(labels) = service["labels"].as_object_mut() {
        labels.retain(|key, _| key != "owner" && key != "owner_name");
    }
    let mut text = service.to_string();
    for id in [HOME, A, B, C] {
        text = text.replace(scene.url(id), &format!("<{id}>"));
    }
    serde_json::from_str(&text).expect("JSON")
}

/// Compares with the file of that name; `OSCAR_WRITE_GOLDEN=1` writes it instead.
fn compare_golden(name: &str, found: &Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden");
    let path = folder.join(format!("{name}.json"));
    let found = format!("{found:#}\n");
    if std::env::var_os("OSCAR_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(&path, &found).expect("written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, golden, "{name} differs from {}", path.display());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quickstart_is_deployed_in_every_topology() {
    let mut scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    let mut below = member(B, "grayifyr2");
    below["parent"] = json!(A);
    let trees = vec![member(A, "grayifyr1"), below];
    for (topology, members) in [("mesh", quickstart_members()), ("star", quickstart_members()), ("tree", trees)] {
        // The issuer takes a refresh token once.
        scene.alice = scene.dex.token("alice");
        let created = scene.deploy(topology, &members).await;
        assert_eq!(created["members"].as_array().map(Vec::len), Some(2), "{created}");
        for (id, name) in TRIO {
            let service = scene.service(id, name).await.expect("deployed");
            compare_golden(&format!("{topology}-{name}"), &masked(service, &scene));
        }
        let graph = scene.wait_agreed(&TRIO).await;
        assert_eq!(graph["coordinator"], format!("{HOME}/grayifyr0"));
        let tokens: Vec<_> = {
            let mut tokens = Vec::new();
            for (id, name) in TRIO {
                tokens.push(scene.service(id, name).await.expect("there")["token"].clone());
            }
            tokens
        };
        assert!(tokens.windows(2).all(|pair| pair[0] == pair[1]), "one service token is valid everywhere");
        scene.delete(HOME, "grayifyr0").await;
        scene.wait_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_federation_writes_nothing() {
    let scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    scene.deploy("mesh", &quickstart_members()).await;
    scene.wait_agreed(&TRIO).await;
    let revisions = async || {
        let mut revisions = BTreeMap::new();
        for (id, name) in TRIO {
            let answer = scene.ask(id, Method::GET, &format!("/system/services/{name}"), None).await;
            let etag = answer.headers().get("etag").expect("a revision").to_str().expect("text").to_owned();
            revisions.insert((id, name), etag);
        }
        (revisions, scene.get(HOME, "/system/audit").await)
    };
    let before = revisions().await;
    for _ in 0..10 {
        let path = "/system/federation/grayifyr0/reconcile";
        let answer = scene.ask(HOME, Method::POST, path, None).await;
        assert_eq!(answer.status(), 200);
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(body.get("warnings"), None, "all is well");
    }
    assert_eq!(revisions().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_fails_at_one_member_leaves_nothing_anywhere() {
    let scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    // Carol has the name at one cluster.
    let carol = scene.dex.token("carol").access;
    let theirs = super::manager::mk_body("grayifyr2");
    let made = scene.at(B).as_nobody(Method::POST, "/system/services").bearer_auth(carol).json(&theirs).send().await;
    assert_eq!(made.expect("sent").status(), 201);
    let answer = scene.submit(scene.quickstart("mesh", &quickstart_members())).await;
    assert_eq!(answer.status(), 409);
    let text = answer.text().await.expect("a body");
    assert!(text.contains("oscar-cluster-b/grayifyr2: its service of that name belongs to somebody else"), "{text}");
    assert!(text.contains("nothing was changed"), "{text}");
    assert_eq!(scene.service(HOME, "grayifyr0").await, None);
    assert_eq!(scene.service(A, "grayifyr1").await, None);

    // A member that is gone is told apart, and so are the others.
    let mut scene = scene;
    scene.managers.get_mut(B).expect("there").kill();
    let answer = scene.submit(scene.quickstart("star", &quickstart_members())).await;
    assert_eq!(answer.status(), 502);
    let text = answer.text().await.expect("a body");
    assert!(text.contains("oscar-cluster-b/grayifyr2: it cannot be reached"), "{text}");
    assert_eq!(scene.service(A, "grayifyr1").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_service_is_adopted_and_given_back_as_it_was() {
    let scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    let mut plain = super::manager::mk_body("grayifyr1");
    plain["environment"] = json!({"variables": {"OWN": "yes"}, "secrets": {"OWN_SECRET": "mine"}});
    let made = scene.ask(A, Method::POST, "/system/services", Some(&plain)).await;
    assert_eq!(made.status(), 201);
    let before = scene.service(A, "grayifyr1").await.expect("there");
    let created = scene.deploy("star", &quickstart_members()).await;
    assert_eq!(created["members"][0]["action"], "adopt");
    assert_ne!(scene.service(A, "grayifyr1").await.expect("there")["image"], before["image"]);
    scene.delete(HOME, "grayifyr0").await;
    scene.wait("it is given back", async || scene.service(A, "grayifyr1").await.as_ref() == Some(&before)).await;
    assert_eq!(scene.service(B, "grayifyr2").await, None, "what was created is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_tells_the_plan_and_changes_nothing() {
    let scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    let request =
        scene.at(HOME).as_nobody(Method::POST, "/system/services?dry_run=true").bearer_auth(&scene.alice.access);
    let request = request.header("content-type", "application/yaml");
    let answer = request.body(scene.quickstart("mesh", &quickstart_members())).send().await.expect("sent");
    assert_eq!(answer.status(), 200);
    let plan: Value = answer.json().await.expect("JSON");
    let actions: Vec<_> = plan["federation"]["members"].as_array().expect("a list").iter().collect();
    assert!(actions.len() == 2 && actions.iter().all(|step| step["action"] == "create"), "{plan}");
    for (id, name) in TRIO {
        assert_eq!(scene.service(id, name).await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_token_is_found_nowhere_but_sealed_in_its_store() {
    let scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    let tokens = scene.alice.clone();
    let answer = scene.submit(scene.quickstart("mesh", &quickstart_members())).await;
    assert_eq!(answer.status(), 201);
    let mut said = answer.text().await.expect("a body");
    scene.wait_agreed(&TRIO).await;
    for (id, name) in TRIO {
        for path in [format!("/system/services/{name}"), format!("/system/federation/{name}"), "/system/audit".into()] {
            said.push_str(&scene.get(id, &path).await.to_string());
        }
    }
    let shown = scene.get(HOME, "/system/federation/grayifyr0/token").await;
    assert_eq!(shown["state"], "valid", "{shown}");
    said.push_str(&shown.to_string());
    said.push_str(&scene.logs());
    for secret in [&tokens.refresh, &tokens.access] {
        assert!(!said.contains(secret.as_str()), "a token was said");
        for (path, bytes) in scene.stored() {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "a token is readable in {}", path.display());
        }
    }
    for (id, name) in &TRIO[1..] {
        let worker = scene.service(id, name).await.expect("there");
        assert_eq!(worker["environment"]["secrets"], json!({"API_KEY": ""}), "it does not cross");
    }
}
