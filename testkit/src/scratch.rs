//! A folder for the files of one test or server.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::reaper;

/// Removed on drop, and with the test process at the latest.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        Scratch::new_in(&std::env::temp_dir(), name)
    }

    pub fn new_in(folder: &Path, name: &str) -> Scratch {
        let folder = tempfile::Builder::new().prefix(&format!("oscar-{name}-")).tempdir_in(folder);
        let folder = folder.unwrap_or_else(|error| panic!("a folder for {name}: {error}"));
        reaper::watch_folder(folder.path());
        Scratch(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.0.path().join(name);
        // Beside it and renamed, so that nobody who reads meanwhile sees half a file.
        let beside = tempfile::NamedTempFile::new_in(self.0.path());
        let written = beside.and_then(|beside| {
            std::fs::write(beside.path(), contents)?;
            beside.persist(&path).map_err(|error| error.error)
        });
        written.unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
        path
    }
}
