//! Services.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use oscar_api::body::DryRun;
use oscar_api::federation::channel::OPERATION_HEADER;
use oscar_api::federation::replicas::CreatedBody;
use oscar_api::json;
use oscar_api::problem::Code;
use oscar_api::service::{DefinitionFile, ServiceBody, ServiceRequest, UNREADABLE_HEADER, encode};
use oscar_engine::ports::services::{Entry, Revision};
use oscar_engine::{Action, Change, Consequences, Order, Purpose, Terms};
use oscar_model::access::view;
use oscar_model::identity::Principal;
use oscar_model::service::Service;

use super::super::answer::{Refused, json_answer, json_list, json_text};
use super::super::app::App;
use super::super::caller::{authenticate, authenticate_for};
use super::super::documented::{CreateRefusals, DeleteRefusals, GetRefusals, ListRefusals, UpdateRefusals};
use super::super::printed::Print;
use super::extract::{NameInPath, Query, body, definition, guard, service_name, undisturbed};
use super::federation::{step_body, terms};

/// The most services of one page.
const MOST_PER_PAGE: usize = 1000;

/// Every service that the caller may see.
#[utoipa::path(get, path = "/system/services",
    params(
        ("include" = Option<String>, Query, description = "`deployment` adds the state of the running part."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "At most so many; the `Link` header names the next page."),
        ("page" = Option<String>, Query, description = "The name after which the page begins."),
    ),
    responses(
        (status = 200, description = "Services by name; all of them unless `limit` is given.", body = Vec<ServiceBody<'static>>,
            headers(("Link" = String, description = "The next page, with `limit`."),
                    ("Oscar-Unreadable" = String, description = "Services whose stored definition cannot be read, for the administrator."))),
        ListRefusals))]
pub(in super::super) async fn list_services(State(app): State<Arc<App>>, request: Request) -> Response {
    let (Parts { uri, headers, .. }, _) = request.into_parts();
    list(&app, &uri, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn list(app: &App, uri: &Uri, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let query = Query::of(uri);
    let (limit, page) = (query.limit("limit", MOST_PER_PAGE)?, query.get("page"));
    let mut entries = app.manager.services(&principal).await?;
    if let Some(page) = page {
        entries.retain(|entry| entry.name() > page);
    }
    let next = limit.filter(|limit| entries.len() > *limit).map(|limit| entries[limit - 1].name().to_owned());
    entries.truncate(limit.unwrap_or(usize::MAX));
    let unreadable: Vec<_> = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Broken { .. }))
        .map(|entry| entry.name().to_owned())
        .collect();
    let good: Vec<_> = entries
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Good(stored) => Some(stored),
            Entry::Broken { .. } => None,
        })
        .collect();
    let deployment = query.names("include", "deployment");
    let mut answer =
        json_list(good, move |out, stored| json::append(out, &show(&stored.service, &principal, deployment)));
    if let (Some(next), Some(limit)) = (next, limit) {
        let include = if deployment { "&include=deployment" } else { "" };
        set(&mut answer, "link", &format!("</system/services?limit={limit}&page={next}{include}>; rel=\"next\""));
    }
    if !unreadable.is_empty() {
        set(&mut answer, UNREADABLE_HEADER, &unreadable.join(","));
    }
    Ok(answer)
}

/// One service.
#[utoipa::path(get, path = "/system/services/{serviceName}",
    params(
        ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("include" = Option<String>, Query, description = "`deployment` adds the state of the running part."),
    ),
    responses(
        (status = 200, description = "The service.", body = ServiceBody<'static>, headers(("ETag" = String, description = "Guards a later change."))),
        GetRefusals))]
