//! The data folder: who may use it, and which rights its files have.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::errors::OpenError;

const DATABASE: &str = "oscar.db";
const LOCK: &str = "oscar.lock";

/// A data folder that is this process's alone until the value is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    database: PathBuf,
    /// The lock goes with the open file, so a crash leaves none behind.
    lock: File,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Closing alone is not enough: a child that was just forked has a copy of the open file
        // until it starts its program.
        let _ = self.lock.unlock();
    }
}

impl Folder {
    /// Makes the folder when it is not there, claims it, and makes sure that the database
    /// file is for its owner's eyes only, because it holds secrets.
    pub(super) fn claim(data: &Path) -> Result<Self, OpenError> {
        ensure_folder(data)?;
        let lock = lock(data)?;
        let database = data.join(DATABASE);
        ensure_private_file(&database)?;
        Ok(Self { database, lock })
    }

    pub(super) fn database(&self) -> &Path {
        &self.database
    }
}

fn ensure_folder(data: &Path) -> Result<(), OpenError> {
    if data.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(data).map_err(|cause| OpenError::of_io(data, cause))?;
    // Else a power cut could take the new folder, with everything that was said to be durable.
    if let Some(parent) = data.parent().filter(|parent| !parent.as_os_str().is_empty())
        && let Err(cause) = File::open(parent).and_then(|parent| parent.sync_all())
    {
        tracing::debug!(?parent, %cause, "the parent of the new data folder was not flushed");
    }
    Ok(())
}

fn lock(data: &Path) -> Result<File, OpenError> {
    let path = data.join(LOCK);
    let failed = |cause| OpenError::of_io(&path, cause);
    let mut file = private().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The number is a courtesy: the refusal stands without it.
            let _ = file.read_to_string(&mut holder);
            return Err(OpenError::Locked { path: data.to_owned(), pid: holder.trim().parse().ok() });
        }
        Err(TryLockError::Error(cause)) => return Err(failed(cause)),
    }
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

fn ensure_private_file(path: &Path) -> Result<(), OpenError> {
    let failed = |cause| OpenError::of_io(path, cause);
    let file = private().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(OpenError::NotAFile { path: path.to_owned() });
    }
    restrict(path).map_err(failed).map(|_| ())
}

/// Options for files that only the manager's user may read.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// A restored backup may have come with wider rights. True when they had to be narrowed.
#[cfg(unix)]
pub(super) fn restrict(path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    if mode == 0o600 {
        return Ok(false);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(mode & 0o077 != 0)
}

#[cfg(not(unix))]
pub(super) fn restrict(path: &Path) -> std::io::Result<bool> {
    fs::metadata(path).map(|_| false)
}
