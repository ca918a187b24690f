//! A manager as a process of its own, on a free port, in a folder of its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use oscar_testkit::Scratch;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

pub(crate) const PASSWORD: &str = "test-admin-password";

/// Settings that every manager of a test gets, so that none of the machine's own leak in.
fn clean_environment(command: &mut Command) {
    for (name, _) in std::env::vars() {
        if name.starts_with("OSCAR_") || name.starts_with("OIDC_") || name.starts_with("MINIO_") {
            command.env_remove(name);
        }
    }
}

pub(crate) struct Manager {
    child: Child,
    pub(crate) url: String,
    folder: Scratch,
    environment: Vec<(String, String)>,
    http: reqwest::Client,
}

impl Manager {
    pub(crate) fn start(environment: &[(&str, &str)]) -> Self {
        let folder = Scratch::new("manager");
        let mut environment: Vec<_> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        environment.push(("OSCAR_PASSWORD".to_owned(), PASSWORD.to_owned()));
        let (child, url) = spawn(folder.path(), &environment);
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().build().expect("a client");
        Self { child, url, folder, environment, http }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it wrote to standard error so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr.log")).unwrap_or_default()
    }

    /// SIGKILL: no chance to tidy up.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Starts again on the same folder; the port may be another one.
    pub(crate) fn start_again(&mut self) {
        (self.child, self.url) = spawn(self.folder.path(), &self.environment);
    }

    pub(crate) fn as_nobody(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    pub(crate) fn as_admin(&self, method: Method, path: &str) -> RequestBuilder {
        self.as_nobody(method, path).basic_auth("oscar", Some(PASSWORD))
    }

    pub(crate) async fn create(&self, body: &Value) -> StatusCode {
        let answer = self.as_admin(Method::POST, "/system/services").json(body).send().await;
        answer.expect("an answer").status()
    }

    pub(crate) async fn read(&self, name: &str) -> Value {
        let answer = self.as_admin(Method::GET, &format!("/system/services/{name}")).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{name}");
        answer.json().await.expect("JSON")
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, environment: &[(String, String)]) -> (Child, String) {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("stderr.log")).expect("a log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_oscar"));
    clean_environment(&mut command);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder.join("data"))
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut child = command.spawn().expect("the binary starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let Some(url) = line.strip_prefix("ready ").and_then(|rest| rest.split_whitespace().next()) else {
        let _ = child.kill();
        let log = std::fs::read_to_string(folder.join("stderr.log")).unwrap_or_default();
        panic!("it did not become ready: {line:?}\n{log}");
    };
    (child, url.to_owned())
}

/// The least that a service needs.
pub(crate) fn mk_body(name: &str) -> Value {
    json!({"name": name, "image": "ghcr.io/grycap/cowsay", "script": "#!/bin/sh\necho hello\n"})
}
