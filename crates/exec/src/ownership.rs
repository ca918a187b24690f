//! Who a script is on this machine. A manager that runs as root must not run scripts as root,
//! also not as a root that a namespace disguises.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

/// The user and group of scripts: the one that owns nothing.
pub(crate) const NOBODY: u32 = 65_534;

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives a folder and everything in it to the user of scripts. Links are not followed.
pub(crate) fn give_to_scripts(folder: &Path) -> io::Result<()> {
    lchown(folder, Some(NOBODY), Some(NOBODY))?;
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            lchown(entry.path(), Some(NOBODY), Some(NOBODY))?;
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

/// The first folder above a path through which the user of scripts cannot pass.
pub(crate) fn barred_at(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .skip(1)
        .filter(|folder| !folder.as_os_str().is_empty())
        .find(|folder| {
            fs::metadata(folder).is_ok_and(|found| {
                let may = if found.uid() == NOBODY {
                    0o100
                } else if found.gid() == NOBODY {
                    0o010
                } else {
                    0o001
                };
                found.mode() & may == 0
            })
        })
        .map(Path::to_owned)
}
