//! Starting, stopping, and what a newcomer sees.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use oscar_testkit::{Dex, DexConfig, Scratch, Server, Signal, eventually, require};
use reqwest::Method;

use super::manager::{Manager, mk_body, program, start};

/// How it ended by itself.
fn end(server: &mut Server) -> ExitStatus {
    eventually("it ends", Duration::from_secs(30), || server.try_wait())
}

/// How a command that must end by itself did so, with all its output.
fn run_to_end(folder: &Scratch, command: &mut Command) -> (ExitStatus, String) {
    let mut server = Server::spawn("command", folder.path(), command);
    (end(&mut server), server.output())
}

#[tokio::test]
async fn without_settings_it_makes_a_password_and_says_how_to_go_on() {
    let folder = Scratch::new("first-start");
    let mut command = program(folder.path());
    let (mut server, url) = start("serve", folder.path(), command.args(["serve", "--listen", "127.0.0.1:0"]));
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");

    let kept = folder.path().join(".local/share/oscar/admin-password");
    let mode = std::fs::metadata(&kept).expect("the password is kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let password = std::fs::read_to_string(&kept).expect("readable");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let ask = http.get(format!("{url}/system/info")).basic_auth("oscar", Some(&password));
    assert_eq!(ask.send().await.expect("an answer").status(), 200);

    server.signal(Signal::TERM);
    let status = end(&mut server);
    assert!(status.success(), "SIGTERM ends it cleanly: {status:?}");
    let told = server.output();
    assert!(told.contains("\n  oscar service list\n") && told.contains("curl -u oscar:$(cat "), "{told}");
    assert!(!told.contains(&password), "the password itself is not printed");
}

#[test]
fn the_line_to_paste_is_right_for_another_folder() {
    let folder = Scratch::new("pasted");
    let mut serve = program(folder.path());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data", "my data"]).current_dir(folder.path());
    let (server, _) = start("serve", folder.path(), &mut serve);
    let told = server.output();
    let line = told.lines().find(|line| line.ends_with("oscar service list")).expect("a line to paste").trim();
    assert!(line.starts_with("OSCAR_DATA='/"), "{line}");
    let pasted = line.replace("oscar service", &format!("{} service", env!("CARGO_BIN_EXE_oscar")));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(pasted).env_clear().env("HOME", folder.path()).current_dir("/");
    let (status, output) = run_to_end(&folder, &mut shell);
    assert!(status.success() && output.contains("no service that you can see"), "{output}");
}

#[test]
fn jobs_run_with_a_relative_folder() {
    let folder = Scratch::new("relative");
    let mut serve = program(folder.path());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data", "my data"]).current_dir(folder.path());
    serve.env("OSCAR_EXECUTOR", "process");
    let _server = start("serve", folder.path(), &mut serve);
    let definition = "name: hello\nimage: none\ncpu: '0.1'\nmemory: 64Mi\nscript: |\n  #!/bin/sh\n  echo hello\n";
    let definition = format!("functions:\n  oscar:\n  - oscar:\n      {}", definition.replace('\n', "\n      "));
    let file = folder.write("hello.yaml", &definition);
    let client = || {
        let mut client = program(folder.path());
        client.env("OSCAR_DATA", folder.path().join("my data"));
        client
    };
    let (status, output) = run_to_end(&folder, client().args(["apply", "--yes"]).arg(&file));
    assert!(status.success(), "{output}");
    let (status, output) = run_to_end(&folder, client().args(["run", "hello", "--text", "hi"]));
    assert!(status.success() && output.contains("hello"), "{output}");
}

#[test]
fn a_public_url_changes_nothing_for_this_machine() {
    for given in ["https://oscar.example.org", "https://oscar.example.org/", "https://oscar.example.org/behind/"] {
        let folder = Scratch::new("public");
        let mut serve = program(folder.path());
        serve.args(["serve", "--listen", "127.0.0.1:0", "--public-url", given]);
        let (server, url) = start("serve", folder.path(), &mut serve);
        assert_eq!(url, given.trim_end_matches('/'), "others are told the public one");

        let told = server.output();
        let line = told.lines().find(|line| line.starts_with("ready ")).expect("a line for programs");
        let bound = line.split_whitespace().find_map(|word| word.strip_prefix("listening=")).expect("the address");
        let port: u16 = bound.strip_prefix("127.0.0.1:").and_then(|port| port.parse().ok()).expect("a port");
        assert_ne!(port, 0, "{line}");
        let kept = std::fs::read_to_string(folder.path().join(".local/share/oscar/url")).expect("the address is kept");
        assert_eq!(kept, format!("http://{bound}"));

        let (status, output) = run_to_end(&folder, program(folder.path()).args(["service", "list"]));
        assert!(status.success() && output.contains("no service that you can see"), "{output}");
    }
}

#[tokio::test]
async fn a_manager_on_all_addresses_is_reached_from_this_machine() {
    let folder = Scratch::new("all-addresses");
    let mut serve = program(folder.path());
    let _server = start("serve", folder.path(), serve.args(["serve", "--listen", "0.0.0.0:0"]));
    let kept = std::fs::read_to_string(folder.path().join(".local/share/oscar/url")).expect("the address is kept");
    assert!(kept.starts_with("http://127.0.0.1:"), "{kept}");
    let (status, output) = run_to_end(&folder, program(folder.path()).args(["status"]));
    assert!(status.success(), "{output}");
}

#[tokio::test]
async fn two_managers_cannot_share_a_folder() {
    let (manager, folder) = (Manager::start(&[]), Scratch::new("second"));
    let mut second = program(folder.path());
    second.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(manager.data());
    let (status, told) = run_to_end(&folder, &mut second);
    assert!(!status.success());
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
    manager.start_again_there();
    assert_eq!(manager.read("kept").await, before);
}

#[test]
fn the_settings_say_where_they_come_from() {
    let folder = Scratch::new("settings");
    let file = folder.write("oscar.yaml", "cluster_id: from-file\nminio_region: eu\nusername: from-file\n");
    let mut show = program(folder.path());
    show.args(["--json", "config", "show", "--cluster-id", "from-flag", "--config"]).arg(&file);
    show.envs([("OSCAR_USERNAME", "from-variable"), ("OSCAR_PASSWORD", "planted-password")]);
    let (_, text) = run_to_end(&folder, &mut show);
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
    let with = |arguments: &[&str]| {
        let mut command = program(folder.path());
        command.args(arguments).arg("--config").arg(&file).env("OIDC_ENABLE", "perhaps");
        run_to_end(&folder, &mut command)
    };
    for arguments in [&["serve"][..], &["config", "show"], &["config", "show", "--json"]] {
        let (status, told) = with(arguments);
        assert!(!status.success());
        for part in ["colour", "line 1", "gpus", "oidc_enable", "OIDC_ENABLE"] {
            assert!(told.contains(part), "{arguments:?}: {part} in {told}");
        }
    }
    let (_, told) = with(&["config", "show"]);
    assert!(told.contains("minio_region") && told.contains("us-east-1"), "every setting is shown with them: {told}");
}

#[test]
fn a_variable_that_names_no_file_is_not_set() {
    let folder = Scratch::new("settings");
    let mut show = program(folder.path());
    let (status, told) = run_to_end(&folder, show.args(["config", "show"]).env("OSCAR_CONFIG", ""));
    assert!(status.success(), "{told}");
}

#[tokio::test]
async fn an_issuer_that_is_down_is_logged_once() {
    // Bound and not listening: connections are refused, and nobody else gets the port.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(std::net::SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let issuer = format!("http://{}", socket.local_addr().expect("an address"));
    let manager = Manager::start(&[("OIDC_ENABLE", "true"), ("OIDC_ISSUERS", &issuer)]);
    let part = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    for round in 0..5 {
        let claims = serde_json::json!({"iss": issuer, "sub": "alice", "exp": 9_000_000_000_u64, "jti": round});
        let token = format!("{}.{}.c2ln", part(serde_json::json!({"alg": "RS256"})), part(claims));
        let ask = manager.as_nobody(Method::GET, "/system/info").bearer_auth(token);
        assert_eq!(ask.send().await.expect("an answer").status(), 503);
    }
    let log = manager.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("WARN")).collect();
    assert!(lines.len() == 1 && lines[0].contains("identity provider cannot be read"), "{log}");
    assert!(lines[0].contains(&issuer), "it says which: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_can_have_a_claim_and_an_audience_of_its_own() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let folder = Scratch::new("issuers");
    let alice = dex.token("alice").access;
    let status = async |of_issuer: &str| {
        let text = format!(
            "oidc_enable: true\noidc_groups: [vo-a]\noidc_group_claim: nowhere\noidc_issuers:\n\
             - {{url: '{}', {of_issuer}}}\n",
            dex.issuer()
        );
        let file = folder.write("oscar.yaml", &text).display().to_string();
        let manager = Manager::start(&[("OSCAR_CONFIG", &file)]);
        let ask = manager.as_nobody(Method::GET, "/system/services").bearer_auth(&alice);
        ask.send().await.expect("an answer").status()
    };
    assert_eq!(status("group_claim: groups").await, 200);
    assert_eq!(status("").await, 401, "the claim of all issuers is nowhere in the token");
    assert_eq!(status("group_claim: groups, audience: somebody-else").await, 401);
}

#[tokio::test]
async fn secrets_that_others_could_read_are_closed_and_told() {
    let folder = Scratch::new("narrowed");
    let serve = || {
        let mut command = program(folder.path());
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command
    };
    let (mut server, _) = start("first", folder.path(), &mut serve());
    server.signal(Signal::TERM);
    end(&mut server);
    let data = folder.path().join(".local/share/oscar");
    let secrets = ["admin-password", "s3.secret"].map(|name| data.join(name));
    for path in &secrets {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).expect("opened");
    }
    let (server, _) = start("second", folder.path(), &mut serve());
    for path in &secrets {
        let mode = std::fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let told = server.output().lines().any(|line| line.contains("readable by others") && line.contains(name));
        assert!(told, "{}", server.output());
    }
}

