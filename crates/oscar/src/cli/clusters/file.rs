//! `clusters.toml`: the managers that were added, with their credentials.
//!
//! The file is its owner's alone; one that others can read is refused rather than used, so
//! that the mistake is seen. It is written beside and moved into place, so that it is always
//! one whole state.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use oscar_api::client::Credentials;
use oscar_model::secret::Secret;
use serde::{Deserialize, Serialize};

use crate::cli::exit::{Exit, Failure};

#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Clusters {
    /// The cluster that is used when none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) default: Option<String>,
    #[serde(default)]
    pub(in crate::cli) clusters: BTreeMap<String, Cluster>,
}

/// One manager. It has no `Debug`, because it holds credentials in the clear.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Cluster {
    pub(in crate::cli) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) password: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) token: Option<String>,
    /// A certificate authority to trust beside the usual ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) ca: Option<PathBuf>,
    /// Any certificate is accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::cli) insecure: bool,
}

impl Cluster {
    pub(in crate::cli) fn credentials(&self) -> Credentials {
        match (&self.token, &self.user) {
            (Some(token), _) => Credentials::Bearer(Secret::new(token)),
            (None, Some(user)) => {
                let password = Secret::new(self.password.clone().unwrap_or_default());
                Credentials::Basic { user: user.clone(), password }
            }
            (None, None) => Credentials::None,
        }
    }

    /// Who one is there, for people.
    pub(in crate::cli) fn identity(&self) -> String {
        match (&self.token, &self.user) {
            (Some(_), _) => "(token)".to_owned(),
            (None, Some(user)) => user.clone(),
            (None, None) => "(nobody)".to_owned(),
        }
    }
}

impl Clusters {
    /// No file is an empty one.
    pub(in crate::cli) fn load(path: &Path) -> Result<Self, Failure> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Failure::io(format!("{} cannot be read", path.display()), &error)),
        };
        if let Some(mode) = open_to_others(path) {
            return Err(Failure::new(
                Exit::Failed,
                format!("{} holds credentials, and others may read it (mode {mode:03o})", path.display()),
            )
            .hint(format!("close it: chmod 600 {}", path.display())));
        }
        toml::from_str(&text).map_err(|error| {
            // The error's own text would quote the line, and with it maybe a password.
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
            Failure::new(Exit::Failed, format!("{}: line {line}: {}", path.display(), error.message()))
                .hint("correct the line, or move the file away and add the clusters again")
        })
    }

    pub(in crate::cli) fn save(&self, path: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::io(format!("{} cannot be written", path.display()), &error);
        let text = toml::to_string(self).map_err(|error| failed(io::Error::other(error)))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        ensure_private_folder(folder).map_err(failed)?;
        // A temporary file belongs to its owner alone from its first moment.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(path).map(drop).map_err(|error| failed(error.error))
    }

    /// The named cluster, or a failure that says which there are.
    pub(in crate::cli) fn get(&self, name: &str) -> Result<&Cluster, Failure> {
        self.clusters.get(name).ok_or_else(|| {
            let known: Vec<_> = self.clusters.keys().map(String::as_str).collect();
            let failure = Failure::new(Exit::NotFound, format!("no cluster `{name}` is configured"));
            if known.is_empty() {
                failure.hint(format!("add it: oscar cluster add {name} URL"))
            } else {
                failure.hint(format!("configured are: {}", known.join(", ")))
            }
        })
    }
}

fn ensure_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The mode of a file that is not its owner's alone.
#[cfg(unix)]
pub(in crate::cli) fn open_to_others(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
pub(in crate::cli) fn open_to_others(_path: &Path) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Clusters {
        let plain = Cluster {
            url: "https://a".to_owned(),
            user: Some("oscar".to_owned()),
            password: Some("p\"w\\ ü".to_owned()),
            ..Cluster::default()
        };
        let token = Cluster {
            url: "https://b".to_owned(),
            token: Some("t0ken".to_owned()),
            ca: Some(PathBuf::from("/ca.pem")),
            insecure: true,
            ..Cluster::default()
        };
        let clusters = BTreeMap::from([("a".to_owned(), plain), ("b.c".to_owned(), token)]);
        Clusters { default: Some("a".to_owned()), clusters }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/oscar/clusters.toml");
        two().save(&path).expect("written");
        assert!(Clusters::load(&path).expect("read") == two());
        assert!(Clusters::load(&folder.path().join("absent")).expect("no file") == Clusters::default());
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("oscar/clusters.toml");
        two().save(&path).expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("a parent"))), (0o600, 0o700));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("opened");
        let failure = Clusters::load(&path).err().expect("refused");
        assert!(failure.message.contains("mode 644"), "{}", failure.message);
        assert!(failure.hints[0].contains("chmod 600"), "{:?}", failure.hints);
        assert!(!format!("{failure:?}").contains("t0ken"));
    }

    #[test]
    fn a_broken_file_names_its_line_and_not_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("clusters.toml");
        let mut file = tempfile::NamedTempFile::new_in(folder.path()).expect("a file");
        file.write_all(b"default = \"a\"\n[clusters.a]\nurl = \"https://a\"\npassword = hunter2\n").expect("written");
        file.persist(&path).expect("moved");
        let failure = Clusters::load(&path).err().expect("refused");
        assert!(failure.message.contains("line 4"), "{}", failure.message);
        assert!(!format!("{failure:?}").contains("hunter2"), "{failure:?}");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let failure = two().get("x").err().expect("unknown");
        assert_eq!(failure.exit, Exit::NotFound);
        assert_eq!(failure.hints, ["configured are: a, b.c"]);
    }
}
