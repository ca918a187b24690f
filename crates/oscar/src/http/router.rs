//! Every route, once: what it is, who may call it, what answers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, post, put};
use futures::FutureExt as _;
use oscar_api::problem::Code;
use tower::ServiceExt as _;
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer, ExposeHeaders};

use super::answer::Refused;
use super::app::App;
use super::handlers::{
    buckets, channel, config, deployment, federation, info, invoke, jobs, logs, metrics, notices, prometheus, services,
};
use super::traffic::Traffic;

/// Who may call a route at all; what they may see through it is decided below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Anyone,
    /// The administrator or an authenticated user.
    Users,
    /// The same, or whoever holds the token of the service in the path.
    UsersOrServiceToken,
    Administrator,
    /// A member of the federation of the service in the path, under its key.
    MemberKey,
    /// The external object store, under the token of its webhook.
    StoreToken,
}

pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
    handler: fn() -> MethodRouter<Arc<App>>,
}

/// Larger bodies are refused before they are read whole.
pub(super) const MOST_BODY: usize = 4 << 20;

/// The same for what is sent to a service: files are uploaded, not sent here.
pub(super) const MOST_EVENT: usize = 16 << 20;

macro_rules! routes {
    ($($method:ident $path:literal $access:ident $handler:path;)+) => {
        pub const ROUTES: &[Route] = &[$(Route {
            method: stringify!($method),
            path: $path,
            access: Access::$access,
            handler: || $method($handler),
        },)+];
    };
}

routes! {
    get "/health" Anyone info::health;
    post "/job/{serviceName}" UsersOrServiceToken invoke::submit_job;
    get "/metrics" Administrator prometheus::get_prometheus;
    post "/run/{serviceName}" UsersOrServiceToken invoke::run_service;
    get "/system/config" Users config::get_config;
    put "/system/config" Administrator config::put_config;
    get "/system/audit" Users federation::get_audit;
    get "/system/buckets" Users buckets::list_buckets;
    post "/system/buckets" Users buckets::create_bucket;
    put "/system/buckets" Users buckets::update_bucket;
    get "/system/buckets/{bucketName}" Users buckets::get_bucket;
    delete "/system/buckets/{bucketName}" Users buckets::delete_bucket;
    post "/system/buckets/{bucketName}/presign" Users buckets::presign;
    post "/system/events/minio" StoreToken notices::take_minio_event;
    get "/system/federation" Users federation::list_federations;
    get "/system/federation/{serviceName}" UsersOrServiceToken federation::get_federation;
    post "/system/federation/{serviceName}" UsersOrServiceToken federation::add_members;
    put "/system/federation/{serviceName}" UsersOrServiceToken federation::update_members;
    delete "/system/federation/{serviceName}" UsersOrServiceToken federation::remove_members;
    post "/system/federation/{serviceName}/join" Users channel::join;
    post "/system/federation/{serviceName}/reconcile" UsersOrServiceToken federation::reconcile;
    post "/system/federation/{serviceName}/sync" MemberKey channel::sync;
    get "/system/federation/{serviceName}/token" Users federation::get_token;
    put "/system/federation/{serviceName}/token" Users federation::put_token;
    delete "/system/federation/{serviceName}/token" Users federation::delete_token;
    post "/system/federation/{serviceName}/undo" Users channel::undo;
    post "/system/federation/{serviceName}/withdraw" Users channel::withdraw;
    get "/system/info" Users info::get_info;
    get "/system/jobs/{serviceName}" Users jobs::list_jobs;
    get "/system/jobs/{serviceName}/{jobName}" Users jobs::get_job;
    post "/system/jobs/{serviceName}/{jobName}/cancel" Users jobs::cancel_job;
    get "/system/logs" Users logs::get_executions;
    get "/system/logs/{serviceName}" Users logs::list_logs;
    delete "/system/logs/{serviceName}" Users logs::delete_logs;
    get "/system/logs/{serviceName}/{jobName}" Users logs::get_log;
    delete "/system/logs/{serviceName}/{jobName}" Users logs::delete_log;
    get "/system/metrics" Users metrics::get_metrics;
    get "/system/metrics/breakdown" Users metrics::get_breakdown;
    get "/system/metrics/{serviceName}" Users metrics::get_service_metrics;
    get "/system/replicas/{serviceName}" UsersOrServiceToken federation::get_replicas;
    post "/system/replicas/{serviceName}" UsersOrServiceToken federation::add_replicas;
    put "/system/replicas/{serviceName}" UsersOrServiceToken federation::update_replicas;
    delete "/system/replicas/{serviceName}" UsersOrServiceToken federation::remove_replicas;
    get "/system/services" Users services::list_services;
    post "/system/services" Users services::create_service;
    put "/system/services" Users services::update_service;
    get "/system/services/{serviceName}" Users services::get_service;
    delete "/system/services/{serviceName}" Users services::delete_service;
    get "/system/services/{serviceName}/auth" UsersOrServiceToken services::check_auth;
    get "/system/services/{serviceName}/deployment" Users deployment::get_deployment;
    get "/system/services/{serviceName}/deployment/logs" Users deployment::get_deployment_logs;
    get "/system/status" Users info::get_status;
}

