use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use oscar_model::quantity::{QUANTITY_RULE, Quantity};
use oscar_model::secret::Secret;
use oscar_model::service::Cluster;
use oscar_model::service::storage::StorageProviders;

use super::catalogue::{CATALOGUE, Kind, Setting};
use super::file::{Client, ConfigFile, Issuer};
use super::parse;
use crate::outbound::oidc::check_issuers;

/// Where a setting came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Flag,
    Variable(&'static str),
    File(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => out.write_str("flag"),
            Self::Variable(name) => write!(out, "environment {name}"),
            Self::File(path) => write!(out, "file {}", path.display()),
            Self::Default => out.write_str("default"),
        }
    }
}

/// What settings are gathered from. The environment is a parameter, so that a test has its own.
pub struct Sources<'a> {
    pub flags: BTreeMap<&'static str, String>,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    pub file: Option<PathBuf>,
}

impl Sources<'static> {
    /// Those of this process. Without a flag for the file, the variable names it.
    pub fn of_process(flags: BTreeMap<&'static str, String>, file: Option<PathBuf>) -> Self {
        let named = || process_variable("OSCAR_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        Self { flags, variable: &process_variable, file: file.or_else(named) }
    }
}

fn process_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Every fault of the configuration at once.
#[derive(Debug, thiserror::Error)]
#[error("the configuration is not valid:\n{}", .0.join("\n"))]
pub struct ConfigError(pub Vec<String>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    Local,
    Kubernetes,
}

/// The settings in force, each with its origin.
pub struct Effective {
    values: BTreeMap<&'static str, (String, Origin)>,
    issuers: Vec<Issuer>,
    /// Storage providers of the operator; in the file only.
    pub providers: StorageProviders,
    /// Clusters that definitions may name by id; in the file only.
    pub clusters: BTreeMap<String, Cluster>,
}

impl Effective {
    /// With every fault. Settings that have one may be looked at and must not be used.
    pub fn gather(sources: &Sources<'_>) -> (Self, Vec<String>) {
        let mut faults = Vec::new();
        let mut file = match &sources.file {
            Some(path) => ConfigFile::read(path, &mut faults),
            None => ConfigFile::default(),
        };
        let mut values = BTreeMap::new();
        for setting in CATALOGUE {
            let (text, origin) = find(setting, sources, &file);
            if let Err(allowed) = check(setting, &text) {
                let found = if setting.kind == Kind::Secret { "a value".to_owned() } else { format!("{text:?}") };
                faults.push(format!("- {} ({origin}): found {found}, expected {allowed}", setting.key));
            }
            values.insert(setting.key, (text, origin));
        }
        let mut effective = Self { values, issuers: Vec::new(), providers: file.providers, clusters: file.clusters };
        effective.issuers = match effective.origin("oidc_issuers") {
            Origin::File(_) => std::mem::take(&mut file.issuers),
            _ => effective.list("oidc_issuers").into_iter().map(Issuer::new).collect(),
        };
        effective.check_words(&mut faults);
        (effective, faults)
    }

    fn check_words(&self, faults: &mut Vec<String>) {
        let words: [(&str, &[&str]); 5] = [
            ("world", &["auto", "local", "kubernetes"]),
            ("cors", &["auto", "on", "off"]),
            ("log_format", &["text", "json"]),
            ("executor", &["auto", "bubblewrap", "container", "process"]),
            ("job_network", &["host", "none"]),
        ];
        for (key, allowed) in words {
            if !allowed.contains(&self.text(key)) {
                faults.push(format!("- {key}: found {:?}, expected {}", self.text(key), allowed.join(", ")));
            }
        }
        if !(1..=1000).contains(&self.count("job_listing_limit")) {
            let found = self.text("job_listing_limit");
            faults.push(format!("- job_listing_limit: found {found:?}, expected a whole number from 1 to 1000"));
        }
        if self.flag("oidc_enable") && self.issuers.is_empty() {
            faults.push(
                "- oidc_issuers: found nothing, expected at least one issuer when oidc_enable is true".to_owned(),
            );
        }
        // Before a folder, a key and a database are made for a manager that could not start.
        let urls = self.issuers.iter().map(|issuer| issuer.url.as_str());
        faults.extend(check_issuers(urls).into_iter().map(|fault| format!("- oidc_issuers: {fault}")));
        if self.given("oidc_client_secret").is_some() && self.given("oidc_client_id").is_none() {
            faults.push(
                "- oidc_client_id: found nothing, expected the client that oidc_client_secret belongs to".to_owned(),
            );
        }
        if self.text("username").contains(':') {
            faults.push("- username: expected a name without a colon".to_owned());
        }
    }

