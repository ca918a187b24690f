//! Buckets of the cluster's own object store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use oscar_api::body::buckets::{BucketBody, BucketPage, ObjectEntry, Presigned};
use oscar_api::problem::{Code, Problem};
use oscar_api::tree::{Fields, Node, Reader, parse_json};
use oscar_engine::Failure;
use oscar_engine::ports::buckets::{Bucket, Object, Presign};
use oscar_engine::storage::BucketWish;
use oscar_model::fault::{Faults, quoted};
use oscar_model::identity::{Owner, Principal, Subject};
use oscar_model::name::ServiceName;
use oscar_model::service::Visibility;

use super::super::answer::{Refused, json_answer};
use super::super::app::App;
use super::super::caller::authenticate;
use super::super::documented::{BucketChangeRefusals, BucketCreateRefusals, BucketRefusals, BucketsRefusals};
use super::extract::{NameInPath, Query, body, undisturbed};
use super::jobs::MOST_PER_PAGE;
use crate::time::{go_text, rfc3339_seconds};

/// How long an address lasts when nobody says.
const USUAL_SECONDS: u32 = 900;

const MOST_SECONDS: u32 = 604_800;

/// What a bucket should be.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes the body for the OpenAPI document; it is read from the tree")]
pub(in super::super) struct BucketRequest {
    /// Its name, on creation also with a folder: `photos/input`.
    #[schema(example = "photos")]
    bucket_name: String,
    /// `private` (the default), `restricted` or `public`.
    #[schema(example = "private")]
    visibility: Option<String>,
    /// Who else may use it when it is restricted.
    allowed_users: Option<Vec<String>>,
}

/// What an address should allow.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes the body for the OpenAPI document; it is read from the tree")]
pub(in super::super) struct PresignRequest {
    object_key: String,
    /// `upload` or `download`.
    operation: String,
    /// Seconds, at most 604800; else 900.
    expires_in: Option<u32>,
    /// The same under the name that `oscar-python` sends.
    expires: Option<u32>,
    /// Of an upload: the client must send it. Of a download: what the store answers with.
    content_type: Option<String>,
    /// More headers that the client must send. Of an upload: metadata (`x-amz-meta-…`), tags, checksums, conditions, and
    /// what comes back with the object (`Cache-Control`, …). Of a download: a range and conditions.
    extra_headers: Option<BTreeMap<String, String>>,
}

/// Buckets that the caller may use.
#[utoipa::path(get, path = "/system/buckets", responses(
    (status = 200, description = "Every bucket, by name.", body = Vec<BucketBody>),
    BucketsRefusals))]
pub(in super::super) async fn list_buckets(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match list(&app, &headers).await {
        Ok(buckets) => json_answer(StatusCode::OK, &buckets),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn list(app: &App, headers: &HeaderMap) -> Result<Vec<BucketBody>, Refused> {
    let principal = authenticate(app, headers).await?;
    let mut shown = Vec::new();
    for bucket in app.manager.buckets(&principal).await? {
        shown.push(bucket_body(app, &principal, bucket).await);
    }
    Ok(shown)
}

/// Creates a bucket.
#[utoipa::path(post, path = "/system/buckets",
    request_body(content = inline(BucketRequest), content_type = "application/json"),
    responses((status = 201, description = "Created; it is the caller's."), BucketCreateRefusals))]
pub(in super::super) async fn create_bucket(State(app): State<Arc<App>>, request: Request) -> Response {
    let headers = request.headers().clone();
    create(&app, &headers, request).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn create(app: &App, headers: &HeaderMap, request: Request) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    app.manager.jobs()?;
    let wish = read(&body(app, request).await?, |fields| wish(fields, false))?;
    let manager = app.manager.clone();
    undisturbed_here(async move { manager.create_bucket(&principal, wish).await }).await?;
    Ok(StatusCode::CREATED.into_response())
}

/// Changes who may use a bucket.
#[utoipa::path(put, path = "/system/buckets",
    request_body(content = inline(BucketRequest), content_type = "application/json"),
    responses((status = 204, description = "Changed."), BucketChangeRefusals))]
