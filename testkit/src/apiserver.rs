//! A real Kubernetes API server over a real etcd, with RBAC; on request with the controller
//! manager, which deletes namespaces, collects garbage and makes default service accounts.
//! There are no nodes: pods stay pending and a Job's status is the test's to write.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ureq::Agent;

use crate::pki::Pki;
use crate::server::{NotReady, Server, eventually, on_free_ports};
use crate::{Missing, Part, Scratch, free_port, http, kubeconfig};

/// The token of `admin`, who is in `system:masters`.
pub const ADMIN_TOKEN: &str = "admin-token";
/// The token of `alice`, who may do nothing until a test grants it.
pub const ALICE_TOKEN: &str = "alice-token";
/// When this file is there, the API server audits.
const AUDIT_POLICY: &str = "audit-policy.yaml";
const AUDIT_LOG: &str = "audit.log";
const MANAGER_TOKEN: &str = "manager-token";

/// Generous: a cold start shares two cores with other tests.
const START_LIMIT: Duration = Duration::from_mins(2);

#[derive(Debug)]
pub struct Apiserver {
    // In the order in which they have to end.
    manager: Option<Server>,
    api: Mutex<Server>,
    _etcd: Server,
    programs: Part,
    agent: Agent,
    authority: String,
    port: u16,
    etcd_port: u16,
    scratch: Scratch,
}

impl Apiserver {
    /// Starts etcd and the API server and waits until it is ready.
    pub fn start() -> Result<Apiserver, Missing> {
        let programs = Part::find("kubernetes")?;
        let scratch = Scratch::new("apiserver");
        let pki = Pki::create();
        scratch.write("ca.crt", &pki.authority);
        scratch.write("server.crt", &pki.server_certificate);
        scratch.write("server.key", &pki.server_key);
        scratch.write("accounts.key", &pki.account_key);
        scratch.write("accounts.pub", &pki.account_public_key);
        scratch.write(
            "tokens.csv",
            &format!(
                "{ADMIN_TOKEN},admin,admin,\"system:masters\"\n{ALICE_TOKEN},alice,alice\n{MANAGER_TOKEN},system:kube-controller-manager,manager\n"
            ),
        );
        let agent = http::agent(Some(&pki.authority));
        let (etcd, etcd_port) = on_free_ports("etcd", || spawn_etcd(&programs, &scratch));
        let (api, port) = on_free_ports("kube-apiserver", || {
            let port = free_port();
            let api = spawn_api(&programs, &scratch, &agent, etcd_port, port)?;
            Ok((api, port))
        });
        Ok(Apiserver {
            manager: None,
            api: Mutex::new(api),
            _etcd: etcd,
            programs,
            agent,
            authority: pki.authority,
            port,
            etcd_port,
            scratch,
        })
    }

