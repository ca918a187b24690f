//! Somebody's machine: a home folder, the program, and maybe a manager.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use oscar_testkit::{Scratch, Server};

pub(crate) struct Home {
    folder: Scratch,
}

/// What a command left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// One of several managers.
pub(crate) struct Manager {
    pub(crate) url: String,
    pub(crate) password: String,
    pub(crate) server: Server,
}

impl Manager {
    /// Somebody at `home` talks to this one.
    pub(crate) fn run(&self, home: &Home, arguments: &[&str]) -> Ran {
        self.run_with(home, arguments, "")
    }

    pub(crate) fn run_with(&self, home: &Home, arguments: &[&str], input: &str) -> Ran {
        home.run_with(arguments, &[("OSCAR_ENDPOINT", &self.url), ("OSCAR_PASSWORD", &self.password)], input)
    }
}

impl Ran {
    /// The output of a command that must have succeeded.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        self.ends(0).out
    }

    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        let text = self.good();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.out.contains(text) || self.err.contains(text), "not said: {text}\n{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn never_says(self, text: &str) -> Self {
        assert!(!self.out.contains(text) && !self.err.contains(text), "said: {text}\n{}\n{}", self.out, self.err);
        self
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: Scratch::new("home") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        self.folder.write(name, text)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join(".local/share/oscar")
    }

    pub(crate) fn clusters_file(&self) -> PathBuf {
        self.path().join(".config/oscar/clusters.toml")
    }

    /// The program with nothing of this machine's environment.
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oscar"));
        command.env_clear().env("HOME", self.path()).env("TMPDIR", self.path()).current_dir(self.path());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[], "")
    }

    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Ran {
        let mut command = self.command();
        command.args(arguments).envs(variables.iter().copied());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // A command that does not read its input may have closed it already.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let Output { status, stdout, stderr } = child.wait_with_output().expect("the program ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Ran { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
    }

    /// What a command says when nobody reads its output.
    pub(crate) fn run_unread(&self, arguments: &[&str]) -> String {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = self.command().args(arguments).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).output();
        let output = output.expect("the program ends");
        assert!(output.status.success(), "{:?}", output.status);
        String::from_utf8(output.stderr).expect("text")
    }

    /// A command whose output nothing holds.
    pub(crate) fn run_on_full_disk(&self, arguments: &[&str]) -> Ran {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it is always full");
        let output = self.command().args(arguments).stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).output();
        let Output { status, stderr, .. } = output.expect("the program ends");
        let err = String::from_utf8(stderr).expect("text");
        Ran { code: status.code().unwrap_or(-1), out: String::new(), err }
    }

    /// `oscar serve` in another terminal.
    pub(crate) fn serve(&self) -> Server {
        let mut command = self.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let mut server = Server::spawn("serve", self.path(), &mut command);
        let url = self.data().join("url");
        let ready = server.wait_ready(Duration::from_secs(20), || url.exists());
        ready.unwrap_or_else(|why| panic!("the manager did not start: {why}"));
        server
    }

    /// A manager beside others: with data, a password and a port of its own.
    pub(crate) fn serve_cluster(&self, cluster: &str) -> Manager {
        let data = self.path().join(cluster);
        let url = data.join("url");
        // One that was killed has left its address.
        let _ = fs::remove_file(&url);
        let password = format!("password-of-{cluster}");
        let mut command = self.command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--cluster-id", cluster, "--data"]).arg(&data);
        command.env("OSCAR_PASSWORD", &password);
        // What is repaired here is repaired because somebody asked for it.
        command.env("OSCAR_RECONCILE_INTERVAL", "3600");
        let mut server = Server::spawn(cluster, self.path(), &mut command);
        let ready = server.wait_ready(Duration::from_secs(30), || url.exists());
        ready.unwrap_or_else(|why| panic!("the manager of {cluster} did not start: {why}"));
        let url = fs::read_to_string(&url).expect("the manager left its address").trim().to_owned();
        Manager { url, password, server }
    }

    pub(crate) fn url(&self) -> String {
        fs::read_to_string(self.data().join("url")).expect("the manager left its address").trim().to_owned()
    }

    pub(crate) fn password(&self) -> String {
        fs::read_to_string(self.data().join("admin-password")).expect("the manager left its password").trim().to_owned()
    }
}
