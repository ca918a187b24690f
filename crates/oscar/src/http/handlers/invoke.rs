//! Calls of services: one that is stored and run later, and one whose caller waits.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use oscar_api::body::jobs::{ANSWER_BASE64, ANSWER_ENCODING, Accepted};
use oscar_api::event;
use oscar_api::problem::{Code, ERROR_HEADER, PROBLEM_JSON};
use oscar_engine::jobs::{Answer, Call, Dispatcher, RunFailure, Submitted};
use oscar_model::fault::quoted;
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;

use super::super::answer::{Refused, json_answer};
use super::super::app::App;
use super::super::caller::authenticate_for;
use super::super::documented::{RunRefusals, SubmitRefusals};
use super::super::router::MOST_EVENT;
use super::super::traffic::CalledBy;
use super::extract::{NameInPath, body_within, service_name, undisturbed};

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Whether an earlier call with the same key made the job.
const KNOWN: HeaderName = HeaderName::from_static("oscar-job-known");

const DURATION: HeaderName = HeaderName::from_static("x-duration-seconds");

const LONGEST_KEY: usize = 255;

/// Stores a job for the service, with the body as its event. It runs as soon as there is room.
#[utoipa::path(post, path = "/job/{serviceName}",
    params(
        ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("Idempotency-Key" = Option<String>, Header, description = "Calls with the same key and body make one job. At most 255 visible ASCII characters."),
    ),
    request_body(content = Option<String>, content_type = "application/octet-stream", description = "The event: at most 16 MiB of anything."),
    responses(
        (status = 201, description = "The job is stored.", body = Accepted,
            headers(("Location" = String, description = "Where its story is told."),
                    ("Oscar-Job-Known" = String, description = "`true` when an earlier call with the same key made it."))),
        SubmitRefusals))]
pub(in super::super) async fn submit_job(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let mut by = None;
    let answer = submit(&app, &name, request, &mut by).await.unwrap_or_else(|refused| refused.into_answer(&headers));
    signed(answer, by)
}

async fn submit(app: &App, name: &str, request: Request, by: &mut Option<CalledBy>) -> Result<Response, Refused> {
    let (principal, name) = caller(app, name, request.headers(), by).await?;
    let idempotency_key = idempotency_key(request.headers())?;
    let jobs = dispatcher(app, &principal, &name).await?;
    let event = body_within(app, request, MOST_EVENT).await?;
    let input = event::input_of(&event);
    let call = Call { service: name.clone(), event: Arc::from(&event[..]), input, idempotency_key };
    let Submitted { name: job, known } = undisturbed(async move { jobs.submit(&principal, call).await }).await?;
    let mut answer = json_answer(StatusCode::CREATED, &Accepted { job: job.as_str().to_owned() });
    if let Ok(location) = HeaderValue::from_str(&format!("/system/jobs/{name}/{job}")) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    if known {
        answer.headers_mut().insert(KNOWN, HeaderValue::from_static("true"));
    }
    Ok(answer)
}

/// Runs the service for the body and answers with what it says.
#[utoipa::path(post, path = "/run/{serviceName}",
    params(("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    request_body(content = Option<String>, content_type = "application/octet-stream", description = "What the script gets: at most 16 MiB of anything."),
    responses(
        (status = 200, description = "What the script said, under the content type of the request.", body = String, content_type = "*/*",
            headers(("X-Duration-Seconds" = String, description = "How long the script took."),
                ("Oscar-Answer-Encoding" = String, description = "`base64` when the body is files that the script left, `none` when it is what the script said."))),
        RunRefusals))]
pub(in super::super) async fn run_service(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let mut by = None;
    let answer = run(&app, &name, request, &mut by).await.unwrap_or_else(|refused| refused.into_answer(&headers));
    signed(answer, by)
}