pub(in super::super) async fn update_bucket(State(app): State<Arc<App>>, request: Request) -> Response {
    let headers = request.headers().clone();
    update(&app, &headers, request).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn update(app: &App, headers: &HeaderMap, request: Request) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    app.manager.jobs()?;
    let wish = read(&body(app, request).await?, |fields| wish(fields, true))?;
    let manager = app.manager.clone();
    undisturbed_here(async move { manager.change_bucket(&principal, &wish).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// One bucket and a page of what is in it.
#[utoipa::path(get, path = "/system/buckets/{bucketName}",
    params(
        ("bucketName" = String, Path, description = "Its name."),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 1000, description = "At most so many objects; else `job_listing_limit`."),
        ("page" = Option<String>, Query, description = "`next_page` of the page before."),
    ),
    responses((status = 200, description = "The bucket.", body = BucketPage), BucketRefusals))]
pub(in super::super) async fn get_bucket(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    match get(&app, &name, &uri, &headers).await {
        Ok(page) => json_answer(StatusCode::OK, &page),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn get(app: &App, name: &str, uri: &Uri, headers: &HeaderMap) -> Result<BucketPage, Refused> {
    let principal = authenticate(app, headers).await?;
    let query = Query::of(uri);
    let limit = query.limit("limit", MOST_PER_PAGE)?.unwrap_or(app.limits.page);
    let (bucket, page) = app.manager.bucket(&principal, name, query.get("page"), limit).await?;
    let mut bucket = bucket_body(app, &principal, bucket).await;
    bucket.metadata.insert("owner".to_owned(), bucket.owner.clone());
    let objects: Vec<_> = page.objects.into_iter().map(object_entry).collect();
    Ok(BucketPage {
        bucket,
        is_truncated: page.next.is_some(),
        next_page: page.next,
        returned_items: objects.len(),
        objects,
    })
}

/// Removes a bucket with everything in it.
#[utoipa::path(delete, path = "/system/buckets/{bucketName}",
    params(("bucketName" = String, Path, description = "Its name.")),
    responses((status = 204, description = "Removed."), BucketChangeRefusals))]
