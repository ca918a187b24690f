//! Errors on the wire: one list of codes, each with its status and a page in `docs/errors/`.
//!
//! OSCAR's clients print the body of an error as it is, so the body is a sentence in plain
//! text; the header `Oscar-Error` carries the code. A client that asks for
//! `application/problem+json` gets the same with every fault in a field of its own.

use oscar_model::fault::{Fault, Faults};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub const PROBLEM_JSON: &str = "application/problem+json";
pub const ERROR_HEADER: &str = "oscar-error";

/// What went wrong, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    AnswerTimeout,
    BodyMalformed,
    BodyTimeout,
    BodyTooLarge,
    BucketExists,
    BucketInUse,
    BucketNotFound,
    CoordinatorSilent,
    DefinitionInvalid,
    FederationCredentials,
    FederationRefused,
    FederationRolledBack,
    FederationUnreachable,
    IdempotencyKeyReused,
    Internal,
    IssuerUnreachable,
    JobNotFound,
    JobOver,
    LogNotFound,
    MemberInner,
    NoJobs,
    NotAdministrator,
    NotAuthenticated,
    NotFederated,
    NotFound,
    NotInRegistry,
    NotOwner,
    NotVisible,
    QueryInvalid,
    RefreshTokenRefused,
    RevisionMismatch,
    RunBusy,
    RunFailed,
    RunTimeout,
    RuntimeUnavailable,
    ScriptFailed,
    ServiceExists,
    ServiceIsReplica,
    ServiceNotFound,
    ServiceUnreadable,
    StoreForbidden,
    StoreFull,
    StoreUnavailable,
    TokenMalformed,
    TokenRefused,
    WorkloadTooLarge,
}

impl Code {
    pub const ALL: &[Self] = &[
        Self::AnswerTimeout,
        Self::BodyMalformed,
        Self::BodyTimeout,
        Self::BodyTooLarge,
        Self::BucketExists,
        Self::BucketInUse,
        Self::BucketNotFound,
        Self::CoordinatorSilent,
        Self::DefinitionInvalid,
        Self::FederationCredentials,
        Self::FederationRefused,
        Self::FederationRolledBack,
        Self::FederationUnreachable,
        Self::IdempotencyKeyReused,
        Self::Internal,
        Self::IssuerUnreachable,
        Self::JobNotFound,
        Self::JobOver,
        Self::LogNotFound,
        Self::MemberInner,
        Self::NoJobs,
        Self::NotAdministrator,
        Self::NotAuthenticated,
        Self::NotFederated,
        Self::NotFound,
        Self::NotInRegistry,
        Self::NotOwner,
        Self::NotVisible,
        Self::QueryInvalid,
        Self::RefreshTokenRefused,
        Self::RevisionMismatch,
        Self::RunBusy,
        Self::RunFailed,
        Self::RunTimeout,
        Self::RuntimeUnavailable,
        Self::ScriptFailed,
        Self::ServiceExists,
        Self::ServiceIsReplica,
        Self::ServiceNotFound,
        Self::ServiceUnreadable,
        Self::StoreForbidden,
        Self::StoreFull,
        Self::StoreUnavailable,
        Self::TokenMalformed,
        Self::TokenRefused,
        Self::WorkloadTooLarge,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Code::AnswerTimeout => "answer-timeout",
            Code::BodyMalformed => "body-malformed",
            Code::BodyTimeout => "body-timeout",
            Code::BodyTooLarge => "body-too-large",
            Code::BucketExists => "bucket-exists",
            Code::BucketInUse => "bucket-in-use",
            Code::BucketNotFound => "bucket-not-found",
            Code::CoordinatorSilent => "coordinator-silent",
            Code::DefinitionInvalid => "definition-invalid",
            Code::FederationCredentials => "federation-credentials",
            Code::FederationRefused => "federation-refused",
            Code::FederationRolledBack => "federation-rolled-back",
            Code::FederationUnreachable => "federation-unreachable",
            Code::IdempotencyKeyReused => "idempotency-key-reused",
            Code::Internal => "internal",
            Code::IssuerUnreachable => "issuer-unreachable",
            Code::JobNotFound => "job-not-found",
            Code::JobOver => "job-over",
            Code::LogNotFound => "log-not-found",
            Code::MemberInner => "member-inner",
            Code::NoJobs => "no-jobs",
            Code::NotAdministrator => "not-administrator",
            Code::NotAuthenticated => "not-authenticated",
            Code::NotFederated => "not-federated",
            Code::NotFound => "not-found",
            Code::NotInRegistry => "not-in-registry",
            Code::NotOwner => "not-owner",
            Code::NotVisible => "not-visible",
            Code::QueryInvalid => "query-invalid",
            Code::RefreshTokenRefused => "refresh-token-refused",
            Code::RevisionMismatch => "revision-mismatch",
            Code::RunBusy => "run-busy",
            Code::RunFailed => "run-failed",
            Code::RunTimeout => "run-timeout",
            Code::RuntimeUnavailable => "runtime-unavailable",
            Code::ScriptFailed => "script-failed",
            Code::ServiceExists => "service-exists",
            Code::ServiceIsReplica => "service-is-replica",
            Code::ServiceNotFound => "service-not-found",
            Code::ServiceUnreadable => "service-unreadable",
            Code::StoreForbidden => "store-forbidden",
            Code::StoreFull => "store-full",
            Code::StoreUnavailable => "store-unavailable",
            Code::TokenMalformed => "token-malformed",
            Code::TokenRefused => "token-refused",
            Code::WorkloadTooLarge => "workload-too-large",
        }
    }

    pub fn status(self) -> u16 {
        match self {
            Self::BodyMalformed
            | Self::DefinitionInvalid
            | Self::QueryInvalid
            | Self::RefreshTokenRefused
            | Self::TokenMalformed
            | Self::WorkloadTooLarge => 400,
            Self::FederationCredentials | Self::NotAuthenticated | Self::TokenRefused => 401,
            Self::NotAdministrator | Self::NotInRegistry | Self::NotOwner | Self::NotVisible => 403,
            Self::BucketNotFound
            | Self::JobNotFound
            | Self::LogNotFound
            | Self::NotFederated
            | Self::NotFound
            | Self::ServiceNotFound => 404,
            Self::BodyTimeout | Self::RunTimeout => 408,
            Self::BucketExists
            | Self::BucketInUse
            | Self::FederationRefused
            | Self::JobOver
            | Self::MemberInner
            | Self::ServiceExists
            | Self::ServiceIsReplica => 409,
            Self::RevisionMismatch => 412,
            Self::BodyTooLarge => 413,
            Self::IdempotencyKeyReused => 422,
            Self::RunBusy => 429,
            Self::NoJobs => 501,
            Self::Internal | Self::ScriptFailed | Self::ServiceUnreadable | Self::StoreForbidden => 500,
            Self::FederationRolledBack | Self::FederationUnreachable | Self::RunFailed => 502,
            Self::AnswerTimeout
            | Self::CoordinatorSilent
            | Self::IssuerUnreachable
            | Self::RuntimeUnavailable
            | Self::StoreUnavailable => 503,
            Self::StoreFull => 507,
        }
    }

    /// Whether the same request may succeed later without anybody changing something.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::AnswerTimeout
            | Self::BodyTimeout
            | Self::CoordinatorSilent
            | Self::FederationRolledBack
            | Self::FederationUnreachable
            | Self::Internal
            | Self::IssuerUnreachable
            | Self::RunBusy
            | Self::RunFailed
            | Self::RuntimeUnavailable
            | Self::StoreUnavailable => true,
            Self::BodyMalformed
            | Self::BodyTooLarge
            | Self::BucketExists
            | Self::BucketInUse
            | Self::BucketNotFound
            | Self::DefinitionInvalid
            | Self::FederationCredentials
            | Self::FederationRefused
            | Self::IdempotencyKeyReused
            | Self::JobNotFound
            | Self::JobOver
            | Self::LogNotFound
            | Self::MemberInner
            | Self::NoJobs
            | Self::NotAdministrator
            | Self::NotAuthenticated
            | Self::NotFederated
            | Self::NotFound
            | Self::NotInRegistry
            | Self::NotOwner
            | Self::NotVisible
            | Self::QueryInvalid
            | Self::RefreshTokenRefused
            | Self::RevisionMismatch
            | Self::RunTimeout
            | Self::ScriptFailed
            | Self::ServiceExists
            | Self::ServiceIsReplica
            | Self::ServiceNotFound
            | Self::ServiceUnreadable
            | Self::StoreForbidden
            | Self::StoreFull
            | Self::TokenMalformed
            | Self::TokenRefused
            | Self::WorkloadTooLarge => false,
        }
    }
}

