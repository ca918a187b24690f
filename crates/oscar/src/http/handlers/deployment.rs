//! The running part of a service. Jobs start one by one, so no service has one here.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use oscar_api::body::jobs::{DeploymentBody, DeploymentLogs};
use oscar_api::service::DeploymentSummary;
use oscar_engine::ports::services::Stored;

use super::super::answer::{Refused, json_answer};
use super::super::app::App;
use super::super::caller::authenticate;
use super::super::documented::GetRefusals;
use super::extract::{NameInPath, Query, service_name};

/// Nothing runs for a definition alone.
pub(super) fn summary() -> DeploymentSummary {
    DeploymentSummary {
        state: "unavailable".to_owned(),
        reason: String::new(),
        active_instances: 0,
        affected_instances: 0,
        resource_kind: "unavailable".to_owned(),
    }
}

/// How the running part of a service is doing.
#[utoipa::path(get, path = "/system/services/{serviceName}/deployment",
    params(("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    responses(
        (status = 200, description = "`unavailable` for services that run as jobs.", body = DeploymentBody),
        GetRefusals))]
pub(in super::super) async fn get_deployment(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    headers: HeaderMap,
) -> Response {
    match seen(&app, &name, &headers).await {
        Ok(stored) => {
            let (service_name, namespace) =
                (stored.service.name().as_str().to_owned(), stored.service.namespace.clone());
            json_answer(StatusCode::OK, &DeploymentBody { service_name, namespace, summary: summary() })
        }
        Err(refused) => refused.into_answer(&headers),
    }
}

/// What the running part of a service said.
#[utoipa::path(get, path = "/system/services/{serviceName}/deployment/logs",
    params(
        ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("timestamps" = Option<bool>, Query, description = "Each entry has its time."),
        ("tailLines" = Option<String>, Query, description = "Only the last lines."),
    ),
    responses(
        (status = 200, description = "Not available for services that run as jobs; the message says where their logs are.", body = DeploymentLogs),
        GetRefusals))]
pub(in super::super) async fn get_deployment_logs(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let logs = async {
        let stored = seen(&app, &name, &headers).await?;
        Query::of(&uri).flag("timestamps")?;
        let name = stored.service.name();
        Ok::<_, Refused>(DeploymentLogs {
            service_name: name.as_str().to_owned(),
            available: false,
            message: format!("This service runs as jobs, each with a log of its own: GET /system/logs/{name}/{{job}}"),
            entries: Vec::new(),
        })
    };
    match logs.await {
        Ok(logs) => json_answer(StatusCode::OK, &logs),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn seen(app: &App, name: &str, headers: &HeaderMap) -> Result<Arc<Stored>, Refused> {
    let principal = authenticate(app, headers).await?;
    Ok(app.manager.service(&principal, &service_name(name)?).await?)
}
