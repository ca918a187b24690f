//! The refusals of each kind of route, for the OpenAPI document: status, codes, both forms
//! of the body. Taken from the list of codes, so that the document cannot say otherwise.

use std::collections::{BTreeMap, BTreeSet};

use oscar_api::body::metrics::WrappedError;
use oscar_api::problem::{Code, PROBLEM_JSON, Problem};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// Every caller may meet these.
const ANYONE: &[Code] = &[Code::AnswerTimeout, Code::Internal];

/// Nobody is let in without a key; checking one may need others, and the first contact of a
/// user is stored.
const USERS: &[Code] = &[
    Code::TokenMalformed,
    Code::NotAuthenticated,
    Code::TokenRefused,
    Code::IssuerUnreachable,
    Code::StoreForbidden,
    Code::StoreUnavailable,
    Code::StoreFull,
];

/// The path names a service.
const ONE: &[Code] =
    &[Code::QueryInvalid, Code::NotVisible, Code::NotFound, Code::ServiceNotFound, Code::ServiceUnreadable];

const BODY: &[Code] = &[Code::BodyMalformed, Code::BodyTimeout, Code::BodyTooLarge];

const DEFINITION: &[Code] = &[Code::QueryInvalid, Code::DefinitionInvalid];

/// Replicas are deployed, or a replica is touched.
const MEMBERS: &[Code] = &[
    Code::CoordinatorSilent,
    Code::FederationCredentials,
    Code::FederationRefused,
    Code::FederationRolledBack,
    Code::FederationUnreachable,
    Code::NotOwner,
    Code::NotVisible,
    Code::RefreshTokenRefused,
    Code::ServiceIsReplica,
];

/// Not every world runs jobs and keeps buckets.
const JOBS: &[Code] = &[Code::NoJobs];

/// The path names a bucket.
const BUCKET: &[Code] = &[Code::BucketNotFound, Code::NotFound, Code::QueryInvalid];

macro_rules! refusals {
    ($($(#[$comment:meta])* $name:ident: $($codes:expr),+;)+) => {$(
        $(#[$comment])*
        pub(super) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                refusals(&[ANYONE, $($codes),+])
            }
        }
    )+};
}

refusals! {
    /// Of a route that only reads what the manager knows anyway.
    ReadRefusals: USERS;
    ConfigRefusals: USERS, BODY, &[Code::NotAdministrator];
    ListRefusals: USERS, &[Code::QueryInvalid];
    GetRefusals: USERS, ONE;
    CreateRefusals: USERS, BODY, DEFINITION, MEMBERS, &[Code::ServiceExists, Code::ServiceUnreadable];
    UpdateRefusals: USERS, BODY, DEFINITION, MEMBERS, ONE, &[Code::RevisionMismatch, Code::ServiceExists];
    DeleteRefusals: USERS, ONE, MEMBERS, &[Code::RevisionMismatch];
    FederationGetRefusals: USERS, ONE, &[Code::NotOwner, Code::NotFederated];
    FederationEditRefusals: USERS, BODY, DEFINITION, ONE, MEMBERS,
        &[Code::MemberInner, Code::NotFederated, Code::NotInRegistry, Code::RevisionMismatch, Code::ServiceExists];
    SubmitRefusals: USERS, ONE, JOBS, BODY, &[Code::IdempotencyKeyReused];
    RunRefusals: USERS, ONE, JOBS, BODY,
        &[Code::RunBusy, Code::RunFailed, Code::RunTimeout, Code::ScriptFailed, Code::WorkloadTooLarge];
    JobsRefusals: USERS, ONE, JOBS;
    JobRefusals: USERS, ONE, JOBS, &[Code::JobNotFound];
    LogRefusals: USERS, ONE, JOBS, &[Code::JobNotFound, Code::LogNotFound, Code::RuntimeUnavailable];
    JobChangeRefusals: USERS, ONE, JOBS, &[Code::JobNotFound, Code::JobOver, Code::NotOwner, Code::RuntimeUnavailable];
    ExecutionsRefusals: USERS, &[Code::NotAdministrator, Code::QueryInvalid];
    PrometheusRefusals: USERS, &[Code::NotAdministrator];
    BucketsRefusals: USERS, JOBS;
    BucketRefusals: USERS, JOBS, BUCKET;
    BucketCreateRefusals: USERS, JOBS, BODY, &[Code::BucketExists];
    BucketChangeRefusals: USERS, JOBS, BODY, BUCKET, &[Code::BucketInUse, Code::NotOwner];
    ChannelRefusals: BODY, ONE,
        &[Code::FederationRefused, Code::NotAuthenticated, Code::StoreForbidden, Code::StoreFull, Code::StoreUnavailable,
          Code::TokenRefused];
    NoticeRefusals: BODY,
        &[Code::NotAuthenticated, Code::StoreForbidden, Code::StoreFull, Code::StoreUnavailable, Code::TokenRefused];
}

/// Of the routes about metrics, whose errors are JSON objects.
pub(super) struct MetricsRefusals;

impl IntoResponses for MetricsRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut responses = refusals(&[ANYONE, USERS, ONE]);
        for response in responses.values_mut() {
            if let RefOr::T(response) = response {
                let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(WrappedError::name()))).build();
                response.content.insert("application/json".to_owned(), content.into());
            }
        }
        responses
    }
}

fn refusals(lists: &[&[Code]]) -> BTreeMap<String, RefOr<Response>> {
    let codes = lists.iter().copied().flatten();
    let mut by_status: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status()).or_default().insert(code.as_str());
    }
    by_status.into_iter().map(|(status, names)| (status.to_string(), refusal(status, &names).into())).collect()
}

fn refusal(status: u16, names: &BTreeSet<&str>) -> Response {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let code = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names.iter().copied()));
    let mut response = ResponseBuilder::new()
        .description(names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        .content("text/plain", ContentBuilder::new().schema(Some(text)).build())
        .content(PROBLEM_JSON, ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build())
        .header("Oscar-Error", HeaderBuilder::new().schema(Some(code)).build());
    if status == 401 {
        let challenge = ObjectBuilder::new().schema_type(Type::String);
        response = response.header("WWW-Authenticate", HeaderBuilder::new().schema(Some(challenge)).build());
    }
    let retryable = Code::ALL.iter().any(|code| code.is_retryable() && names.contains(code.as_str()));
    if retryable {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer);
        response = response.header("Retry-After", HeaderBuilder::new().schema(Some(seconds)).build());
    }
    response.build()
}
