//! Addresses that let their holder do one thing without a key.

use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Keys, Presign};
use rusty_s3::actions::{GetObject, PutObject, S3Action as _};
use rusty_s3::{Bucket, Credentials, UrlStyle};

/// For the address that clients use.
pub(crate) fn address(endpoint: &str, region: &str, keys: &Keys, wanted: &Presign) -> Result<String, StoreError> {
    let unusable =
        |cause: String| StoreError::Unavailable(format!("the address of the object store is unusable: {cause}"));
    let endpoint = endpoint.parse().map_err(|_| unusable(endpoint.to_owned()))?;
    let bucket = Bucket::new(endpoint, UrlStyle::Path, wanted.bucket.clone(), region.to_owned())
        .map_err(|error| unusable(error.to_string()))?;
    let credentials = Credentials::new(&keys.access_key, keys.secret_key.expose());
    let content_type = wanted.content_type.as_deref().filter(|text| !text.is_empty());
    let url = if wanted.upload {
        let mut put = PutObject::new(&bucket, Some(&credentials), &wanted.key);
        if let Some(content_type) = content_type {
            put.headers_mut().insert("content-type", content_type);
        }
        for (name, value) in &wanted.headers {
            put.headers_mut().insert(name.as_str(), value.as_str());
        }
        put.sign(wanted.valid_for)
    } else {
        let mut get = GetObject::new(&bucket, Some(&credentials), &wanted.key);
        if let Some(content_type) = content_type {
            get.query_mut().insert("response-content-type", content_type);
        }
        for (name, value) in &wanted.headers {
            get.headers_mut().insert(name.as_str(), value.as_str());
        }
        get.sign(wanted.valid_for)
    };
    Ok(url.into())
}
