//! Four managers on loopback that know one identity provider, and a definition to federate.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use oscar_testkit::{Dex, Scratch, Tokens};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::manager::{Manager, PASSWORD};

/// What is not there by then never will be.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Scene {
    pub(crate) managers: BTreeMap<&'static str, Manager>,
    pub(crate) dex: Dex,
    /// Of alice. dex keeps one refresh token for each user: who signs in again ends the former.
    pub(crate) alice: Tokens,
    _settings: Scratch,
}

/// The coordinator's manager, and those of the members.
pub(crate) const HOME: &str = "oscar-cluster-home";
pub(crate) const A: &str = "oscar-cluster-a";
pub(crate) const B: &str = "oscar-cluster-b";
pub(crate) const C: &str = "oscar-cluster-c";

/// The provider that the definition of the quickstart names is the operator's to define.
const SETTINGS: &str = "storage_providers:
  minio:
    shared:
      endpoint: https://shared.example.org
      access_key: shared-access
      secret_key: shared-secret
      region: us-east-1
      verify: true
";

impl Scene {
    pub(crate) fn start(dex: Dex) -> Self {
        Self::start_with(dex, &[])
    }

    /// With more settings for one of the managers.
    pub(crate) fn start_with(dex: Dex, more: &[(&str, &[(&str, &str)])]) -> Self {
        let settings = Scratch::new("settings");
        settings.write("oscar.yaml", SETTINGS);
        let file = settings.path().join("oscar.yaml");
        let mk = |id: &'static str| {
            let path = file.to_string_lossy();
            let mut environment = vec![
                ("OSCAR_CONFIG", path.as_ref()),
                ("OSCAR_CLUSTER_ID", id),
                ("OSCAR_RECONCILE_INTERVAL", "1"),
                ("OIDC_ENABLE", "true"),
                ("OIDC_ISSUERS", dex.issuer()),
                ("OIDC_CLIENT_ID", dex.client_id()),
                ("OIDC_GROUP_CLAIM", "groups"),
            ];
            let more = more.iter().filter(|(of, _)| *of == id);
            environment.extend(more.flat_map(|(_, settings)| settings.iter().copied()));
            (id, Manager::start(&environment))
        };
        let managers = [HOME, A, B, C].map(mk).into();
        let alice = dex.token("alice");
        Self { managers, dex, alice, _settings: settings }
    }

    pub(crate) fn at(&self, id: &str) -> &Manager {
        &self.managers[id]
    }

    pub(crate) fn url(&self, id: &str) -> &str {
        &self.at(id).url
    }

    /// A request of alice, who owns everything here.
    pub(crate) async fn ask(&self, id: &str, method: Method, path: &str, body: Option<&Value>) -> Response {
        let mut request = self.at(id).as_nobody(method, path).bearer_auth(&self.alice.access);
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.expect("an answer")
    }

    pub(crate) async fn get(&self, id: &str, path: &str) -> Value {
        let answer = self.ask(id, Method::GET, path, None).await;
        let (status, text) = (answer.status(), answer.text().await.expect("a body"));
        assert_eq!(status, 200, "{id}{path}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// `None` when there is no such service.
    pub(crate) async fn service(&self, id: &str, name: &str) -> Option<Value> {
        let answer = self.ask(id, Method::GET, &format!("/system/services/{name}"), None).await;
        match answer.status().as_u16() {
            404 => None,
            200 => Some(answer.json().await.expect("JSON")),
            other => panic!("{id}/{name}: {other}"),
        }
    }

    pub(crate) async fn graph(&self, id: &str, name: &str) -> Value {
        self.get(id, &format!("/system/federation/{name}")).await["graph"].clone()
    }

    /// The quickstart's definition with what the user has to add: where the clusters are, and a
    /// refresh token.
    pub(crate) fn quickstart(&self, topology: &str, members: &[Value]) -> String {
        let refresh = &self.alice.refresh;
        let clusters: BTreeMap<_, _> = [A, B, C].map(|id| (id, json!({"endpoint": self.url(id)}))).into();
        let service = json!({
            "name": "grayifyr0",
            "image": "ghcr.io/grycap/imagemagick",
            "cpu": "0.5",
            "memory": "0.5Gi",
            "script": "#!/bin/sh\nconvert \"$INPUT_FILE_PATH\" -type Grayscale \"$TMP_OUTPUT_DIR/out.png\"\n",
            "environment": {"secrets": {"refresh_token": refresh, "API_KEY": "crosses"}},
            "federation": {"topology": topology, "delegation": "random", "members": members},
            "input": [{"storage_provider": "minio.default", "path": "grayifyr0/in"}],
            "output": [{"storage_provider": "minio.shared", "path": "grayifyr0/out"}],
        });
        // JSON is YAML; the test of published clients sends a file as people write it.
        json!({"functions": {"oscar": [service]}, "clusters": clusters}).to_string()
    }

    pub(crate) async fn submit(&self, definition: String) -> Response {
        let token = &self.alice.access;
        let request = self.at(HOME).as_nobody(Method::POST, "/system/services").bearer_auth(token);
        let request = request.header("content-type", "application/yaml").body(definition);
        request.send().await.expect("an answer")
    }

    /// Submits, and expects that it works.
    pub(crate) async fn deploy(&self, topology: &str, members: &[Value]) -> Value {
        let answer = self.submit(self.quickstart(topology, members)).await;
        let (status, text) = (answer.status(), answer.text().await.expect("a body"));
        assert_eq!(status, 201, "{topology}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    pub(crate) async fn delete(&self, id: &str, name: &str) {
        let answer = self.ask(id, Method::DELETE, &format!("/system/services/{name}"), None).await;
        assert_eq!(answer.status(), 204, "{}", answer.text().await.unwrap_or_default());
    }

    /// Waits until nobody has a service any more.
    pub(crate) async fn wait_empty(&self) {
        for id in self.managers.keys() {
            self.wait(&format!("{id} is empty"), async || {
                self.get(id, "/system/services").await.as_array().is_some_and(Vec::is_empty)
            })
            .await;
        }
    }

    pub(crate) async fn wait(&self, what: &str, probe: impl AsyncFn() -> bool) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !probe().await {
            assert!(std::time::Instant::now() < deadline, "not in time: {what}\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until every named service shows the same graph, with everybody in sync.
    pub(crate) async fn wait_agreed(&self, services: &[(&str, &str)]) -> Value {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let mut graphs = Vec::new();
            for (id, name) in services {
                graphs.push(self.graph(id, name).await);
            }
            let well = graphs[0]["nodes"].as_array().is_some_and(|nodes| {
                nodes.len() == services.len() && nodes.iter().all(|node| node["state"] == "in-sync")
            });
            if well && graphs.windows(2).all(|pair| pair[0] == pair[1]) {
                return graphs.swap_remove(0);
            }
            let shown = graphs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
            assert!(std::time::Instant::now() < deadline, "no agreement:\n{shown}\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn logs(&self) -> String {
        self.managers.iter().map(|(id, manager)| format!("--- {id}\n{}", manager.log())).collect()
    }

    /// Every file of every manager's folder, as bytes.
    pub(crate) fn stored(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        for manager in self.managers.values() {
            let entries = fs::read_dir(manager.data()).expect("a folder");
            for entry in entries.flatten() {
                if let Ok(bytes) = fs::read(entry.path()) {
                    files.push((entry.path(), bytes));
                }
            }
        }
        files
    }

    /// The account of the administrator at a member, for definitions of the administrator.
    pub(crate) fn login(&self, id: &str) -> Value {
        json!({"endpoint": self.url(id), "auth_user": "oscar", "auth_password": PASSWORD})
    }
}

pub(crate) fn member(cluster: &str, service: &str) -> Value {
    json!({"type": "oscar", "cluster_id": cluster, "service_name": service})
}

pub(crate) fn quickstart_members() -> Vec<Value> {
    vec![member(A, "grayifyr1"), member(B, "grayifyr2")]
}
