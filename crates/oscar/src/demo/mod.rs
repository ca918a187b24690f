//! `oscar demo`: a federation of three clusters on one machine, from nothing, told step by step.
//!
//! The clusters are managers as everybody starts them, each a process of its own; the identity
//! provider is one for trying things out. Everything lives in a folder that goes away at the end.

mod batch;
mod cluster;
mod picture;
mod story;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use oscar_model::secret::Secret;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::devidp::{DevIdp, DevIdpOptions, DevUser};
use crate::wiring::{SystemClock, SystemEntropy};
use cluster::Cluster;
use story::Story;

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// End when the story is told, instead of staying up until Ctrl-C
    #[arg(long)]
    once: bool,
}

/// What went wrong, as a sentence.
type Trouble = String;

const COORDINATOR: &str = "oscar-cluster-home";
const A: &str = "oscar-cluster-a";
const B: &str = "oscar-cluster-b";

/// What does not come to pass by then never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// The definition of the quickstart; what the user adds is the refresh token.
const QUICKSTART: &str = "functions:
  oscar:
    - name: grayifyr0
      image: ghcr.io/grycap/imagemagick
      cpu: \"0.5\"
      memory: 0.5Gi
      script: |
        #!/bin/sh
        convert \"$INPUT_FILE_PATH\" -type Grayscale \"$TMP_OUTPUT_DIR/$(basename \"$INPUT_FILE_PATH\")\"
      federation:
        topology: mesh
        delegation: random
        members:
          - type: oscar
            cluster_id: oscar-cluster-a
            service_name: grayifyr1
          - type: oscar
            cluster_id: oscar-cluster-b
            service_name: grayifyr2
      input:
        - storage_provider: minio.default
          path: grayifyr0/in
      output:
        - storage_provider: minio.shared
          path: grayifyr0/out
";

pub async fn run(args: &DemoArgs, json: bool) -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let story = Story::new(json);
    let told = tokio::select! {
        told = tell(&story, args) => told,
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            story.trouble(&trouble);
            ExitCode::FAILURE
        }
    }
}

async fn tell(story: &Story, args: &DemoArgs) -> Result<(), Trouble> {
    let begun = Instant::now();
    let scene = Scene::start(story).await?;
    scene.deploy(story).await?;
    scene.process_a_batch(story).await?;
    scene.add_member(story).await?;
    let scene = scene.edit_while_one_is_away(story).await?;
    scene.end(story, begun.elapsed());
    if !args.once {
        story.say("Everything stays up until Ctrl-C; then it is gone without a trace.");
        // Ends when the caller gives up: at Ctrl-C.
        std::future::pending::<()>().await;
    }
    Ok(())
}

struct Scene {
    clusters: [Cluster; 3],
    idp: DevIdp,
    access: Secret,
    refresh: Secret,
    http: reqwest::Client,
}

impl Scene {
    async fn start(story: &Story) -> Result<Self, Trouble> {
        story.step("Three clusters and an identity provider start on this machine");
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(loopback).await.map_err(|error| format!("no free port: {error}"))?;
        let alice = DevUser { name: "alice".to_owned(), subject: "alice".to_owned(), groups: Vec::new() };
        let mut options = DevIdpOptions::new(Arc::new(SystemClock), Arc::new(SystemEntropy));
        options.access_lifetime = Duration::from_hours(1);
        let idp = DevIdp::start(listener, vec![alice], options).map_err(|error| error.to_string())?;
        let (a, b) =
            tokio::try_join!(Cluster::start(A, idp.issuer_url(), &[]), Cluster::start(B, idp.issuer_url(), &[]))?;
        // Its operator knows the other two, so that a definition names them by id alone.
        let home = Cluster::start(COORDINATOR, idp.issuer_url(), &[(A, a.url()), (B, b.url())]).await?;
        let (access, refresh) = idp.mint("alice").ok_or("nobody can sign in")?;
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build();
        let http = http.map_err(|error| error.to_string())?;
        let scene = Self { clusters: [home, a, b], idp, access, refresh, http };
        for cluster in &scene.clusters {
            story.detail(&format!("{:<20} {}", cluster.id(), cluster.url()));
        }
        story.detail(&format!("{:<20} {} (alice is signed in)", "identity provider", scene.idp.issuer_url()));
        Ok(scene)
    }

    fn home(&self) -> &Cluster {
        &self.clusters[0]
    }

