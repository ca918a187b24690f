//! The manager of upstream OSCAR, which is written in Go: a foreign member of federations.
//!
//! It runs inside a cluster only: it reads the files of a pod's service account at a fixed
//! place. So it gets a mount namespace of its own in which that place holds them; the machine's
//! own folders are not touched. It listens on every address of the machine: there is no setting.

use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use ureq::Agent;

use crate::server::{NotReady, Server, on_free_ports};
use crate::{ADMIN_TOKEN, Apiserver, Minio, Missing, Part, Scratch, free_port, http};

const START_LIMIT: Duration = Duration::from_mins(1);

/// Puts the files of a service account where a pod has them, and becomes the manager. What is
/// read is opened before: it may lie below what is hidden then.
const AS_A_POD: &str = r#"
exec 3<"$1" 4<"$2"
run=$(readlink -f /var/run)
mount -t tmpfs -o mode=755 none "$run" || exit 1
mkdir -p "$run/secrets/kubernetes.io/serviceaccount"
cat <&3 >"$run/secrets/kubernetes.io/serviceaccount/token"
cat <&4 >"$run/secrets/kubernetes.io/serviceaccount/ca.crt"
exec 3<&- 4<&- "$3"
"#;

/// What its chart would have made. The claim is what user namespaces copy.
const NAMESPACES: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: "1"}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: oscar-svc}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: oscar-pv}
spec:
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteMany]
  hostPath: {path: /nowhere}
  claimRef: {namespace: oscar-svc, name: oscar-pvc}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: oscar-pvc, namespace: oscar-svc}
spec:
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Mi}}
  storageClassName: ""
  volumeName: oscar-pv
"#;

#[derive(Debug)]
pub struct GoOscar {
    server: Server,
    port: u16,
    _scratch: Scratch,
}

impl GoOscar {
    pub const USER: &'static str = "oscar";
    pub const PASSWORD: &'static str = "go-admin-password";

    /// Starts it on a cluster and a store of its own. It restarts the store with every service
    /// that is created or deleted. More settings by the names of its environment variables.
    pub fn start(cluster: &Apiserver, store: &Minio, settings: &[(&str, &str)]) -> Result<GoOscar, Missing> {
        let programs = Part::find("oscar-go")?;
        let namespace = mount_namespace()?;
        cluster.apply(NAMESPACES);
        let scratch = Scratch::new("go-oscar");
        scratch.write("token", ADMIN_TOKEN);
        scratch.write("ca.crt", cluster.authority_pem());
        let agent = http::agent(None);
        let (server, port) = on_free_ports("Go OSCAR", || {
            let port = free_port();
            let mut command = Command::new("unshare");
            command
                .args(namespace)
                .args(["sh", "-c", AS_A_POD, "sh"])
                .args([scratch.path().join("token"), scratch.path().join("ca.crt"), programs.file("oscar")])
                .env_clear()
                .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
                .env("HOME", scratch.path())
                .env("GIN_MODE", "release")
                .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
                .env("KUBERNETES_SERVICE_PORT", cluster.port().to_string())
                .env("OSCAR_USERNAME", GoOscar::USER)
                .env("OSCAR_PASSWORD", GoOscar::PASSWORD)
                .env("OSCAR_SERVICE_PORT", port.to_string())
                // The store calls it at `<name>.<namespace>`, which it looks up at once: there is no
                // DNS of a cluster here, and an address needs none.
                .env("OSCAR_NAME", "127.0.0")
                .env("OSCAR_NAMESPACE", "1")
                .env("MINIO_ENDPOINT", store.url())
                .env("MINIO_ACCESS_KEY", Minio::ACCESS_KEY)
                .env("MINIO_SECRET_KEY", Minio::SECRET_KEY)
                .env("MINIO_REGION", Minio::REGION)
                // There is no Kueue here.
                .env("KUEUE_ENABLE", "false")
                .envs(settings.iter().copied())
                .current_dir(scratch.path());
            let server = spawn(&scratch, &agent, &mut command, port)?;
            Ok((server, port))
        });
        Ok(GoOscar { server, port, _scratch: scratch })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Creates a service as its administrator; the status of the answer.
    pub fn create(&self, service: &Value) -> u16 {
        let account = BASE64_STANDARD.encode(format!("{}:{}", GoOscar::USER, GoOscar::PASSWORD));
        let request = http::agent(None).post(format!("{}/system/services", self.url()));
        let request = request.config().timeout_global(Some(START_LIMIT)).build();
        let answer = request.header("authorization", format!("Basic {account}")).send_json(service);
        answer.unwrap_or_else(|error| panic!("creating a service: {error}")).status().as_u16()
    }

    /// Every request that it has answered so far, in order, such as `201 POST /system/services`.
    pub fn answered(&self) -> Vec<String> {
        self.server.output().lines().filter_map(answered).collect()
    }

    /// Everything it printed so far.
    pub fn log(&self) -> String {
        self.server.output()
    }
}

/// From a line like `[GIN] 2026/01/02 - 03:04:05 | 201 |  6.1s |  127.0.0.1 | POST  "/path"`.
fn answered(line: &str) -> Option<String> {
    let mut parts = line.strip_prefix("[GIN] ")?.split('|').skip(1).map(str::trim);
    let (status, request) = (parts.next()?, parts.nth(2)?);
    let (method, path) = request.split_once(' ')?;
    Some(format!("{status} {method} {}", path.trim().trim_matches('"')))
}

fn spawn(scratch: &Scratch, agent: &Agent, command: &mut Command, port: u16) -> Result<Server, NotReady> {
    let mut server = Server::spawn("go-oscar", scratch.path(), command);
    let health = format!("http://127.0.0.1:{port}/health");
    server.wait_ready(START_LIMIT, || http::answers(agent, &health))?;
    Ok(server)
}

/// How `unshare` is told to make a mount namespace: as root, or as somebody who is root in it.
fn mount_namespace() -> Result<&'static [&'static str], Missing> {
    let kinds: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];
    let may = |kind: &&&[&str]| {
        let mut probe = Command::new("unshare");
        probe.args(**kind).args(["sh", "-c", r#"mount -t tmpfs none "$(readlink -f /var/run)""#]);
        probe.output().is_ok_and(|done| done.status.success())
    };
    let refused = || Missing {
        part: "oscar-go".to_owned(),
        why: "this machine permits no mount namespace (unshare --mount), which it needs".to_owned(),
    };
    kinds.iter().find(may).copied().ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_its_log() {
        let line =
            r#"[GIN] 2026/11/16 - 05:40:01 | 201 |  6.104201351s |       127.0.0.1 | POST     "/system/services""#;
        assert_eq!(answered(line).as_deref(), Some("201 POST /system/services"));
        assert_eq!(answered("[CREATE-HANDLER] a | b | c | d e"), None);
    }
}
