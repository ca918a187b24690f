//! Jobs and their logs as OSCAR's clients know them, and the last calls of services.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use oscar_api::body::jobs::{Executions, JobState, JobStates};
use oscar_api::problem::Code;
use oscar_model::job::Job;

use super::super::answer::{Refused, json_answer};
use super::super::app::App;
use super::super::caller::authenticate;
use super::super::documented::{ExecutionsRefusals, JobChangeRefusals, JobsRefusals, LogRefusals};
use super::extract::{JobInPath, NameInPath, Query, job_name, service_name, undisturbed};
use super::follow::{Follower, Wish};
use super::jobs::{dispatcher, page_of};
use crate::time::{at_millis, rfc3339_seconds};

/// The most that `tailLines` may ask for.
const MOST_LINES: usize = 100_000;

/// The last calls of services, for those who see the whole cluster.
#[utoipa::path(get, path = "/system/logs",
    params(
        ("timestamps" = Option<bool>, Query, description = "Tolerated: every entry has its time."),
        ("previous" = Option<bool>, Query, description = "Refused when true: calls before the last start are not kept."),
    ),
    responses(
        (status = 200, description = "The newest last; at most 1000, since the start of the manager.", body = Executions),
        ExecutionsRefusals))]
pub(in super::super) async fn get_executions(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    match executions(&app, &uri, &headers).await {
        Ok(executions) => json_answer(StatusCode::OK, &executions),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn executions(app: &App, uri: &Uri, headers: &HeaderMap) -> Result<Executions, Refused> {
    let principal = authenticate(app, headers).await?;
    if !app.manager.sees_everything(&principal) {
        return Err(Refused::new(Code::NotAdministrator, "OIDC tokens are not allowed for system logs"));
    }
    let query = Query::of(uri);
    query.flag("timestamps")?;
    if query.flag("previous")? {
        return Err(Refused::new(
            Code::QueryInvalid,
            "query parameter previous: calls before the last start are not kept",
        ));
    }
    Ok(Executions { logs: app.traffic.calls() })
}

/// Jobs of a service by name.
#[utoipa::path(get, path = "/system/logs/{serviceName}",
    params(
        ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "At most so many; else `job_listing_limit`."),
        ("page" = Option<String>, Query, description = "`next_page` of the page before; blank is the first."),
    ),
    responses(
        (status = 200, description = "One page: every job for the owner of the service, their own for others.", body = JobStates),
        JobsRefusals))]
pub(in super::super) async fn list_logs(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    match page_of(&app, &name, &uri, &headers).await {
        Ok(page) => {
            let jobs = page.jobs.iter().map(|job| (job.name.as_str().to_owned(), state_of(job))).collect();
            let states = JobStates { jobs, next_page: page.next, remaining_jobs: page.remaining };
            json_answer(StatusCode::OK, &states)
        }
        Err(refused) => refused.into_answer(&headers),
    }
}

/// Forgets the jobs of a service that succeeded, or all; what has not ended is ended then.
#[utoipa::path(delete, path = "/system/logs/{serviceName}",
    params(
        ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("all" = Option<bool>, Query, description = "Also those that did not succeed."),
    ),
    responses(
        (status = 204, description = "They are forgotten: all for the owner of the service, their own for others."),
        JobChangeRefusals))]
pub(in super::super) async fn delete_logs(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    forget_all(&app, &name, &uri, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn forget_all(app: &App, name: &str, uri: &Uri, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let (all, name) = (Query::of(uri).flag("all")?, service_name(name)?);
    let jobs = dispatcher(app, &principal, &name).await?;
    undisturbed(async move { jobs.remove_all(&principal, &name, all).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What a job said.
#[utoipa::path(get, path = "/system/logs/{serviceName}/{jobName}",
    params(
        ("serviceName" = String, Path, description = "The service's name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("jobName" = String, Path, description = "The job's name."),
        ("timestamps" = Option<bool>, Query, description = "Each line begins with its time."),
        ("tailLines" = Option<usize>, Query, minimum = 1, maximum = 100_000, description = "Only the last lines."),
        ("follow" = Option<bool>, Query, description = "Go on until the job has ended."),
        ("previous" = Option<bool>, Query, description = "Of the attempt before the last one."),
    ),
    responses(
        (status = 200, description = "Its log.", body = String, content_type = "text/plain"),
        LogRefusals))]
pub(in super::super) async fn get_log(
    State(app): State<Arc<App>>,
    path: JobInPath,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    read(&app, &path, &uri, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn read(app: &App, path: &JobInPath, uri: &Uri, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let query = Query::of(uri);
    let wish = Wish {
        timestamps: query.flag("timestamps")?,
        tail_lines: query.limit("tailLines", MOST_LINES)?,
        follow: query.flag("follow")?,
        previous: query.flag("previous")?,
    };
    let service = service_name(&path.service)?;
    let jobs = dispatcher(app, &principal, &service).await?;
    let body = Follower::new(jobs, principal, service, job_name(&path.job)?, wish).into_body().await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// Forgets one job with its log; one that has not ended is ended.
#[utoipa::path(delete, path = "/system/logs/{serviceName}/{jobName}",
    params(
        ("serviceName" = String, Path, description = "The service's name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("jobName" = String, Path, description = "The job's name."),
    ),
    responses(
        (status = 204, description = "It is forgotten, or told to end."),
        JobChangeRefusals))]
pub(in super::super) async fn delete_log(State(app): State<Arc<App>>, path: JobInPath, headers: HeaderMap) -> Response {
    forget(&app, &path, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn forget(app: &App, path: &JobInPath, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let service = service_name(&path.service)?;
    let jobs = dispatcher(app, &principal, &service).await?;
    let name = job_name(&path.job)?;
    undisturbed(async move { jobs.remove(&principal, &service, &name).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn state_of(job: &Job) -> JobState {
    let seconds = |millis: u64| rfc3339_seconds(at_millis(millis));
    JobState {
        status: job.phase.as_pod_phase().to_owned(),
        creation_time: Some(seconds(job.accepted_at())),
        start_time: job.started_at().map(seconds),
        finish_time: job.finished_at().map(seconds),
        state: job.phase.as_str().to_owned(),
        reason: job.reason().to_owned(),
    }
}