#[tokio::test]
async fn definitions_without_their_objects_are_told_at_the_start() {
    let mut manager = Manager::start(&[]);
    assert_eq!(manager.create(&mk_body("kept")).await, 201);
    assert!(!manager.log().contains("no object store"), "{}", manager.log());
    manager.kill();
    std::fs::remove_dir_all(manager.data().join("objects")).expect("only the definitions were restored");
    manager.start_again();
    assert!(manager.log().contains("there are services, but no object store"), "{}", manager.log());
    let status = manager.as_admin(Method::GET, "/system/status").send().await.expect("an answer");
    assert_eq!(status.status(), 200);
}

#[tokio::test]
async fn a_manager_is_called_the_same_everywhere_and_knows_its_commit() {
    let manager = Manager::start(&[("OSCAR_NAME", "my-oscar")]);
    let read = async |path: &str| {
        let answer = manager.as_admin(Method::GET, path).send().await.expect("an answer");
        answer.json::<serde_json::Value>().await.expect("JSON")
    };
    assert_eq!(read("/system/config").await["config"]["name"], "my-oscar");
    let status = read("/system/status").await;
    let told = status.to_string();
    assert!(told.contains(r#""deployment_name":"my-oscar""#) && !told.contains(r#""app":"oscar""#), "{status:#}");
    let commit = read("/system/info").await["git_commit"].as_str().expect("text").to_owned();
    assert!(commit.is_empty() || commit.bytes().all(|b| b.is_ascii_hexdigit()), "{commit}");
}

#[test]
fn an_issuer_that_cannot_be_used_leaves_nothing_behind() {
    let folder = Scratch::new("issuer");
    for arguments in [&["config", "show"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let mut command = program(folder.path());
        command.args(arguments).env("OIDC_ENABLE", "true").env("OIDC_ISSUERS", "http://example.org");
        let (status, output) = run_to_end(&folder, &mut command);
        assert!(!status.success() && output.contains("plain http is accepted from this host only"), "{output}");
    }
    assert!(!folder.path().join(".local").exists(), "nothing was made");
}
