//! The program as its users know it: what it prints, what it changes, how it ends.

#[path = "cli/ends.rs"]
mod ends;
#[path = "cli/examples.rs"]
mod examples;
#[path = "cli/federation.rs"]
mod federation;
#[path = "cli/go.rs"]
mod go;
#[path = "cli/home.rs"]
mod home;
#[path = "cli/objects.rs"]
mod objects;
#[path = "cli/tls.rs"]
mod tls;
#[path = "cli/work.rs"]
mod work;

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use home::Home;

const FILE: &str = "functions:\n  oscar:\n  - here:\n      name: plants\n      image: ghcr.io/grycap/plants\n      \
    script: run.sh\n      cpu: 0.5\n      environment:\n        secrets: {KEY: hunter2}\n";

fn with_file() -> Home {
    let home = Home::new();
    home.write("run.sh", "#!/bin/sh\necho hi\n");
    home.write("f.yaml", FILE);
    home
}

#[test]
fn a_manager_on_this_machine_needs_no_settings() {
    let home = Home::new();
    home.run(&["service", "list"]).ends(2).says("error: no cluster is configured").says("hint: or start one here");
    let server = home.serve();
    home.run(&["service", "list"]).ends(0).says("no service that you can see");
    home.run(&["status"]).ends(0).says("NODE").says("ready");
    let status: Value = serde_json::from_str(&home.run(&["status", "--json"]).good()).expect("JSON");
    assert_eq!(status["cluster"]["nodes_count"], 1);
    let password = home.password();
    home.run(&["doctor"]).ends(0).says("✓ local: the credentials are accepted").never_says(&password);
    drop(server);
    home.run(&["doctor"]).ends(0).says("no manager is running");
}

#[test]
fn the_password_goes_to_nobody_who_took_the_port_of_a_dead_manager() {
    let home = Home::new();
    let server = home.serve();
    let address = home.url().trim_start_matches("http://").to_owned();
    // Its end by SIGKILL leaves its address behind.
    drop(server);
    assert!(home.data().join("url").exists());
    let taken = TcpListener::bind(address).expect("the port is free again");
    taken.set_nonblocking(true).expect("set");
    home.run(&["status"]).ends(3).says("the manager of this machine does not run");
    home.run(&["doctor"]).ends(0).says("no manager is running");
    assert_eq!(taken.accept().expect_err("nobody called").kind(), ErrorKind::WouldBlock);
}

#[test]
fn what_goes_to_this_machine_goes_by_no_proxy() {
    let home = Home::new();
    let _server = home.serve();
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    proxy.set_nonblocking(true).expect("set");
    let url = format!("http://{}", proxy.local_addr().expect("an address"));
    let through = [("http_proxy", url.as_str()), ("HTTP_PROXY", &url), ("all_proxy", &url)];
    // One asks with the typed client, the other by the probe, too.
    home.run_with(&["service", "list"], &through, "").ends(0);
    home.run_with(&["status"], &through, "").ends(0).says("OSCAR v");
    assert_eq!(proxy.accept().expect_err("nobody called").kind(), ErrorKind::WouldBlock);

    proxy.set_nonblocking(false).expect("set");
    let asked = std::thread::spawn(move || proxy.accept().is_ok());
    let elsewhere = [("OSCAR_ENDPOINT", "http://oscar.invalid"), ("http_proxy", &url)];
    home.run_with(&["service", "list"], &elsewhere, "").ends(3);
    assert!(asked.join().expect("it ends"), "what goes elsewhere goes by the proxy");
}

