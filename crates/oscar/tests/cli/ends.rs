//! How commands end when something is wrong, and what is left then.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::home::Home;

/// Something that gives everybody the same answer, for as long as the test runs.
fn mk_answerer(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn output_that_could_not_be_written_is_a_failure() {
    let home = Home::new();
    let _server = home.serve();
    home.run(&["bucket", "create", "photos"]).ends(0);
    home.write("a.txt", "hello");
    home.run(&["put", "a.txt", "photos/a.txt"]).ends(0);
    let commands: [&[&str]; 5] =
        [&["get", "photos/a.txt", "-"], &["ls"], &["status", "--json"], &["completions", "bash"], &["config", "show"]];
    for arguments in commands {
        let ran = home.run_on_full_disk(arguments);
        assert!(ran.code == 1 && ran.err.contains("error: "), "{arguments:?}: {} {}", ran.code, ran.err);
        home.run_unread(arguments);
    }
}

#[test]
fn what_is_known_to_be_wrong_is_not_stored() {
    let home = Home::new();
    let _server = home.serve();
    let url = home.url();
    let add = |url: &str, more: &[&str], password: &str| {
        let arguments = [&["cluster", "add", "main", url, "--password-stdin"], more].concat();
        home.run_with(&arguments, &[], password)
    };
    add(&url, &[], "wrong").ends(4).says("refuses these credentials").says("--no-check").never_says("wrong\n");
    let page = mk_answerer("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello");
    add(&page, &[], "x").ends(3).says("not an OSCAR manager");
    let moved =
        mk_answerer("HTTP/1.1 301 Moved\r\nlocation: https://x/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    add(&moved, &[], "x").ends(3).says("leads elsewhere");
    home.run(&["cluster", "add", "main", &url]).ends(4).says("none were given");
    assert!(!home.clusters_file().exists(), "nothing was stored");

    add(&url, &["--no-check"], "wrong").ends(0);
    let ill = mk_answerer("HTTP/1.1 503 Later\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    add(&ill, &[], "x").ends(0).says("warning:");
    add("http://127.0.0.1:1", &[], "x").ends(0).says("warning:");
}

#[test]
fn definitions_that_the_manager_cannot_read_are_told() {
    let home = Home::new();
    let listed = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\noscar-manager: oscar\r\noscar-unreadable: a,b\r\n\
                  content-length: 2\r\nconnection: close\r\n\r\n[]";
    let url = mk_answerer(listed);
    let variables = [("OSCAR_ENDPOINT", url.as_str()), ("OSCAR_PASSWORD", "x")];
    let ran = home.run_with(&["service", "list"], &variables, "").ends(0);
    assert!(ran.err.contains("warning: the manager cannot read what it has stored of: a, b"), "{}", ran.err);
    let ran = home.run_with(&["service", "list", "--json"], &variables, "").ends(0);
    assert_eq!(ran.out.trim(), "[]", "programs get the list");
}

#[test]
fn a_cluster_is_named_where_that_means_something() {
    let home = Home::new();
    home.run(&["doctor", "--cluster", "zz"]).ends(5).says("no cluster `zz` is configured");
    home.run(&["--cluster", "local", "service", "list"]).ends(3).says("the manager of this machine does not run");
    let _server = home.serve();
    home.run(&["--cluster", "local", "service", "list"]).ends(0);
    home.run(&["doctor", "--cluster", "local"]).ends(0).says("local: the credentials are accepted");
    for command in ["serve", "demo", "config", "completions"] {
        let help = home.run(&[command, "--help"]).ends(0);
        assert!(!help.out.contains("--cluster <"), "{}", help.out);
        home.run(&["--cluster", "x", command, "show"]).ends(2);
    }
    home.run(&["serve", "--cluster", "x"]).ends(2).says("talks to no cluster");
    assert!(home.run(&["service", "list", "--help"]).good().contains("--cluster <NAME>"));
}

#[test]
fn what_was_given_wrongly_is_told_as_that() {
    let home = Home::new();
    let _server = home.serve();
    home.run(&["service", "get", "A_B"]).ends(2);
    home.run(&["service", "get", "a b"]).ends(2);
    let url = home.url();
    let wrong = [("OSCAR_ENDPOINT", url.as_str()), ("OSCAR_PASSWORD", "hunter2")];
    let told =
        home.run_with(&["service", "list"], &wrong, "").ends(4).says("look at OSCAR_USERNAME and OSCAR_PASSWORD");
    told.never_says("add the cluster again").never_says("hunter2");
    home.run_with(&["service", "list"], &wrong[1..], "").ends(4).says("look at OSCAR_USERNAME and OSCAR_PASSWORD");
}

#[test]
fn a_folder_that_cannot_be_used_is_told_once() {
    let home = Home::new();
    home.write("file", "");
    let ran = home.run(&["serve", "--listen", "127.0.0.1:0", "--data", "file"]).ends(1);
    assert_eq!(ran.err.matches("cannot be").count(), 1, "{}", ran.err);
}
