//! Nothing secret gets out: planted values are looked for in everything that a run printed.

use oscar_testkit::{Dex, DexConfig, require};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::manager::{Manager, PASSWORD, mk_body};

const PLANTED: [&str; 5] = [
    "planted-env-secret",
    "planted-cluster-password",
    "planted-provider-secret",
    "planted-member-header",
    "planted-refresh-token",
];

fn mk_planted(name: &str) -> Value {
    let mut body = mk_body(name);
    body["visibility"] = json!("public");
    body["environment"] = json!({"secrets": {"KEY": "planted-env-secret", "refresh_token": "planted-refresh-token"}});
    body["clusters"] =
        json!({"o": {"endpoint": "https://o", "auth_user": "u", "auth_password": "planted-cluster-password"}});
    body["storage_providers"] =
        json!({"webdav": {"w": {"hostname": "h", "login": "l", "password": "planted-provider-secret"}}});
    body["federation"] = json!({"topology": "none", "members": [{"type": "endpoint", "url": "https://e.example",
        "headers": {"X-Key": "planted-member-header"}}]});
    body
}

/// Requests that go wrong in every way that quotes what was sent.
fn mk_wrong(name: &str) -> Vec<String> {
    let planted = mk_planted(name);
    let with = |path: &[&str], value: Value| {
        let mut body = planted.clone();
        let mut at = &mut body;
        for step in path {
            at = &mut at[*step];
        }
        *at = value;
        body.to_string()
    };
    vec![
        with(&["name"], json!("Bad Name")),
        with(&["environment", "secrets", "KEY"], json!(["planted-env-secret"])),
        with(&["environment", "secrets"], json!("planted-env-secret")),
        with(&["clusters", "o", "auth_password"], json!({"a": "planted-cluster-password"})),
        with(&["clusters"], json!("planted-cluster-password")),
        with(&["storage_providers", "webdav", "w", "password"], json!([1, "planted-provider-secret"])),
        with(
            &["federation", "members"],
            json!([{"type": "endpoint", "url": "x", "headers": {"X-Key": "planted-member-header\n"}}]),
        ),
        planted.to_string().replacen('{', "{,", 1),
        planted.to_string()[..120].to_owned(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_secrets_are_found_in_no_log_and_no_answer() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let manager = Manager::start(&[
        ("OSCAR_LOG", "trace"),
        ("OIDC_ENABLE", "true"),
        ("OIDC_ISSUERS", dex.issuer()),
        ("OIDC_GROUP_CLAIM", "groups"),
    ]);
    let (alice, bob) = (dex.token("alice").access, dex.token("bob").access);
    let mut told = String::new();
    // 0 stands for any refusal of the client's own making.
    let mut ask = async |request: RequestBuilder, expected: u16| {
        let answer = request.send().await.expect("an answer");
        let (status, headers) = (answer.status(), format!("{:?}", answer.headers()));
        let text = answer.text().await.expect("a body");
        assert!(status == expected || expected == 0 && status.is_client_error(), "{status}: {text}");
        told.push_str(&headers);
        told.push_str(&text);
        text
    };
    let services = "/system/services";
    ask(manager.as_nobody(Method::POST, services).bearer_auth(&alice).json(&mk_planted("mine")), 201).await;
    ask(manager.as_admin(Method::POST, services).json(&mk_planted("mine")), 409).await;
    for wrong in mk_wrong("wrong") {
        ask(manager.as_nobody(Method::POST, services).bearer_auth(&alice).body(wrong.clone()), 400).await;
        let problem = manager.as_admin(Method::PUT, services).header("accept", "application/problem+json");
        ask(problem.body(wrong), 0).await;
    }
    ask(manager.as_nobody(Method::GET, "/system/services/mine").bearer_auth(&bob), 200).await;
    ask(manager.as_nobody(Method::GET, services).bearer_auth(&bob), 200).await;
    ask(manager.as_nobody(Method::GET, "/system/info").bearer_auth(format!("{alice}x")), 401).await;
    ask(manager.as_nobody(Method::GET, "/system/info").basic_auth("oscar", Some("planted-env-secret")), 401).await;
    // The owner is shown the own provider's password, and nothing else that was planted.
    let owner = manager.as_nobody(Method::GET, "/system/services/mine").bearer_auth(&alice);
    let owner = owner.send().await.expect("an answer").text().await.expect("a body");
    let service_token =
        serde_json::from_str::<Value>(&owner).expect("JSON")["token"].as_str().expect("text").to_owned();
    for planted in ["planted-env-secret", "planted-cluster-password", "planted-refresh-token"] {
        assert!(!owner.contains(planted), "{planted} was shown to its owner");
    }

    let log = manager.log();
    assert!(log.contains("DEBUG"), "the finest log was on");
    for (where_, text) in [("an answer", &told), ("the log", &log)] {
        for planted in PLANTED {
            assert!(!text.contains(planted), "{planted} in {where_}: {text}");
        }
        for (what, token) in [("a bearer token", &alice), ("the service's token", &service_token)] {
            assert!(!text.contains(token.as_str()), "{what} in {where_}");
        }
        assert!(!text.contains(PASSWORD), "the administrator's password in {where_}");
    }
}