#[test]
fn programs_get_failures_as_json_too() {
    let home = with_file();
    let failure = |arguments: &[&str], code: i32| -> Value {
        let ran = home.run(arguments).ends(code);
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.out, ran.err))
    };
    let none = failure(&["--json", "service", "list"], 2);
    assert_eq!((&none["code"], &none["details"]), (&json!("usage"), &json!([])));
    assert!(none["error"].as_str().is_some_and(|text| text.contains("no cluster is configured")), "{none}");
    assert_eq!(none["hints"].as_array().map(Vec::len), Some(2));
    home.write("bad.yaml", &FILE.replace("cpu: 0.5", "cpu: lots"));
    let invalid = failure(&["--json", "apply", "bad.yaml", "--yes"], 6);
    assert_eq!((&invalid["code"], invalid["details"].as_array().map(Vec::len)), (&json!("invalid"), Some(1)));

    let _server = home.serve();
    home.run(&["apply", "f.yaml", "--yes"]).ends(0);
    let some = failure(&["--json", "service", "delete", "--yes", "plants", "absent"], 5);
    assert_eq!((&some[0]["done"], &some[0]["failure"]), (&json!(true), &Value::Null));
    assert_eq!((&some[1]["done"], some[1]["failure"]["error"].is_string()), (&json!(false), true));
    home.run_with(&["cluster", "add", "gone", "http://127.0.0.1:1", "--password-stdin"], &[], "x").ends(0);
    let broken = failure(&["--json", "doctor"], 1);
    assert!(broken.as_array().is_some_and(|rows| rows.iter().any(|row| row["level"] == "broken")), "{broken}");
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let home = Home::new();
    for arguments in [&["config", "show"][..], &["--json", "config", "show"], &["routes"], &["openapi"]] {
        let err = home.run_unread(arguments);
        assert_eq!(err, "", "{arguments:?}");
    }
}

#[test]
fn doctor_looks_at_the_port_that_is_configured() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let doctor = |name: &str, value: &str| home.run_with(&["doctor"], &[(name, value)], "");
    let expected = format!("! a manager could not listen on 127.0.0.1:{port}");
    doctor("OSCAR_SERVICE_PORT", &port).ends(0).says(&expected).never_says("8080");
    home.write("oscar.yaml", &format!("service_port: {port}\n"));
    doctor("OSCAR_CONFIG", "oscar.yaml").ends(0).says(&expected);
    doctor("OSCAR_SERVICE_PORT", "many").ends(1).says("✗ a manager would not start with these settings: service_port");
}

#[test]
fn apply_creates_updates_and_leaves_alone() {
    let home = with_file();
    let _server = home.serve();
    home.run(&["apply", "f.yaml"]).ends(2).says("create plants").says("hint: add `--yes`");
    home.run(&["apply", "f.yaml", "--dry-run"]).ends(0).says("1 to create").never_says("hunter2");
    assert_eq!(home.run(&["service", "list", "--json"]).good().trim(), "[]");

    home.run(&["apply", "f.yaml", "--yes"]).ends(0).says("+   echo hi").says("1 created").never_says("hunter2");
    let blank = FILE.replace("hunter2", "''");
    home.run_with(&["apply", "-"], &[], &blank).ends(0).says("unchanged plants").says("1 unchanged");

    let changed = FILE.replace("cpu: 0.5", "cpu: 2");
    let update = home.run_with(&["apply", "-", "--yes"], &[], &changed);
    update.ends(0).says("- cpu: \"0.5\"").says("+ cpu: \"2\"").says("1 updated");

    let secret = changed.replace("hunter2", "hunter3");
    let update = home.run_with(&["apply", "-", "--yes"], &[], &secret);
    update.ends(0).says("only values that are not shown").says("1 updated").never_says("hunter");

    let both = changed.replace("hunter2", "hunter4").replace("cpu: 2", "cpu: 3");
    let update = home.run_with(&["apply", "-", "--yes"], &[], &both);
    update.ends(0).says("+ cpu: \"3\"").says("~ environment.secrets.KEY: the value that is stored is replaced");
}

