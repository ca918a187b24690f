//! Starting, stopping, and what a newcomer sees.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use oscar_testkit::Scratch;
use reqwest::Method;

use super::manager::{Manager, mk_body};

#[tokio::test]
async fn without_settings_it_makes_a_password_and_says_how_to_go_on() {
    let folder = Scratch::new("first-start");
    let mut child = Command::new(env!("CARGO_BIN_EXE_oscar"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env_clear()
        .env("HOME", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().expect("piped")), &mut line)
        .expect("a line");
    let url = line.split_whitespace().nth(1).expect("an address").to_owned();
    assert!(url.starts_with("http://127.0.0.1:"), "{line}");

    let kept = folder.path().join(".local/share/oscar/admin-password");
    let mode = std::fs::metadata(&kept).expect("the password is kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let password = std::fs::read_to_string(&kept).expect("readable");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ask = reqwest::Client::new().get(format!("{url}/system/info")).basic_auth("oscar", Some(&password));
    assert_eq!(ask.send().await.expect("an answer").status(), 200);

    rustix_terminate(child.id());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "SIGTERM ends it cleanly: {:?}", output.status);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("oscar service list") && told.contains("curl -u oscar:$(cat "), "{told}");
    assert!(!told.contains(&password), "the password itself is not printed");
}

/// Signals go by `kill`, because this crate has no unsafe code.
fn rustix_terminate(pid: u32) {
    let status = Command::new("kill").args(["-TERM", &pid.to_string()]).status().expect("kill runs");
    assert!(status.success());
}

#[tokio::test]
async fn two_managers_cannot_share_a_folder() {
    let manager = Manager::start(&[]);
    let output = Command::new(env!("CARGO_BIN_EXE_oscar"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(manager.data())
        .output()
        .expect("it ends");
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.starts_with("error: ") && told.contains("hint: "), "{told}");
    assert!(told.contains(&manager.pid().to_string()), "it says who holds it: {told}");
}

#[tokio::test]
async fn every_answer_names_the_manager_and_its_id_is_permanent() {
    let mut manager = Manager::start(&[]);
    let header = async |manager: &Manager| {
        let answer = manager.as_nobody(Method::GET, "/health").send().await.expect("an answer");
        let named = answer.headers().get("oscar-manager").expect("the header").to_str().expect("text").to_owned();
        assert_eq!(answer.text().await.expect("a body"), "Ok");
        named
    };
    let first = header(&manager).await;
    assert!(first.ends_with("; v=1"), "{first}");
    manager.kill();
    manager.start_again();
    assert_eq!(header(&manager).await, first);
}

#[tokio::test]
async fn what_was_stored_is_there_after_a_restart() {
    let mut manager = Manager::start(&[]);
    assert_eq!(manager.create(&mk_body("kept")).await, 201);
    let before = manager.read("kept").await;
    manager.kill();
    manager.start_again();
    assert_eq!(manager.read("kept").await, before);
}

#[test]
fn the_settings_say_where_they_come_from() {
    let folder = Scratch::new("settings");
    let file = folder.write("oscar.yaml", "cluster_id: from-file\nminio_region: eu\nusername: from-file\n");
    let output = Command::new(env!("CARGO_BIN_EXE_oscar"))
        .args(["--json", "config", "show", "--cluster-id", "from-flag", "--config"])
        .arg(&file)
        .env("OSCAR_USERNAME", "from-variable")
        .env("OSCAR_PASSWORD", "planted-password")
        .output()
        .expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("planted-password"), "{text}");
    let shown: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let row = |key: &str| {
        let rows = shown["settings"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["setting"] == key).expect("the setting");
        (row["value"].as_str().unwrap_or_default().to_owned(), row["from"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(row("cluster_id"), ("from-flag".to_owned(), "flag".to_owned()));
    assert_eq!(row("username"), ("from-variable".to_owned(), "environment OSCAR_USERNAME".to_owned()));
    assert_eq!(row("minio_region"), ("eu".to_owned(), format!("file {}", file.display())));
    assert_eq!(row("service_port"), ("8080".to_owned(), "default".to_owned()));
    assert_eq!(row("password").0, "(hidden)");
}

#[test]
fn every_fault_of_the_settings_is_told_at_once() {
    let folder = Scratch::new("settings");
    let file = folder.write("oscar.yaml", "colour: red\ngpus: many\n");
    let output = Command::new(env!("CARGO_BIN_EXE_oscar"))
        .args(["serve", "--config"])
        .arg(&file)
        .env("OIDC_ENABLE", "perhaps")
        .output()
        .expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    for part in ["colour", "line 1", "gpus", "oidc_enable", "OIDC_ENABLE"] {
        assert!(told.contains(part), "{part} in {told}");
    }
}