    pub fn origin(&self, key: &str) -> &Origin {
        self.values.get(key).map_or(&Origin::Default, |(_, origin)| origin)
    }

    pub fn text(&self, key: &str) -> &str {
        debug_assert!(self.values.contains_key(key), "{key} is not in the catalogue");
        self.values.get(key).map_or("", |(text, _)| text)
    }

    /// `None` when it is blank.
    pub fn given(&self, key: &str) -> Option<String> {
        Some(self.text(key).to_owned()).filter(|text| !text.is_empty())
    }

    pub fn secret(&self, key: &str) -> Secret {
        Secret::new(self.text(key))
    }

    pub fn flag(&self, key: &str) -> bool {
        parse::flag(self.text(key)).unwrap_or_default()
    }

    pub fn count(&self, key: &str) -> u64 {
        parse::count(self.text(key)).unwrap_or_default()
    }

    pub fn list(&self, key: &str) -> Vec<String> {
        parse::list(self.text(key))
    }

    pub fn quantity(&self, key: &str) -> Option<Quantity> {
        Quantity::parse(self.text(key))
    }

    /// The identity providers; what is not said of one is what is said for all.
    pub fn issuers(&self) -> Vec<Issuer> {
        let with_defaults = |issuer: &Issuer| Issuer {
            url: issuer.url.clone(),
            audience: issuer.audience.clone().or_else(|| self.given("oidc_audience")),
            group_claim: issuer.group_claim.clone().or_else(|| self.given("oidc_group_claim")),
            client: issuer.client.clone().or_else(|| self.client()),
            refresh_scope: issuer.refresh_scope.clone().or_else(|| self.given("oidc_refresh_scope")),
            subject_suffix: issuer.subject_suffix.clone(),
        };
        self.issuers.iter().map(with_defaults).collect()
    }

    /// Name and secret go together: the secret of all is not given to a client of one issuer.
    fn client(&self) -> Option<Client> {
        let secret = self.given("oidc_client_secret").map(Secret::new);
        self.given("oidc_client_id").map(|id| Client { id, secret })
    }
}

/// A blank value says nothing, as upstream has it for variables. Only a secret of blanks is
/// kept as it is: to be refused, because somebody meant it.
fn find(setting: &'static Setting, sources: &Sources<'_>, file: &ConfigFile) -> (String, Origin) {
    let said = |text: String| match text.trim() {
        "" if setting.kind == Kind::Secret && !text.is_empty() => Some(text),
        "" => None,
        trimmed => Some(trimmed.to_owned()),
    };
    if let Some(text) = sources.flags.get(setting.key).cloned().and_then(said) {
        return (text, Origin::Flag);
    }
    if let Some(text) = (sources.variable)(setting.variable).and_then(said) {
        return (text, Origin::Variable(setting.variable));
    }
    if let (Some(text), Some(path)) = (file.values.get(setting.key), &sources.file) {
        return (text.clone(), Origin::File(path.clone()));
    }
    (setting.default.to_owned(), Origin::Default)
}

fn check(setting: &Setting, text: &str) -> Result<(), &'static str> {
    let printable = !text.contains(char::is_control);
    let fits = match setting.kind {
        Kind::Text | Kind::List => printable,
        _ if text.is_empty() => true,
        Kind::Secret => printable && !text.trim().is_empty(),
        Kind::Flag => parse::flag(text).is_some(),
        Kind::Count => parse::count(text).is_some(),
        Kind::Seconds => parse::count(text).is_some_and(|seconds| seconds > 0),
        Kind::Url => parse::url(text).is_some(),
        Kind::Quantity => Quantity::parse(text)
            // Nothing is no capacity, but a limit of nothing is none.
            .is_some_and(|quantity| !quantity.is_negative() && (!quantity.is_zero() || setting.key == "job_disk")),
    };
    if fits {
        return Ok(());
    }
    Err(match setting.kind {
        Kind::Text | Kind::List => "printable characters",
        Kind::Secret => "printable characters, and more than blanks",
        Kind::Flag => "true or false",
        Kind::Count => "a whole number",
        Kind::Seconds => "a whole number of seconds above zero",
        Kind::Url => "an http or https address",
        Kind::Quantity => QUANTITY_RULE,
    })
}
