//! Uploads in parts over S3.

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumAlgorithm, ChecksumType,
    CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart, CopyPartResult,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, ETag, Initiator, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListPartsInput, ListPartsOutput, MultipartUpload, Owner, Part, Range, StorageClass,
    UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::api::Api;
use super::checksums::{announced, check_said, declare, declared, hasher, to_hex, type_of};
use super::convert::{about_of, conditions, encoder, etag, read_conditions, refuse_extras, timestamp};
use super::write_api::{LARGEST_BODY, Trailer, source_of, take_body, verify};
use crate::access::{Act, Caller};
use crate::content::ContentStream;
use crate::directory::BucketEntry;
use crate::error::Refusal;
use crate::intake::Plan;
use crate::multipart::{self, Completion, MOST_PARTS, Named, NewPart, Upload};
use crate::names::check_key;
use crate::record::Checksums;

const LONGEST_PAGE: usize = 1000;

pub(super) async fn create_multipart_upload(
    api: &Api,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let caller = api.caller(&request)?;
    let mut input = request.input;
    check_key(&input.key)?;
    api.enter(&caller, &input.bucket, Act::Write(&input.key))?;
    refuse_extras!(input);
    let checksum = plan_checksum(input.checksum_algorithm.as_ref(), input.checksum_type.as_ref())?;
    let about = about_of!(input)?;
    let id = api.store.random_text(32);
    let output = CreateMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        upload_id: Some(id.clone()),
        checksum_algorithm: input.checksum_algorithm,
        checksum_type: checksum.0.as_ref().map(|_| kind_of(checksum.1)),
        ..CreateMultipartUploadOutput::default()
    };
    let (bucket, key) = (input.bucket, input.key);
    let writer = &api.store.inner.writer;
    writer.submit(move |batch| multipart::begin(batch, &caller, (&bucket, &key), &id, &checksum, &about)).await?;
    Ok(S3Response::new(output))
}

/// Which checksum the whole gets, and whether it is made from those of the parts.
fn plan_checksum(
    algorithm: Option<&ChecksumAlgorithm>,
    kind: Option<&ChecksumType>,
) -> S3Result<(Option<String>, bool)> {
    let Some(name) = algorithm.map(|algorithm| algorithm.as_str().to_ascii_lowercase()) else {
        return Ok((None, false));
    };
    let composite = match kind.map(ChecksumType::as_str) {
        Some(kind) => kind == ChecksumType::COMPOSITE,
        None => name != "crc64nvme",
    };
    let is_possible = match name.as_str() {
        "crc64nvme" => !composite,
        "crc32" | "crc32c" => true,
        "sha1" | "sha256" => composite,
        _ => false,
    };
    if is_possible {
        Ok((Some(name), composite))
    } else {
        Err(S3Error::with_message(S3ErrorCode::InvalidRequest, "The checksum type cannot be had with this algorithm."))
    }
}

fn kind_of(composite: bool) -> ChecksumType {
    ChecksumType::from_static(if composite { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT })
}

pub(super) async fn upload_part(
    api: &Api,
    mut request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let caller = api.caller(&request)?;
    let announced = announced(&request.headers);
    let mut input = request.input;
    check_number(input.part_number)?;
    let upload = open_upload(api, &caller, &input.bucket, &input.key, &input.upload_id).await?;
    let said = declared!(input);
    check_said(&said)?;
    let algorithms =
        said.values.keys().map(String::as_str).chain(announced.iter().copied()).chain(upload.algorithm.as_deref());
    // Parts are always files: completing an upload names them and copies nothing.
    let plan = Plan { limit: LARGEST_BODY, inline: 0, hasher: hasher(algorithms) };
    let received = take_body(api, input.body.take(), input.content_length, plan).await?;
    let trailer = Trailer { announced: &announced, sent: request.trailing_headers.take() };
    let checksums = verify(&received, &said, trailer, input.content_md5.as_deref())?;
    let mut output = UploadPartOutput { e_tag: Some(etag(&to_hex(&received.md5))), ..UploadPartOutput::default() };
    declare!(output, checksums);
    let part = NewPart {
        upload: input.upload_id,
        number: input.part_number,
        body: received.body,
        bytes: received.bytes,
        etag: to_hex(&received.md5),
        checksums,
    };
    let (bucket, key) = (input.bucket, input.key);
    let writer = &api.store.inner.writer;
    writer.submit(move |batch| multipart::put_part(batch, &caller, (&bucket, &key), &part)).await?;
    Ok(S3Response::new(output))
}

