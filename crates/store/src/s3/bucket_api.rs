//! Buckets over S3.

use std::collections::BTreeMap;

use http::StatusCode;
use oscar_engine::ports::buckets::{self, STAGING_BUCKET};
use oscar_model::service::Visibility;
use s3s::dto::{
    Bucket, BucketCannedACL, BucketLocationConstraint, CreateBucketInput, CreateBucketOutput, DeleteBucketInput,
    DeleteBucketOutput, DeleteBucketTaggingInput, DeleteBucketTaggingOutput, GetBucketLocationInput,
    GetBucketLocationOutput, GetBucketTaggingInput, GetBucketTaggingOutput, HeadBucketInput, HeadBucketOutput,
    ListBucketsInput, ListBucketsOutput, Owner, PutBucketTaggingInput, PutBucketTaggingOutput,
};
use s3s::{S3Request, S3Response, S3Result};

use super::api::Api;
use super::convert::{MOST_BUCKET_TAGS, not_implemented, tags_of_set, timestamp, to_tag_set};
use super::errors::custom;
use crate::access::{Act, Caller};
use crate::bucket_changes;
use crate::error::Refusal;
use crate::record::to_millis;

pub(super) async fn list_buckets(
    api: &Api,
    request: S3Request<ListBucketsInput>,
) -> S3Result<S3Response<ListBucketsOutput>> {
    let caller = api.caller(&request)?;
    let prefix = request.input.prefix.unwrap_or_default();
    let directory = api.store.directory();
    let visible = directory.buckets.values().filter(|entry| {
        let name = entry.door.name.as_str();
        name != STAGING_BUCKET && name.starts_with(&prefix) && caller.kind.may(&entry.door, Act::Look)
    });
    let mut buckets: Vec<Bucket> = visible
        .map(|entry| Bucket {
            name: Some(entry.door.name.clone()),
            creation_date: Some(timestamp(to_millis(entry.created))),
            ..Bucket::default()
        })
        .collect();
    drop(directory);
    buckets.sort_by(|a, b| a.name.cmp(&b.name));
    let owner = Owner { id: Some(caller.principal.clone()), display_name: Some(caller.principal) };
    Ok(S3Response::new(ListBucketsOutput {
        buckets: Some(buckets),
        owner: Some(owner),
        ..ListBucketsOutput::default()
    }))
}

pub(super) async fn create_bucket(
    api: &Api,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    if input.object_lock_enabled_for_bucket == Some(true) {
        return Err(not_implemented("Locking objects"));
    }
    let grants = [
        &input.grant_full_control,
        &input.grant_read,
        &input.grant_read_acp,
        &input.grant_write,
        &input.grant_write_acp,
    ];
    if input.acl.as_ref().is_some_and(|acl| acl.as_str() != BucketCannedACL::PRIVATE)
        || grants.iter().any(|grant| grant.is_some())
    {
        return Err(not_implemented("An access list of a bucket"));
    }
    let owner = caller.kind.as_owner().ok_or(Refusal::Denied)?;
    let bucket = buckets::Bucket {
        name: input.bucket.clone(),
        owner,
        visibility: Visibility::Private,
        allowed_users: Vec::new(),
        from_service: None,
    };
    api.store.inner.writer.submit(move |batch| bucket_changes::create(batch, &bucket)).await?;
    let location = Some(format!("/{}", input.bucket));
    Ok(S3Response::new(CreateBucketOutput { location }))
}

pub(super) async fn delete_bucket(
    api: &Api,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    let caller = api.caller(&request)?;
    let name = request.input.bucket;
    api.enter(&caller, &name, Act::RemoveBucket)?;
    let writer = &api.store.inner.writer;
    let grave = writer.submit(move |batch| bucket_changes::remove_empty(batch, &caller, &name)).await?;
    api.store.clear_grave(grave).await?;
    Ok(S3Response::new(DeleteBucketOutput::default()))
}

pub(super) async fn head_bucket(
    api: &Api,
    request: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    let caller = api.caller(&request)?;
    api.enter(&caller, &request.input.bucket, Act::Look)?;
    let region = Some(api.store.inner.region.clone());
    Ok(S3Response::new(HeadBucketOutput { bucket_region: region, ..HeadBucketOutput::default() }))
}

/// The region that S3 does not name.
const NAMELESS_REGION: &str = "us-east-1";

pub(super) async fn get_bucket_location(
    api: &Api,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    let caller = api.caller(&request)?;
    api.enter(&caller, &request.input.bucket, Act::Look)?;
    let region = Some(api.store.inner.region.clone()).filter(|region| region != NAMELESS_REGION);
    Ok(S3Response::new(GetBucketLocationOutput { location_constraint: region.map(BucketLocationConstraint::from) }))
}

pub(super) async fn get_bucket_tagging(
    api: &Api,
    request: S3Request<GetBucketTaggingInput>,
) -> S3Result<S3Response<GetBucketTaggingOutput>> {
    let caller = api.caller(&request)?;
    api.enter(&caller, &request.input.bucket, Act::Look)?;
    let tags = api.store.bucket_tags(&request.input.bucket).await.map_err(Refusal::from)?;
    if tags.is_empty() {
        return Err(custom("NoSuchTagSet", StatusCode::NOT_FOUND, "The TagSet does not exist"));
    }
    Ok(S3Response::new(GetBucketTaggingOutput { tag_set: to_tag_set(&tags) }))
}

pub(super) async fn put_bucket_tagging(
    api: &Api,
    request: S3Request<PutBucketTaggingInput>,
) -> S3Result<S3Response<PutBucketTaggingOutput>> {
    let caller = api.caller(&request)?;
    let input = request.input;
    api.enter(&caller, &input.bucket, Act::Look)?;
    let tags = tags_of_set(input.tagging.tag_set, MOST_BUCKET_TAGS)?;
    change_tags(api, caller, input.bucket, tags).await?;
    Ok(S3Response::new(PutBucketTaggingOutput::default()))
}

pub(super) async fn delete_bucket_tagging(
    api: &Api,
    request: S3Request<DeleteBucketTaggingInput>,
) -> S3Result<S3Response<DeleteBucketTaggingOutput>> {
    let caller = api.caller(&request)?;
    let bucket = request.input.bucket;
    api.enter(&caller, &bucket, Act::Look)?;
    change_tags(api, caller, bucket, BTreeMap::new()).await?;
    Ok(S3Response::new(DeleteBucketTaggingOutput::default()))
}

/// Tags are for whoever may also remove the bucket.
async fn change_tags(api: &Api, caller: Caller, bucket: String, tags: BTreeMap<String, String>) -> S3Result<()> {
    let writer = &api.store.inner.writer;
    writer.submit(move |batch| bucket_changes::set_tags_as(batch, &caller, &bucket, &tags)).await?;
    Ok(())
}
