//! What can go wrong with the folder and the database, in words that help the operator.

use std::io;
use std::path::{Path, PathBuf};

use oscar_engine::ports::StoreError;
use rusqlite::ErrorCode;

/// Why a data folder could not be opened. Nothing in it was changed, except by
/// [`OpenError::Full`], which may have left a step of an upgrade undone.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the data folder '{path}' cannot be used: {cause}; name a folder that can be made or written to")]
    Folder { path: PathBuf, cause: io::Error },
    #[error("'{path}' is not a file, so it cannot be the database; move it away or name another data folder")]
    NotAFile { path: PathBuf },
    #[error("{}; stop it, or name another data folder for this one", locked_by(path, *pid))]
    Locked { path: PathBuf, pid: Option<u32> },
    #[error("'{path}' cannot be written to: {cause}; give the manager's user the right to write there")]
    ReadOnly { path: PathBuf, cause: String },
    #[error("the disk of '{path}' is full; make room on it and start again")]
    Full { path: PathBuf },
    #[error("the database '{path}' is damaged: {cause}; restore it from a backup (it was left as it is)")]
    Corrupt { path: PathBuf, cause: String },
    #[error("'{path}' is a database of another program; move it away or name another data folder")]
    Foreign { path: PathBuf },
    #[error(
        "the database '{path}' was written by a newer version (its schema is {found}, this version knows up to \
         {known}); start that version, or restore a backup made before the upgrade"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("the disk of '{path}' cannot share memory between readers and writer; put the data folder on a local disk")]
    NoWal { path: PathBuf },
    #[error(
        "the database '{path}' holds sealed credentials and their key is not there; put it back as '{key}' (it is part \
         of a backup), or give the manager the key they were sealed with"
    )]
    NoKey { path: PathBuf, key: PathBuf },
    #[error(
        "the database '{path}' holds credentials that were sealed with another key; give the manager that key, or put \
         back the `secret.key` that belongs to this database (both were left as they are)"
    )]
    OtherKey { path: PathBuf },
    #[error("'{path}' is no key: it has to hold 64 hexadecimal digits; put back the one that belongs to this folder")]
    BadKey { path: PathBuf },
    #[error("the database '{path}' cannot be opened: {cause}")]
    Database { path: PathBuf, cause: String },
}

fn locked_by(path: &Path, pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("another manager (process {pid}) uses the data folder '{}'", path.display()),
        None => format!("another manager uses the data folder '{}'", path.display()),
    }
}

impl OpenError {
    pub(super) fn of_io(path: &Path, cause: io::Error) -> Self {
        let path = path.to_owned();
        match cause.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { path, cause: cause.to_string() }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            io::ErrorKind::IsADirectory => Self::NotAFile { path },
            _ => Self::Folder { path, cause },
        }
    }

    pub(super) fn of_sql(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, cause) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::ReadOnly { path, cause }
            }
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt { path, cause },
            _ => Self::Database { path, cause },
        }
    }
}

/// The port's word for a failure of the database. Only what surely changed nothing is called
/// full or forbidden: a failed write to the log or a failed flush may still be found after a crash.
pub(super) fn to_store_error(error: &rusqlite::Error) -> StoreError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            StoreError::Full("there is no room left on the disk of the data folder".to_owned())
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => StoreError::Forbidden(text),
        Some(ErrorCode::TooBig) => StoreError::Full("it is larger than the database can hold".to_owned()),
        _ => StoreError::Unavailable(text),
    }
}

/// Whether the other changes of a batch may succeed without the one that failed.
pub(super) fn is_of_one_change(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::TooBig | ErrorCode::ConstraintViolation | ErrorCode::OutOfMemory)
    )
}

pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn mk_error(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn failures_of_the_database_have_the_ports_names() {
        let named = |code| to_store_error(&mk_error(code));
        assert!(matches!(named(ffi::SQLITE_FULL), StoreError::Full(_)));
        assert!(matches!(named(ffi::SQLITE_READONLY), StoreError::Forbidden(_)));
        assert!(matches!(named(ffi::SQLITE_CANTOPEN), StoreError::Forbidden(_)));
        assert!(matches!(named(ffi::SQLITE_IOERR_FSYNC), StoreError::Unavailable(_)));
        assert!(matches!(named(ffi::SQLITE_CORRUPT), StoreError::Unavailable(_)));
        assert!(matches!(named(ffi::SQLITE_BUSY), StoreError::Unavailable(_)));
    }

    #[test]
    fn an_open_that_fails_says_what_to_do() {
        let path = Path::new("/data");
        let shown = |code| OpenError::of_sql(path, &mk_error(code)).to_string();
        assert!(shown(ffi::SQLITE_READONLY_DIRECTORY).contains("right to write"));
        assert!(shown(ffi::SQLITE_FULL).contains("make room"));
        assert!(shown(ffi::SQLITE_NOTADB).contains("restore it from a backup"));
        let io = |kind: io::ErrorKind| OpenError::of_io(path, kind.into());
        assert!(matches!(io(io::ErrorKind::ReadOnlyFilesystem), OpenError::ReadOnly { .. }));
        assert!(matches!(io(io::ErrorKind::PermissionDenied), OpenError::ReadOnly { .. }));
        assert!(matches!(io(io::ErrorKind::StorageFull), OpenError::Full { .. }));
    }
}
