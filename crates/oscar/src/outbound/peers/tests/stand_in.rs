//! A small Go OSCAR: keeps what it is sent, shows it, and believes its administrator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) what: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

#[derive(Default)]
struct Inner {
    services: BTreeMap<String, Value>,
    heard: Vec<Heard>,
    /// As before 4.1: one port, and no list of them.
    knows_one_port: bool,
}

#[derive(Clone, Default)]
pub(super) struct StandIn {
    inner: Arc<Mutex<Inner>>,
    pub(super) url: String,
}

impl StandIn {
    pub(super) async fn start() -> Self {
        let mut stand_in = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        stand_in.url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new()
            .route("/system/services", post(create).put(update))
            .route("/system/services/{name}", get(show).delete(remove))
            .with_state(stand_in.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        stand_in
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, service: Value) {
        let name = service["name"].as_str().expect("a name").to_owned();
        self.inner().services.insert(name, service);
    }

    pub(super) fn service(&self, name: &str) -> Option<Value> {
        self.inner().services.get(name).cloned()
    }

    pub(super) fn become_older(&self) {
        self.inner().knows_one_port = true;
    }

    fn check(&self, service: &Value) -> Result<(), (StatusCode, &'static str)> {
        if self.inner().knows_one_port && service["expose"]["api_port"].is_array() {
            let told = "The service specification is not valid: json: cannot unmarshal array into Go struct field \
                        Expose.expose.api_port of type int";
            return Err((StatusCode::BAD_REQUEST, told));
        }
        Ok(())
    }

    /// What it was asked since the last time.
    pub(super) fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.inner().heard)
    }

    fn note(&self, method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Value {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let heard = Heard { what: format!("{method} {uri}"), headers: headers.clone(), body: body.clone() };
        self.inner().heard.push(heard);
        body
    }
}

/// The person that a token belongs to; nobody for the administrator.
fn person(headers: &HeaderMap) -> Result<Option<String>, StatusCode> {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match value.split_once(' ') {
        Some(("Bearer", token)) => match token.strip_suffix("-token") {
            Some(person) => Ok(Some(person.to_owned())),
            None => Err(StatusCode::UNAUTHORIZED),
        },
        Some(("Basic", "b3NjYXI6YWNjb3VudC13b3Jk")) => Ok(None),
        _ => Err(StatusCode::UNAUTHORIZED),
    }
}

/// As it is shown: secrets blank, its own store put in.
pub(super) fn stored(mut service: Value, owner: &str) -> Value {
    service["owner"] = json!(owner);
    if let Some(secrets) = service["environment"]["secrets"].as_object_mut() {
        secrets.values_mut().for_each(|value| *value = json!(""));
    }
    service["storage_providers"]["minio"]["default"] = json!({"endpoint": "https://minio.here", "verify": true,
        "access_key": "hidden", "secret_key": "hidden", "region": "us-east-1"});
    service
}

async fn create(
    State(manager): State<StandIn>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, Response> {
    let service = manager.note(&method, &uri, &headers, &body);
    let person = person(&headers).map_err(IntoResponse::into_response)?;
    manager.check(&service).map_err(IntoResponse::into_response)?;
    let name = service["name"].as_str().unwrap_or_default().to_owned();
    if manager.service(&name).is_some() {
        let told = "A service with the provided name already exists";
        return Err((StatusCode::BAD_REQUEST, told).into_response());
    }
    manager.put(stored(service, person.as_deref().unwrap_or("cluster_admin")));
    Ok(StatusCode::CREATED)
}

async fn update(
    State(manager): State<StandIn>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, Response> {
    let service = manager.note(&method, &uri, &headers, &body);
    let person = person(&headers).map_err(IntoResponse::into_response)?;
    manager.check(&service).map_err(IntoResponse::into_response)?;
    let former = manager.service(service["name"].as_str().unwrap_or_default());
    let former = former.ok_or_else(|| StatusCode::NOT_FOUND.into_response())?;
    let owner = match person {
        Some(person) if former["owner"] == json!(person) => person,
        Some(_) => return Err(StatusCode::FORBIDDEN.into_response()),
        None => service["owner"].as_str().unwrap_or_default().to_owned(),
    };
    let mut updated = stored(service, &owner);
    updated["token"] = former["token"].clone();
    manager.put(updated);
    Ok(StatusCode::NO_CONTENT)
}

async fn show(
    State(manager): State<StandIn>,
    Path(name): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<axum::Json<Value>, StatusCode> {
    manager.note(&method, &uri, &headers, b"");
    person(&headers)?;
    manager.service(&name).map(axum::Json).ok_or(StatusCode::NOT_FOUND)
}

async fn remove(
    State(manager): State<StandIn>,
    Path(name): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<StatusCode, StatusCode> {
    manager.note(&method, &uri, &headers, b"");
    person(&headers)?;
    let removed = manager.inner().services.remove(&name);
    removed.map(|_| StatusCode::NO_CONTENT).ok_or(StatusCode::NOT_FOUND)
}
