//! Outputs in a store that the operator lends to services.

use std::fs;

use oscar_testkit::Scratch;
use reqwest::Method;
use serde_json::{Value, json};

use crate::jobs_scene::Scene;

#[tokio::test]
async fn what_a_job_makes_arrives_in_the_store_that_the_operator_named() {
    let elsewhere = Scene::start(&[]);
    let bucket = json!({"bucket_name": "harvest"});
    let made = elsewhere.manager.as_admin(Method::POST, "/system/buckets").json(&bucket).send().await;
    assert_eq!(made.expect("an answer").status(), 201);
    let config = elsewhere.manager.as_admin(Method::GET, "/system/config").send().await.expect("an answer");
    let config: Value = config.json().await.expect("JSON");
    let store = &config["minio_provider"];
    let (access, secret) = (store["access_key"].as_str().expect("a key"), store["secret_key"].as_str().expect("one"));

    let folder = Scratch::new("lent");
    let file = folder.path().join("oscar.yaml");
    let settings = json!({"storage_providers": {"minio": {"shared": {
        "endpoint": store["endpoint"], "access_key": access, "secret_key": secret, "region": store["region"],
        "verify": false,
    }}}});
    fs::write(&file, settings.to_string()).expect("written");
    let scene = Scene::start(&[("OSCAR_CONFIG", file.to_str().expect("text"))]);
    let service = json!({
        "name": "plants", "image": "none", "cpu": "0.1", "memory": "64Mi",
        "script": "cat \"$INPUT_FILE_PATH\" > \"$TMP_OUTPUT_DIR/out.txt\"\ncat \"$INPUT_FILE_PATH\"\n",
        "output": [{"storage_provider": "minio.shared", "path": "harvest/out"}],
    });
    assert_eq!(scene.manager.create(&service).await, 201, "{}", scene.manager.log());

    let job = scene.submit("plants", "ripe plums!").await;
    let ended = scene.ended("plants", &job).await;
    assert_eq!(ended["state"], "succeeded", "{ended:#}\n{}", scene.log("plants", &job).await);
    assert_eq!(elsewhere.download("harvest", "out/out.txt").await.as_deref(), Some(&b"ripe plums!"[..]));

    let run = scene.manager.as_admin(Method::POST, "/run/plants").body("sweet plums!").send().await.expect("an answer");
    let (status, text) = (run.status(), run.text().await.unwrap_or_default());
    assert_eq!(status, 200, "{text}");
    assert_eq!(elsewhere.download("harvest", "out/out.txt").await.as_deref(), Some(&b"sweet plums!"[..]));

    let shown = scene.manager.read("plants").await;
    assert_eq!(shown["storage_providers"]["minio"]["shared"], Value::Null, "{shown:#}");
    for path in ["/system/services/plants", &format!("/system/jobs/plants/{job}"), "/system/config"] {
        let answer = scene.manager.as_admin(Method::GET, path).send().await.expect("an answer");
        assert!(!answer.text().await.expect("a text").contains(secret), "{path}");
    }
}
