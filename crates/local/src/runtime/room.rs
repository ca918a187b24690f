//! Room on the disk of attempts. Its end is nobody's mistake: attempts wait for it.

use std::io;
use std::path::Path;

/// Attempts begin only with so much room, so that those that have begun can end.
const LEAST: u64 = 16 << 20;

/// With less than this, what is written last may be missing.
const NOTHING: u64 = 256 << 10;

/// An error says that attempts had better wait.
pub(super) fn check(folder: &Path) -> io::Result<()> {
    let left = left(folder)?;
    if left >= LEAST {
        return Ok(());
    }
    let (left, least) = (left >> 20, LEAST >> 20);
    let text = format!("jobs wait: only {left} MiB are left on the disk of the data folder, less than {least}");
    Err(io::Error::new(io::ErrorKind::StorageFull, text))
}

/// Whether the disk of a folder is full; one that cannot be asked is not.
pub(crate) fn is_full(folder: &Path) -> bool {
    left(folder).is_ok_and(|left| left < NOTHING)
}

fn left(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
