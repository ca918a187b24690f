//! Writing, copying and removing objects over S3.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::TryStreamExt as _;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName};
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, DeleteObjectInput, DeleteObjectOutput,
    DeleteObjectTaggingInput, DeleteObjectTaggingOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
    ETagCondition, Error, MetadataDirective, PutObjectInput, PutObjectOutput, PutObjectTaggingInput,
    PutObjectTaggingOutput, StreamingBlob, TaggingDirective,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, TrailingHeaders};

use super::api::Api;
use super::checksums::{
    ALGORITHMS, announced, check_said, check_trailer, compare, declare, declared, from_dto, from_headers, hasher,
    to_hex, type_of,
};
use super::convert::{
    MOST_OBJECT_TAGS, about_of, check_version, conditions, etag, not_implemented, read_conditions, refuse_extras,
    tags_of_set, timestamp,
};
use crate::access::Act;
use crate::content::ContentStream;
use crate::error::Refusal;
use crate::intake::{INLINE, Plan, Received, receive};
use crate::names::check_key;
use crate::object_changes::{self, Conditions, NewObject, Source};
use crate::object_reads::find;
use crate::record::{About, Checksums};
use crate::writer::Failure;

/// S3's limit of one request.
pub(super) const LARGEST_BODY: u64 = 5 << 30;
const MOST_DELETES: usize = 1000;

pub(super) async fn put_object(
    api: &Api,
    mut request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let origin = api.origin(&request)?;
    let announced = announced(&request.headers);
    let mut input = request.input;
    check_key(&input.key)?;
    let bucket = api.enter(&origin.caller, &input.bucket, Act::Write(&input.key))?;
    refuse_extras!(input);
    if input.write_offset_bytes.is_some() {
        return Err(not_implemented("Appending"));
    }
    let said = declared!(input);
    check_said(&said)?;
    let mut about = about_of!(input)?;
    let conditions = conditions(input.if_match.take(), input.if_none_match.take());
    if conditions != Conditions::default() {
        // Better now than after a long body; it is checked again when the object is made.
        let key = input.key.clone();
        let present = api.store.read(move |connection| find(connection, bucket.id, &key)).await;
        let present = present.map_err(Refusal::from)?;
        conditions.check(present.as_ref().map(|object| object.etag.as_str()))?;
    }
    let wanted = input.checksum_algorithm.as_ref().map(|name| name.as_str().to_ascii_lowercase());
    let algorithms = said.values.keys().map(String::as_str).chain(announced.iter().copied()).chain(wanted.as_deref());
    let plan = Plan { limit: LARGEST_BODY, inline: INLINE, hasher: hasher(algorithms) };
    let received = take_body(api, input.body.take(), input.content_length, plan).await?;
    let trailer = Trailer { announced: &announced, sent: request.trailing_headers.take() };
    about.checksums = verify(&received, &said, trailer, input.content_md5.as_deref())?;

    let new = NewObject {
        bucket: input.bucket,
        key: input.key,
        body: received.body,
        bytes: received.bytes,
        etag: to_hex(&received.md5),
        about,
        conditions,
        origin,
    };
    let object = api.store.inner.writer.submit(move |batch| object_changes::put(batch, &new)).await?;
    let mut output = PutObjectOutput { e_tag: Some(etag(&object.etag)), ..PutObjectOutput::default() };
    declare!(output, object.about.checksums);
    output.checksum_type = type_of(&object.about.checksums);
    Ok(S3Response::new(output))
}

/// Takes a body in, and makes sure that it is as long as it was said to be.
pub(super) async fn take_body(
    api: &Api,
    body: Option<StreamingBlob>,
    length: Option<i64>,
    plan: Plan,
) -> S3Result<Received> {
    let length = length.and_then(|length| u64::try_from(length).ok());
    if length.is_some_and(|length| length > plan.limit) {
        return Err(Refusal::TooLarge.into());
    }
    let body = body.unwrap_or_else(|| StreamingBlob::from(s3s::Body::empty()));
    let received = receive(&api.store.inner.files, body, plan).await?;
    if length.is_some_and(|length| length != received.bytes) {
        return Err(Refusal::Incomplete.into());
    }
    Ok(received)
}

/// What comes behind a body, and what was to come.
pub(super) struct Trailer<'a> {
    pub(super) announced: &'a [&'static str],
    pub(super) sent: Option<TrailingHeaders>,
}

/// Compares the body with everything that was said about it, in headers and in the trailer.
/// Returns what is to be kept.
pub(super) fn verify(
    received: &Received,
    said: &Checksums,
    trailer: Trailer<'_>,
    content_md5: Option<&str>,
) -> S3Result<Checksums> {
    let found = from_dto(&received.checksum);
    compare(said, &found)?;
    let sent = trailer.sent.and_then(|sent| sent.take());
    check_trailer(trailer.announced, sent.as_ref())?;
    if let Some(sent) = sent {
        compare(&from_headers(&sent), &found)?;
    }
    if let Some(text) = content_md5 {
        check_md5(text, &received.md5)?;
    }
    Ok(found)
}

