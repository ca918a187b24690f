//! Definitions over the wire: what OSCAR's clients rely on.

use reqwest::Method;
use serde_json::{Value, json};

use super::manager::{Manager, mk_body};

#[tokio::test]
async fn a_service_is_created_read_changed_and_removed() {
    let manager = Manager::start(&[]);
    let answer = manager.as_admin(Method::POST, "/system/services").json(&mk_body("cow")).send().await.expect("sent");
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.headers()["location"], "/system/services/cow");
    assert!(answer.bytes().await.expect("a body").is_empty());
    assert_eq!(manager.create(&mk_body("cow")).await, 409);

    let read = manager.read("cow").await;
    assert_eq!(read["owner"], "cluster_admin");
    assert_eq!(read["memory"], "256Mi");
    assert_eq!(read["token"].as_str().map(str::len), Some(64));
    assert_eq!(read["volume_status"], json!({"enabled": false}));
    assert_eq!(read["labels"]["oscar_service"], "cow");

    let mut changed = read.clone();
    changed["image"] = json!("ghcr.io/grycap/other");
    changed["owner"] = json!("somebody");
    changed["token"] = json!("0".repeat(64));
    let put = manager.as_admin(Method::PUT, "/system/services").json(&changed).send().await.expect("sent");
    assert_eq!(put.status(), 204);
    let again = manager.read("cow").await;
    assert_eq!(
        (&again["image"], &again["owner"], &again["token"]),
        (&json!("ghcr.io/grycap/other"), &read["owner"], &read["token"])
    );

    let path = "/system/services/cow";
    assert_eq!(manager.as_admin(Method::DELETE, path).send().await.expect("sent").status(), 204);
    assert_eq!(manager.as_admin(Method::DELETE, path).send().await.expect("sent").status(), 404);
    assert_eq!(manager.as_admin(Method::GET, path).send().await.expect("sent").status(), 404);
}

#[tokio::test]
async fn both_slash_spellings_and_any_content_type_work() {
    let manager = Manager::start(&[]);
    let text = serde_json::to_string(&mk_body("slash")).expect("JSON");
    for (name, kind) in [("text/json", Some("text/json")), ("none", None), ("octets", Some("application/octet-stream"))]
    {
        let body = text.replace("slash", &format!("slash-{}", name.replace('/', "-"))) + " trailing";
        let mut request = manager.as_admin(Method::POST, "/system/services/").body(body);
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        assert_eq!(request.send().await.expect("sent").status(), 201, "{name}");
    }
    for path in ["/system/config/", "/system/info/", "/system/services/", "/system/services/slash-none/", "/health/"] {
        assert_eq!(manager.as_admin(Method::GET, path).send().await.expect("sent").status(), 200, "{path}");
    }
    let wrong = manager.as_admin(Method::PATCH, "/system/services").send().await.expect("sent");
    assert_eq!(wrong.status(), 404);
    assert_eq!(wrong.text().await.expect("a body"), "404 page not found");
}