#[test]
fn every_fault_of_a_definition_has_its_line() {
    let home = with_file();
    home.write("bad.yaml", &FILE.replace("cpu: 0.5", "cpu: lots").replace("plants\n      image", "P\n      image"));
    let ran = home.run(&["apply", "bad.yaml", "f.yaml", "--yes"]).ends(6);
    let ran = ran.says("- bad.yaml: line 4: functions.oscar[0].here.name: ").says("- bad.yaml: line 7: ");
    ran.says("nothing was sent");
    home.run(&["apply", "absent.yaml"]).ends(5).says("absent.yaml cannot be read");
}

#[test]
fn a_service_is_shown_without_its_credentials() {
    let home = with_file();
    let _server = home.serve();
    home.run(&["apply", "f.yaml", "--yes"]).ends(0);
    let whole: Value =
        serde_json::from_str(&home.run(&["service", "get", "plants", "--json", "--show-secrets"]).good())
            .expect("JSON");
    let token = whole["token"].as_str().expect("a token").to_owned();
    assert_eq!(token.len(), 64);
    for arguments in [&["service", "get", "plants"][..], &["service", "get", "plants", "--json"], &["service", "list"]]
    {
        home.run(arguments).ends(0).says("ghcr.io/grycap/plants").never_says(&token);
    }
    home.run(&["service", "get", "absent"]).ends(5).says("there is no service `absent`");
    home.run(&["service", "get", "../config"]).ends(2);
    home.run(&["service", "delete", "plants"]).ends(2).says("--yes");
    home.run(&["service", "delete", "--yes", "plants", "absent"]).ends(5).says("deleted plants").says("delete absent:");
}

#[test]
fn editing_changes_only_what_was_edited() {
    let home = with_file();
    let _server = home.serve();
    home.run(&["apply", "f.yaml", "--yes"]).ends(0);
    let edit = |command: &str| home.run_with(&["service", "edit", "plants"], &[("EDITOR", command)], "");
    edit("true").ends(0).says("nothing was changed");
    edit("false").ends(1).says("ended with");
    edit("sed -i 's/memory:.*/memory: 1Gi/'").ends(0).says("+ memory: 1Gi").says("updated plants");
    // A blank secret keeps what is stored, so that nothing is left to change.
    home.write("f.yaml", &FILE.replace("cpu: 0.5", "cpu: 0.5\n      memory: 1Gi").replace("hunter2", "''"));
    home.run(&["apply", "f.yaml"]).ends(0).says("1 unchanged");
}

#[test]
fn a_bad_edit_is_offered_again_and_kept_when_given_up() {
    let home = with_file();
    let _server = home.serve();
    home.run(&["apply", "f.yaml", "--yes"]).ends(0);
    let ran = home.run_with(&["service", "edit", "plants"], &[("EDITOR", "sed -i 's/^memory:.*/memory: lots/'")], "");
    let ran = ran.ends(6).says("memory: found \"lots\"").says("your text is kept in");
    let path = ran.err.rsplit("kept in ").next().expect("a path").trim().to_owned();
    let kept = fs::read_to_string(&path).expect("kept");
    assert!(kept.starts_with("#: Not sent: the definition is not valid\n#: - line "), "{kept}");
    let number: usize =
        kept.split("line ").nth(1).and_then(|rest| rest.split(':').next()?.parse().ok()).expect("a line");
    assert_eq!(kept.lines().nth(number - 1), Some("memory: lots"), "the line is that of the file");

    // The first save is wrong, the second is right.
    let script = home.write(
        "editor.sh",
        "grep -q '#: Not sent' \"$1\" && t=2Gi || t=lots\nsed -i \"s/^memory:.*/memory: $t/\" \"$1\"\n",
    );
    let editor = format!("sh {}", script.display());
    home.run_with(&["service", "edit", "plants"], &[("VISUAL", &editor)], "").ends(0).says("+ memory: 2Gi");
}

