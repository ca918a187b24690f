//! Where the client keeps its settings, and where a local manager leaves what it needs to be found.

use std::path::PathBuf;

/// Written by a manager that was started without settings: where it listens.
pub const URL_FILE: &str = "url";
/// Written by the same: the password of [`ADMIN_USER`].
pub const PASSWORD_FILE: &str = "admin-password";
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
        let folder = |name: &str| variable(name).map(PathBuf::from);
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let base = |name: &str, below: &str, else_in: &str| {
            let base = folder(name).or_else(|| Some(home.as_ref()?.join(below)));
            base.unwrap_or_else(|| PathBuf::from(else_in)).join("oscar")
        };
        Self {
            config: base("XDG_CONFIG_HOME", ".config", "/etc"),
            // Where `oscar serve` looks with the same surroundings.
            data: folder("OSCAR_DATA").unwrap_or_else(|| base("XDG_DATA_HOME", ".local/share", "/var/lib")),
        }
    }

    pub(super) fn clusters_file(&self) -> PathBuf {
        self.config.join("clusters.toml")
    }
}

/// A variable that is set to something.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