pub(in super::super) async fn get_service(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    request: Request,
) -> Response {
    let (Parts { uri, headers, .. }, _) = request.into_parts();
    get(&app, &name, &uri, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn get(app: &App, name: &str, uri: &Uri, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let stored = app.manager.service(&principal, &service_name(name)?).await?;
    let mut answer = if Query::of(uri).names("include", "deployment") {
        let mut answer = json_answer(StatusCode::OK, &show(&stored.service, &principal, true));
        set_revision(&mut answer, Some(&stored.revision));
        answer
    } else {
        let Print { body, etag } = app.prints.of(&stored, view(&principal, &stored.service.owner));
        let mut answer = json_text(StatusCode::OK, body);
        answer.headers_mut().extend(etag.map(|etag| (header::ETAG, etag)));
        answer
    };
    if stored.service.definition.is_worker() && principal.acts_for(&stored.service.owner) {
        let adopted = app.manager.is_adopted(&stored).await;
        set(&mut answer, "oscar-replica", if adopted { "adopted" } else { "created" });
    }
    Ok(answer)
}

/// Creates a service.
#[utoipa::path(post, path = "/system/services",
    params(("dry_run" = Option<bool>, Query, description = "Only say what would be stored.")),
    request_body(content((ServiceRequest = "application/json"), (DefinitionFile = "application/yaml")), description = "A service as JSON, or a definition file with one service as YAML."),
    responses(
        (status = 200, description = "What would be stored, with `dry_run`.", body = DryRun<'static>),
        (status = 201, description = "Created. A service with members is answered with what became of each, as `federation` of a dry run has it.", headers(("Location" = String), ("ETag" = String))),
        CreateRefusals))]
pub(in super::super) async fn create_service(State(app): State<Arc<App>>, request: Request) -> Response {
    let headers = request.headers().clone();
    create(&app, &headers, request).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn create(app: &App, headers: &HeaderMap, request: Request) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let dry_run = Query::of(request.uri()).flag("dry_run")?;
    let bytes = body(app, request).await?;
    let draft = definition(app, &principal, headers, &bytes, Purpose::Create).await?;
    let terms = Terms { order: order(headers), ..terms(app, &principal, headers, dry_run) };
    let (manager, caller) = (app.manager.clone(), principal.clone());
    let change =
        undisturbed(Box::pin(async move { manager.create(&caller, draft.definition, &draft.token, terms).await }))
            .await?;
    let mut answer = match &change.federation {
        _ if dry_run => dry(&change, &principal),
        // Clients of OSCAR read nothing here; ours show what became of each member.
        Some(consequences) => json_answer(StatusCode::CREATED, &created(consequences)),
        None => StatusCode::CREATED.into_response(),
    };
    if !dry_run {
        set(&mut answer, "location", &format!("/system/services/{}", change.service.name()));
    }
    set_revision(&mut answer, change.revision.as_ref());
    Ok(answer)
}

/// Replaces a service.
#[utoipa::path(put, path = "/system/services",
    params(
        ("dry_run" = Option<bool>, Query, description = "Only say what would be stored."),
        ("detach" = Option<bool>, Query, description = "Take a replica out of its federation first."),
        ("If-Match" = Option<String>, Header, description = "Only if this is still its `ETag`."),
    ),
    request_body(content((ServiceRequest = "application/json"), (DefinitionFile = "application/yaml")), description = "The whole service; blank secrets keep what is stored."),
    responses(
        (status = 200, description = "What would be stored, with `dry_run`.", body = DryRun<'static>),
        (status = 204, description = "Replaced.", headers(("ETag" = String))),
        UpdateRefusals))]
pub(in super::super) async fn update_service(State(app): State<Arc<App>>, request: Request) -> Response {
    let headers = request.headers().clone();
    update(&app, &headers, request).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn update(app: &App, headers: &HeaderMap, request: Request) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let query = Query::of(request.uri());
    let (dry_run, detach) = (query.flag("dry_run")?, query.flag("detach")?);
    let bytes = body(app, request).await?;
    let draft = definition(app, &principal, headers, &bytes, Purpose::Change).await?;
    let terms =
        Terms { guard: guard(headers), detach, order: order(headers), ..terms(app, &principal, headers, dry_run) };
    let (manager, caller) = (app.manager.clone(), principal.clone());
    let change =
        undisturbed(Box::pin(async move { manager.update(&caller, draft.definition, &draft.token, terms).await }))
            .await?;
    let mut answer = match &change.federation {
        _ if dry_run => dry(&change, &principal),
        Some(Consequences { troubles, warnings, .. }) if !troubles.is_empty() || !warnings.is_empty() => {
            let all: Vec<_> = troubles.iter().map(ToString::to_string).chain(warnings.iter().cloned()).collect();
            format!("Updated with federation warnings: [{}]", all.join("; ")).into_response()
        }
        _ => StatusCode::NO_CONTENT.into_response(),
    };
    set_revision(&mut answer, change.revision.as_ref());
    Ok(answer)
}

