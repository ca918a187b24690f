//! The HTTP side over a world in memory, in which scripts do what a test says.

mod buckets;
mod calls;
mod credentials;
mod gone;
mod logs;
mod numbers;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use oscar_engine::jobs::{Dispatcher, JobPolicy, JobPorts};
use oscar_engine::memory::{
    FixedClock, MemoryBuckets, MemoryCluster, MemoryIdentity, MemoryJobs, MemoryRuntime, MemoryServices,
    MemorySettings, MemoryUsers, SeededEntropy,
};
use oscar_engine::ports::runtime::{Ended, Exit, RunId};
use oscar_engine::ports::services::Services as _;
use oscar_engine::{FederationPorts, Manager, Policy, Ports};
use oscar_model::capacity::{Node, Readiness};
use oscar_model::identity::{Owner, Subject, User};
use oscar_model::name::ServiceName;
use oscar_model::quantity::Quantity;
use oscar_model::secret::Secret;
use oscar_model::service::{Definition, Sensitive, Service, Visibility};
use serde_json::Value;
use tower::ServiceExt as _;

use super::{AdminAccount, App, Facts, Limits, Prints, Traffic};

const ADMIN: &str = "Basic b3NjYXI6c2VjcmV0";

struct World {
    app: Arc<App>,
    services: Arc<MemoryServices>,
    runtime: Arc<MemoryRuntime>,
    buckets: Arc<MemoryBuckets>,
}

/// An answer, read to its end.
struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answered {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl World {
    /// With the service `mine` of alice's, which bob may use, and the private service `other` of
    /// carol's. Jobs start by themselves.
    async fn new() -> Self {
        Self::with(JobPolicy::default(), Duration::from_mins(1)).await
    }

    async fn with(policy: JobPolicy, answer: Duration) -> Self {
        let services = Arc::<MemoryServices>::default();
        for service in [mk_service("mine", "alice", &["bob"], 'a'), mk_service("other", "carol", &[], 'c')] {
            services.create(service, Sensitive::default()).await.expect("made");
        }
        let node =
            Node { capacity_cores: 4000, capacity_bytes: 1 << 30, readiness: Readiness::Ready, ..Node::default() };
        let cluster = Arc::new(MemoryCluster { nodes: vec![node] });
        let clock = Arc::new(FixedClock(UNIX_EPOCH + Duration::from_secs(1_781_255_129)));
        let entropy = Arc::new(SeededEntropy::new(7));
        let (runtime, buckets) = (Arc::<MemoryRuntime>::default(), Arc::<MemoryBuckets>::default());
        let ports =
            JobPorts { jobs: Arc::<MemoryJobs>::default(), runtime: runtime.clone(), buckets: buckets.clone(), policy };
        let dispatcher =
            Arc::new(Dispatcher::new(services.clone(), cluster.clone(), clock.clone(), entropy.clone(), ports));
        dispatcher.recover().await.expect("recovered");
        let looked_after = dispatcher.clone();
        tokio::spawn(async move { looked_after.run(|trouble| panic!("{trouble}")).await });
        let manager = Manager::new(
            Ports {
                services: services.clone(),
                users: Arc::new(MemoryUsers::new("oscar-svc")),
                settings: Arc::new(MemorySettings::default()),
                cluster,
                clock,
                entropy,
                federation: FederationPorts::none(),
                jobs: Some(dispatcher),
            },
            Policy { taken_subjects: vec!["oscar-admin".to_owned()], ..Policy::default() },
        );
        let users = ["alice", "bob", "carol", "oscar-admin"].map(|name| (format!("token-of-{name}"), mk_user(name)));
        let app = App {
            manager: Arc::new(manager),
            identity: Arc::new(MemoryIdentity { users: users.into() }),
            admin: AdminAccount { username: Secret::new("oscar"), password: Secret::new("secret") },
            facts: Facts::default(),
            limits: Limits { body: Duration::from_mins(1), answer, page: 70 },
            prints: Prints::default(),
            traffic: Arc::new(Traffic::new()),
            notices: None,
        };
        Self { app: Arc::new(app), services, runtime, buckets }
    }

    /// `who` is a user, `admin`, or the letter of a service's token.
    async fn ask(&self, who: &str, method: &str, path: &str, body: impl Into<Body>) -> Answered {
        self.send(mk_request(who, method, path, body)).await
    }

    async fn send(&self, request: Request) -> Answered {
        let answer = super::service(&self.app).oneshot(request).await.expect("infallible");
        let (parts, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.expect("the body does not break off").to_vec();
        Answered { status: parts.status, headers: parts.headers, body }
    }

    /// A new job of that caller's; its name.
    async fn submit(&self, who: &str, service: &str) -> String {
        let answer = self.ask(who, "POST", &format!("/job/{service}"), "event").await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["job"].as_str().expect("a name").to_owned()
    }

    /// The first attempt of a job, once it has begun.
    async fn attempt_of(&self, job: &str) -> RunId {
        self.attempt(|run| run.job.as_str() == job).await
    }

    async fn attempt(&self, wanted: impl Fn(&RunId) -> bool) -> RunId {
        for _ in 0..10_000 {
            if let Some(run) = self.runtime.alive().into_iter().find(&wanted) {
                self.runtime.begin(&run);
                return run;
            }
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("it never began");
    }

    /// Waits until a job is in that state.
    async fn until(&self, service: &str, job: &str, state: &str) -> Value {
        let mut last = Value::Null;
        for _ in 0..10_000 {
            last = self.ask("admin", "GET", &format!("/system/jobs/{service}/{job}"), "").await.json();
            if last["state"] == state {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("it was never {state}: {last:#}");
    }
}

fn mk_request(who: &str, method: &str, path: &str, body: impl Into<Body>) -> Request {
    let key = match who {
        "" => None,
        "admin" => Some(ADMIN.to_owned()),
        letter if letter.len() == 1 => Some(format!("Bearer {}", letter.repeat(64))),
        user => Some(format!("Bearer token-of-{user}")),
    };
    let mut request = Request::builder().method(method).uri(path);
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, key);
    }
    request.body(body.into()).expect("a request")
}

fn mk_user(name: &str) -> User {
    let subject = Subject::parse(name).expect("a subject");
    User { subject, name: format!("{name} by name"), groups: vec![], issuer: "https://issuer.example".to_owned() }
}

fn mk_service(name: &str, owner: &str, allowed: &[&str], letter: char) -> Service {
    let mut definition = Definition::new(ServiceName::parse(name).expect("a name"), "image", "true");
    definition.cpu = Quantity::from_millis(1000);
    definition.memory = Quantity::from_bytes(1 << 20);
    definition.visibility = if allowed.is_empty() { Visibility::Private } else { Visibility::Restricted };
    definition.allowed_users = allowed.iter().map(|user| (*user).to_owned()).collect();
    Service {
        definition,
        owner: Owner::User(Subject::parse(owner).expect("a subject")),
        owner_name: format!("{owner} by name"),
        token: Secret::new(letter.to_string().repeat(64)),
        namespace: "oscar-svc".to_owned(),
        bucket_list: vec![],
    }
}

fn mk_end(exit: Exit) -> Ended {
    Ended { exit, outputs: vec![], began: Some(1_781_255_129_000), ended: 1_781_255_130_500 }
}
