//! Talking to podman or docker. Both understand the same words for what is needed here.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::probe::find_program;

/// How long an answer of the engine may take, but for fetching an image.
const PATIENCE: Duration = Duration::from_mins(1);

/// What an engine needs to know of the manager's environment to be itself. Nothing of it
/// reaches a container.
const KEPT: [&str; 9] = [
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "REGISTRY_AUTH_FILE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "LANG",
];
const KEPT_BEGINNINGS: [&str; 3] = ["XDG_", "CONTAINERS_", "DOCKER_"];
const KEPT_ENDS: [&str; 2] = ["_proxy", "_PROXY"];

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Engine {
    pub(crate) program: PathBuf,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Engine {
    /// Finds an engine that answers.
    pub(crate) async fn find(given: Option<&Path>) -> Result<Engine, String> {
        let mut why = "neither podman nor docker is installed".to_owned();
        let programs = match given {
            Some(path) => vec![find_program(Some(path), &[]).ok_or(format!("there is no program {}", path.display()))?],
            None => ["podman", "docker"].into_iter().filter_map(|name| find_program(None, &[name])).collect(),
        };
        for program in programs {
            let is_docker = program.file_name().is_some_and(|name| name.to_string_lossy().contains("docker"));
            let name = if is_docker { "docker" } else { "podman" };
            let mut engine = Engine { program, name: name.to_owned(), version: String::new() };
            let format = if is_docker { "{{.ServerVersion}}" } else { "{{.Version.Version}}" };
            match engine.ask(&["info", "--format", format], PATIENCE).await {
                Ok(version) => {
                    engine.version = version;
                    return Ok(engine);
                }
                Err(reason) => why = format!("{name} does not work: {reason}"),
            }
        }
        Err(why)
    }

    /// Its environment: only what it needs.
    pub(crate) fn environment() -> Vec<(OsString, OsString)> {
        let is_kept = |name: &str| {
            KEPT.contains(&name)
                || KEPT_BEGINNINGS.iter().any(|start| name.starts_with(start))
                || KEPT_ENDS.iter().any(|end| name.ends_with(end))
        };
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept)).collect()
    }

    /// Runs a command of the engine; the answer, or what it complained about.
    pub(crate) async fn ask<S: AsRef<std::ffi::OsStr>>(
        &self,
        words: &[S],
        patience: Duration,
    ) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.args(words).env_clear().envs(Engine::environment()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
        let failed = |error| format!("{} cannot be run: {error}", self.program.display());
        let asked = Asked(command.spawn().map_err(failed)?);
        let Ok(answer) = timeout(patience, asked.answer()).await else {
            return Err(format!("it did not answer within {} seconds", patience.as_secs()));
        };
        let answer = answer.map_err(failed)?;
        if answer.status.success() {
            return Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned());
        }
        Err(complaint(&answer))
    }

    /// Like [`Engine::ask`] with the usual patience.
    pub(crate) async fn tell<S: AsRef<std::ffi::OsStr>>(&self, words: &[S]) -> Result<String, String> {
        self.ask(words, PATIENCE).await
    }

    /// Removes a container without waiting for it, for when there is nobody left to wait.
    pub(crate) fn abandon(&self, container: &str) {
        let mut command = std::process::Command::new(&self.program);
        command.args(["rm", "--force", "--volumes", container]).env_clear().envs(Engine::environment());
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }
}

/// A command of an engine that is under way. When it is given up, the whole group of its processes
/// is killed: an engine of an unprivileged user is several, and fetching goes on in the last.
struct Asked(Child);

impl Asked {
    async fn answer(mut self) -> io::Result<Output> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (out, err) = (self.0.stdout.take(), self.0.stderr.take());
        // It is waited for last: until then the number of the group is its own.
        tokio::try_join!(read(out, &mut stdout), read(err, &mut stderr))?;
        Ok(Output { status: self.0.wait().await?, stdout, stderr })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let group = self.0.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn read(from: Option<impl AsyncRead + Unpin>, to: &mut Vec<u8>) -> io::Result<()> {
    if let Some(mut from) = from {
        from.read_to_end(to).await?;
    }
    Ok(())
}

/// The last line of what an engine said; that is where its reason stands.
fn complaint(answer: &Output) -> String {
    let said = String::from_utf8_lossy(&answer.stderr);
    let line = said.trim().lines().last().unwrap_or("it gave no reason");
    line.trim_start_matches("Error: ").chars().take(500).collect()
}
