//! What follows from the settings and the surroundings. `oscar serve` does it, and
//! `oscar config show` prints it.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::settings::{Effective, Origin, World};

/// In the data folder of a manager that made its own password: that password.
pub const PASSWORD_FILE: &str = "admin-password";

/// Settings whose default depends on something else, as they are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    pub world: World,
    pub data: PathBuf,
    /// The address to listen on.
    pub listen: String,
    /// Whether browsers of other origins are answered.
    pub cors: bool,
    pub minio_endpoint: String,
}

/// Where the password of the administrator comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Password {
    Given,
    /// An earlier start made it.
    Kept(PathBuf),
    /// This start makes it.
    ToBeMade(PathBuf),
    /// None can be made on Kubernetes, where nothing would keep it.
    Missing,
}

impl Derived {
    pub fn of(settings: &Effective, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let world = match settings.text("world") {
            "kubernetes" => World::Kubernetes,
            "auto" if variable("KUBERNETES_SERVICE_HOST").is_some() => World::Kubernetes,
            _ => World::Local,
        };
        let (host, store) = match world {
            World::Local => ("127.0.0.1", ""),
            World::Kubernetes => ("0.0.0.0", "https://minio-service.minio:9000"),
        };
        let listen = settings.given("listen").unwrap_or_else(|| format!("{host}:{}", settings.count("service_port")));
        Self {
            world,
            data: settings.given("data").map_or_else(|| default_data_folder(variable), PathBuf::from),
            listen,
            cors: match settings.text("cors") {
                "on" => true,
                "off" => false,
                _ => world == World::Local,
            },
            minio_endpoint: settings.given("minio_endpoint").unwrap_or_else(|| store.to_owned()),
        }
    }

    pub fn password(&self, settings: &Effective) -> Password {
        if *settings.origin("password") != Origin::Default {
            return Password::Given;
        }
        if self.world == World::Kubernetes {
            return Password::Missing;
        }
        let path = self.data.join(PASSWORD_FILE);
        match fs::read_to_string(&path) {
            Ok(text) if text.trim().is_empty() => Password::ToBeMade(path),
            Err(error) if error.kind() == ErrorKind::NotFound => Password::ToBeMade(path),
            // One that cannot be read is there all the same.
            Ok(_) | Err(_) => Password::Kept(path),
        }
    }
}

/// The folder of a manager that was told none; the command line looks there too.
pub fn default_data_folder(variable: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")));
    base.unwrap_or_else(|| PathBuf::from("/var/lib")).join("oscar")
}
