//! `isolation_level: USER` with two real users: each has a bucket, and sees nothing of the others'.

use oscar_testkit::{Dex, DexConfig, require};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::jobs_scene::Scene;

/// A user with his token.
struct User<'a> {
    scene: &'a Scene,
    token: String,
    bucket: String,
}

impl User<'_> {
    async fn call(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let call = self.scene.manager.as_nobody(method, path).bearer_auth(&self.token).json(body);
        let answer = call.send().await.expect("an answer");
        (answer.status(), answer.json().await.unwrap_or_default())
    }

    /// Where to send an object to or get it from, if the user may.
    async fn presign(&self, bucket: &str, key: &str, operation: &str) -> Result<String, StatusCode> {
        let body = json!({"object_key": key, "operation": operation});
        let (status, answer) = self.call(Method::POST, &format!("/system/buckets/{bucket}/presign"), &body).await;
        answer["url"].as_str().map(str::to_owned).ok_or(status)
    }
}

#[tokio::test]
async fn each_user_of_an_isolated_service_works_in_his_own_bucket() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let scene = Scene::start(&[
        ("OIDC_ENABLE", "true"),
        ("OIDC_ISSUERS", dex.issuer()),
        ("OIDC_GROUPS", "vo-a,vo-b"),
        ("OIDC_GROUP_CLAIM", "groups"),
    ]);
    let [alice, bob] = ["alice", "bob"].map(|name| {
        let tokens = dex.token(name);
        let head: String = tokens.subject().chars().take(10).collect();
        let bucket = format!("plants-{}", head.to_ascii_lowercase());
        (User { scene: &scene, token: tokens.access.clone(), bucket }, tokens.subject())
    });
    let ((alice, _), (bob, bob_id)) = (alice, bob);
    let service = json!({
        "name": "plants", "image": "none", "cpu": "0.1", "memory": "64Mi",
        "script": "tr a-z A-Z < \"$INPUT_FILE_PATH\" > \"$TMP_OUTPUT_DIR/$(basename \"$INPUT_FILE_PATH\")\"\n",
        "isolation_level": "USER", "visibility": "restricted", "allowed_users": [bob_id],
        "input": [{"storage_provider": "minio.default", "path": "plants/in"}],
        "output": [{"storage_provider": "minio.default", "path": "plants/out"}],
    });
    assert_eq!(alice.call(Method::POST, "/system/services", &service).await.0, 201, "{}", scene.manager.log());
    let (status, shown) = bob.call(Method::GET, "/system/services/plants", &Value::Null).await;
    assert_eq!(status, 200, "{shown}");
    let mut buckets = vec![alice.bucket.as_str(), bob.bucket.as_str()];
    buckets.sort_unstable();
    assert_eq!(shown["bucket_list"], json!(buckets));

    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for (user, word) in [(&alice, "fern"), (&bob, "moss")] {
        let url = user.presign(&user.bucket, "in/same-name", "upload").await.expect("it is his own");
        assert_eq!(http.put(url).body(word).send().await.expect("an answer").status(), 200);
    }
    let jobs = scene.all_ended("plants", 2).await;
    assert!(jobs.iter().all(|job| job["state"] == "succeeded"), "{jobs:#?}\n{}", scene.manager.log());
    for (user, word) in [(&alice, "FERN"), (&bob, "MOSS")] {
        let url = user.presign(&user.bucket, "out/same-name", "download").await.expect("it is his own");
        let text = http.get(url).send().await.expect("an answer").text().await.expect("text");
        assert_eq!(text, word, "the output went where the input came from");
    }
    for operation in ["download", "upload"] {
        let refused = bob.presign(&alice.bucket, "out/same-name", operation).await;
        assert_eq!(refused, Err(StatusCode::NOT_FOUND), "he need not know of it: {operation}");
    }
    assert!(alice.presign(&bob.bucket, "out/same-name", "download").await.is_ok(), "the service is hers");
}
