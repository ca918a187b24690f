//! One manager of the demo: a process of its own, in a folder of its own.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::{PATIENCE, Trouble};

/// The operator of every cluster of the demo knows the store of the quickstart's outputs.
const PROVIDERS: &str = "storage_providers:
  minio:
    shared:
      endpoint: https://shared.invalid
      access_key: demo
      secret_key: demo
      region: us-east-1
";

pub(super) struct Cluster {
    id: &'static str,
    url: String,
    password: String,
    issuer: String,
    folder: tempfile::TempDir,
    child: Child,
}

impl Cluster {
    /// Starts it on a free port. `registry` are the clusters that its operator knows.
    pub(super) async fn start(id: &'static str, issuer: &str, registry: &[(&str, &str)]) -> Result<Self, Trouble> {
        let fail = |error: std::io::Error| format!("{id} cannot be started: {error}");
        let folder = tempfile::Builder::new().prefix("oscar-demo-").tempdir().map_err(fail)?;
        let known: String = registry.iter().map(|(id, url)| format!("  {id}: {{endpoint: \"{url}\"}}\n")).collect();
        let clusters = if known.is_empty() { String::new() } else { format!("clusters:\n{known}") };
        std::fs::write(folder.path().join("oscar.yaml"), format!("{PROVIDERS}{clusters}")).map_err(fail)?;
        // Others on this machine reach the port too.
        let password = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
        let (child, url) = spawn(id, &folder, issuer, &password, "127.0.0.1:0").await?;
        Ok(Self { id, url, password, issuer: issuer.to_owned(), folder, child })
    }

    pub(super) fn id(&self) -> &'static str {
        self.id
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn password(&self) -> &str {
        &self.password
    }

    /// As a machine that loses power.
    pub(super) async fn stop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill().await;
    }

    /// The same cluster at the same address.
    pub(super) async fn start_again(&mut self) -> Result<(), Trouble> {
        let address = self.url.trim_start_matches("http://").to_owned();
        (self.child, self.url) = spawn(self.id, &self.folder, &self.issuer, &self.password, &address).await?;
        Ok(())
    }
}

async fn spawn(
    id: &str,
    folder: &tempfile::TempDir,
    issuer: &str,
    password: &str,
    listen: &str,
) -> Result<(Child, String), Trouble> {
    let fail = |error: std::io::Error| format!("{id} cannot be started: {error}");
    let program = std::env::current_exe().map_err(fail)?;
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.path().join("log")).map_err(fail)?;
    let mut child = Command::new(program)
        .args(["serve", "--listen", listen, "--cluster-id", id, "--data"])
        .arg(folder.path().join("data"))
        // Nothing of this machine's own settings; what it needs is named here.
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("OSCAR_WORLD", "local")
        .env("OSCAR_CONFIG", folder.path().join("oscar.yaml"))
        .env("OSCAR_PASSWORD", password)
        .env("OSCAR_RECONCILE_INTERVAL", "1")
        .env("OIDC_ENABLE", "true")
        .env("OIDC_ISSUERS", issuer)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .map_err(fail)?;
    let out = child.stdout.take().ok_or_else(|| format!("{id} has no output"))?;
    let mut lines = BufReader::new(out).lines();
    let ready = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(url) = line.strip_prefix("ready ").and_then(|rest| rest.split_whitespace().next()) {
                return Some(url.to_owned());
            }
        }
        None
    };
    if let Ok(Some(url)) = tokio::time::timeout(PATIENCE.min(Duration::from_secs(20)), ready).await {
        return Ok((child, url));
    }
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    Err(format!("{id} did not start: {}", log.lines().last().unwrap_or("it said nothing")))
}
