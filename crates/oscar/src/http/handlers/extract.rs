//! What handlers take from a request.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use oscar_api::fdl;
use oscar_api::problem::{Code, Problem};
use oscar_api::service::{Draft, Mode, read};
use oscar_api::tree::{Node, parse_json};
use oscar_engine::{Failure, Guard, Purpose};
use oscar_model::fault::{Faults, join, quoted};
use oscar_model::identity::Principal;
use oscar_model::job::JobName;
use oscar_model::name::ServiceName;
use tokio::runtime::RuntimeFlavor;

use super::super::answer::Refused;
use super::super::app::App;
use super::super::router::MOST_BODY;

/// Bodies up to this size are read in passing.
const LARGE_BODY: usize = 64 << 10;

/// What stands in a path for a name. Bytes that are no text become a character that no name
/// has, so that they are refused like every other wrong name, after the caller is known.
pub(in super::super) struct NameInPath(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for NameInPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(path.map_or_else(|_| char::REPLACEMENT_CHARACTER.into(), |Path(name)| name)))
    }
}

/// A service name from a path. What is no name is refused as OSCAR does.
pub(super) fn service_name(text: &str) -> Result<ServiceName, Refused> {
    ServiceName::parse(text).ok_or_else(|| {
        let rule = oscar_model::name::SERVICE_NAME_RULE;
        Refused::new(Code::QueryInvalid, format!("invalid serviceName: found {}, expected {rule}", quoted(text)))
    })
}

/// A service and one of its jobs, read as [`NameInPath`] does.
pub(in super::super) struct JobInPath {
    pub(super) service: String,
    pub(super) job: String,
}

impl<S: Send + Sync> FromRequestParts<S> for JobInPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let no_name = || String::from(char::REPLACEMENT_CHARACTER);
        let (service, job) = path.map_or_else(|_| (no_name(), no_name()), |Path(names)| names);
        Ok(Self { service, job })
    }
}

/// A job's name from a path; what is no name is no job's.
pub(super) fn job_name(text: &str) -> Result<JobName, Refused> {
    JobName::parse(text)
        .ok_or_else(|| Refused::new(Code::JobNotFound, format!("there is no job named {}", quoted(text))))
}

/// The body, unless it is too large or breaks off.
pub(super) async fn body(app: &App, request: Request) -> Result<Bytes, Refused> {
    body_within(app, request, MOST_BODY).await
}

/// The same with a limit of its own.
pub(super) async fn body_within(app: &App, request: Request, most: usize) -> Result<Bytes, Refused> {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let too_large = || Refused::new(Code::BodyTooLarge, format!("a body may have at most {most} bytes"));
    let is_too_large = length.and_then(|value| value.parse::<u64>().ok()).is_some_and(|length| length > most as u64);
    let mut body = request.into_body();
    if is_too_large {
        throw_away(body).await;
        return Err(too_large());
    }
    let limited = Limited::new(&mut body, most);
    let read = tokio::time::timeout(app.limits.body, limited.collect()).await;
    let read = read.map_err(|_| Refused::new(Code::BodyTimeout, "the body did not arrive in time"))?;
    match read {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            throw_away(body).await;
            Err(too_large())
        }
        Err(_) => Err(Refused::new(Code::BodyMalformed, "the body broke off before its end")),
    }
}

/// A client that is still sending would lose the answer with the connection, so a moment long
/// what it sends is taken and forgotten.
async fn throw_away(body: Body) {
    let rest = async {
        let mut rest = Limited::new(body, 64 << 20);
        while let Some(Ok(_)) = rest.frame().await {}
    };
    // One that is slower, or sends more, finds the connection closed.
    let _ = tokio::time::timeout(Duration::from_secs(2), rest).await;
}

