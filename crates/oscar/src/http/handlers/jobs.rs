//! Jobs with their stories.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use oscar_api::body::jobs::{JobBody, JobList, JobSummary, ObjectBody, OutputBody, SourceBody, StepBody};
use oscar_engine::jobs::Dispatcher;
use oscar_model::identity::Principal;
use oscar_model::job::{Job, Output, Source, Step};
use oscar_model::name::ServiceName;

use super::super::answer::{Refused, json_answer};
use super::super::app::App;
use super::super::caller::authenticate;
use super::super::documented::{JobChangeRefusals, JobRefusals, JobsRefusals};
use super::extract::{JobInPath, NameInPath, Query, job_name, service_name, undisturbed};
use crate::time::rfc3339_millis;

/// The most jobs of one page.
pub(super) const MOST_PER_PAGE: usize = 1000;

/// Jobs of a service, the newest first.
#[utoipa::path(get, path = "/system/jobs/{serviceName}",
    params(
        ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "At most so many; else `job_listing_limit`."),
        ("page" = Option<String>, Query, description = "`next_page` of the page before."),
    ),
    responses(
        (status = 200, description = "One page: every job for the owner of the service, their own for others.", body = JobList),
        JobsRefusals))]
pub(in super::super) async fn list_jobs(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    match list(&app, &name, &uri, &headers).await {
        Ok(list) => json_answer(StatusCode::OK, &list),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn list(app: &App, name: &str, uri: &Uri, headers: &HeaderMap) -> Result<JobList, Refused> {
    let page = page_of(app, name, uri, headers).await?;
    let jobs = page.jobs.iter().map(summary).collect();
    Ok(JobList { jobs, next_page: page.next, remaining_jobs: page.remaining })
}

/// The page that a request asks for.
pub(super) async fn page_of(
    app: &App,
    name: &str,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<oscar_engine::jobs::JobList, Refused> {
    let principal = authenticate(app, headers).await?;
    let (query, name) = (Query::of(uri), service_name(name)?);
    let limit = query.limit("limit", MOST_PER_PAGE)?.unwrap_or(app.limits.page);
    let jobs = dispatcher(app, &principal, &name).await?;
    Ok(jobs.list(&principal, &name, query.get("page").map(str::to_owned), limit).await?)
}

/// One job, from its beginning to where it is.
#[utoipa::path(get, path = "/system/jobs/{serviceName}/{jobName}",
    params(
        ("serviceName" = String, Path, description = "The service's name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("jobName" = String, Path, description = "The job's name."),
    ),
    responses(
        (status = 200, description = "The job.", body = JobBody),
        JobRefusals))]
pub(in super::super) async fn get_job(State(app): State<Arc<App>>, path: JobInPath, headers: HeaderMap) -> Response {
    match get(&app, &path, &headers).await {
        Ok(job) => json_answer(StatusCode::OK, &job),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn get(app: &App, path: &JobInPath, headers: &HeaderMap) -> Result<JobBody, Refused> {
    let principal = authenticate(app, headers).await?;
    let service = service_name(&path.service)?;
    let jobs = dispatcher(app, &principal, &service).await?;
    Ok(whole(jobs.job(&principal, &service, &job_name(&path.job)?).await?))
}

/// Ends a job.
#[utoipa::path(post, path = "/system/jobs/{serviceName}/{jobName}/cancel",
    params(
        ("serviceName" = String, Path, description = "The service's name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("jobName" = String, Path, description = "The job's name."),
    ),
    responses(
        (status = 200, description = "It waited, and has ended.", body = JobBody),
        (status = 202, description = "It runs, and was told to end.", body = JobBody),
        JobChangeRefusals))]
pub(in super::super) async fn cancel_job(State(app): State<Arc<App>>, path: JobInPath, headers: HeaderMap) -> Response {
    cancel(&app, &path, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn cancel(app: &App, path: &JobInPath, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let service = service_name(&path.service)?;
    let jobs = dispatcher(app, &principal, &service).await?;
    let name = job_name(&path.job)?;
    let job = undisturbed(async move { jobs.cancel(&principal, &service, &name).await }).await?;
    let status = if job.phase.is_final() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(json_answer(status, &whole(job)))
}

/// Who looks after the jobs of a service that the caller may see.
pub(super) async fn dispatcher(
    app: &App,
    principal: &Principal,
    service: &ServiceName,
) -> Result<Arc<Dispatcher>, Refused> {
    app.manager.service(principal, service).await?;
    Ok(app.manager.jobs()?.clone())
}

fn summary(job: &Job) -> JobSummary {
    JobSummary {
        name: job.name.as_str().to_owned(),
        state: job.phase.as_str().to_owned(),
        reason: job.reason().to_owned(),
        accepted: rfc3339_millis(job.accepted_at()),
        started: job.started_at().map(rfc3339_millis),
        finished: job.finished_at().map(rfc3339_millis),
        attempts: job.attempt,
        exit_code: job.exit_code,
    }
}

fn whole(job: Job) -> JobBody {
    let JobSummary { name, state, reason, accepted, started, finished, attempts, exit_code } = summary(&job);
    // The rest of a job is the manager's own affair.
    let Job { service, submitter, source, input, cancelling, outputs, story, .. } = job;
    JobBody {
        name,
        service: service.as_str().to_owned(),
        cancelling: cancelling && finished.is_none(),
        state,
        reason,
        submitter: submitter.map(|owner| owner.as_str().to_owned()),
        source: source_body(source),
        input: input.map(|input| ObjectBody { bucket: input.bucket, key: input.key }),
        accepted,
        started,
        finished,
        attempts,
        exit_code,
        outputs: outputs.into_iter().map(output_body).collect(),
        story: story.into_iter().map(step_body).collect(),
    }
}

fn source_body(source: Source) -> SourceBody {
    let (kind, version, from) = match source {
        Source::Call => ("call", None, None),
        Source::Upload { version } => ("upload", Some(version), None),
        Source::Delegated { from } => ("delegated", None, Some(from)),
    };
    SourceBody { kind: kind.to_owned(), version, from }
}

fn output_body(output: Output) -> OutputBody {
    let Output { provider, bucket, key, bytes, staged: _ } = output;
    OutputBody { provider, bucket, key, bytes }
}

fn step_body(step: Step) -> StepBody {
    let Step { at, phase, attempt, reason } = step;
    StepBody { time: rfc3339_millis(at), state: phase.as_str().to_owned(), attempt, reason }
}