#[test]
fn a_change_of_somebody_else_is_not_overwritten() {
    let home = with_file();
    let _server = home.serve();
    home.run(&["apply", "f.yaml", "--yes"]).ends(0);
    home.write("theirs.yaml", &FILE.replace("cpu: 0.5", "cpu: 4"));
    let program = env!("CARGO_BIN_EXE_oscar");
    let script =
        format!("{program} apply theirs.yaml --yes >/dev/null 2>&1\nsed -i 's/^memory:.*/memory: 2Gi/' \"$1\"\n");
    let editor = format!("sh {}", home.write("editor.sh", &script).display());
    let ran = home.run_with(&["service", "edit", "plants"], &[("EDITOR", &editor)], "");
    ran.ends(7).says("hint: somebody changed it meanwhile").says("your text is kept in");
    let service: Value = serde_json::from_str(&home.run(&["service", "get", "plants", "--json"]).good()).expect("JSON");
    assert_eq!((service["cpu"].as_str(), service["memory"].as_str()), (Some("4"), Some("256Mi")));
}

#[test]
fn clusters_are_kept_for_their_owner_only() {
    let home = Home::new();
    let _server = home.serve();
    let (url, password) = (home.url(), home.password());
    let add = |name: &str, url: &str, password: &str| {
        home.run_with(&["cluster", "add", name, url, "--password-stdin"], &[], password)
    };
    add("main", &url, &password).ends(0).says("OSCAR v").says("it is the default").never_says(&password);
    let mode = fs::metadata(home.clusters_file()).expect("written").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    add("wrong", &url, "not-it").ends(4);
    let unchecked = ["cluster", "add", "wrong", &url, "--password-stdin", "--no-check"];
    home.run_with(&unchecked, &[], "not-it").ends(0);
    add("gone", "http://127.0.0.1:1", "x").ends(0).says("warning: cannot reach");
    home.run(&["cluster", "list"]).ends(0).says("*  main").never_says(&password);
    home.run(&["cluster", "list", "--json"]).ends(0).never_says(&password);

    home.run(&["service", "list"]).ends(0);
    home.run(&["--cluster", "wrong", "service", "list"]).ends(4).says("hint: add the cluster again");
    home.run_with(&["service", "list"], &[("OSCAR_CLUSTER", "gone")], "").ends(3);
    home.run(&["--cluster", "absent", "service", "list"]).ends(5).says("configured are: gone, main, wrong");
    home.run(&["doctor"]).ends(1).says("✗ wrong: ").says("✗ gone: ").says("✓ main: the credentials are accepted");
    home.run(&["cluster", "use", "gone"]).ends(0);
    home.run(&["status"]).ends(3);
    home.run(&["cluster", "remove", "gone"]).ends(0).says("no default now");

    fs::set_permissions(home.clusters_file(), fs::Permissions::from_mode(0o644)).expect("opened");
    home.run(&["--cluster", "main", "service", "list"])
        .ends(1)
        .says("others may read it")
        .says("hint: close it: chmod 600");
    home.run(&["doctor"]).ends(1).says("✗").says("chmod 600");
}

#[test]
fn a_pipeline_needs_variables_only() {
    let other = Home::new();
    let _server = other.serve();
    let (url, password) = (other.url(), other.password());
    let home = Home::new();
    let with = |more: (&str, &str)| home.run_with(&["service", "list"], &[("OSCAR_ENDPOINT", &url), more], "");
    with(("OSCAR_PASSWORD", &password)).ends(0);
    with(("OSCAR_PASSWORD", "wrong")).ends(4).never_says("Basic");
    with(("OSCAR_TOKEN", "wrong")).ends(4).never_says("Bearer wrong");
}

#[test]
fn colours_and_questions_are_for_terminals() {
    let home = with_file();
    let _server = home.serve();
    home.run(&["apply", "f.yaml", "--yes"]).ends(0).never_says("\u{1b}[");
    home.run(&["service", "get", "absent"]).ends(5).never_says("\u{1b}[");
    for shell in ["bash", "zsh", "fish"] {
        home.run(&["completions", shell]).ends(0).says("doctor");
    }
    home.run(&["apply"]).ends(2);
}
