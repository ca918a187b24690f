//! A manager as a process of its own, on a free port, in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use oscar_testkit::{Scratch, Server, Signal};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

pub(crate) const PASSWORD: &str = "test-admin-password";

/// A manager that is not ready by then never will be.
const PATIENCE: Duration = Duration::from_mins(1);

/// The program with nothing of this machine's environment: neither settings nor a cluster
/// that the tests themselves may run in.
pub(crate) fn program(home: &Path) -> Command {
    isolated(Command::new(env!("CARGO_BIN_EXE_oscar")), home)
}

fn isolated(mut command: Command, home: &Path) -> Command {
    command.env_clear().env("HOME", home);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Starts a manager and waits for its address. Its output is in `<name>.log` of the folder.
pub(crate) fn start(name: &str, folder: &Path, command: &mut Command) -> (Server, String) {
    let mut server = Server::spawn(name, folder, command);
    let (log, mut url) = (log_file(folder, name), None);
    let ready = server.wait_ready(PATIENCE, || {
        url = url_in(&fs::read_to_string(&log).unwrap_or_default());
        url.is_some()
    });
    ready.unwrap_or_else(|why| panic!("the manager did not become ready: {why}"));
    (server, url.expect("it was found"))
}

fn log_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// From the line on standard output, when it is there with its end.
fn url_in(output: &str) -> Option<String> {
    let mut lines = output.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let rest = lines.find_map(|line| line.strip_prefix("ready "))?;
    rest.split_whitespace().next().map(str::to_owned)
}

pub(crate) struct Manager {
    server: Server,
    pub(crate) url: String,
    folder: Scratch,
    /// Each start has a log of its own.
    starts: usize,
    environment: Vec<(String, String)>,
    http: reqwest::Client,
    disk: Disk,
}

/// Where the data folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// With everything else.
    Shared,
    /// On a disk of so many mebibytes, which only the manager and what it starts can see. It is
    /// gone when they are. Making it takes root.
    Own(u32),
}

impl Manager {
    pub(crate) fn start(environment: &[(&str, &str)]) -> Self {
        Self::start_on(Disk::Shared, environment)
    }

    pub(crate) fn start_on(disk: Disk, environment: &[(&str, &str)]) -> Self {
        let folder = Scratch::new("manager");
        let mut environment: Vec<_> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        environment.push(("OSCAR_PASSWORD".to_owned(), PASSWORD.to_owned()));
        let (server, url) = spawn(folder.path(), 1, disk, &environment);
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { server, url, folder, starts: 1, environment, http, disk }
    }

    pub(crate) fn data(&self) -> PathBuf {
        let folder = self.folder.path().join("data");
        match self.disk {
            Disk::Shared => folder,
            Disk::Own(_) => {
                let inside = folder.strip_prefix("/").expect("it is absolute");
                PathBuf::from(format!("/proc/{}/root", self.pid())).join(inside)
            }
        }
    }

    /// Ends it and starts it on the shared disk with everything that was on its own.
    pub(crate) fn move_to_shared_disk(&mut self) {
        self.server.signal(Signal::STOP);
        let copied = Command::new("cp").arg("-a").arg(self.data()).arg(self.folder.path().join("copy")).status();
        assert!(copied.expect("cp runs").success());
        self.kill();
        let data = self.folder.path().join("data");
        fs::remove_dir(&data).expect("its disk is gone");
        fs::rename(self.folder.path().join("copy"), data).expect("renamed");
        self.disk = Disk::Shared;
        self.start_again_there();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Everything it wrote to standard error so far.
    pub(crate) fn log(&self) -> String {
        let output = |start| fs::read_to_string(log_file(self.folder.path(), &name(start))).unwrap_or_default();
        let output: String = (1..=self.starts).map(output).collect();
        output.split_inclusive('\n').filter(|line| !line.starts_with("ready ")).collect()
    }

    /// SIGKILL: no chance to tidy up.
    pub(crate) fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts again on the same folder; the port may be another one.
    pub(crate) fn start_again(&mut self) {
        self.starts += 1;
        (self.server, self.url) = spawn(self.folder.path(), self.starts, self.disk, &self.environment);
    }

    /// Starts again on the same folder and at the same address, for those who know it.
    pub(crate) fn start_again_there(&mut self) {
        let address = self.url.trim_start_matches("http://").to_owned();
        let limit = Duration::from_secs(30);
        // Somebody's outgoing connection may have the port for a moment.
        oscar_testkit::eventually("the port is free", limit, || std::net::TcpListener::bind(&address).ok());
        self.starts += 1;
        let mut environment = self.environment.clone();
        environment.push(("OSCAR_LISTEN".to_owned(), address));
        (self.server, self.url) = spawn(self.folder.path(), self.starts, self.disk, &environment);
        // The connections that it kept lead to the manager of before.
        self.http = reqwest::Client::builder().no_proxy().build().expect("a client");
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

fn name(start: usize) -> String {
    format!("manager-{start}")
}

fn spawn(folder: &Path, number: usize, disk: Disk, environment: &[(String, String)]) -> (Server, String) {
    let mut command = match disk {
        Disk::Shared => program(folder),
        Disk::Own(mebibytes) => {
            let script = "mount -t tmpfs -o size=\"$1\",mode=700 oscar-test \"$0\" && shift && exec \"$@\"";
            let data = folder.join("data");
            fs::create_dir_all(&data).expect("made");
            let mut command = isolated(Command::new("unshare"), folder);
            command.args(["-m", "sh", "-c", script]).arg(data).arg(format!("{mebibytes}m"));
            command.arg(env!("CARGO_BIN_EXE_oscar"));
            command
        }
    };
    command
        .args(["serve", "--data"])
        .arg(folder.join("data"))
        .env("OSCAR_LISTEN", "127.0.0.1:0")
        .envs(environment.iter().map(|(name, value)| (name, value)));
    start(&name(number), folder, &mut command)
}

/// The least that a service needs.
pub(crate) fn mk_body(name: &str) -> Value {
    json!({"name": name, "image": "ghcr.io/grycap/cowsay", "script": "#!/bin/sh\necho hello\n"})
}