/// The whole HTTP side as one service.
pub fn service(
    app: &Arc<App>,
) -> impl tower::Service<Request, Response = Response, Error = std::convert::Infallible, Future: Send> + Clone + Send + use<>
{
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, (route.handler)());
    }
    let router = router
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .layer(middleware::from_fn_with_state(Dresser::of(app), dress))
        .with_state(app.clone());
    let router = if app.facts.cors { router.layer(cors()) } else { router };
    // Before routing, so that `/x` and `/x/` are one resource and no client is redirected.
    router.map_request(without_trailing_slash)
}

fn cors() -> CorsLayer {
    let methods = [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::HEAD];
    CorsLayer::new()
        .allow_origin(AllowOrigin::any())
        .allow_methods(AllowMethods::list(methods))
        // `*` would not cover `Authorization`.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(ExposeHeaders::list([
            header::ETAG,
            header::LINK,
            header::LOCATION,
            HeaderName::from_static("oscar-job-known"),
            HeaderName::from_static("oscar-manager"),
            HeaderName::from_static("oscar-unreadable"),
            HeaderName::from_static("x-duration-seconds"),
            HeaderName::from_static(oscar_api::problem::ERROR_HEADER),
        ]))
}

/// OSCAR answers a wrong method like an unknown path.
async fn not_found(headers: axum::http::HeaderMap) -> Response {
    Refused::new(Code::NotFound, "404 page not found").into_answer(&headers)
}

fn without_trailing_slash(mut request: Request) -> Request {
    let uri = request.uri();
    let path = uri.path();
    if path.len() > 1 && path.ends_with('/') {
        let trimmed = path.trim_end_matches('/');
        let trimmed = if trimmed.is_empty() { "/" } else { trimmed };
        let whole = match uri.query() {
            Some(query) => format!("{trimmed}?{query}"),
            None => trimmed.to_owned(),
        };
        if let Ok(uri) = whole.parse() {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// What every answer carries, and what every request is told in the log.
async fn dress(State(dresser): State<Dresser>, request: Request, next: Next) -> Response {
    let log = tracing::enabled!(tracing::Level::DEBUG).then(|| (request.method().clone(), request.uri().clone()));
    let accept = request.headers().get(header::ACCEPT).cloned();
    let pending = Traffic::expect(&request);
    // A synchronous run has limits of its own, which may be longer.
    let limit = if request.uri().path().starts_with("/run/") { None } else { Some(dresser.limit) };
    let handled = AssertUnwindSafe(next.run(request)).catch_unwind();
    let refused = |code, text| {
        let accept = accept.into_iter().map(|value| (header::ACCEPT, value));
        Refused::new(code, text).into_answer(&accept.collect())
    };
    let handled = match limit {
        Some(limit) => tokio::time::timeout(limit, handled).await,
        None => Ok(handled.await),
    };
    let mut answer = match handled {
        Ok(Ok(answer)) => answer,
        // The panic hook has told the log; the caller gets an answer, and others are served.
        Ok(Err(_)) => refused(Code::Internal, "the manager failed; its log says more"),
        Err(_) => refused(Code::AnswerTimeout, "the answer took too long; whether something was changed is not known"),
    };
    dresser.traffic.answered(pending, &answer);
    if let Some(manager) = dresser.manager {
        answer.headers_mut().insert("oscar-manager", manager);
    }
    if let Some((method, uri)) = log {
        tracing::debug!(%method, path = uri.path(), status = answer.status().as_u16(), "answered");
    }
    answer
}

/// What [`dress`] needs, made once and not for every request.
#[derive(Clone)]
struct Dresser {
    traffic: Arc<Traffic>,
    limit: Duration,
    manager: Option<HeaderValue>,
}

impl Dresser {
    fn of(app: &App) -> Self {
        let manager = HeaderValue::from_str(&format!("{}; v=1", app.facts.instance_id)).ok();
        Self { traffic: app.traffic.clone(), limit: app.limits.answer, manager }
    }
}
