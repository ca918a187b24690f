//! Answers: JSON as OSCAR prints it, and errors as sentences with a code.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use oscar_api::body::metrics::WrappedError;
use oscar_api::fdl::FdlError;
use oscar_api::json;
use oscar_api::problem::{Code, ERROR_HEADER, MemberTrouble, PROBLEM_JSON, Problem};
use oscar_engine::Failure;
use oscar_engine::federate::{Kind, MemberOutcome};
use oscar_engine::ports::StoreError;
use serde::Serialize;

/// A list that is longer leaves in pieces of about this size.
const PIECE: usize = 64 << 10;

pub(super) fn json_answer<T: Serialize + ?Sized>(status: StatusCode, body: &T) -> Response {
    json_text(status, json::to_vec(body))
}

/// An answer that is JSON already.
pub(super) fn json_text(status: StatusCode, text: impl Into<Body>) -> Response {
    let content_type = HeaderValue::from_static("application/json; charset=utf-8");
    (status, [(header::CONTENT_TYPE, content_type)], text.into()).into_response()
}

/// A list. A long one is printed while it is sent: it takes no more memory than a short one, and
/// others are answered in between.
pub(super) fn json_list<T, P>(items: Vec<T>, print: P) -> Response
where
    T: Send + 'static,
    P: Fn(&mut Vec<u8>, &T) + Send + 'static,
{
    let mut pieces = Pieces { items: items.into_iter(), print, next: Some(b'[') };
    let first = pieces.next().unwrap_or_default();
    if pieces.next.is_none() {
        return json_text(StatusCode::OK, first);
    }
    let all = stream::once(std::future::ready(first)).chain(stream::iter(pieces));
    json_text(StatusCode::OK, Body::from_stream(all.map(Ok::<_, Infallible>)))
}

struct Pieces<T, P> {
    items: std::vec::IntoIter<T>,
    print: P,
    /// What stands before the next item; none when the list is closed.
    next: Option<u8>,
}

impl<T, P: Fn(&mut Vec<u8>, &T)> Iterator for Pieces<T, P> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut before = self.next?;
        let mut out = Vec::with_capacity(PIECE + PIECE / 4);
        while out.len() < PIECE {
            let Some(item) = self.items.next() else {
                let end: &[u8] = if before == b'[' { b"[]" } else { b"]" };
                out.extend_from_slice(end);
                self.next = None;
                return Some(out.into());
            };
            out.push(before);
            before = b',';
            (self.print)(&mut out, &item);
        }
        self.next = Some(before);
        Some(out.into())
    }
}

/// An error on its way out. Every handler returns it, so that it is rendered in one place.
#[derive(Debug)]
pub(super) struct Refused {
    problem: Box<Problem>,
    code: Code,
    /// Whether the caller should be asked for a password.
    challenge: bool,
    /// Whether the sentence stands in a JSON object, as clients of some routes expect it.
    wrapped: bool,
}

impl Refused {
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { problem: Box::new(Problem::new(code, detail)), code, challenge: false, wrapped: false }
    }

    /// As `{"error":"…"}`, the form of the routes about metrics.
    pub(super) fn wrapped(self) -> Self {
        Self { wrapped: true, ..self }
    }

    /// 401 with the challenge that browsers and tools react to.
    pub(super) fn unauthenticated(detail: &str) -> Self {
        Self { challenge: true, ..Self::new(Code::NotAuthenticated, detail) }
    }

    /// As plain text, or as problem JSON for those who ask for it by name. Browsers ask for
    /// `application/json` out of habit and then show the body as text, so that is not enough.
    pub(super) fn into_answer(self, request: &HeaderMap) -> Response {
        let accept = request.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (content_type, body) = if accept.contains(PROBLEM_JSON) {
            (PROBLEM_JSON, json::to_vec(&*self.problem))
        } else if self.wrapped {
            ("application/json; charset=utf-8", json::to_vec(&WrappedError { error: self.problem.detail }))
        } else {
            ("text/plain; charset=utf-8", self.problem.detail.into_bytes())
        };
        let mut answer = Response::new(Body::from(body));
        *answer.status_mut() = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(ERROR_HEADER, HeaderValue::from_static(self.code.as_str()));
        if self.challenge {
            let realm = HeaderValue::from_static("Basic realm=\"Authorization Required\"");
            headers.insert(header::WWW_AUTHENTICATE, realm);
        }
        if self.code.is_retryable() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        }
        answer
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        let code = Code::ALL.iter().copied().find(|code| code.as_str() == problem.code).unwrap_or(Code::Internal);
        Self { problem: Box::new(problem), code, challenge: false, wrapped: false }
    }
}