/// Removes a service.
#[utoipa::path(delete, path = "/system/services/{serviceName}",
    params(
        ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("dry_run" = Option<bool>, Query, description = "Only say what would be removed."),
        ("detach" = Option<bool>, Query, description = "Take a replica out of its federation first."),
        ("keep_data" = Option<bool>, Query, description = "Leave the buckets that were made for it, with what is in them."),
        ("If-Match" = Option<String>, Header, description = "Only if this is still its `ETag`."),
    ),
    responses(
        (status = 200, description = "What would be removed, with `dry_run`; or removed, with what its coordinator does not know yet, as text.", body = DryRun<'static>),
        (status = 204, description = "Removed."),
        DeleteRefusals))]
pub(in super::super) async fn delete_service(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    remove(&app, &name, &uri, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn remove(app: &App, name: &str, uri: &Uri, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let query = Query::of(uri);
    let (dry_run, detach, keep_data) = (query.flag("dry_run")?, query.flag("detach")?, query.flag("keep_data")?);
    let terms = Terms { guard: guard(headers), detach, keep_data, ..terms(app, &principal, headers, dry_run) };
    let (manager, caller, name) = (app.manager.clone(), principal.clone(), service_name(name)?);
    let change = undisturbed(async move { manager.remove(&caller, &name, terms).await }).await?;
    Ok(match change {
        Some(change) if dry_run => dry(&change, &principal),
        Some(Change { federation: Some(Consequences { warnings, .. }), .. }) if !warnings.is_empty() => {
            format!("Removed with federation warnings: [{}]", warnings.join("; ")).into_response()
        }
        _ => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Whether the caller may reach the exposed part of a service; proxies ask before they forward.
#[utoipa::path(get, path = "/system/services/{serviceName}/auth",
    params(("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    responses(
        (status = 200, description = "He may."),
        GetRefusals))]
pub(in super::super) async fn check_auth(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    auth(&app, &name, &uri, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn auth(app: &App, name: &str, uri: &Uri, headers: &HeaderMap) -> Result<Response, Refused> {
    let name = service_name(name)?;
    let offered = super::super::caller::offered_tokens(uri, headers, &name);
    if offered.is_empty() {
        let principal = authenticate_for(app, headers, &name).await?;
        app.manager.may_invoke(&principal, &name).await?;
        return Ok(StatusCode::OK.into_response());
    }
    for token in offered {
        if app.manager.service_by_token(&name, &token).await.is_some() {
            let mut answer = StatusCode::OK.into_response();
            set(&mut answer, "set-cookie", &super::super::caller::token_cookie(headers, &name, &token));
            return Ok(answer);
        }
    }
    Err(Refused::new(Code::TokenRefused, "this is not the token of that service"))
}

/// What a coordinator of our kind says of itself: `Oscar-Operation: <operation>; t=<time>`. Whatever
/// is not of that form is somebody else's.
fn order(headers: &HeaderMap) -> Option<Order> {
    let (operation, time) = headers.get(OPERATION_HEADER)?.to_str().ok()?.split_once(';')?;
    let time = time.trim().strip_prefix("t=")?.parse().ok()?;
    Some(Order { operation: operation.trim().to_owned(), time })
}

fn show<'a>(service: &'a Service, principal: &Principal, deployment: bool) -> ServiceBody<'a> {
    let mut shown = encode(service, view(principal, &service.owner));
    if deployment {
        shown.deployment = Some(super::deployment::summary());
    }
    shown
}

fn dry(change: &Change, principal: &Principal) -> Response {
    let action = match change.action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Delete => "delete",
        Action::Nothing => "none",
    };
    let service = encode(&change.service, view(principal, &change.service.owner));
    let federation = change.federation.as_ref().map(created);
    json_answer(StatusCode::OK, &DryRun { dry_run: true, action: action.to_owned(), service, federation })
}

fn created(consequences: &Consequences) -> CreatedBody {
    CreatedBody {
        members: consequences.steps.iter().map(|(member, act)| step_body(member, *act)).collect(),
        warnings: consequences.warnings.clone(),
    }
}

fn set_revision(answer: &mut Response, revision: Option<&Revision>) {
    if let Some(revision) = revision {
        set(answer, header::ETAG.as_str(), &format!("\"{revision}\""));
    }
}

/// Header values here are names and numbers; one that is not is left away.
fn set(answer: &mut Response, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}
