//! A manager that answers and calls as Go OSCAR 4 does. That version is not published as a
//! program; its words, its statuses and its habits are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

pub(crate) const USER: &str = "oscar";
pub(crate) const PASSWORD: &str = "v4-admin-password";

#[derive(Default)]
struct Inner {
    services: BTreeMap<String, Value>,
    /// Kubernetes Secrets by the name of their service.
    secrets: BTreeMap<String, Value>,
    buckets: Vec<String>,
    /// `POST /system/services`, with what was sent.
    heard: Vec<(String, Value)>,
    /// What a create answers from now on in place of doing it.
    refusal: Option<(StatusCode, &'static str)>,
}

#[derive(Clone, Default)]
pub(crate) struct V4 {
    inner: Arc<Mutex<Inner>>,
    pub(crate) url: String,
}

/// Who calls: a person, or nobody for the administrator.
struct Caller(Option<String>);

enum Refusal {
    Stranger,
    Words(StatusCode, String),
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        let realm = [(header::WWW_AUTHENTICATE, "Basic realm=\"Authorization Required\"")];
        match refusal {
            Refusal::Stranger => (StatusCode::UNAUTHORIZED, realm).into_response(),
            Refusal::Words(status, words) => (status, words).into_response(),
        }
    }
}

impl V4 {
    pub(crate) async fn start() -> Self {
        let mut manager = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        manager.url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new()
            .route("/system/services", get(list).post(create).put(update))
            .route("/system/services/{name}", get(read).delete(remove))
            .with_state(manager.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        manager
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn service(&self, name: &str) -> Option<Value> {
        self.inner().services.get(name).cloned()
    }

    /// What its pods would read.
    pub(crate) fn secret(&self, name: &str) -> Option<Value> {
        self.inner().secrets.get(name).cloned()
    }

    pub(crate) fn buckets(&self) -> Vec<String> {
        self.inner().buckets.clone()
    }

    pub(crate) fn refuse_creates(&self, status: StatusCode, words: &'static str) {
        self.inner().refusal = Some((status, words));
    }

    /// Everything that was asked of it and may have changed something.
    pub(crate) fn writes(&self) -> Vec<(String, Value)> {
        self.inner().heard.iter().filter(|(what, _)| !what.starts_with("GET ")).cloned().collect()
    }

    pub(crate) fn looks(&self) -> usize {
        self.inner().heard.iter().filter(|(what, _)| what.starts_with("GET ")).count()
    }

    /// What a mesh worker does when somebody adds a member at it: it takes itself for the
    /// coordinator, and writes to every other member the worker that this one would be. Returns
    /// how each one answered.
    pub(crate) async fn add_member(
        &self,
        name: &str,
        (member, cluster): (&Value, &Value),
        bearer: &str,
    ) -> Vec<(String, StatusCode, String)> {
        let root = {
            let mut inner = self.inner();
            let root = inner.services.get_mut(name).expect("the worker is there");
            root["federation"]["members"].as_array_mut().expect("a mesh lists everybody").push(member.clone());
            root["clusters"][member["cluster_id"].as_str().expect("an id")] = cluster.clone();
            root.clone()
        };
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut answers = Vec::new();
        for member in root["federation"]["members"].as_array().expect("a list") {
            let endpoint = &root["clusters"][member["cluster_id"].as_str().expect("an id")]["endpoint"];
            let url = format!("{}/system/services", endpoint.as_str().expect("an address"));
            let body = worker(&root, self.secret(name).as_ref(), member);
            let answer = http.put(url).bearer_auth(bearer).json(&body).send().await.expect("an answer");
            let cluster_id = member["cluster_id"].as_str().expect("an id").to_owned();
            answers.push((cluster_id, answer.status(), answer.text().await.expect("a body")));
        }
        answers
    }

    fn hear(&self, method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<(Caller, Value), Refusal> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        self.inner().heard.push((format!("{method} {}", uri.path()), body.clone()));
        let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let caller = match value.split_once(' ') {
            Some(("Bearer", token)) => subject(token).map(|subject| Caller(Some(subject))),
            Some(("Basic", account)) => {
                let expected = base64::prelude::BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"));
                (account == expected).then_some(Caller(None))
            }
            _ => None,
        };
        caller.map(|caller| (caller, body)).ok_or(Refusal::Stranger)
    }
}

/// Its own identity provider has proved the token; here its word is enough.
fn subject(token: &str) -> Option<String> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims["sub"].as_str().map(str::to_owned)
}

/// The worker that a coordinator writes to one of its members.
pub(crate) fn worker(root: &Value, secret: Option<&Value>, member: &Value) -> Value {
    let mut worker = root.clone();
    let mesh = root["federation"]["topology"] == "mesh";
    worker["name"] = member["service_name"].clone();
    worker["cluster_id"] = member["cluster_id"].clone();
    let same =
        |other: &&Value| other["cluster_id"] == member["cluster_id"] && other["service_name"] == member["service_name"];
    worker["federation"]["members"] = if mesh {
        let own = json!({"type": "oscar", "cluster_id": root["cluster_id"], "service_name": root["name"],
            "url": "", "ssl_verify": false, "priority": 0, "headers": null});
        let others = root["federation"]["members"].as_array().expect("a list").iter();
        std::iter::once(own).chain(others.filter(|other| !same(other)).cloned()).collect()
    } else {
        Value::Null
    };
    for cluster in worker["clusters"].as_object_mut().into_iter().flat_map(|clusters| clusters.values_mut()) {
        cluster["auth_user"] = json!("");
        cluster["auth_password"] = json!("");
    }
    worker["annotations"]["oscar.grycap/origin-cluster"] = root["cluster_id"].clone();
    worker["annotations"]["oscar.grycap/origin-service"] = root["name"].clone();
    worker["annotations"]["oscar.grycap/federation-worker"] = json!("true");
    for (key, value) in worker["environment"]["secrets"].as_object_mut().into_iter().flatten() {
        let shared = mesh && key == "refresh_token";
        *value = secret.filter(|_| shared).map_or_else(|| json!(""), |secret| secret[key].clone());
    }
    worker
}

async fn list(
    State(manager): State<V4>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Response> {
    let (caller, _) = manager.hear(&method, &uri, &headers, b"")?;
    let services = manager.inner().services.values().filter(|service| may(&caller, service)).cloned().collect();
    Ok(Json(services))
}

async fn read(
    State(manager): State<V4>,
    Path(name): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Response> {
    let (caller, _) = manager.hear(&method, &uri, &headers, b"")?;
    let service = manager.service(&name).ok_or_else(|| StatusCode::NOT_FOUND.into_response())?;
    if may(&caller, &service) { Ok(Json(service)) } else { Err(forbidden(&caller, "get")) }
}

async fn create(
    State(manager): State<V4>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, Response> {
    let (caller, service) = manager.hear(&method, &uri, &headers, &body)?;
    check(&service)?;
    let name = service["name"].as_str().unwrap_or_default();
    let mut inner = manager.inner();
    let secrets = service["environment"]["secrets"].as_object().is_some_and(|secrets| !secrets.is_empty());
    if secrets && inner.secrets.contains_key(name) {
        return Err((StatusCode::CONFLICT, "A secret with the given name already exists").into_response());
    }
    if inner.services.contains_key(name) {
        return Err((StatusCode::BAD_REQUEST, "A service with the provided name already exists").into_response());
    }
    if let Some(refusal) = inner.refusal {
        return Err(refusal.into_response());
    }
    let owner = caller.0.as_deref().unwrap_or("cluster_admin").to_owned();
    let given = service["annotations"]["oscar.grycap/federation-worker"] == "true";
    let token = if given { service["token"].clone() } else { json!("cd".repeat(32)) };
    inner.store(service, &owner, &token);
    Ok(StatusCode::CREATED)
}

async fn update(
    State(manager): State<V4>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, Response> {
    let (caller, service) = manager.hear(&method, &uri, &headers, &body)?;
    check(&service)?;
    let name = service["name"].as_str().unwrap_or_default();
    let former = manager.service(name).ok_or_else(|| StatusCode::NOT_FOUND.into_response())?;
    let owner = match &caller.0 {
        Some(person) if former["owner"] == json!(person) => former["owner"].clone(),
        Some(_) => return Err(forbidden(&caller, "modify")),
        None => service["owner"].clone(),
    };
    let owner = owner.as_str().unwrap_or_default();
    manager.inner().store(service, owner, &former["token"]);
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(
    State(manager): State<V4>,
    Path(name): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<StatusCode, Response> {
    let (caller, _) = manager.hear(&method, &uri, &headers, b"")?;
    let service = manager.service(&name).ok_or_else(|| StatusCode::NOT_FOUND.into_response())?;
    if !may(&caller, &service) {
        return Err(forbidden(&caller, "delete"));
    }
    let mut inner = manager.inner();
    inner.services.remove(&name);
    inner.secrets.remove(&name);
    inner.buckets.retain(|bucket| !buckets_of(&service).contains(bucket));
    Ok(StatusCode::NO_CONTENT)
}

fn may(caller: &Caller, service: &Value) -> bool {
    caller.0.as_ref().is_none_or(|person| service["owner"] == json!(person))
}

fn forbidden(caller: &Caller, act: &str) -> Response {
    let person = caller.0.as_deref().unwrap_or_default();
    (StatusCode::FORBIDDEN, format!("User {person} doesn't have permision to {act} this service")).into_response()
}

fn check(service: &Value) -> Result<(), Refusal> {
    let refuse = |words: String| Err(Refusal::Words(StatusCode::BAD_REQUEST, words));
    for (field, key) in [("Name", "name"), ("Image", "image"), ("Script", "script")] {
        if service[key].as_str().is_none_or(str::is_empty) {
            return refuse(format!(
                "The service specification is not valid: Key: 'Service.{field}' Error:Field validation for \
                 '{field}' failed on the 'required' tag"
            ));
        }
    }
    let members = service["federation"]["members"].as_array().is_some_and(|members| !members.is_empty());
    let token = service["environment"]["secrets"]["refresh_token"].as_str().is_some_and(|token| !token.is_empty());
    if members && !token {
        return refuse("refresh_token secret is required for federated services".to_owned());
    }
    Ok(())
}

fn buckets_of(service: &Value) -> Vec<String> {
    let paths = ["input", "output"].iter().flat_map(|key| service[*key].as_array().into_iter().flatten());
    let buckets = paths.filter_map(|io| io["path"].as_str()?.split('/').next().map(str::to_owned));
    buckets.collect()
}

impl Inner {
    /// Keeps what it was sent: secrets apart, even blank ones over what was there.
    fn store(&mut self, mut service: Value, owner: &str, token: &Value) {
        let name = service["name"].as_str().unwrap_or_default().to_owned();
        service["owner"] = json!(owner);
        service["token"] = token.clone();
        service["namespace"] = json!("oscar-svc");
        service["volume_status"] = json!({"enabled": false});
        for (label, value) in [("oscar_service", name.clone()), ("applicationId", name.clone())] {
            service["labels"][label] = json!(value);
        }
        let annotated = !service["annotations"]["oscar.grycap/origin-cluster"].is_null();
        if let Some(federation) = service["federation"].as_object_mut() {
            federation.entry("members").or_insert(Value::Null);
            // Keys that it does not know are not kept.
            let known = ["group_id", "topology", "delegation", "rescheduler_threshold", "members"];
            federation.retain(|key, _| known.contains(&key.as_str()));
        }
        if let Some(secrets) = service["environment"]["secrets"].as_object_mut().filter(|secrets| !secrets.is_empty()) {
            self.secrets.insert(name.clone(), Value::Object(secrets.clone()));
            secrets.values_mut().for_each(|value| *value = json!(""));
        }
        let own = json!({"endpoint": "https://minio.v4.example.org", "verify": true, "region": "us-east-1"});
        let store = &mut service["storage_providers"]["minio"]["default"];
        if store["endpoint"].as_str().is_none_or(str::is_empty) || !annotated {
            *store = own;
        }
        store["access_key"] = json!("hidden");
        store["secret_key"] = json!("hidden");
        // A worker of a mesh makes no buckets; one of a star does.
        if service["federation"]["topology"] != "mesh" {
            self.buckets.extend(buckets_of(&service));
            self.buckets.sort();
            self.buckets.dedup();
        }
        self.services.insert(name, service);
    }
}
