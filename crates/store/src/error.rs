//! What can go wrong, as the core of the store sees it. The S3 side and the port each have
//! their own words for it.

use std::io;
use std::path::{Path, PathBuf};

use oscar_engine::ports::StoreError;
use rusqlite::ErrorCode;

/// Why the store's folder could not be opened. What is in it was left as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the object store's folder '{path}' cannot be used: {cause}; name a folder that can be made or written to")]
    Folder { path: PathBuf, cause: String },
    #[error("another process uses the object store in '{path}'; stop it, or name another folder for this one")]
    Locked { path: PathBuf },
    #[error("the disk of '{path}' is full; make room on it and start again")]
    Full { path: PathBuf },
    #[error(
        "the object store's database '{path}' is damaged: {cause}; restore it from a backup (it was left as it is)"
    )]
    Corrupt { path: PathBuf, cause: String },
    #[error("'{path}' is a database of another program; move it away or name another folder")]
    Foreign { path: PathBuf },
    #[error(
        "the object store's database '{path}' was written by a newer version (its schema is {found}, this version \
         knows up to {known}); start that version, or restore a backup made before the upgrade"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("the disk of '{path}' cannot share memory between readers and writer; put the folder on a local disk")]
    NoWal { path: PathBuf },
    #[error("the object store's database '{path}' cannot be opened: {cause}")]
    Database { path: PathBuf, cause: String },
}

impl OpenError {
    pub(crate) fn of_io(path: &Path, cause: &io::Error) -> Self {
        let path = path.to_owned();
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Folder { path, cause: cause.to_string() },
        }
    }

    pub(crate) fn of_sql(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, cause) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::Folder { path, cause }
            }
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt { path, cause },
            _ => Self::Database { path, cause },
        }
    }
}

/// Why an operation was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Denied,
    NoSuchBucket,
    NoSuchKey,
    /// The object was replaced while it was being read.
    Changed,
    NoSuchUpload,
    /// True when it is the caller's own.
    BucketExists(bool),
    BucketNotEmpty,
    /// A service waits for what is put into it, or it was made for one.
    BucketInUse,
    BadBucketName,
    /// A condition of the request (`If-Match`, …) does not hold.
    Condition,
    BadObjectName,
    KeyTooLong,
    BadPart,
    BadPartOrder,
    /// Completing an upload without naming any part.
    NoParts,
    PartTooSmall,
    TooLarge,
    /// The body ended early, or was cut.
    Incomplete,
    /// The trailer of a body is not the one that was announced.
    BadTrailer,
    /// The body is not what its signature or checksum says.
    BadDigest(&'static str),
    Invalid(String),
    Store(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Refusal {
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::NoSuchBucket | Self::NoSuchKey | Self::NoSuchUpload => StoreError::NotFound,
            Self::BucketExists(_) => StoreError::AlreadyExists,
            Self::Condition | Self::Changed | Self::BucketNotEmpty | Self::BucketInUse => StoreError::Conflict,
            Self::Denied => StoreError::Forbidden("the key does not allow it".to_owned()),
            Self::TooLarge => StoreError::Full("it is larger than an object may be".to_owned()),
            Self::BadBucketName => StoreError::Forbidden("this is no name for a bucket".to_owned()),
            Self::BadObjectName => StoreError::Forbidden("this is no name for an object".to_owned()),
            Self::KeyTooLong => StoreError::Forbidden("the name of the object has more than 1024 bytes".to_owned()),
            Self::BadPart | Self::BadPartOrder | Self::NoParts | Self::PartTooSmall => {
                StoreError::Forbidden("the parts are not those that were sent".to_owned())
            }
            Self::Incomplete => StoreError::Unavailable("the body was cut off".to_owned()),
            Self::BadTrailer => StoreError::Forbidden("the trailer of the body cannot be read".to_owned()),
            Self::BadDigest(what) => StoreError::Forbidden(format!("the body does not match {what}")),
            Self::Invalid(why) => StoreError::Forbidden(why),
        }
    }
}

/// The port's word for a failure of the database. Only what surely changed nothing is called
/// full or forbidden.
pub(crate) fn of_sql(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => full(),
        Some(ErrorCode::TooBig) => StoreError::Full("it is larger than the database can hold".to_owned()),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreError::Forbidden(error.to_string())
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Broken(error.to_string()),
        _ => StoreError::Unavailable(error.to_string()),
    }
}

pub(crate) fn of_io(error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::Forbidden(format!("the object store's folder cannot be written to: {error}"))
        }
        _ => StoreError::Unavailable(error.to_string()),
    }
}

fn full() -> StoreError {
    StoreError::Full("there is no room left on the disk of the object store".to_owned())
}

pub(crate) fn closed() -> StoreError {
    StoreError::Unavailable("the object store is closed".to_owned())
}
