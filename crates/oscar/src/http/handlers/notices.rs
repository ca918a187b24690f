//! What an object store that runs elsewhere tells of uploads.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use oscar_api::problem::Code;

use super::super::answer::Refused;
use super::super::app::App;
use super::super::caller::offered_token;
use super::super::documented::NoticeRefusals;
use super::extract::{body_within, undisturbed};

/// One event has at most a few kilobytes of metadata.
const MOST_NOTICE: usize = 1 << 20;

/// The webhook of an external MinIO: one for all services. What is answered with success is on
/// disk, and becomes jobs of the services that wait for it.
#[utoipa::path(post, path = "/system/events/minio",
    request_body(content = String, content_type = "application/json", description = "An event as MinIO sends it: at most 1 MiB."),
    responses((status = 204, description = "It is stored."), NoticeRefusals))]
pub(in super::super) async fn take_minio_event(State(app): State<Arc<App>>, request: Request) -> Response {
    let headers = request.headers().clone();
    take(&app, request, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn take(app: &App, request: Request, headers: &HeaderMap) -> Result<Response, Refused> {
    let Some(token) = offered_token(headers) else {
        return Err(Refused::unauthenticated("an object store speaks under the token of its webhook"));
    };
    let notices = app.notices.clone().filter(|notices| notices.is_from_store(token));
    let Some(notices) = notices else {
        return Err(Refused::new(Code::TokenRefused, "this is not the token of the webhook"));
    };
    let event = body_within(app, request, MOST_NOTICE).await?;
    // What was begun is stored, whether or not the store waits for the answer.
    undisturbed(async move { notices.take(&event).await.map_err(oscar_engine::Failure::from) }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