pub(in super::super) async fn delete_bucket(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    headers: HeaderMap,
) -> Response {
    remove(&app, name, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn remove(app: &App, name: String, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let manager = app.manager.clone();
    undisturbed(async move { manager.remove_bucket(&principal, &name).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// An address that lets its holder read or write one object for a while.
#[utoipa::path(post, path = "/system/buckets/{bucketName}/presign",
    params(("bucketName" = String, Path, description = "Its name.")),
    request_body(content = inline(PresignRequest), content_type = "application/json"),
    responses((status = 200, description = "The address, and what must be sent to it.", body = Presigned), BucketChangeRefusals))]
pub(in super::super) async fn presign(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    match sign(&app, name, &headers, request).await {
        Ok(presigned) => json_answer(StatusCode::OK, &presigned),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn sign(app: &App, bucket: String, headers: &HeaderMap, request: Request) -> Result<Presigned, Refused> {
    let principal = authenticate(app, headers).await?;
    app.manager.jobs()?;
    let wanted = read(&body(app, request).await?, |fields| presign_wish(fields, bucket))?;
    let url = app.manager.presign(&principal, &wanted).await.map_err(refused)?;
    let expires_at = rfc3339_seconds(SystemTime::now() + wanted.valid_for);
    let (operation, method) = if wanted.upload { ("upload", "PUT") } else { ("download", "GET") };
    let content_type = wanted.content_type.filter(|_| wanted.upload).map(|kind| ("Content-Type".to_owned(), kind));
    let extra = wanted.headers.into_iter().map(|(name, value)| (canonical(&name), value));
    Ok(Presigned {
        object_key: wanted.key,
        operation: operation.to_owned(),
        method: method.to_owned(),
        url,
        expires_at,
        headers: extra.chain(content_type).collect(),
    })
}

async fn bucket_body(app: &App, principal: &Principal, bucket: Bucket) -> BucketBody {
    let Bucket { name, owner, visibility, allowed_users, from_service } = bucket;
    let owner_name = owner_name(app, principal, &owner, from_service.as_deref()).await;
    let named = |key: &str, value: Option<String>| value.map(|value| (key.to_owned(), value));
    BucketBody {
        bucket_name: name,
        visibility: visibility.as_str().to_owned(),
        allowed_users: allowed_users.iter().map(|user| user.as_str().to_owned()).collect(),
        owner: owner.as_str().to_owned(),
        metadata: [named("from_service", from_service), named("owner_name", owner_name)]
            .into_iter()
            .flatten()
            .collect(),
    }
}

/// The name of the owner for people, where somebody told it: himself, or a service of his.
async fn owner_name(app: &App, principal: &Principal, owner: &Owner, service: Option<&str>) -> Option<String> {
    let name = match (principal, owner) {
        (Principal::User(user), Owner::User(subject)) if user.subject == *subject => user.name.clone(),
        _ => {
            let service = ServiceName::parse(service?)?;
            let stored = app.manager.service(principal, &service).await.ok()?;
            stored.service.owner_name.clone()
        }
    };
    Some(name).filter(|name| !name.is_empty())
}

fn object_entry(object: Object) -> ObjectEntry {
    let Object { key, bytes, modified } = object;
    ObjectEntry { object_name: key, size_bytes: bytes, last_modified: go_text(modified) }
}

/// What a body says, or every fault in it.
fn read<T>(bytes: &Bytes, take: impl FnOnce(&Fields<'_>) -> T) -> Result<T, Refused> {
    let node: Node = parse_json(bytes)
        .map_err(|malformed| Refused::new(Code::BodyMalformed, format!("the request is not valid: {malformed}")))?;
    let reader = Reader::new(&node, false);
    let taken = take(&reader.fields(""));
    reader.into_faults().into_result(taken).map_err(not_valid)
}

fn not_valid(faults: Faults) -> Refused {
    let detail = format!("the request is not valid: {faults}");
    let faults = faults.0.into_iter().map(Into::into).collect();
    Problem { faults, ..Problem::new(Code::BodyMalformed, detail) }.into()
}

/// A fault here is one of the request, not of a definition.
fn refused(failure: Failure) -> Refused {
    match failure {
        Failure::Invalid(faults) => not_valid(faults),
        other => other.into(),
    }
}

/// A change that goes on although its caller may go away.
async fn undisturbed_here(change: impl Future<Output = Result<(), Failure>> + Send + 'static) -> Result<(), Refused> {
    undisturbed(async move { Ok(change.await) }).await?.map_err(refused)
}

fn wish(fields: &Fields<'_>, must_say_visibility: bool) -> BucketWish {
    let path = fields.text("bucket_name");
    let (name, folder) = path.trim_matches('/').split_once('/').unwrap_or((path.trim_matches('/'), ""));
    let folder = folder.trim_matches('/');
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control);
    if !folder.is_empty() && (folder.len() > 512 || !folder.split('/').all(is_part)) {
        fields.fault("bucket_name", quoted(&path), "a folder of at most 512 bytes without blank parts, `.` and `..`");
    }
    if must_say_visibility && fields.text("visibility").is_empty() {
        fields.fault("visibility", "nothing", VISIBILITY_RULE);
    }
    let subject = |(index, text): (usize, String)| {
        let subject = Subject::parse(&text);
        if subject.is_none() {
            fields.fault(&format!("allowed_users[{index}]"), quoted(&text), "the subject of a user");
        }
        subject
    };
    BucketWish {
        name: name.to_owned(),
        folder: Some(folder.to_owned()).filter(|folder| !folder.is_empty()),
        visibility: fields.word("visibility", VISIBILITY_RULE, Visibility::parse),
        allowed_users: fields.texts("allowed_users").into_iter().enumerate().filter_map(subject).collect(),
    }
}

const VISIBILITY_RULE: &str = "private, restricted or public";

fn presign_wish(fields: &Fields<'_>, bucket: String) -> Presign {
    let operation = fields.text("operation").to_ascii_lowercase();
    if !matches!(operation.as_str(), "upload" | "download") {
        fields.fault("operation", quoted(&operation), "upload or download");
    }
    let content_type = fields.text("content_type");
    if content_type.len() > 255 || !content_type.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        fields.fault("content_type", quoted(&content_type), "at most 255 visible ASCII characters");
    }
    let said = [fields.count("expires_in", MOST_SECONDS), fields.count("expires", MOST_SECONDS)];
    let seconds = said.into_iter().find(|seconds| *seconds > 0).unwrap_or(USUAL_SECONDS);
    Presign {
        bucket,
        key: fields.text("object_key").trim_matches('/').to_owned(),
        upload: operation == "upload",
        content_type: Some(content_type).filter(|kind| !kind.is_empty()),
        headers: extra_headers(fields),
        valid_for: Duration::from_secs(u64::from(seconds)),
    }
}

/// Headers have names whatever their case.
fn extra_headers(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    for (name, value) in fields.text_map("extra_headers") {
        if headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned()).is_some() {
            fields.fault("extra_headers", "a header twice", "each header once");
        }
    }
    headers
}

/// As Go writes the names of headers: `X-Amz-Meta-Run`.
fn canonical(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('-').map(capital).collect::<Vec<_>>().join("-")
}