#[tokio::test]
async fn the_answer_is_compact_json_in_the_documented_order() {
    let manager = Manager::start(&[]);
    let mut body = mk_body("order");
    body["script"] = json!("#!/bin/sh\necho <&>\n");
    assert_eq!(manager.create(&body).await, 201);
    let answer = manager.as_admin(Method::GET, "/system/services").send().await.expect("sent");
    assert_eq!(answer.headers()["content-type"], "application/json; charset=utf-8");
    let text = answer.text().await.expect("a body");
    assert!(text.starts_with(r#"[{"name":"order","cluster_id":"","memory":"256Mi","cpu":"0.2","#), "{text}");
    assert!(text.contains(r"echo \u003c\u0026\u003e\n"), "{text}");
    let config =
        manager.as_admin(Method::GET, "/system/config").send().await.expect("sent").text().await.expect("a body");
    assert!(
        config.starts_with(r#"{"config":{"name":"oscar","namespace":"oscar","services_namespace":"oscar-svc","#),
        "{config}"
    );
    assert!(
        config.contains(r#""oidc_groups":[""]"#) && config.contains(r#""allowed_image_repositories":[]"#),
        "{config}"
    );
}

#[tokio::test]
async fn every_fault_is_reported_at_once() {
    let manager = Manager::start(&[]);
    let bad = json!({"name": "Bad", "cpu": 1, "memory": "lots", "image": "", "script": "", "visibility": "Public",
        "input": [{"storage_provider": "ftp", "path": "/"}], "output": [{"storage_provider": "s3.mine", "path": "bkt/x"}]});
    let request = manager.as_admin(Method::POST, "/system/services").json(&bad);
    let answer = request.header("accept", "application/problem+json").send().await.expect("sent");
    assert_eq!(answer.status(), 400);
    assert_eq!(answer.headers()["oscar-error"], "definition-invalid");
    let problem: Value = answer.json().await.expect("JSON");
    let paths: Vec<_> = problem["faults"]
        .as_array()
        .expect("faults")
        .iter()
        .map(|fault| fault["path"].as_str().unwrap_or_default())
        .collect();
    for path in ["name", "cpu", "memory", "image", "script", "visibility", "input[0].storage_provider", "input[0].path"]
    {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
    let plain = manager.as_admin(Method::POST, "/system/services").json(&bad).send().await.expect("sent");
    assert!(plain.headers()["content-type"].to_str().is_ok_and(|kind| kind.starts_with("text/plain")));
    let text = plain.text().await.expect("a body");
    assert!(text.starts_with("The service specification is not valid:\n- name: found \"Bad\""), "{text}");
}

#[tokio::test]
async fn yaml_definitions_are_taken_too() {
    let manager = Manager::start(&[]);
    let fdl = "functions:\n  oscar:\n  - my-cluster:\n      name: from-yaml\n      image: ghcr.io/grycap/cowsay\n      cpu: 0.5\n      script: |\n        #!/bin/sh\n        echo hi\n";
    let post = |text: String| {
        manager.as_admin(Method::POST, "/system/services").header("content-type", "application/yaml").body(text)
    };
    assert_eq!(post(fdl.to_owned()).send().await.expect("sent").status(), 201);
    let read = manager.read("from-yaml").await;
    assert_eq!((&read["cpu"], &read["cluster_id"]), (&json!("0.5"), &json!("my-cluster")));
    let bad = post(fdl.replace("cpu: 0.5", "cpu: fast").replace("from-yaml", "other")).send().await.expect("sent");
    let text = bad.text().await.expect("a body");
    assert!(text.contains("line 6: functions.oscar[0].my-cluster.cpu: found \"fast\""), "{text}");
}

#[tokio::test]
async fn revisions_dry_runs_and_pages() {
    let manager = Manager::start(&[]);
    for index in 0..5 {
        assert_eq!(manager.create(&mk_body(&format!("page-{index}"))).await, 201);
    }
    let read = manager.as_admin(Method::GET, "/system/services/page-0").send().await.expect("sent");
    let revision = read.headers()["etag"].to_str().expect("text").to_owned();
    let put = |revision: &str| {
        manager.as_admin(Method::PUT, "/system/services").header("if-match", revision).json(&mk_body("page-0"))
    };
    assert_eq!(put(&revision).send().await.expect("sent").status(), 204);
    let stale = put(&revision).send().await.expect("sent");
    assert_eq!(
        (stale.status().as_u16(), stale.headers()["oscar-error"].to_str().expect("text")),
        (412, "revision-mismatch")
    );

    let dry = manager
        .as_admin(Method::POST, "/system/services?dry_run=true")
        .json(&mk_body("dry"))
        .send()
        .await
        .expect("sent");
    assert_eq!(dry.status(), 200);
    let dry: Value = dry.json().await.expect("JSON");
    assert_eq!((&dry["action"], &dry["service"]["name"]), (&json!("create"), &json!("dry")));
    let odd = manager
        .as_admin(Method::POST, "/system/services?dry_run=maybe")
        .json(&mk_body("dry"))
        .send()
        .await
        .expect("sent");
    assert_eq!(odd.status(), 400);

    let mut seen = Vec::new();
    let mut path = "/system/services?limit=2".to_owned();
    loop {
        let answer = manager.as_admin(Method::GET, &path).send().await.expect("sent");
        let next = answer.headers().get("link").map(|link| link.to_str().expect("text").to_owned());
        let page: Vec<Value> = answer.json().await.expect("JSON");
        seen.extend(page.iter().map(|service| service["name"].as_str().unwrap_or_default().to_owned()));
        let Some(next) = next else { break };
        path = next.trim_start_matches('<').split('>').next().expect("a link").to_owned();
    }
    assert_eq!(seen, ["page-0", "page-1", "page-2", "page-3", "page-4"]);
}

#[tokio::test]
async fn secrets_are_kept_when_blank_and_never_shown() {
    let manager = Manager::start(&[]);
    let mut body = mk_body("secretive");
    body["environment"] = json!({"secrets": {"KEY": "planted-env-secret"}});
    body["clusters"] =
        json!({"other": {"endpoint": "https://o.example", "auth_user": "u", "auth_password": "planted-password"}});
    body["storage_providers"] = json!({"s3": {"mine": {"access_key": "k", "secret_key": "planted-s3", "region": "r"}}});
    assert_eq!(manager.create(&body).await, 201);
    let read = manager.read("secretive").await;
    assert_eq!(read["environment"]["secrets"], json!({"KEY": ""}));
    assert_eq!(read["clusters"]["other"]["auth_password"], "");
    assert_eq!(read["storage_providers"]["s3"]["mine"]["secret_key"], "planted-s3", "the owner's own keys");
    let put = manager.as_admin(Method::PUT, "/system/services").json(&read).send().await.expect("sent");
    assert_eq!(put.status(), 204, "what was shown can be sent back");
    assert!(!manager.log().contains("planted"));
}

#[tokio::test]
async fn limits_hold() {
    let manager = Manager::start(&[]);
    let huge = manager.as_admin(Method::POST, "/system/services").body(vec![b' '; 5 << 20]).send().await.expect("sent");
    assert_eq!(huge.status(), 413);
    let empty = manager.as_admin(Method::POST, "/system/services").send().await.expect("sent");
    assert_eq!(
        (empty.status().as_u16(), empty.headers()["oscar-error"].to_str().expect("text")),
        (400, "body-malformed")
    );
    let deep = manager.as_admin(Method::POST, "/system/services").body("[".repeat(100_000)).send().await.expect("sent");
    assert_eq!(deep.status(), 400);
}

#[tokio::test]
async fn the_status_tells_what_a_peer_needs() {
    let manager = Manager::start(&[("OSCAR_CPU", "4"), ("OSCAR_MEMORY", "8Gi")]);
    let status: Value =
        manager.as_admin(Method::GET, "/system/status").send().await.expect("sent").json().await.expect("JSON");
    assert_eq!(status["cluster"]["nodes_count"], 1);
    assert_eq!(status["cluster"]["nodes"][0]["cpu"]["capacity_cores"], 4000);
    assert_eq!(status["cluster"]["nodes"][0]["memory"]["capacity_bytes"], 8i64 << 30);
    assert_eq!(status["cluster"]["metrics"]["cpu"]["total_schedulable_on_node_cores"], 4000);
    assert_eq!(
        status["oscar"]["pods"]["states"],
        json!({"Failed": 0, "Pending": 0, "Running": 0, "Succeeded": 0, "Unknown": 0})
    );
    assert_eq!(status["oscar"]["oidc"], json!({"enabled": false, "issuers": [""], "groups": [""]}));
}

#[tokio::test]
async fn image_repositories_are_the_administrators_choice() {
    let manager = Manager::start(&[]);
    let put =
        manager.as_admin(Method::PUT, "/system/config").body(r#"{"allowed_image_repositories":["ghcr.io/grycap"]}"#);
    let answer = put.send().await.expect("sent");
    assert_eq!(
        (answer.status().as_u16(), answer.text().await.expect("a body").as_str()),
        (200, r#"["ghcr.io/grycap"]"#)
    );
    assert_eq!(manager.create(&mk_body("allowed")).await, 201);
    let mut other = mk_body("other");
    other["image"] = json!("evil.io/ghcr.io/grycap/x");
    assert_eq!(manager.create(&other).await, 400);
}

#[tokio::test]
async fn browsers_of_other_origins_are_answered() {
    let manager = Manager::start(&[]);
    let preflight = manager
        .as_nobody(Method::OPTIONS, "/system/services")
        .header("origin", "https://dashboard.example")
        .header("access-control-request-method", "PUT")
        .header("access-control-request-headers", "authorization")
        .send()
        .await
        .expect("sent");
    assert_eq!(preflight.status(), 200);
    assert_eq!(preflight.headers()["access-control-allow-origin"], "*");
    assert_eq!(preflight.headers()["access-control-allow-headers"], "authorization");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_the_text_and_of_the_cluster_come_together_with_path_and_line() {
    let manager = Manager::start(&[]);
    let fdl = "functions:\n  oscar:\n  - name: grayify\n    image: a/b\n    cpu: lots\n    script: script.sh\n    output:\n    - storage_provider: minio.shared\n      path: out/x\n";
    let post = manager.as_admin(Method::POST, "/system/services").header("content-type", "application/yaml").body(fdl);
    let text = post.send().await.expect("sent").text().await.expect("a body");
    for part in [
        "line 5: functions.oscar[0].cpu",
        "line 6: functions.oscar[0].script",
        "line 8: functions.oscar[0].output[0].storage_provider",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_without_a_revision_all_succeed() {
    let manager = Manager::start(&[]);
    assert_eq!(manager.create(&mk_body("busy")).await, 201);
    let put = |_| manager.as_admin(Method::PUT, "/system/services").json(&mk_body("busy")).send();
    for answer in futures::future::join_all((0..64).map(put)).await {
        assert_eq!(answer.expect("sent").status(), 204);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_cannot_be_read_changes_nothing() {
    let manager = Manager::start(&[]);
    assert_eq!(manager.create(&mk_body("guarded")).await, 201);
    let odd = reqwest::header::HeaderValue::from_bytes(b"\"\xff\"").expect("bytes");
    let put = manager.as_admin(Method::PUT, "/system/services").header("if-match", odd).json(&mk_body("guarded"));
    assert_eq!(put.send().await.expect("sent").status(), 412);
    let clear = manager.as_admin(Method::PUT, "/system/config").body("{\"allowed_image_repository\":[]}");
    assert_eq!(clear.send().await.expect("sent").status(), 400, "a misspelt key opens nothing");
}
