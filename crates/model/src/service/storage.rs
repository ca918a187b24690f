//! Where a service reads from and writes to.

use std::collections::BTreeMap;

use crate::fault::{Faults, quoted};
use crate::secret::Secret;

/// The kinds of storage that OSCAR knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderKind {
    Minio,
    S3,
    Onedata,
    Webdav,
    Rucio,
}

impl ProviderKind {
    pub const ALL: [Self; 5] = [Self::Minio, Self::S3, Self::Onedata, Self::Webdav, Self::Rucio];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minio => "minio",
            Self::S3 => "s3",
            Self::Onedata => "onedata",
            Self::Webdav => "webdav",
            Self::Rucio => "rucio",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| text.eq_ignore_ascii_case(kind.as_str()))
    }

    /// Kinds whose paths begin with a bucket.
    pub fn has_buckets(self) -> bool {
        matches!(self, Self::Minio | Self::S3)
    }
}

/// Which provider: `minio.default`, `s3.mine`. The id may contain dots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderRef {
    pub kind: ProviderKind,
    pub id: String,
}

/// What a provider reference may look like, in the words of an error message.
pub const PROVIDER_RULE: &str = "`<type>` or `<type>.<id>` with type minio, s3, onedata, webdav or rucio";

impl ProviderRef {
    pub const DEFAULT_ID: &str = "default";

    pub fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once('.').unwrap_or((text, Self::DEFAULT_ID));
        let fits = !id.is_empty() && id.len() <= 63 && id.bytes().all(|b| b.is_ascii_graphic());
        let kind = ProviderKind::parse(kind)?;
        fits.then(|| Self { kind, id: id.to_owned() })
    }

    /// The cluster's own object store.
    pub fn is_own_store(&self) -> bool {
        self.kind == ProviderKind::Minio && self.id == Self::DEFAULT_ID
    }
}

impl std::fmt::Display for ProviderRef {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.kind.as_str(), self.id)
    }
}

/// One input, output or mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageIo {
    /// As the user wrote it: supervisors look it up verbatim.
    pub provider_text: String,
    pub provider: ProviderRef,
    pub path: String,
    pub suffix: Vec<String>,
    pub prefix: Vec<String>,
    /// Extra flags of a mount; blank elsewhere.
    pub options: String,
}

/// The part of a service a [`StorageIo`] stands in; it decides which kinds are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Input,
    Output,
    Mount,
}

impl Place {
    fn allows(self, kind: ProviderKind) -> bool {
        use ProviderKind::{Minio, Rucio, S3, Webdav};
        match self {
            Self::Input => matches!(kind, Minio | Webdav | Rucio),
            Self::Output => true,
            Self::Mount => matches!(kind, Minio | S3 | Webdav),
        }
    }

    fn kinds(self) -> String {
        let names: Vec<_> =
            ProviderKind::ALL.into_iter().filter(|kind| self.allows(*kind)).map(ProviderKind::as_str).collect();
        names.join(", ")
    }
}

impl StorageIo {
    /// Whether what is written here arrives there: an output that is its service's own input
    /// starts the service again, and again.
    pub fn is_inside(&self, input: &Self) -> bool {
        let (inner, outer) = (trim_path(&self.path), trim_path(&input.path));
        let below = inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.provider == input.provider && below
    }

    /// What is wrong with it in its place.
    pub fn check(&self, place: Place) -> Faults {
        let mut faults = Faults::default();
        if !place.allows(self.provider.kind) {
            faults.push("storage_provider", quoted(&self.provider_text), format!("one of {} here", place.kinds()));
        }
        let trimmed = trim_path(&self.path);
        if trimmed.is_empty() {
            faults.push("path", quoted(&self.path), "a bucket and a folder such as `bucket/folder`, or a folder");
        } else if trimmed.len() > 1024 || trimmed.chars().any(char::is_control) {
            faults.push("path", quoted(&self.path), "at most 1024 printable characters");
        } else if trimmed.split('/').any(|part| matches!(part, "" | "." | "..")) {
            faults.push("path", quoted(&self.path), "no empty part, `.` or `..` between its slashes");
        } else if self.provider.kind.has_buckets()
            && let Some((bucket, _)) = trimmed.split_once('/')
            && !is_bucket_name(bucket)
        {
            faults.push("path", quoted(&self.path), format!("to begin with the name of a bucket: {BUCKET_RULE}"));
        }
        let option_fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.:=,/ ".contains(&b);
        if !self.options.bytes().all(option_fits) {
            faults.push("options", quoted(&self.options), "letters, digits, blanks and - _ . : = , / only");
        }
        faults
    }

    /// The bucket of a normalised path.
    pub fn bucket(&self) -> Option<&str> {
        let path = trim_path(&self.path);
        let bucket = path.split('/').next().filter(|bucket| !bucket.is_empty())?;
        self.provider.kind.has_buckets().then_some(bucket)
    }

