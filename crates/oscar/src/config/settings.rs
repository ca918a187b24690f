use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use oscar_api::tree::{Reader, Value, parse_yaml};
use oscar_model::quantity::{QUANTITY_RULE, Quantity};
use oscar_model::secret::Secret;
use oscar_model::service::Cluster;
use oscar_model::service::storage::StorageProviders;

use super::catalogue::{CATALOGUE, Kind, Setting};
use super::parse;

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
    /// Storage providers of the operator; in the file only.
    pub providers: StorageProviders,
    /// Clusters that definitions may name by id; in the file only.
    pub clusters: BTreeMap<String, Cluster>,
}

impl Effective {
    pub fn gather(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let mut faults = Vec::new();
        let file = match &sources.file {
            Some(path) => ConfigFile::read(path, &mut faults),
            None => ConfigFile::default(),
        };
        let mut values = BTreeMap::new();
        for setting in CATALOGUE {
            let (text, origin) = find(setting, sources, &file);
            if let Err(allowed) = check(setting, &text) {
                let found = if setting.kind == Kind::Secret { "a value".to_owned() } else { format!("\"{text}\"") };
                faults.push(format!("- {} ({origin}): found {found}, expected {allowed}", setting.key));
            }
            values.insert(setting.key, (text, origin));
        }
        let effective = Self { values, providers: file.providers, clusters: file.clusters };
        effective.check_words(&mut faults);
        if faults.is_empty() { Ok(effective) } else { Err(ConfigError(faults)) }
    }

    fn check_words(&self, faults: &mut Vec<String>) {
        let words: [(&str, &[&str]); 3] = [
            ("world", &["auto", "local", "kubernetes"]),
            ("cors", &["auto", "on", "off"]),
            ("log_format", &["text", "json"]),
        ];
        for (key, allowed) in words {
            if !allowed.contains(&self.text(key)) {
                faults.push(format!("- {key}: found \"{}\", expected {}", self.text(key), allowed.join(", ")));
            }
        }
        if self.flag("oidc_enable") && self.list("oidc_issuers").is_empty() {
            faults.push(
                "- oidc_issuers: found nothing, expected at least one issuer when oidc_enable is true".to_owned(),
            );
        }
        if self.text("username").is_empty() || self.text("username").contains(':') {
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

    pub fn world(&self, inside_a_pod: bool) -> World {
        match self.text("world") {
            "kubernetes" => World::Kubernetes,
            "auto" if inside_a_pod => World::Kubernetes,
            _ => World::Local,
        }
    }
}

fn find(setting: &'static Setting, sources: &Sources<'_>, file: &ConfigFile) -> (String, Origin) {
    if let Some(text) = sources.flags.get(setting.key) {
        return (text.trim().to_owned(), Origin::Flag);
    }
    // An empty variable means its default, as upstream.
    if let Some(text) = (sources.variable)(setting.variable).filter(|text| !text.trim().is_empty()) {
        return (text.trim().to_owned(), Origin::Variable(setting.variable));
    }
    if let (Some(text), Some(path)) = (file.values.get(setting.key), &sources.file) {
        return (text.clone(), Origin::File(path.clone()));
    }
    (setting.default.to_owned(), Origin::Default)
}

fn check(setting: &Setting, text: &str) -> Result<(), &'static str> {
    let fits = match setting.kind {
        Kind::Text | Kind::Secret | Kind::List => !text.contains(char::is_control),
        _ if text.is_empty() => true,
        Kind::Flag => parse::flag(text).is_some(),
        Kind::Count => parse::count(text).is_some(),
        Kind::Seconds => parse::count(text).is_some_and(|seconds| seconds > 0),
        Kind::Url => parse::url(text).is_some(),
        Kind::Quantity => Quantity::parse(text).is_some_and(|quantity| !quantity.is_negative() && !quantity.is_zero()),
    };
    if fits {
        return Ok(());
    }
    Err(match setting.kind {
        Kind::Text | Kind::Secret | Kind::List => "printable characters",
        Kind::Flag => "true or false",
        Kind::Count => "a whole number",
        Kind::Seconds => "a whole number of seconds above zero",
        Kind::Url => "an http or https address",
        Kind::Quantity => QUANTITY_RULE,
    })
}

/// The operator's file: YAML, settings by key, and the two maps that have no other place.
#[derive(Default)]
struct ConfigFile {
    values: BTreeMap<String, String>,
    providers: StorageProviders,
    clusters: BTreeMap<String, Cluster>,
}

impl ConfigFile {
    fn read(path: &Path, faults: &mut Vec<String>) -> Self {
        let shown = path.display();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                faults.push(format!("- {shown}: {error}"));
                return Self::default();
            }
        };
        let node = match parse_yaml(&text) {
            Ok(node) => node,
            Err(oscar_api::tree::Malformed::Empty) => return Self::default(),
            Err(malformed) => {
                faults.push(format!("- {shown}: {malformed}"));
                return Self::default();
            }
        };
        let reader = Reader::new(&node, true);
        let fields = reader.fields("");
        let mut file = Self {
            providers: oscar_api::service::providers(&fields),
            clusters: oscar_api::service::clusters(&fields),
            ..Self::default()
        };
        if let Value::Map(entries) = &node.value {
            for (key, value) in entries {
                if matches!(key.as_str(), "storage_providers" | "clusters") {
                    continue;
                }
                let known = CATALOGUE.iter().any(|setting| setting.key == key);
                if !known {
                    reader.fault(key, "an unknown setting", "one that `oscar config show` lists");
                } else if matches!(value.value, Value::List(_)) {
                    file.values.insert(key.clone(), fields.texts(key).join(","));
                } else {
                    file.values.insert(key.clone(), fields.text(key));
                }
            }
        }
        for mut fault in reader.into_faults().0 {
            fault.line = node.line_of(&fault.path);
            faults.push(format!("- {shown}: {fault}"));
        }
        file
    }
}