pub(super) async fn upload_part_copy(
    api: &Api,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let caller = api.caller(&request)?;
    let mut input = request.input;
    check_number(input.part_number)?;
    let upload = open_upload(api, &caller, &input.bucket, &input.key, &input.upload_id).await?;
    let (from_bucket, from_key) = source_of(&input.copy_source)?;
    let source = api.enter(&caller, &from_bucket, Act::Read(&from_key))?;
    let (object, place) = api.store.open_object(source.id, &from_key).await?;
    let tags = conditions(input.copy_source_if_match.take(), input.copy_source_if_none_match.take());
    let wanted = read_conditions(
        tags,
        input.copy_source_if_modified_since.as_ref(),
        input.copy_source_if_unmodified_since.as_ref(),
    );
    wanted.check(&object.etag, object.modified).map_err(|_| Refusal::Condition)?;
    let range = match input.copy_source_range.as_deref() {
        None => 0..object.bytes,
        Some(text) => copied_range(text, object.bytes)?,
    };
    let stream = ContentStream::new(&api.store.inner.files, place, range, None);
    let stream = futures::TryStreamExt::map_err(stream, s3s::StdError::from);
    let plan = Plan { limit: LARGEST_BODY, inline: 0, hasher: hasher(upload.algorithm.as_deref()) };
    let received = crate::intake::receive(&api.store.inner.files, stream, plan).await?;
    let checksums = super::checksums::from_dto(&received.checksum);
    let mut result = CopyPartResult { e_tag: Some(etag(&to_hex(&received.md5))), ..CopyPartResult::default() };
    declare!(result, checksums);
    let part = NewPart {
        upload: input.upload_id,
        number: input.part_number,
        body: received.body,
        bytes: received.bytes,
        etag: to_hex(&received.md5),
        checksums,
    };
    let (bucket, key) = (input.bucket, input.key);
    let writer = &api.store.inner.writer;
    let modified = writer.submit(move |batch| multipart::put_part(batch, &caller, (&bucket, &key), &part)).await?;
    result.last_modified = Some(timestamp(modified));
    Ok(S3Response::new(UploadPartCopyOutput { copy_part_result: Some(result), ..UploadPartCopyOutput::default() }))
}

/// Only a first and a last byte, both of the source.
fn copied_range(text: &str, bytes: u64) -> S3Result<std::ops::Range<u64>> {
    let invalid = |message: String| S3Error::with_message(S3ErrorCode::InvalidArgument, message);
    match Range::parse(text) {
        Ok(Range::Int { first, .. }) if first >= bytes => Err(S3Error::new(S3ErrorCode::InvalidRange)),
        Ok(Range::Int { first, last: Some(last) }) if last < bytes => Ok(first..last + 1),
        Ok(Range::Int { last: Some(_), .. }) => {
            Err(invalid(format!("Range specified is not valid for source object of size: {bytes}")))
        }
        _ => Err(invalid("The x-amz-copy-source-range value must be of the form bytes=first-last".to_owned())),
    }
}

pub(super) async fn complete_multipart_upload(
    api: &Api,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let origin = api.origin(&request)?;
    let mut input = request.input;
    check_key(&input.key)?;
    api.enter(&origin.caller, &input.bucket, Act::Write(&input.key))?;
    let whole = declared!(input);
    let parts = input.multipart_upload.take().and_then(|upload| upload.parts).unwrap_or_default();
    let named = |part: CompletedPart| {
        let checksums: Checksums = declared!(part);
        let etag = part.e_tag.map(ETag::into_value);
        Some(Named { number: part.part_number?, etag: etag?, checksums })
    };
    let parts = parts.into_iter().map(named).collect::<Option<Vec<_>>>().ok_or(Refusal::BadPart)?;
    let location = format!("{}/{}/{}", api.store.inner.endpoint.trim_end_matches('/'), input.bucket, input.key);
    let asked = Completion {
        bucket: input.bucket.clone(),
        key: input.key.clone(),
        upload: input.upload_id,
        parts,
        conditions: conditions(input.if_match.take(), input.if_none_match.take()),
        checksums: whole,
        bytes: input.mpu_object_size.and_then(|bytes| u64::try_from(bytes).ok()),
        origin,
    };
    let object = api.store.inner.writer.submit(move |batch| multipart::complete(batch, &asked)).await?;
    let mut output = CompleteMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        location: Some(location),
        e_tag: Some(etag(&object.etag)),
        ..CompleteMultipartUploadOutput::default()
    };
    declare!(output, object.about.checksums);
    output.checksum_type = type_of(&object.about.checksums);
    Ok(S3Response::new(output))
}