/// Nothing here goes on in a task of its own: when the caller goes away the server drops this,
/// and with it the run ends.
async fn run(app: &App, name: &str, request: Request, by: &mut Option<CalledBy>) -> Result<Response, Refused> {
    let headers = request.headers().clone();
    let (principal, name) = caller(app, name, &headers, by).await?;
    let jobs = dispatcher(app, &principal, &name).await?;
    let event = body_within(app, request, MOST_EVENT).await?;
    match jobs.invoke(&principal, &name, Arc::from(&event[..])).await {
        Ok(answer) => Ok(said(answer, &headers)),
        Err(RunFailure::Script { code, output }) => Ok(script_failed(code, &output, &headers)),
        Err(RunFailure::Refused(failure)) => Err(failure.into()),
        Err(failure @ RunFailure::Busy) => Err(Refused::new(Code::RunBusy, failure.to_string())),
        Err(failure @ RunFailure::TooLarge) => Err(Refused::new(Code::WorkloadTooLarge, failure.to_string())),
        Err(failure @ RunFailure::TimedOut(_)) => Err(Refused::new(Code::RunTimeout, failure.to_string())),
        Err(RunFailure::Failed(sentence)) => Err(Refused::new(Code::RunFailed, sentence)),
    }
}

fn said(Answer { body, millis }: Answer, request: &HeaderMap) -> Response {
    let (total, encoded) = (body.total(), body.is_encoded());
    let pieces = futures::stream::unfold(body, async |mut body| body.next().await.map(|piece| (piece, body)));
    let mut answer = Response::new(Body::from_stream(pieces));
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(total));
    let encoding = if encoded { ANSWER_BASE64 } else { "none" };
    answer.headers_mut().insert(HeaderName::from_static(ANSWER_ENCODING), HeaderValue::from_static(encoding));
    let kind = request.get(header::CONTENT_TYPE).cloned();
    let kind = kind.unwrap_or_else(|| HeaderValue::from_static("application/octet-stream"));
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    let seconds = format!("{}.{:03}000", millis / 1000, millis % 1000);
    answer.headers_mut().extend(HeaderValue::from_str(&seconds).ok().map(|seconds| (DURATION, seconds)));
    answer
}

/// What the script wrote may be no text, so it leaves as it is, except for those who ask for JSON.
fn script_failed(code: i32, output: &[u8], request: &HeaderMap) -> Response {
    let head = format!("exit status {code}\n");
    let accept = request.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains(PROBLEM_JSON) {
        let detail = head + &String::from_utf8_lossy(output);
        return Refused::new(Code::ScriptFailed, detail).into_answer(request);
    }
    let mut body = head.into_bytes();
    body.extend_from_slice(output);
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (HeaderName::from_static(ERROR_HEADER), Code::ScriptFailed.as_str()),
    ];
    (StatusCode::INTERNAL_SERVER_ERROR, headers, body).into_response()
}

/// Who calls which service.
async fn caller(
    app: &App,
    name: &str,
    headers: &HeaderMap,
    by: &mut Option<CalledBy>,
) -> Result<(Principal, ServiceName), Refused> {
    let name = service_name(name)?;
    let principal = authenticate_for(app, headers, &name).await?;
    *by = Some(CalledBy::principal(&principal));
    Ok((principal, name))
}

/// Who looks after jobs. Nobody learns more of a service than he may, also where nothing runs;
/// and no body is read for somebody who may not send it.
async fn dispatcher(app: &App, principal: &Principal, name: &ServiceName) -> Result<Arc<Dispatcher>, Refused> {
    app.manager.may_invoke(principal, name).await?;
    Ok(app.manager.jobs()?.clone())
}

/// The answer with the name of its caller, for those who remember calls.
fn signed(mut answer: Response, by: Option<CalledBy>) -> Response {
    if let Some(by) = by {
        answer.extensions_mut().insert(by);
    }
    answer
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refused> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let fits = |key: &&str| (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    if let (Some(key), None) = (value.to_str().ok().filter(fits), values.next()) {
        return Ok(Some(key.to_owned()));
    }
    let found = quoted(&String::from_utf8_lossy(value.as_bytes()));
    let rule = format!("one value of 1 to {LONGEST_KEY} visible ASCII characters");
    Err(Refused::new(Code::QueryInvalid, format!("header Idempotency-Key: found {found}, expected {rule}")))
}
