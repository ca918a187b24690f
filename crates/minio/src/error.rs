//! What can go wrong between the manager and the store.

use std::path::PathBuf;

use oscar_engine::ports::StoreError;
use rusqlite::ErrorCode;

/// Why the adapter cannot be used. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("'{0}' is not the address of an object store: expected http(s)://host[:port]")]
    Address(String),
    #[error("the folder '{path}' cannot be used: {cause}")]
    Folder { path: PathBuf, cause: String },
    #[error("'{path}' is a database of another program; move it away")]
    Foreign { path: PathBuf },
    #[error("'{path}' was written by a newer version; start that version, or restore a backup made before the upgrade")]
    Newer { path: PathBuf },
    #[error("certificates cannot be checked on this machine: {0}")]
    Tls(String),
}

/// Why a call to the store did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) status: Option<u16>,
    /// The store's own word, such as `NoSuchBucket`.
    pub(crate) code: String,
    /// The end of a sentence, without addresses or anything that was sent.
    pub(crate) cause: String,
}

impl Trouble {
    pub(crate) fn new(cause: impl Into<String>) -> Self {
        Self { status: None, code: String::new(), cause: cause.into() }
    }

    pub(crate) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.status == Some(404)
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match (trouble.status, trouble.code.as_str()) {
            (Some(404), _) => Self::NotFound,
            (Some(507), _) | (_, "XMinioStorageFull" | "XMinioAdminBucketQuotaExceeded" | "EntityTooLarge") => {
                Self::Full(trouble.cause)
            }
            // What was sent did not arrive whole; it may the next time.
            (_, "RequestTimeout" | "IncompleteBody" | "BadDigest" | "XAmzContentSHA256Mismatch") => {
                Self::Unavailable(trouble.cause)
            }
            // Asked the same it answers the same. To a HEAD it cannot say more than the number.
            (Some(400 | 401 | 403), _) => Self::Forbidden(trouble.cause),
            _ => Self::Unavailable(trouble.cause),
        }
    }
}

/// The port's word for a failure of the database.
pub(crate) fn of_sql(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full("there is no room left in the data folder".to_owned()),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreError::Forbidden(error.to_string())
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Broken(error.to_string()),
        _ => StoreError::Unavailable(error.to_string()),
    }
}
