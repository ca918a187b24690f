//! What went wrong, in the words of S3.

use http::StatusCode;
use oscar_engine::ports::StoreError;
use s3s::{S3Error, S3ErrorCode};

use crate::error::Refusal;

impl From<Refusal> for S3Error {
    fn from(refusal: Refusal) -> Self {
        let say = |code: S3ErrorCode, message: String| Self::with_message(code, message);
        match refusal {
            Refusal::Denied => say(S3ErrorCode::AccessDenied, "Access Denied.".to_owned()),
            Refusal::NoSuchBucket => say(S3ErrorCode::NoSuchBucket, "The specified bucket does not exist".to_owned()),
            Refusal::NoSuchKey => say(S3ErrorCode::NoSuchKey, "The specified key does not exist.".to_owned()),
            Refusal::Changed => say(
                S3ErrorCode::OperationAborted,
                "The object was replaced while it was being copied. Try again.".to_owned(),
            ),
            Refusal::NoSuchUpload => say(
                S3ErrorCode::NoSuchUpload,
                "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have \
                 been aborted or completed."
                    .to_owned(),
            ),
            Refusal::BucketExists(true) => Self::new(S3ErrorCode::BucketAlreadyOwnedByYou),
            Refusal::BucketExists(false) => Self::new(S3ErrorCode::BucketAlreadyExists),
            Refusal::BucketInUse => {
                let message = "A service uses this bucket; it goes with the service, or by the manager's API.";
                custom("BucketInUse", StatusCode::CONFLICT, message)
            }
            Refusal::BucketNotEmpty => {
                say(S3ErrorCode::BucketNotEmpty, "The bucket you tried to delete is not empty".to_owned())
            }
            Refusal::BadBucketName => say(S3ErrorCode::InvalidBucketName, "The specified bucket is not valid.".to_owned()),
            Refusal::Condition => say(
                S3ErrorCode::PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold".to_owned(),
            ),
            Refusal::BadObjectName => {
                custom("XMinioInvalidObjectName", StatusCode::BAD_REQUEST, "Object name contains unsupported characters.")
            }
            Refusal::KeyTooLong => say(S3ErrorCode::KeyTooLongError, "Your key is too long".to_owned()),
            Refusal::BadPart => say(
                S3ErrorCode::InvalidPart,
                "One or more of the specified parts could not be found. The part may not have been uploaded, or the \
                 specified entity tag may not match the part's entity tag."
                    .to_owned(),
            ),
            Refusal::BadPartOrder => say(
                S3ErrorCode::InvalidPartOrder,
                "The list of parts was not in ascending order. The parts list must be specified in order by part number."
                    .to_owned(),
            ),
            Refusal::NoParts => say(S3ErrorCode::InvalidRequest, "You must specify at least one part".to_owned()),
            Refusal::PartTooSmall => say(
                S3ErrorCode::EntityTooSmall,
                "Your proposed upload is smaller than the minimum allowed object size.".to_owned(),
            ),
            Refusal::TooLarge => say(
                S3ErrorCode::EntityTooLarge,
                "Your proposed upload exceeds the maximum allowed object size.".to_owned(),
            ),
            Refusal::Incomplete => say(
                S3ErrorCode::IncompleteBody,
                "You did not provide the number of bytes specified by the Content-Length HTTP header.".to_owned(),
            ),
            Refusal::BadTrailer => custom(
                "MalformedTrailerError",
                StatusCode::BAD_REQUEST,
                "The trailer of the body is not the one that was announced, or cannot be read.",
            ),
            Refusal::BadDigest("its signature") => Self::new(S3ErrorCode::SignatureDoesNotMatch),
            Refusal::BadDigest("x-amz-content-sha256") => custom(
                "XAmzContentSHA256Mismatch",
                StatusCode::BAD_REQUEST,
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            ),
            Refusal::BadDigest(what) => {
                say(S3ErrorCode::BadDigest, format!("The {what} you specified did not match what we received."))
            }
            Refusal::Invalid(why) => say(S3ErrorCode::InvalidRequest, why),
            Refusal::Store(error) => of_store(error),
        }
    }
}

fn of_store(error: StoreError) -> S3Error {
    match error {
        StoreError::Full(why) => custom("XMinioStorageFull", StatusCode::INSUFFICIENT_STORAGE, &why),
        StoreError::Unavailable(why) | StoreError::Forbidden(why) => {
            S3Error::with_message(S3ErrorCode::ServiceUnavailable, why)
        }
        other => S3Error::with_message(S3ErrorCode::InternalError, other.to_string()),
    }
}

pub(super) fn custom(code: &'static str, status: StatusCode, message: &str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message.to_owned());
    error.set_status_code(status);
    error
}
