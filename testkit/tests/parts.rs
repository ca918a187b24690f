//! Each part of the kit, for real.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use oscar_testkit::{
    ALICE_TOKEN, Apiserver, Dex, DexConfig, GoOscar, Keycloak, Minio, Python, Scratch, Server, eventually, require,
};
use serde_json::json;

#[test]
fn an_api_server_keeps_its_data_over_a_crash() {
    let cluster = require!(Apiserver::start());
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: before}}");
    cluster.restart_apiserver();
    let (status, body) = cluster.get("/api/v1/namespaces/before");
    assert_eq!(status, 200, "{body}");
}

#[test]
fn the_shared_api_server_controls_access_and_deletes_namespaces() {
    let cluster = require!(Apiserver::shared());
    let alice = cluster.kubeconfig_for(ALICE_TOKEN);
    let denied = cluster.kubectl(&[&format!("--kubeconfig={}", alice.display()), "get", "secrets", "--all-namespaces"]);
    let said = String::from_utf8_lossy(&denied.stderr);
    assert!(said.contains("Forbidden"), "{said}");

    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: short-lived}}");
    let deleted = cluster.kubectl(&["delete", "namespace", "short-lived", "--wait=false"]);
    assert!(deleted.status.success());
    eventually("the namespace is gone", Duration::from_mins(1), || {
        let (status, _) = cluster.get("/api/v1/namespaces/short-lived");
        (status == 404).then_some(())
    });
}

#[test]
fn dex_gives_tokens_and_comes_back_with_new_keys() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let tokens = dex.token("alice");
    let claims = tokens.claims();
    assert_eq!(claims["iss"], dex.issuer());
    assert_eq!(claims["aud"], dex.client_id());
    assert_eq!(claims["groups"][0], "vo-a");
    assert_ne!(tokens.subject(), dex.token("bob").subject());

    let renewed = dex.refresh(&tokens.refresh).expect("a first use");
    assert_eq!(renewed.subject(), tokens.subject());
    assert!(dex.refresh(&tokens.refresh).is_err(), "a second use");

    let keys = dex.key_ids();
    dex.stop();
    dex.start_again();
    assert_ne!(dex.key_ids(), keys);
}

#[test]
fn keycloak_gives_tokens_and_rotates_its_key() {
    let keycloak = require!(Keycloak::shared());
    let tokens = keycloak.token("alice");
    let claims = tokens.claims();
    assert_eq!(claims["iss"], keycloak.issuer());
    assert_eq!(claims["groups"][0], "vo-a");
    assert!(claims["aud"].to_string().contains(keycloak.client_id()));
    assert!(claims["realm_access"]["roles"].to_string().contains("user"));

    let key_of = |token: &str| token.split('.').next().map(str::to_owned);
    keycloak.rotate_signing_key();
    let after = keycloak.token("alice");
    assert_ne!(key_of(&after.access), key_of(&tokens.access));

    let renewed = keycloak.refresh(&after.refresh).expect("a first use");
    assert!(keycloak.refresh(&after.refresh).is_err(), "a second use");
    assert!(keycloak.refresh(&renewed.refresh).is_err(), "same family");
}

#[test]
fn minio_keeps_buckets_and_tells_a_webhook() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let store = require!(Minio::start_with(&[
        ("MINIO_NOTIFY_WEBHOOK_ENABLE_test", "on"),
        ("MINIO_NOTIFY_WEBHOOK_ENDPOINT_test", &endpoint),
    ]));
    let mc = |arguments: &[&str]| {
        let done = store.mc(arguments);
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stdout));
    };
    assert!(store.buckets().is_empty());
    mc(&["mb", "store/plants", "store/animals"]);
    assert_eq!(store.buckets(), ["animals", "plants"]);
    mc(&["event", "add", "store/plants", "arn:minio:sqs::test:webhook", "--event", "put"]);
    let scratch = Scratch::new("object");
    let file = scratch.write("leaf.txt", "green").display().to_string();
    mc(&["cp", &file, "store/plants/leaf.txt"]);
    listener.set_nonblocking(true).expect("a listener of our own");
    eventually("an upload is told", Duration::from_mins(1), || {
        // It may look whether anybody listens before it tells something.
        let (mut connection, _) = listener.accept().ok()?;
        connection.set_read_timeout(Some(Duration::from_secs(5))).expect("a connection of our own");
        let mut heard = [0; 4096];
        let length = std::io::Read::read(&mut connection, &mut heard).unwrap_or(0);
        String::from_utf8_lossy(&heard[..length]).starts_with("POST /hook").then_some(())
    });
}

#[test]
fn the_manager_of_upstream_creates_a_service_on_real_parts() {
    let store = require!(Minio::start());
    let cluster = require!(Apiserver::start());
    let go = require!(GoOscar::start(&cluster, &store, &[]));
    let input = json!([{"storage_provider": "minio.default", "path": "plants/in"}]);
    let service = json!({"name": "plants", "image": "ghcr.io/grycap/cowsay", "script": "echo", "input": input});
    assert_eq!(go.create(&service), 201, "{}", go.log());
    assert_eq!(go.answered().last().map(String::as_str), Some("201 POST /system/services"));
    assert_eq!(store.buckets(), ["plants"]);
    let (status, _) = cluster.get("/api/v1/namespaces/oscar-svc/podtemplates/plants");
    assert_eq!(status, 200);
}

#[test]
fn python_has_the_published_client() {
    let python = require!(Python::find());
    let scratch = Scratch::new("python");
    let script = scratch
        .write("hello.py", "import os, oscar_python.client, schemathesis, requests\nprint(os.environ['NAME'])\n");
    let output = python.run(&script, &[("NAME", "value")]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"value\n", "{errors}");
}

/// Runs itself again as a child which starts a server and is killed: the server must go too.
#[test]
fn a_server_does_not_outlive_a_killed_test() {
    if let Ok(folder) = std::env::var("OSCAR_TESTKIT_VICTIM") {
        let mut sleeper = Command::new("sleep");
        let server = Server::spawn("sleeper", folder.as_ref(), sleeper.arg("600"));
        let pid = std::path::Path::new(&folder).join("pid");
        std::fs::write(pid, server.pid().to_string()).expect("the folder is writable");
        std::thread::sleep(Duration::from_mins(10));
        return;
    }
    let scratch = Scratch::new("victim");
    let mut victim = Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["a_server_does_not_outlive_a_killed_test", "--exact"])
        .env("OSCAR_TESTKIT_VICTIM", scratch.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("this program can be run");
    let pid: u32 = eventually("the server's pid", Duration::from_secs(20), || {
        let text = std::fs::read_to_string(scratch.path().join("pid")).ok()?;
        text.parse().ok()
    });
    let started = Instant::now();
    victim.kill().expect("it runs");
    victim.wait().expect("it was ours");
    eventually("the server is gone", Duration::from_secs(20), || {
        // A killed process that nobody waited for yet is a zombie without a command line.
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.is_empty().then_some(())
    });
    println!("gone after {:?}", started.elapsed());
}