    async fn deploy(&self, story: &Story) -> Result<(), Trouble> {
        story.step("Alice submits one definition, to one cluster, with a refresh token of hers");
        story.detail("federation: {topology: mesh, delegation: random, members: [oscar-cluster-a/grayifyr1, oscar-cluster-b/grayifyr2]}");
        // The token of the demo holds nothing that YAML would read otherwise.
        let secret = format!("      environment: {{secrets: {{refresh_token: \"{}\"}}}}\n", self.refresh.expose());
        let request = self
            .request(self.home(), Method::POST, "/system/services")
            .header("content-type", "application/yaml")
            .body(format!("{QUICKSTART}{secret}"));
        let answer = read(request.send().await).await?;
        for member in answer["members"].as_array().into_iter().flatten() {
            let text = |key: &str| member[key].as_str().unwrap_or_default().to_owned();
            story.detail(&format!("{} {}/{}", text("action"), text("cluster_id"), text("service_name")));
        }
        story.say("All of them or none: had one failed, the others would have been taken back.");
        let graph = self.settled(3).await?;
        story.picture(&graph);
        Ok(())
    }

    async fn add_member(&self, story: &Story) -> Result<(), Trouble> {
        story.step("A member is added, at one cluster, with the token of the service");
        let service = self.get("/system/services/grayifyr0").await?;
        let token = service["token"].as_str().unwrap_or_default();
        let body = json!({"replicas": [{"type": "oscar", "cluster_id": A, "service_name": "grayifyr3"}]});
        story.code(&format!(
            "curl -X POST -H \"Authorization: Bearer $SERVICE_TOKEN\" -d '{body}' {}/system/replicas/grayifyr0",
            self.home().url()
        ));
        let url = format!("{}/system/replicas/grayifyr0", self.home().url());
        read(self.http.post(url).bearer_auth(token).json(&body).send().await).await?;
        let graph = self.settled(4).await?;
        story.picture(&graph);
        Ok(())
    }

    async fn edit_while_one_is_away(mut self, story: &Story) -> Result<Self, Trouble> {
        story.step(&format!("{B} stops, and meanwhile the definition is changed"));
        self.clusters[2].stop().await;
        let mut service = self.get("/system/services/grayifyr0").await?;
        service["memory"] = json!("1Gi");
        let request = self.request(self.home(), Method::PUT, "/system/services").json(&service);
        let told = request.send().await.map_err(|error| error.without_url().to_string())?;
        let told = told.text().await.unwrap_or_default();
        story.detail(&format!("memory: 0.5Gi → 1Gi; the manager says: {told}"));
        let graph = self.wait(|graph| states(graph).contains(&"unreachable".to_owned())).await?;
        story.picture(&graph);
        story.step(&format!("{B} is back, and gets what it missed"));
        self.clusters[2].start_again().await?;
        let graph = self.settled(4).await?;
        let replica = self.read_at(&self.clusters[2], "/system/services/grayifyr2").await?;
        if replica["memory"] != "1Gi" {
            return Err("the cluster that was away does not have the change".to_owned());
        }
        story.detail("oscar-cluster-b/grayifyr2 has memory 1Gi");
        story.picture(&graph);
        Ok(self)
    }

    fn end(&self, story: &Story, took: Duration) {
        story.step(&format!("That was it, in {:.1} s", took.as_secs_f64()));
        let password = self.home().password();
        story.say("Look around, as the administrator of a cluster:");
        for cluster in &self.clusters {
            story.code(&format!("curl -u oscar:{} {}/system/services", cluster.password(), cluster.url()));
        }
        story.code(&format!("curl -u oscar:{password} {}/system/federation/grayifyr0", self.home().url()));
        story.code(&format!("curl -u oscar:{password} {}/system/audit", self.home().url()));
    }

    fn request(&self, cluster: &Cluster, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", cluster.url())).bearer_auth(self.access.expose())
    }

    async fn get(&self, path: &str) -> Result<Value, Trouble> {
        self.read_at(self.home(), path).await
    }

    async fn read_at(&self, cluster: &Cluster, path: &str) -> Result<Value, Trouble> {
        read(self.request(cluster, Method::GET, path).send().await).await
    }

    /// The graph, once it has that many members and all are in sync.
    async fn settled(&self, nodes: usize) -> Result<Value, Trouble> {
        let well = |graph: &Value| {
            let states = states(graph);
            states.len() == nodes && states.iter().all(|state| state == "in-sync")
        };
        self.wait(well).await
    }

    async fn wait(&self, good: impl Fn(&Value) -> bool) -> Result<Value, Trouble> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let graph = self.get("/system/federation/grayifyr0").await?["graph"].take();
            if good(&graph) {
                return Ok(graph);
            }
            if Instant::now() > deadline {
                return Err(format!("the federation did not become as it should: {graph}"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn states(graph: &Value) -> Vec<String> {
    let nodes = graph["nodes"].as_array().into_iter().flatten();
    nodes.map(|node| node["state"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The JSON of an answer that is a success; a blank one is `null`.
async fn read(answer: Result<reqwest::Response, reqwest::Error>) -> Result<Value, Trouble> {
    let answer = answer.map_err(|error| error.without_url().to_string())?;
    let (status, text) = (answer.status(), answer.text().await.map_err(|error| error.without_url().to_string())?);
    if !status.is_success() {
        return Err(format!("{status}: {text}"));
    }
    Ok(serde_json::from_str(&text).unwrap_or_default())
}