    /// The one of this test process, with its controller manager. Never restart or stop it:
    /// other tests use it at the same time. Use a namespace per test.
    pub fn shared() -> Result<&'static Apiserver, Missing> {
        static SHARED: OnceLock<Result<Apiserver, Missing>> = OnceLock::new();
        SHARED.get_or_init(|| Ok(Apiserver::start()?.with_controller_manager())).as_ref().map_err(Clone::clone)
    }

    /// Also starts the controller manager, and waits until it works.
    #[must_use]
    pub fn with_controller_manager(mut self) -> Apiserver {
        let kubeconfig = self.kubeconfig_for(MANAGER_TOKEN);
        let file = |name: &str| self.scratch.path().join(name).display().to_string();
        let mut command = Command::new(self.programs.file("kube-controller-manager"));
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--service-account-private-key-file={}", file("accounts.key")))
            .arg(format!("--root-ca-file={}", file("ca.crt")))
            // Nobody asks it anything: no port, nothing to collide.
            .args(["--secure-port=0", "--leader-elect=false"])
            .args(["--use-service-account-credentials=true", "--concurrent-gc-syncs=4"]);
        self.manager = Some(Server::spawn("controller-manager", self.scratch.path(), &mut command));
        eventually("the controller manager makes the default service account", START_LIMIT, || {
            let path = "/api/v1/namespaces/default/serviceaccounts/default";
            let (status, _) = self.get(path);
            (status == 200).then_some(())
        });
        self
    }

    pub fn url(&self) -> String {
        url(self.port)
    }

    /// On loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate authority, as PEM.
    pub fn authority_pem(&self) -> &str {
        &self.authority
    }

    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig_for(ADMIN_TOKEN)
    }

    /// A kubeconfig for any token this server accepts: one of the static ones above or a
    /// service account's.
    pub fn kubeconfig_for(&self, token: &str) -> PathBuf {
        let contents = kubeconfig::with_token(&self.url(), &self.authority, token);
        // A service account's token is too long for a file name; its end is its signature
        // and tells tokens apart.
        let start = token.len().saturating_sub(40);
        let name: String =
            token[start..].chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '_').collect();
        self.scratch.write(&format!("{name}.kubeconfig"), &contents)
    }

    /// Runs kubectl as the administrator.
    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        Command::new(self.programs.file("kubectl"))
            .arg(format!("--kubeconfig={}", self.admin_kubeconfig().display()))
            .args(arguments)
            .env("HOME", self.scratch.path())
            .output()
            .unwrap_or_else(|error| panic!("running kubectl: {error}"))
    }

    /// Applies a manifest, YAML or JSON, as the administrator.
    pub fn apply(&self, manifest: &str) {
        let file = tempfile::NamedTempFile::new_in(self.scratch.path()).expect("the scratch folder is writable");
        std::fs::write(file.path(), manifest).expect("the scratch folder is writable");
        let done = self.kubectl(&["apply", "-f", &file.path().display().to_string()]);
        assert!(done.status.success(), "kubectl apply: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Status and body of a GET as the administrator.
    pub fn get(&self, path: &str) -> (u16, serde_json::Value) {
        let url = format!("{}{path}", self.url());
        http::get(&self.agent, &url, Some(ADMIN_TOKEN))
    }

    /// Ends the API server at once; etcd keeps what it had.
    pub fn kill_apiserver(&self) {
        self.locked().kill();
    }

    /// Starts it again on the same port after [`Self::kill_apiserver`].
    pub fn start_apiserver(&self) {
        let mut api = self.locked();
        *api = spawn_api(&self.programs, &self.scratch, &self.agent, self.etcd_port, self.port)
            .unwrap_or_else(|why| panic!("kube-apiserver did not start again: {why}"));
    }

    /// Restarts the API server with a policy of auditing; where it writes what it does.
    pub fn audit_with(&self, policy: &str) -> PathBuf {
        self.scratch.write(AUDIT_POLICY, policy);
        self.restart_apiserver();
        self.scratch.path().join(AUDIT_LOG)
    }

    /// A crash and a restart: same port, same etcd.
    pub fn restart_apiserver(&self) {
        self.kill_apiserver();
        self.start_apiserver();
    }

    fn locked(&self) -> MutexGuard<'_, Server> {
        self.api.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

fn spawn_etcd(programs: &Part, scratch: &Scratch) -> Result<(Server, u16), NotReady> {
    let (port, peer_port) = (free_port(), free_port());
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let mut command = Command::new(programs.file("etcd"));
    command
        .arg("--data-dir")
        .arg(scratch.path().join(format!("etcd-{port}")))
        .args(["--listen-client-urls", &client])
        .args(["--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        // A test's data need not survive the machine.
        .args(["--unsafe-no-fsync", "--log-level=warn"]);
    let mut etcd = Server::spawn("etcd", scratch.path(), &mut command);
    let agent = http::agent(None);
    etcd.wait_ready(START_LIMIT, || http::answers(&agent, &format!("{client}/health")))?;
    Ok((etcd, port))
}

fn spawn_api(programs: &Part, scratch: &Scratch, agent: &Agent, etcd_port: u16, port: u16) -> Result<Server, NotReady> {
    let file = |name: &str| scratch.path().join(name).display().to_string();
    let mut command = Command::new(programs.file("kube-apiserver"));
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd_port}"))
        .arg(format!("--secure-port={port}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        // Nobody reaches this server through the `kubernetes` Service.
        .arg("--endpoint-reconciler-type=none")
        .args(["--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC"])
        .arg(format!("--tls-cert-file={}", file("server.crt")))
        .arg(format!("--tls-private-key-file={}", file("server.key")))
        .arg(format!("--client-ca-file={}", file("ca.crt")))
        .arg(format!("--token-auth-file={}", file("tokens.csv")))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(format!("--service-account-key-file={}", file("accounts.pub")))
        .arg(format!("--service-account-signing-key-file={}", file("accounts.key")))
        .arg(format!("--cert-dir={}", file("certificates")));
    if scratch.path().join(AUDIT_POLICY).exists() {
        command.arg(format!("--audit-policy-file={}", file(AUDIT_POLICY)));
        command.arg(format!("--audit-log-path={}", file(AUDIT_LOG)));
    }
    let mut api = Server::spawn("kube-apiserver", scratch.path(), &mut command);
    let ready = format!("{}/readyz", url(port));
    api.wait_ready(START_LIMIT, || http::answers(agent, &ready))?;
    Ok(api)
}