/// Compares the MD5 of a body with what its header says.
pub(super) fn check_md5(said: &str, found: &[u8]) -> S3Result<()> {
    let said = STANDARD.decode(said).map_err(|_| S3Error::new(S3ErrorCode::InvalidDigest))?;
    if said.len() != found.len() {
        return Err(S3Error::new(S3ErrorCode::InvalidDigest));
    }
    if said == found { Ok(()) } else { Err(Refusal::BadDigest("Content-MD5").into()) }
}

/// Where a copy comes from.
pub(super) fn source_of(source: &CopySource) -> S3Result<(String, String)> {
    match source {
        CopySource::Bucket { key, .. } if key.is_empty() => {
            let message = "Copy Source must mention the source bucket and key: sourcebucket/sourcekey";
            Err(S3Error::with_message(S3ErrorCode::InvalidArgument, message))
        }
        CopySource::Bucket { bucket, key, version_id } => {
            check_version(version_id.as_deref())?;
            check_key(key)?;
            Ok((bucket.to_string(), key.to_string()))
        }
        _ => Err(not_implemented("Copying from an access point")),
    }
}

pub(super) async fn copy_object(
    api: &Api,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let origin = api.origin(&request)?;
    // The library does not read these two of a copy.
    let on_target = conditions(read_tag(&request.headers, &IF_MATCH)?, read_tag(&request.headers, &IF_NONE_MATCH)?);
    let mut input = request.input;
    check_key(&input.key)?;
    refuse_extras!(input);
    let (from_bucket, from_key) = source_of(&input.copy_source)?;
    let from = api.enter(&origin.caller, &from_bucket, Act::Read(&from_key))?;
    api.enter(&origin.caller, &input.bucket, Act::Write(&input.key))?;
    let tags = conditions(input.copy_source_if_match.take(), input.copy_source_if_none_match.take());
    let conditions = read_conditions(
        tags,
        input.copy_source_if_modified_since.as_ref(),
        input.copy_source_if_unmodified_since.as_ref(),
    );
    let replace_metadata = replaces(input.metadata_directive.as_ref().map(MetadataDirective::as_str), "metadata")?;
    let replace_tags = replaces(input.tagging_directive.as_ref().map(TaggingDirective::as_str), "tagging")?;
    if (&from_bucket, &from_key) == (&input.bucket, &input.key) && !replace_metadata {
        let message = "This copy request is illegal because it is trying to copy an object to itself without changing \
                       the object's metadata, storage class, website redirect location or encryption attributes.";
        return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    }
    let given = about_of!(input)?;
    let summed = match input.checksum_algorithm.take() {
        Some(algorithm) => Some(sum_up(api, from.id, &from_key, algorithm.as_str()).await?),
        None => None,
    };
    let version = summed.as_ref().map(|(version, _)| *version);
    let source = Source { bucket: from_bucket, key: from_key, conditions, version };
    let to = (input.bucket, input.key);
    let change = move |about: &mut About| {
        if replace_metadata {
            about.content_type.clone_from(&given.content_type);
            about.headers.clone_from(&given.headers);
            about.metadata.clone_from(&given.metadata);
        }
        if replace_tags {
            about.tags.clone_from(&given.tags);
        }
        if let Some((_, checksums)) = &summed {
            about.checksums.clone_from(checksums);
        }
        about.upload = None;
    };
    let copied = api
        .store
        .inner
        .writer
        .submit(move |batch| object_changes::copy(batch, &source, (&to.0, &to.1), &change, &on_target, &origin));
    let object = copied.await?;
    let mut result = CopyObjectResult {
        e_tag: Some(etag(&object.etag)),
        last_modified: Some(timestamp(object.modified)),
        ..CopyObjectResult::default()
    };
    declare!(result, object.about.checksums);
    Ok(S3Response::new(CopyObjectOutput { copy_object_result: Some(result), ..CopyObjectOutput::default() }))
}

fn read_tag(headers: &HeaderMap, name: &HeaderName) -> S3Result<Option<ETagCondition>> {
    let invalid = || S3Error::with_message(S3ErrorCode::InvalidArgument, format!("The header {name} cannot be read."));
    let Some(value) = headers.get(name) else { return Ok(None) };
    ETagCondition::parse_http_header(value.as_bytes()).map(Some).map_err(|_| invalid())
}

