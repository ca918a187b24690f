//! Where the client keeps its settings, and where a local manager leaves what it needs to be found.

use std::fs::{self, File, TryLockError};
use std::path::PathBuf;

use crate::config::default_data_folder;

pub use crate::config::PASSWORD_FILE;

/// Written by a manager of this machine: where it listens.
pub const URL_FILE: &str = "url";
/// Held by the manager that uses the data folder; written when it took it.
pub(super) const LOCK_FILE: &str = "oscar.lock";
/// The administrator's name when none was configured.
pub const ADMIN_USER: &str = "oscar";

#[derive(Debug, Clone)]
pub(super) struct Places {
    /// `clusters.toml` lies here.
    pub(super) config: PathBuf,
    /// The data folder of a manager on this machine.
    pub(super) data: PathBuf,
}

impl Places {
    pub(super) fn from_env() -> Self {
        let base = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| {
            let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
            Some(home?.join(".config"))
        });
        Self {
            config: base.unwrap_or_else(|| PathBuf::from("/etc")).join("oscar"),
            // Where `oscar serve` looks with the same surroundings.
            data: variable("OSCAR_DATA").map_or_else(|| default_data_folder(&variable), PathBuf::from),
        }
    }

    pub(super) fn clusters_file(&self) -> PathBuf {
        self.config.join("clusters.toml")
    }

    /// Whether somebody holds the lock of the data folder. It is not kept, so that a manager
    /// that starts just now is not disturbed for longer than this takes.
    pub(super) fn is_manager_running(&self) -> bool {
        let Ok(file) = File::open(self.data.join(LOCK_FILE)) else { return false };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }

    /// Whether the address was written after the lock was taken. One that is older was left by
    /// a manager before, and the present one has not said yet where it listens.
    pub(super) fn is_url_of_running(&self) -> bool {
        let written = |name: &str| fs::metadata(self.data.join(name)).and_then(|metadata| metadata.modified());
        match (written(LOCK_FILE), written(URL_FILE)) {
            (Ok(lock), Ok(url)) => lock <= url,
            _ => false,
        }
    }
}

/// A variable that is set to something.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