pub(super) async fn abort_multipart_upload(
    api: &Api,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    check_key(&input.key)?;
    api.enter(&caller, &input.bucket, Act::Write(&input.key))?;
    let (bucket, key, id) = (input.bucket, input.key, input.upload_id);
    let writer = &api.store.inner.writer;
    writer.submit(move |batch| multipart::abort(batch, &caller, (&bucket, &key), &id)).await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

pub(super) async fn list_parts(api: &Api, request: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    let upload = open_upload(api, &caller, &input.bucket, &input.key, &input.upload_id).await?;
    let entry = api.enter(&caller, &input.bucket, Act::Write(&input.key))?;
    let owner = owner_of(&entry);
    let id = input.upload_id.clone();
    let stored = api.store.read(move |connection| multipart::parts(connection, &id)).await.map_err(Refusal::from)?;
    let marker = input.part_number_marker.unwrap_or(0);
    let limit = input.max_parts.map_or(LONGEST_PAGE, |most| usize::try_from(most).unwrap_or(0).min(LONGEST_PAGE));
    let mut rest: Vec<_> = stored.into_iter().filter(|part| part.number > marker).collect();
    // A page of nothing is no way to go on.
    let is_truncated = rest.len() > limit && limit > 0;
    rest.truncate(limit);
    let next = rest.last().map(|part| part.number).filter(|_| is_truncated);
    let parts = rest.into_iter().map(|part| {
        let mut shown = Part {
            part_number: Some(part.number),
            size: Some(i64::try_from(part.bytes).unwrap_or(i64::MAX)),
            e_tag: Some(etag(&part.etag)),
            last_modified: Some(timestamp(part.modified)),
            ..Part::default()
        };
        declare!(shown, part.checksums);
        shown
    });
    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        part_number_marker: Some(marker),
        next_part_number_marker: next,
        max_parts: i32::try_from(limit).ok(),
        is_truncated: Some(is_truncated),
        parts: Some(parts.collect()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        checksum_type: upload.algorithm.as_ref().map(|_| kind_of(upload.composite)),
        checksum_algorithm: upload.algorithm.map(|name| ChecksumAlgorithm::from(name.to_ascii_uppercase())),
        owner: Some(owner.clone()),
        initiator: Some(Initiator { id: owner.id, display_name: owner.display_name }),
        ..ListPartsOutput::default()
    }))
}

pub(super) async fn list_multipart_uploads(
    api: &Api,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    let prefix = input.prefix.clone().unwrap_or_default();
    let entry = api.enter(&caller, &input.bucket, Act::List(&prefix))?;
    let (bucket, owner) = (entry.id, owner_of(&entry));
    let limit = input.max_uploads.map_or(LONGEST_PAGE, |most| usize::try_from(most).unwrap_or(0).min(LONGEST_PAGE));
    let after = (input.key_marker.clone().unwrap_or_default(), input.upload_id_marker.clone().unwrap_or_default());
    // A marker without an upload means everything behind that key.
    let after_id = if after.1.is_empty() && !after.0.is_empty() { "\u{10FFFF}".to_owned() } else { after.1.clone() };
    let (wanted, from) = (prefix.clone(), (after.0.clone(), after_id));
    let found = api
        .store
        .read(move |connection| multipart::list_uploads(connection, bucket, &wanted, (&from.0, &from.1), limit + 1));
    let mut found = found.await.map_err(Refusal::from)?;
    let is_truncated = found.len() > limit && limit > 0;
    found.truncate(limit);
    let encode = encoder(input.encoding_type.as_ref())?;
    let last = found.last().filter(|_| is_truncated).cloned();
    let uploads = found.into_iter().map(|upload| MultipartUpload {
        key: Some(encode(&upload.key)),
        initiated: Some(timestamp(upload.started)),
        upload_id: Some(upload.id),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        owner: Some(owner.clone()),
        initiator: Some(Initiator { id: owner.id.clone(), display_name: owner.display_name.clone() }),
        ..MultipartUpload::default()
    });
    let uploads = uploads.collect();
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        prefix: Some(encode(&prefix)),
        key_marker: Some(encode(&after.0)),
        upload_id_marker: Some(after.1),
        next_key_marker: last.as_ref().map(|upload| encode(&upload.key)),
        next_upload_id_marker: last.map(|upload| upload.id),
        max_uploads: i32::try_from(limit).ok(),
        is_truncated: Some(is_truncated),
        uploads: Some(uploads),
        encoding_type: input.encoding_type,
        ..ListMultipartUploadsOutput::default()
    }))
}

/// Uploads are the business of whoever has the bucket.
fn owner_of(entry: &BucketEntry) -> Owner {
    let name = entry.door.owner.as_str().to_owned();
    Owner { id: Some(name.clone()), display_name: Some(name) }
}

async fn open_upload(api: &Api, caller: &Caller, bucket: &str, key: &str, id: &str) -> S3Result<Upload> {
    check_key(key)?;
    let entry = api.enter(caller, bucket, Act::Write(key))?;
    let (bucket, key, id) = (entry.id, key.to_owned(), id.to_owned());
    let found = api.store.read(move |connection| multipart::find_upload(connection, bucket, &key, &id)).await;
    Ok(found.map_err(Refusal::from)?.ok_or(Refusal::NoSuchUpload)?)
}

fn check_number(number: i32) -> S3Result<()> {
    if (1..=MOST_PARTS).contains(&number) {
        return Ok(());
    }
    Err(S3Error::with_message(
        S3ErrorCode::InvalidArgument,
        "Part number must be an integer between 1 and 10000, inclusive",
    ))
}