    /// OSCAR's normal form of an input or output path: outer blanks and slashes gone, and for
    /// kinds with buckets a path of one part becomes a folder in the bucket named `bucket`.
    #[must_use]
    pub fn normalised(mut self, bucket: &str) -> Self {
        let path = trim_path(&self.path);
        self.path = if self.provider.kind.has_buckets() && !path.contains('/') {
            format!("{bucket}/{path}")
        } else {
            path.to_owned()
        };
        self
    }
}

fn trim_path(path: &str) -> &str {
    path.trim_matches(|c: char| c.is_whitespace() || c == '/')
}

/// What a bucket name may be, in the words of an error message.
pub const BUCKET_RULE: &str =
    "3 to 63 lower-case letters, digits, `-` and `.`, beginning and ending with a letter or digit";

pub fn is_bucket_name(text: &str) -> bool {
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().all(|b| plain(b) || matches!(b, b'-' | b'.'))
        && bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && !text.contains("..")
}

/// The credentials and address of one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    Minio { endpoint: String, verify: bool, access_key: String, secret_key: Secret, region: String },
    S3 { access_key: String, secret_key: Secret, region: String },
    Onedata { oneprovider_host: String, token: Secret, space: String },
    Webdav { hostname: String, login: String, password: Secret },
    Rucio(Rucio),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rucio {
    pub host: String,
    pub account: String,
    pub rse: String,
    pub refresh_token: Secret,
    pub auth_host: String,
    pub oidc_audience: String,
    pub token_endpoint: String,
}

impl Provider {
    pub fn kind(&self) -> ProviderKind {
        match self {
            Self::Minio { .. } => ProviderKind::Minio,
            Self::S3 { .. } => ProviderKind::S3,
            Self::Onedata { .. } => ProviderKind::Onedata,
            Self::Webdav { .. } => ProviderKind::Webdav,
            Self::Rucio(_) => ProviderKind::Rucio,
        }
    }

    /// The one secret that each kind has.
    pub fn secret(&self) -> &Secret {
        match self {
            Self::Minio { secret_key, .. } | Self::S3 { secret_key, .. } => secret_key,
            Self::Onedata { token, .. } => token,
            Self::Webdav { password, .. } => password,
            Self::Rucio(rucio) => &rucio.refresh_token,
        }
    }

    pub fn secret_mut(&mut self) -> &mut Secret {
        match self {
            Self::Minio { secret_key, .. } | Self::S3 { secret_key, .. } => secret_key,
            Self::Onedata { token, .. } => token,
            Self::Webdav { password, .. } => password,
            Self::Rucio(rucio) => &mut rucio.refresh_token,
        }
    }

    /// The same without what lets somebody in: for readers who are not the owner.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        *self.secret_mut() = Secret::default();
        match &mut self {
            Self::Minio { access_key, .. } | Self::S3 { access_key, .. } => access_key.clear(),
            Self::Webdav { login, .. } => login.clear(),
            Self::Onedata { .. } | Self::Rucio(_) => {}
        }
        self
    }
}

/// Providers by reference, in the order that they are printed.
pub type StorageProviders = BTreeMap<ProviderRef, Provider>;

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_io(provider: &str, path: &str) -> StorageIo {
        StorageIo {
            provider_text: provider.to_owned(),
            provider: ProviderRef::parse(provider).expect("a valid provider"),
            path: path.to_owned(),
            suffix: vec![],
            prefix: vec![],
            options: String::new(),
        }
    }

    #[test]
    fn a_reference_splits_at_its_first_dot() {
        let parsed = ProviderRef::parse("MinIO.a.b").expect("valid");
        assert_eq!((parsed.kind, parsed.id.as_str()), (ProviderKind::Minio, "a.b"));
        assert!(ProviderRef::parse("minio").expect("valid").is_own_store());
        for bad in ["", "ftp", "minio.", ".default"] {
            assert!(ProviderRef::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_path_of_one_part_gets_the_bucket_of_its_service() {
        assert_eq!(mk_io("minio", " /in/ ").normalised("svc").path, "svc/in");
        assert_eq!(mk_io("minio", "b/in/").normalised("svc").path, "b/in");
        assert_eq!(mk_io("webdav.x", "in").normalised("svc").path, "in");
        let once = mk_io("s3.x", "in").normalised("svc");
        assert_eq!(once.clone().normalised("svc"), once);
    }

    #[test]
    fn paths_and_kinds_are_checked_in_their_place() {
        assert!(mk_io("minio", "b-1/in").check(Place::Input).is_empty());
        assert_eq!(mk_io("minio", " / ").check(Place::Input).0[0].path, "path");
        assert_eq!(mk_io("onedata.x", "in").check(Place::Input).0[0].path, "storage_provider");
        assert!(mk_io("onedata.x", "in").check(Place::Output).is_empty());
        assert!(!mk_io("minio", "bkt/../x").check(Place::Output).is_empty());
        assert!(!mk_io("minio", "B/x").check(Place::Output).is_empty());
    }
}