/// Another checksum than the source has, with the version that it was made of.
async fn sum_up(api: &Api, bucket: i64, key: &str, algorithm: &str) -> S3Result<(i64, Checksums)> {
    let algorithm = algorithm.to_ascii_lowercase();
    if !ALGORITHMS.contains(&algorithm.as_str()) {
        let message = "Checksum algorithm provided is unsupported.";
        return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    }
    let (object, place) = api.store.open_object(bucket, key).await?;
    let mut stream = ContentStream::new(&api.store.inner.files, place, 0..object.bytes, None);
    let mut hasher = hasher([algorithm.as_str()]);
    while let Some(bytes) = stream.try_next().await.map_err(S3Error::internal_error)? {
        hasher.update(&bytes);
    }
    Ok((object.version, from_dto(&hasher.finalize())))
}

/// What a directive says: to take what the request gives instead of what the source has.
fn replaces(directive: Option<&str>, what: &str) -> S3Result<bool> {
    match directive {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(S3Error::with_message(S3ErrorCode::InvalidArgument, format!("Unknown {what} directive."))),
    }
}

pub(super) async fn delete_object(
    api: &Api,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    check_key(&input.key)?;
    api.enter(&caller, &input.bucket, Act::Delete(&input.key))?;
    check_version(input.version_id.as_deref())?;
    let conditions = conditions(input.if_match, None);
    let (bucket, key) = (input.bucket, input.key);
    let writer = &api.store.inner.writer;
    writer.submit(move |batch| object_changes::delete(batch, &caller, &bucket, &key, &conditions)).await?;
    Ok(S3Response::new(DeleteObjectOutput::default()))
}

pub(super) async fn delete_objects(
    api: &Api,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    // Whether each key may go is asked one by one; whether there is such a bucket, once.
    if api.store.bucket(&input.bucket).is_none() {
        api.enter(&caller, &input.bucket, Act::Look)?;
    }
    if input.delete.objects.len() > MOST_DELETES {
        return Err(S3Error::new(S3ErrorCode::MalformedXML));
    }
    let bucket = input.bucket;
    let keys: Vec<(String, Option<String>)> =
        input.delete.objects.into_iter().map(|object| (object.key, object.version_id)).collect();
    let wanted = keys.clone();
    let outcomes: Vec<Result<(), Refusal>> = api
        .store
        .inner
        .writer
        .submit(move |batch| {
            let mut outcomes = Vec::with_capacity(wanted.len());
            for (key, _) in &wanted {
                let gone = match check_key(key) {
                    Ok(()) => object_changes::delete(batch, &caller, &bucket, key, &Conditions::default()),
                    Err(refusal) => Err(refusal.into()),
                };
                outcomes.push(match gone {
                    Ok(_) => Ok(()),
                    Err(Failure::Refused(refusal)) => Err(refusal),
                    Err(failed) => return Err(failed),
                });
            }
            Ok(outcomes)
        })
        .await?;
    let is_quiet = input.delete.quiet == Some(true);
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for ((key, version_id), outcome) in keys.into_iter().zip(outcomes) {
        match outcome {
            Ok(()) if is_quiet => {}
            Ok(()) => deleted.push(DeletedObject { key: Some(key), version_id, ..DeletedObject::default() }),
            Err(refusal) => {
                let error = S3Error::from(refusal);
                errors.push(Error {
                    key: Some(key),
                    version_id,
                    code: Some(error.code().as_str().to_owned()),
                    message: error.message().map(str::to_owned),
                });
            }
        }
    }
    let output = DeleteObjectsOutput {
        deleted: Some(deleted),
        errors: Some(errors).filter(|errors| !errors.is_empty()),
        ..DeleteObjectsOutput::default()
    };
    Ok(S3Response::new(output))
}

pub(super) async fn put_object_tagging(
    api: &Api,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    check_key(&input.key)?;
    api.enter(&caller, &input.bucket, Act::Write(&input.key))?;
    check_version(input.version_id.as_deref())?;
    let tags = tags_of_set(input.tagging.tag_set, MOST_OBJECT_TAGS)?;
    let (bucket, key) = (input.bucket, input.key);
    let writer = &api.store.inner.writer;
    writer.submit(move |batch| object_changes::set_tags(batch, &caller, (&bucket, &key), &tags)).await?;
    Ok(S3Response::new(PutObjectTaggingOutput::default()))
}

pub(super) async fn delete_object_tagging(
    api: &Api,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    check_key(&input.key)?;
    api.enter(&caller, &input.bucket, Act::Write(&input.key))?;
    check_version(input.version_id.as_deref())?;
    let (bucket, key) = (input.bucket, input.key);
    let none = std::collections::BTreeMap::new();
    let writer = &api.store.inner.writer;
    writer.submit(move |batch| object_changes::set_tags(batch, &caller, (&bucket, &key), &none)).await?;
    Ok(S3Response::new(DeleteObjectTaggingOutput::default()))
}
