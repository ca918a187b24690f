//! Lists of objects over S3, in both versions.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use s3s::dto::{
    CommonPrefix, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output, Object,
    ObjectStorageClass, Owner,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::api::Api;
use super::convert::{encoder, etag, timestamp};
use crate::access::{Act, Caller};
use crate::error::Refusal;
use crate::listing::{Line, Listed, Query, list};

const LONGEST_PAGE: usize = 1000;

pub(super) async fn list_objects(
    api: &Api,
    request: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    let query = Query {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().unwrap_or_default(),
        after: input.marker.clone().unwrap_or_default(),
        limit: limit(input.max_keys)?,
    };
    let page = page(api, &caller, &input.bucket, query.clone()).await?;
    let encode = encoder(input.encoding_type.as_ref())?;
    let owner = Some(page.owner.clone());
    Ok(S3Response::new(ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(encode(&query.prefix)),
        marker: Some(encode(&query.after)),
        max_keys: Some(to_i32(query.limit)),
        is_truncated: Some(page.listed.next.is_some()),
        contents: Some(objects(page.listed.objects, &encode, owner.as_ref())),
        common_prefixes: Some(prefixes(&page.listed.prefixes, &encode)),
        delimiter: input.delimiter.as_deref().filter(|text| !text.is_empty()).map(&encode),
        next_marker: page.listed.next.as_deref().map(&encode),
        encoding_type: input.encoding_type,
        request_charged: None,
    }))
}

pub(super) async fn list_objects_v2(
    api: &Api,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    let start_after = input.start_after.clone().unwrap_or_default();
    let after = match &input.continuation_token {
        Some(token) => read_token(token)?,
        None => start_after.clone(),
    };
    let query = Query {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().unwrap_or_default(),
        after,
        limit: limit(input.max_keys)?,
    };
    let page = page(api, &caller, &input.bucket, query.clone()).await?;
    let encode = encoder(input.encoding_type.as_ref())?;
    let owner = Some(page.owner.clone()).filter(|_| input.fetch_owner == Some(true));
    let count = page.listed.objects.len() + page.listed.prefixes.len();
    Ok(S3Response::new(ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(encode(&query.prefix)),
        max_keys: Some(to_i32(query.limit)),
        key_count: Some(to_i32(count)),
        continuation_token: input.continuation_token,
        is_truncated: Some(page.listed.next.is_some()),
        next_continuation_token: page.listed.next.map(|next| URL_SAFE_NO_PAD.encode(next)),
        contents: Some(objects(page.listed.objects, &encode, owner.as_ref())),
        common_prefixes: Some(prefixes(&page.listed.prefixes, &encode)),
        delimiter: input.delimiter.as_deref().filter(|text| !text.is_empty()).map(&encode),
        encoding_type: input.encoding_type,
        start_after: input.start_after.as_deref().map(&encode),
        request_charged: None,
    }))
}

struct Page {
    listed: Listed,
    owner: Owner,
}

async fn page(api: &Api, caller: &Caller, bucket: &str, query: Query) -> S3Result<Page> {
    let entry = api.enter(caller, bucket, Act::List(&query.prefix))?;
    let id = entry.id;
    let listed = api.store.read(move |connection| list(connection, id, &query)).await.map_err(Refusal::from)?;
    let name = entry.door.owner.as_str().to_owned();
    Ok(Page { listed, owner: Owner { id: Some(name.clone()), display_name: Some(name) } })
}

fn objects(lines: Vec<Line>, encode: &impl Fn(&str) -> String, owner: Option<&Owner>) -> Vec<Object> {
    let object = |line: Line| Object {
        key: Some(encode(&line.key)),
        size: Some(i64::try_from(line.bytes).unwrap_or(i64::MAX)),
        e_tag: Some(etag(&line.etag)),
        last_modified: Some(timestamp(line.modified)),
        storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
        owner: owner.cloned(),
        ..Object::default()
    };
    lines.into_iter().map(object).collect()
}

fn prefixes(prefixes: &[String], encode: &impl Fn(&str) -> String) -> Vec<CommonPrefix> {
    prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(encode(prefix)) }).collect()
}

fn limit(asked: Option<i32>) -> S3Result<usize> {
    let asked = asked.map_or(Ok(LONGEST_PAGE), usize::try_from);
    let bad = |_| {
        S3Error::with_message(
            S3ErrorCode::InvalidArgument,
            "Argument maxKeys must be an integer between 0 and 2147483647",
        )
    };
    asked.map(|asked| asked.min(LONGEST_PAGE)).map_err(bad)
}

fn read_token(token: &str) -> S3Result<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok().filter(|bytes| !bytes.is_empty());
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
        S3Error::with_message(S3ErrorCode::InvalidArgument, "The continuation token provided is incorrect")
    })
}

fn to_i32(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