impl From<FdlError> for Refused {
    fn from(error: FdlError) -> Self {
        match error {
            FdlError::Malformed(malformed) => {
                Self::new(Code::BodyMalformed, format!("The service specification is not valid: {malformed}"))
            }
            FdlError::Faults(faults) => Problem::invalid(faults).into(),
        }
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        let members = members(&failure);
        let code = match failure {
            Failure::Invalid(faults) => return Problem::invalid(faults).into(),
            Failure::Exists(_) => Code::ServiceExists,
            Failure::NotFound(_) => Code::ServiceNotFound,
            Failure::NotVisible(_) => Code::NotVisible,
            Failure::NotOwner(_) | Failure::NotBucketOwner(_) => Code::NotOwner,
            Failure::NotAdministrator => Code::NotAdministrator,
            Failure::RevisionMismatch(_) | Failure::MembersChanged(_) => Code::RevisionMismatch,
            Failure::Unreadable { .. } => Code::ServiceUnreadable,
            Failure::Obstacles { ref outcomes, .. } => obstacle_code(outcomes),
            Failure::RolledBack { .. } => Code::FederationRolledBack,
            Failure::Replica { .. } | Failure::AtCoordinator { .. } => Code::ServiceIsReplica,
            Failure::CoordinatorSilent { .. } => Code::CoordinatorSilent,
            Failure::InnerNode(_) => Code::MemberInner,
            Failure::OtherFederation(_) | Failure::TooLate(_) => Code::FederationRefused,
            Failure::NotInRegistry(_) => Code::NotInRegistry,
            Failure::RefreshToken(_) => Code::RefreshTokenRefused,
            Failure::NoFederation(_) => Code::NotFederated,
            Failure::NoJob(_) => Code::JobNotFound,
            Failure::NoLog(_) => Code::LogNotFound,
            Failure::JobOver(_) => Code::JobOver,
            Failure::KeyReused(_) => Code::IdempotencyKeyReused,
            Failure::NoBucket(_) => Code::BucketNotFound,
            Failure::BucketExists(_) => Code::BucketExists,
            Failure::BucketInUse { .. } => Code::BucketInUse,
            Failure::NoJobs(_) => Code::NoJobs,
            Failure::Runtime(_) => Code::RuntimeUnavailable,
            Failure::Impossible(_) => Code::Internal,
            Failure::Store(ref error) => store_code(error),
        };
        if code.status() >= 500 && code != Code::NoJobs {
            tracing::warn!(code = code.as_str(), "{text}");
        }
        let mut refused = Self::new(code, text);
        refused.problem.members = members;
        refused
    }
}

/// What the sentence says of members, one by one.
fn members(failure: &Failure) -> Vec<MemberTrouble> {
    let told = |during: &'static str| {
        move |outcome: &MemberOutcome| MemberTrouble {
            member: outcome.member.to_string(),
            during: during.to_owned(),
            cause: outcome.trouble.clone(),
        }
    };
    match failure {
        Failure::Obstacles { outcomes, .. } => outcomes.iter().map(told("deploy")).collect(),
        Failure::RolledBack { failed, left } => {
            failed.iter().map(told("deploy")).chain(left.iter().map(told("rollback"))).collect()
        }
        _ => Vec::new(),
    }
}

/// One code for all: what the caller can change comes before what he has to wait for.
fn obstacle_code(obstacles: &[MemberOutcome]) -> Code {
    match obstacles.iter().map(|outcome| outcome.kind).max() {
        Some(Kind::Taken | Kind::Refused | Kind::Unfit) => Code::FederationRefused,
        Some(Kind::Credentials) => Code::FederationCredentials,
        Some(Kind::Unreachable | Kind::Awaited | Kind::Well) | None => Code::FederationUnreachable,
    }
}

fn store_code(error: &StoreError) -> Code {
    match error {
        StoreError::Full(_) => Code::StoreFull,
        StoreError::Occupied(_) => Code::ServiceExists,
        StoreError::Forbidden(_) => Code::StoreForbidden,
        // A conflict here is another manager's: during a roll-out two share what is remembered.
        StoreError::Unavailable(_) | StoreError::Conflict => Code::StoreUnavailable,
        StoreError::AlreadyExists | StoreError::NotFound | StoreError::Broken(_) => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sent(numbers: &[u64]) -> (Option<String>, Vec<u8>) {
        let answer = json_list(numbers.to_vec(), json::append);
        let length = axum::body::HttpBody::size_hint(answer.body()).exact().map(|length| length.to_string());
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.expect("no piece fails");
        (length, body.to_vec())
    }

    #[tokio::test]
    async fn a_list_in_pieces_is_the_list() {
        // Lengths around the end of a piece, where a comma or the bracket could go missing.
        for count in [0, 1, 2, 6, 11_914, 11_915, 11_916, 11_917, 23_829, 50_000] {
            let numbers: Vec<u64> = (0..count).map(|number| 1_000_000 + number % 9).collect();
            let (length, body) = sent(&numbers).await;
            assert!(body == json::to_vec(&numbers), "{count} numbers");
            assert_eq!(length.is_some(), body.len() <= PIECE, "{count} numbers: {length:?}");
        }
    }
}
