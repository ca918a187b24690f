//! Reading objects over S3.

use std::ops::Range as Bytes;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use s3s::dto::{
    GetObjectInput, GetObjectOutput, GetObjectTaggingInput, GetObjectTaggingOutput, HeadObjectInput, HeadObjectOutput,
    Range, StreamingBlob, Timestamp,
};
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::api::Api;
use super::checksums::{declare, type_of};
use super::convert::{check_version, conditions, etag, read_conditions, show_about, timestamp, to_tag_set};
use super::errors::custom;
use crate::access::{Act, Kind};
use crate::content::ContentStream;
use crate::error::Refusal;
use crate::names::check_key;
use crate::object_changes::ReadConditions;
use crate::object_reads::{ObjectRow, find};

pub(super) async fn get_object(api: &Api, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    check_key(&input.key)?;
    let bucket = api.enter(&caller, &input.bucket, Act::Read(&input.key))?;
    check_version(input.version_id.as_deref())?;
    let (object, place) = api.store.open_object(bucket.id, &input.key).await?;
    let tags = conditions(input.if_match, input.if_none_match);
    let wanted = read_conditions(tags, input.if_modified_since.as_ref(), input.if_unmodified_since.as_ref());
    check_conditions(&wanted, &object)?;
    let part = part_range(&object, input.part_number)?;
    let (range, is_partial) = range_of(&object, input.range, part)?;

    let mut output = GetObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: Some(to_i64(range.end - range.start)),
        content_range: is_partial.then(|| content_range(&range, object.bytes)),
        e_tag: Some(etag(&object.etag)),
        last_modified: Some(timestamp(object.modified)),
        parts_count: input.part_number.and_then(|_| parts_count(&object)),
        tag_count: Some(object.about.tags.len()).filter(|count| *count > 0).and_then(|count| i32::try_from(count).ok()),
        ..GetObjectOutput::default()
    };
    show_about!(output, object.about);
    if input.checksum_mode.is_some() && !is_partial {
        declare!(output, object.about.checksums);
        output.checksum_type = type_of(&object.about.checksums);
    }
    // The administrator's key cannot be revoked.
    let watched = matches!(caller.kind, Kind::Scoped(_) | Kind::User(_)).then_some(caller);
    let stream = ContentStream::new(&api.store.inner.files, place, range, watched);
    output.body = Some(match stream.into_memory() {
        Ok(bytes) => StreamingBlob::from(Body::from(bytes)),
        Err(stream) => StreamingBlob::wrap(Shared(std::sync::Mutex::new(stream))),
    });
    Ok(S3Response::new(output))
}

/// The library wants streams that could be shared; this one never is.
struct Shared(std::sync::Mutex<ContentStream>);

impl futures::Stream for Shared {
    type Item = std::io::Result<bytes::Bytes>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let stream = self.get_mut().0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::pin::Pin::new(stream).poll_next(context)
    }
}

pub(super) async fn head_object(
    api: &Api,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    check_key(&input.key)?;
    let bucket = api.enter(&caller, &input.bucket, Act::Read(&input.key))?;
    check_version(input.version_id.as_deref())?;
    let object = look_up(api, bucket.id, &input.key).await?;
    let overrides = Overrides {
        content_type: input.response_content_type,
        cache_control: input.response_cache_control,
        content_disposition: input.response_content_disposition,
        content_encoding: input.response_content_encoding,
        content_language: input.response_content_language,
        expires: input.response_expires,
    };
    let tags = conditions(input.if_match, input.if_none_match);
    let wanted = read_conditions(tags, input.if_modified_since.as_ref(), input.if_unmodified_since.as_ref());
    check_conditions(&wanted, &object)?;
    let part = part_range(&object, input.part_number)?;
    let (range, is_partial) = range_of(&object, input.range, part)?;
    let mut output = HeadObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: Some(to_i64(range.end - range.start)),
        content_range: is_partial.then(|| content_range(&range, object.bytes)),
        e_tag: Some(etag(&object.etag)),
        last_modified: Some(timestamp(object.modified)),
        parts_count: input.part_number.and_then(|_| parts_count(&object)),
        ..HeadObjectOutput::default()
    };
    show_about!(output, object.about);
    if input.checksum_mode.is_some() && !is_partial {
        declare!(output, object.about.checksums);
        output.checksum_type = type_of(&object.about.checksums);
    }
    override_about(&mut output, overrides);
    let mut response = S3Response::new(output);
    if !object.about.tags.is_empty() {
        response.headers.insert(TAGGING_COUNT, object.about.tags.len().into());
    }
    Ok(response)
}