/// An error as a program reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The page that explains the code, relative to the documentation.
    pub r#type: String,
    pub title: String,
    pub status: u16,
    pub code: String,
    /// The sentence that plain clients get.
    pub detail: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultBody>,
    /// What went wrong at which member of a federation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberTrouble>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberTrouble {
    /// As `<cluster>/<service>`.
    pub member: String,
    /// `deploy`, or `rollback` where what was done is not taken back yet.
    pub during: String,
    pub cause: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Fault)]
pub struct FaultBody {
    pub path: String,
    pub found: String,
    pub allowed: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub line: Option<usize>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            r#type: format!("docs/errors/{}.md", code.as_str()),
            title: code.as_str().replace('-', " "),
            status: code.status(),
            code: code.as_str().to_owned(),
            detail: detail.into(),
            faults: Vec::new(),
            members: Vec::new(),
        }
    }

    /// A definition with faults: each one on a line of its own after the sentence that
    /// OSCAR's users know.
    pub fn invalid(faults: Faults) -> Self {
        let mut detail = "The service specification is not valid:".to_owned();
        for fault in &faults.0 {
            detail.push_str("\n- ");
            detail.push_str(&fault.to_string());
        }
        let mut problem = Self::new(Code::DefinitionInvalid, detail);
        problem.faults = faults.0.into_iter().map(FaultBody::from).collect();
        problem
    }
}

impl From<Fault> for FaultBody {
    fn from(fault: Fault) -> Self {
        let Fault { path, found, allowed, line } = fault;
        Self { path, found, allowed, line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_have_a_client_or_server_status() {
        let names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert!(names.is_sorted());
        assert!(Code::ALL.iter().all(|code| (400..600).contains(&code.status())));
    }
}
