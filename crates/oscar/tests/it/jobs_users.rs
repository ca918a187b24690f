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

#[tokio::test]
async fn a_stranger_learns_nothing_of_buckets_from_a_service_that_is_not_his() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let scene = Scene::start(&[("OIDC_ENABLE", "true"), ("OIDC_ISSUERS", dex.issuer())]);
    let [alice, bob] = ["alice", "bob"].map(|name| User {
        scene: &scene,
        token: dex.token(name).access,
        bucket: format!("of-{name}"),
    });
    let mk_service = |name: &str, bucket: &str, cpu: &str| {
        json!({
            "name": name, "image": "none", "cpu": cpu, "memory": "64Mi", "script": "true",
            "input": [{"storage_provider": "minio.default", "path": format!("{bucket}/in")}],
        })
    };
    let made = alice.call(Method::POST, "/system/services", &mk_service("hers", &alice.bucket, "0.1")).await;
    assert_eq!(made.0, 201, "{}", scene.manager.log());
    let made = bob.call(Method::POST, "/system/services", &mk_service("his", &bob.bucket, "0.1")).await;
    assert_eq!(made.0, 201, "{}", scene.manager.log());

    let refusal = async |method: Method, path: &str, body: &Value| {
        let call = scene.manager.as_nobody(method, path).bearer_auth(&bob.token).json(body);
        let answer = call.send().await.expect("an answer");
        let code = answer.headers()["oscar-error"].to_str().expect("text").to_owned();
        (answer.status().as_u16(), code, answer.text().await.expect("text"))
    };
    // For its owner the first one is free, the second hers and the third somebody else's; and the
    // last definition is wrong anyway.
    let bodies = [("no-such", "0.1"), (&alice.bucket, "0.1"), (&bob.bucket, "0.1"), ("no-such", "much")];
    let bodies = bodies.map(|(bucket, cpu)| mk_service("hers", bucket, cpu));
    for (method, path, status, code) in [
        (Method::PUT, "/system/services", 403, "not-visible"),
        (Method::PUT, "/system/services?dry_run=true", 403, "not-visible"),
        (Method::POST, "/system/services", 409, "service-exists"),
    ] {
        let first = refusal(method.clone(), path, &bodies[0]).await;
        assert_eq!((first.0, first.1.as_str()), (status, code), "{method} {path}: {first:?}");
        for body in &bodies[1..] {
            assert_eq!(refusal(method.clone(), path, body).await, first, "{method} {path} {body}");
        }
    }
    let told = alice.call(Method::PUT, "/system/services", &mk_service("hers", &bob.bucket, "0.1")).await;
    assert_eq!(told.0, 400, "its owner is told what is wrong");
}
