//! The operator's file: YAML, settings by key, and the maps that have no other place.

use std::collections::BTreeMap;
use std::path::Path;

use oscar_api::tree::{Fields, Malformed, Node, Reader, Value, parse_yaml};
use oscar_model::secret::Secret;
use oscar_model::service::Cluster;
use oscar_model::service::storage::StorageProviders;

use super::catalogue::{CATALOGUE, Kind};
use super::parse;

/// What may stand in an issuer that is a map.
const ISSUER_KEYS: [&str; 7] =
    ["url", "audience", "group_claim", "client_id", "client_secret", "refresh_scope", "subject_suffix"];

/// One identity provider, as the settings name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    pub url: String,
    pub audience: Option<String>,
    pub group_claim: Option<String>,
    /// As whom refresh tokens are used that do not name a client themselves.
    pub client: Option<Client>,
    /// What is asked for when a token is refreshed; without it the scope of the sign-in.
    pub refresh_scope: Option<String>,
    /// Put behind every subject of this issuer.
    pub subject_suffix: Option<String>,
}

/// A client of an identity provider. A public one has no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub id: String,
    pub secret: Option<Secret>,
}

impl Issuer {
    pub(super) fn new(url: String) -> Self {
        Self { url, audience: None, group_claim: None, client: None, refresh_scope: None, subject_suffix: None }
    }
}

#[derive(Default)]
pub(super) struct ConfigFile {
    pub(super) values: BTreeMap<String, String>,
    /// Of `oidc_issuers`, with what the file says of each.
    pub(super) issuers: Vec<Issuer>,
    pub(super) providers: StorageProviders,
    pub(super) clusters: BTreeMap<String, Cluster>,
}

impl ConfigFile {
    pub(super) fn read(path: &Path, faults: &mut Vec<String>) -> Self {
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
            Err(Malformed::Empty) => return Self::default(),
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
                file.entry(&fields, key, value);
            }
        }
        for mut fault in reader.into_faults().0 {
            fault.line = node.line_of(&fault.path);
            faults.push(format!("- {shown}: {fault}"));
        }
        file
    }

    fn entry(&mut self, fields: &Fields<'_>, key: &str, value: &Node) {
        if matches!(key, "storage_providers" | "clusters") {
            return;
        }
        let Some(setting) = CATALOGUE.iter().find(|setting| setting.key == key) else {
            fields.fault(key, "an unknown setting", "one that `oscar config show` lists");
            return;
        };
        let text = match &value.value {
            Value::List(_) if key == "oidc_issuers" => {
                self.issuers = issuers(fields, key);
                self.issuers.iter().map(|issuer| issuer.url.as_str()).collect::<Vec<_>>().join(",")
            }
            Value::List(_) => fields.texts(key).join(","),
            _ => fields.text(key),
        };
        if key == "oidc_issuers" && self.issuers.is_empty() {
            self.issuers = parse::list(&text).into_iter().map(Issuer::new).collect();
        }
        // A key without a value says nothing, like an empty variable. A secret of blanks says
        // something wrong, which is found later.
        if !text.trim().is_empty() || (setting.kind == Kind::Secret && !text.is_empty()) {
            self.values.insert(key.to_owned(), text);
        }
    }
}

fn suffix(issuer: &Fields<'_>, given: Option<String>) -> Option<String> {
    let fits = |text: &String| text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_graphic());
    if given.as_ref().is_some_and(|text| !fits(text)) {
        issuer.fault("subject_suffix", "something else", "at most 32 letters, digits and signs, such as `@science`");
    }
    given
}

/// Each is an address, or a map that says more of it.
fn issuers(fields: &Fields<'_>, key: &str) -> Vec<Issuer> {
    let mut issuers = Vec::new();
    for (node, path) in fields.items(key) {
        match &node.value {
            Value::Text(text) => issuers.extend(parse::list(text).into_iter().map(Issuer::new)),
            Value::Map(entries) => {
                let issuer = fields.reader().fields_of(node, &path);
                for (key, _) in entries.iter().filter(|(key, _)| !ISSUER_KEYS.contains(&key.as_str())) {
                    issuer.fault(key, "an unknown key", format!("one of {}", ISSUER_KEYS.join(", ")));
                }
                let given = |key: &str| Some(issuer.text(key).trim().to_owned()).filter(|text| !text.is_empty());
                match given("url") {
                    Some(url) => issuers.push(Issuer {
                        url,
                        audience: given("audience"),
                        group_claim: given("group_claim"),
                        client: client(&issuer, &given),
                        refresh_scope: given("refresh_scope"),
                        subject_suffix: suffix(&issuer, given("subject_suffix")),
                    }),
                    None => issuer.fault("url", "nothing", "the address of the issuer"),
                }
            }
            Value::Null => {}
            _ => {
                fields.reader().fault(
                    &path,
                    node.kind(),
                    format!("an address, or a map of {}", ISSUER_KEYS.join(", ")),
                );
            }
        }
    }
    issuers
}

fn client(issuer: &Fields<'_>, given: &dyn Fn(&str) -> Option<String>) -> Option<Client> {
    let secret = issuer.text("client_secret");
    if !secret.is_empty() && secret.trim().is_empty() {
        issuer.fault("client_secret", "a value", "more than blanks");
    }
    match given("client_id") {
        Some(id) => Some(Client { id, secret: given("client_secret").map(Secret::new) }),
        None if secret.is_empty() => None,
        None => {
            issuer.fault("client_id", "nothing", "the client that client_secret belongs to");
            None
        }
    }
}
