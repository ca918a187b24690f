//! Every operation that there is. What is not here answers `NotImplemented`.

use std::sync::Arc;

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput, CompleteMultipartUploadOutput,
    CopyObjectInput, CopyObjectOutput, CreateBucketInput, CreateBucketOutput, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, DeleteBucketInput, DeleteBucketOutput, DeleteBucketTaggingInput,
    DeleteBucketTaggingOutput, DeleteObjectInput, DeleteObjectOutput, DeleteObjectTaggingInput,
    DeleteObjectTaggingOutput, GetBucketLocationInput, GetBucketLocationOutput, GetBucketTaggingInput,
    GetBucketTaggingOutput, GetObjectInput, GetObjectOutput, GetObjectTaggingInput, GetObjectTaggingOutput,
    HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput, ListBucketsInput, ListBucketsOutput,
    ListMultipartUploadsInput, ListMultipartUploadsOutput, ListObjectsInput, ListObjectsOutput, ListObjectsV2Input,
    ListObjectsV2Output, ListPartsInput, ListPartsOutput, PutBucketTaggingInput, PutBucketTaggingOutput,
    PutObjectInput, PutObjectOutput, PutObjectTaggingInput, PutObjectTaggingOutput, UploadPartCopyInput,
    UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::endpoint::Peer;
use crate::access::{Act, Caller, Kind};
use crate::directory::BucketEntry;
use crate::error::Refusal;
use crate::events::Origin;
use crate::store::Store;

pub(super) struct Api {
    pub(super) store: Store,
}

impl Api {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// The holder of the key that signed the request.
    pub(super) fn caller<T>(&self, request: &S3Request<T>) -> S3Result<Caller> {
        let denied = || S3Error::from(Refusal::Denied);
        let access_key = &request.credentials.as_ref().ok_or_else(denied)?.access_key;
        let root = &self.store.inner.root.access_key;
        if access_key == root {
            return Ok(Caller::permanent(root.clone(), Kind::Root));
        }
        let key = self.store.directory().keys.get(access_key).cloned();
        let key = key.ok_or_else(|| S3Error::new(S3ErrorCode::InvalidAccessKeyId))?;
        Ok(if key.kind == Kind::Manager { self.store.manager() } else { key.caller() })
    }

    pub(super) fn origin<T>(&self, request: &S3Request<T>) -> S3Result<Origin> {
        let source_ip = request.extensions.get::<Peer>().map(|peer| peer.0.to_string()).unwrap_or_default();
        Ok(Origin { caller: self.caller(request)?, source_ip })
    }

    /// The bucket, when the caller may do this in it.
    pub(super) fn enter(&self, caller: &Caller, bucket: &str, act: Act<'_>) -> S3Result<Arc<BucketEntry>> {
        let refuse = |refusal: Refusal| Err(S3Error::from(refusal));
        match self.store.bucket(bucket) {
            Some(entry) if caller.kind.may(&entry.door, act) => Ok(entry),
            None if caller.kind.may_miss(bucket, act) => refuse(Refusal::NoSuchBucket),
            _ => refuse(Refusal::Denied),
        }
    }
}

macro_rules! operations {
    ($($name:ident($input:ty) -> $output:ty = $module:ident;)*) => {
        #[async_trait::async_trait]
        impl S3 for Api {
            $(async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                super::$module::$name(self, request).await
            })*
        }
    };
}

operations! {
    list_buckets(ListBucketsInput) -> ListBucketsOutput = bucket_api;
    create_bucket(CreateBucketInput) -> CreateBucketOutput = bucket_api;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = bucket_api;
    head_bucket(HeadBucketInput) -> HeadBucketOutput = bucket_api;
    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput = bucket_api;
    put_bucket_tagging(PutBucketTaggingInput) -> PutBucketTaggingOutput = bucket_api;
    delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput = bucket_api;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = bucket_api;
    list_objects(ListObjectsInput) -> ListObjectsOutput = list_api;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = list_api;
    get_object(GetObjectInput) -> GetObjectOutput = object_api;
    head_object(HeadObjectInput) -> HeadObjectOutput = object_api;
    get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput = object_api;
    put_object(PutObjectInput) -> PutObjectOutput = write_api;
    copy_object(CopyObjectInput) -> CopyObjectOutput = write_api;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput = write_api;
    put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput = write_api;
    delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput = write_api;
    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput = multipart_api;
    upload_part(UploadPartInput) -> UploadPartOutput = multipart_api;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput = multipart_api;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput = multipart_api;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput = multipart_api;
    list_parts(ListPartsInput) -> ListPartsOutput = multipart_api;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput = multipart_api;
}