const TAGGING_COUNT: HeaderName = HeaderName::from_static("x-amz-tagging-count");

/// What the request wants to see instead of what came with the upload. The library does this for
/// reading an object, but not for looking at it.
struct Overrides {
    content_type: Option<String>,
    cache_control: Option<String>,
    content_disposition: Option<String>,
    content_encoding: Option<String>,
    content_language: Option<String>,
    expires: Option<Timestamp>,
}

fn override_about(output: &mut HeadObjectOutput, wanted: Overrides) {
    fn set<T>(place: &mut Option<T>, wanted: Option<T>) {
        if wanted.is_some() {
            *place = wanted;
        }
    }
    set(&mut output.content_type, wanted.content_type);
    set(&mut output.cache_control, wanted.cache_control);
    set(&mut output.content_disposition, wanted.content_disposition);
    set(&mut output.content_encoding, wanted.content_encoding);
    set(&mut output.content_language, wanted.content_language);
    set(&mut output.expires, wanted.expires);
}

pub(super) async fn get_object_tagging(
    api: &Api,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    check_key(&input.key)?;
    let bucket = api.enter(&caller, &input.bucket, Act::Read(&input.key))?;
    check_version(input.version_id.as_deref())?;
    let object = look_up(api, bucket.id, &input.key).await?;
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set: to_tag_set(&object.about.tags), version_id: None }))
}

async fn look_up(api: &Api, bucket: i64, key: &str) -> S3Result<ObjectRow> {
    let key = key.to_owned();
    let found = api.store.read(move |connection| find(connection, bucket, &key)).await.map_err(Refusal::from)?;
    Ok(found.ok_or(Refusal::NoSuchKey)?)
}

fn check_conditions(wanted: &ReadConditions, object: &ObjectRow) -> S3Result<()> {
    wanted.check(&object.etag, object.modified).map_err(|is_unmodified| {
        if !is_unmodified {
            return S3Error::from(Refusal::Condition);
        }
        let mut error = S3Error::new(S3ErrorCode::NotModified);
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::try_from(format!("\"{}\"", object.etag)) {
            headers.insert(header::ETAG, value);
        }
        error.set_headers(headers);
        error
    })
}

fn part_range(object: &ObjectRow, number: Option<i32>) -> S3Result<Option<Bytes<u64>>> {
    let Some(number) = number else { return Ok(None) };
    let parts = &object.about.parts;
    let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    match at {
        Some(0) if parts.is_empty() => Ok(Some(0..object.bytes)),
        Some(at) if at < parts.len() => {
            let start: u64 = parts[..at].iter().sum();
            Ok(Some(start..start + parts[at]))
        }
        _ => Err(custom(
            "InvalidPartNumber",
            StatusCode::RANGE_NOT_SATISFIABLE,
            "The requested partnumber is not satisfiable",
        )),
    }
}

fn range_of(object: &ObjectRow, asked: Option<Range>, part: Option<Bytes<u64>>) -> S3Result<(Bytes<u64>, bool)> {
    match (asked, part) {
        (Some(_), Some(_)) => Err(S3Error::new(S3ErrorCode::InvalidRequest)),
        (None, Some(part)) => Ok((part.clone(), part.end > part.start)),
        (None, None) => Ok((0..object.bytes, false)),
        (Some(asked), None) => {
            let bad = |()| S3Error::with_message(S3ErrorCode::InvalidRange, "The requested range is not satisfiable");
            let range = asked.check(object.bytes).map_err(|_| bad(()))?;
            // The end of nothing cannot be named in an answer.
            if range.is_empty() { Err(bad(())) } else { Ok((range, true)) }
        }
    }
}

fn content_range(range: &Bytes<u64>, whole: u64) -> String {
    format!("bytes {}-{}/{whole}", range.start, range.end.saturating_sub(1))
}

fn parts_count(object: &ObjectRow) -> Option<i32> {
    i32::try_from(object.about.parts.len()).ok().filter(|count| *count > 0)
}

fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