/// A definition: YAML when the content type says so, JSON in every other case. Every fault is
/// told at once: those of the text and those by the rules of this cluster. Whoever may not change what
/// stands under the name is told that first.
pub(super) async fn definition(
    app: &App,
    principal: &Principal,
    headers: &HeaderMap,
    body: &[u8],
    purpose: Purpose,
) -> Result<Draft, Refused> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let yaml = content_type.to_ascii_lowercase().contains("yaml");
    let Parsed { node, path, draft, mut faults } = parse_aside(yaml, body)?;
    for mut fault in app.manager.check_definition(principal, &draft.definition, purpose).await?.0 {
        fault.line = node.line_of(&fault.path);
        fault.path = join(&path, &fault.path);
        if !faults.mentions(&fault.path) {
            faults.0.push(fault);
        }
    }
    faults.into_result(draft).map_err(|faults| Problem::invalid(faults).into())
}

/// What could be read of a body, and what could not.
struct Parsed {
    node: Node,
    path: String,
    draft: Draft,
    faults: Faults,
}

/// A body of megabytes takes its time; other requests should not wait for it.
fn parse_aside(yaml: bool, body: &[u8]) -> Result<Parsed, Refused> {
    let can_move = tokio::runtime::Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if can_move && body.len() > LARGE_BODY {
        tokio::task::block_in_place(|| parse(yaml, body))
    } else {
        parse(yaml, body)
    }
}

fn parse(yaml: bool, body: &[u8]) -> Result<Parsed, Refused> {
    if !yaml {
        let node = parse_json(body).map_err(fdl::FdlError::Malformed)?;
        let (draft, faults) = read(&node, "", Mode::Json);
        return Ok(Parsed { node, path: String::new(), draft, faults });
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| Refused::new(Code::BodyMalformed, "The service specification is not valid: it is not UTF-8"))?;
    let entry = fdl::single(text)?;
    let (draft, mut faults) = fdl::read_entry(&entry);
    for mut fault in fdl::check_script(&entry).0 {
        fault.line = entry.node.line_of("script");
        faults.0.push(fault);
    }
    Ok(Parsed { node: entry.node, path: entry.path, draft, faults })
}

/// Finishes a change although its caller may go away: what it means for other clusters must not
/// stop half-way.
pub(super) async fn undisturbed<T: Send + 'static>(
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Refused> {
    let done = tokio::spawn(change).await;
    done.map_err(|_| Refused::new(Code::Internal, "the manager failed; its log says more"))?.map_err(Refused::from)
}

/// The revisions that a change is meant for. What cannot be read matches nothing: a caller who
/// named a revision never overwrites another.
pub(super) fn guard(headers: &HeaderMap) -> Guard {
    let values: Vec<_> = headers.get_all(header::IF_MATCH).iter().map(|value| value.to_str().unwrap_or("")).collect();
    if values.is_empty() || values.iter().any(|value| value.trim() == "*") {
        return Guard::Any;
    }
    // Weak tags match nothing, as the protocol says.
    let tags = values.iter().flat_map(|value| value.split(','));
    let tags = tags.filter_map(|tag| tag.trim().strip_prefix('"')?.strip_suffix('"'));
    Guard::Only(tags.map(str::to_owned).collect())
}

/// The query of a request, read leniently in its keys and strictly in its values.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let pairs = query.split('&').filter(|part| !part.is_empty()).map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(key), decoded(value))
        });
        Self(pairs.collect())
    }

    /// A blank text is as good as none.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.given(key).filter(|value| !value.is_empty())
    }

    /// A blank flag or number is neither.
    fn given(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Refused> {
        match self.given(key) {
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
            None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
            Some(other) => Err(invalid(key, other, "true or false")),
        }
    }

    pub(super) fn limit(&self, key: &str, most: usize) -> Result<Option<usize>, Refused> {
        let Some(text) = self.given(key) else { return Ok(None) };
        match text.parse::<usize>() {
            Ok(limit) if (1..=most).contains(&limit) => Ok(Some(limit)),
            _ => Err(invalid(key, text, &format!("a whole number from 1 to {most}"))),
        }
    }

    /// Whether a comma list names a word, in any case.
    pub(super) fn names(&self, key: &str, word: &str) -> bool {
        self.get(key).is_some_and(|list| list.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    }
}

fn invalid(key: &str, found: &str, allowed: &str) -> Refused {
    Refused::new(Code::QueryInvalid, format!("query parameter {key}: found {}, expected {allowed}", quoted(found)))
}

fn decoded(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}
