//! What an administrator can say about identity providers.

use std::sync::Arc;
use std::time::Duration;

use oscar_engine::ports::clock::Clock;
use oscar_model::fault::without_userinfo;
use oscar_model::secret::Secret;
use reqwest::Url;

use super::groups::GroupSource;
use super::http::scheme_of;

/// One identity provider whose tokens are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerSettings {
    /// As in the `iss` claim. A slash at the end makes no difference.
    pub url: String,
    /// When set, the `aud` claim must contain it.
    pub audience: Option<String>,
    /// Where the groups of a person are found.
    pub groups: GroupSource,
    /// The client of refresh tokens that name none themselves.
    pub client: Option<ClientSettings>,
    /// What is asked for when a token is refreshed; without it the scope of the sign-in.
    pub refresh_scope: Option<String>,
    /// Put behind every `sub`, so that people of two issuers who have the same are two people.
    pub subject_suffix: String,
}

/// A client that is registered with an identity provider. A public one has no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSettings {
    pub id: String,
    pub secret: Option<Secret>,
}

impl IssuerSettings {
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            audience: None,
            groups: GroupSource::Auto,
            client: None,
            refresh_scope: None,
            subject_suffix: String::new(),
        }
    }
}

/// Who is meant by a `sub` of one issuer. Nobody of another one can be called the same.
#[derive(Debug, Clone)]
pub(super) struct Naming {
    suffix: String,
    /// What the names of other issuers' people end with.
    reserved: Vec<String>,
}

impl Naming {
    pub(super) fn of(issuer: &IssuerSettings, all: &[IssuerSettings]) -> Self {
        let suffixes = all.iter().map(|other| other.subject_suffix.clone());
        let reserved = suffixes.filter(|suffix| !suffix.is_empty() && *suffix != issuer.subject_suffix).collect();
        Self { suffix: issuer.subject_suffix.clone(), reserved }
    }

    pub(super) fn name(&self, sub: &str) -> Option<String> {
        let name = format!("{sub}{}", self.suffix);
        let is_anothers = self.reserved.iter().any(|suffix| name.ends_with(suffix.as_str()));
        (!is_anothers).then_some(name)
    }
}

/// Everything the adapter needs to know.
#[derive(Clone)]
pub struct OidcSettings {
    pub issuers: Vec<IssuerSettings>,
    /// A person must be in one of these. **When the list is empty, or holds only blanks,
    /// every person with a valid token of a listed issuer is accepted.**
    pub accepted_groups: Vec<String>,
    /// How far the clocks of an issuer and of this machine may be apart.
    pub leeway: Duration,
    pub connect_timeout: Duration,
    /// For one whole request to an issuer, body included.
    pub request_timeout: Duration,
    /// For a request with a refresh token. Longer than others: an answer that is not waited for
    /// may hold the only token that is still good.
    pub refresh_timeout: Duration,
    /// How long a discovery document is good when the issuer does not say.
    pub discovery_lifetime: Duration,
    /// How long a key set is good when the issuer does not say.
    pub keys_lifetime: Duration,
    /// For how long after its lifetime a key set still serves while it cannot be renewed.
    pub stale_keys: Duration,
    /// An answer of the userinfo endpoint serves until its token expires, but never longer.
    pub userinfo_lifetime: Duration,
    /// The wait after a first failed request to an issuer; it doubles up to `retry_max`.
    pub retry_first: Duration,
    pub retry_max: Duration,
    /// The least time between two readings of a key set that were asked for by tokens
    /// with unknown keys. Such tokens wait for the next reading: they are not refused for
    /// having come too early.
    pub unknown_key_pause: Duration,
    /// How long a request waits for new keys before it makes do with stale ones.
    pub patience: Duration,
    /// How many verified tokens are remembered, in all.
    pub remembered_tokens: usize,
    /// Certificate authorities (PEM) to trust besides those of the system.
    pub extra_roots: Option<Vec<u8>>,
    /// Accept `http://` issuers on other hosts than this one. Everybody on the way could
    /// then forge identities: for closed test networks only.
    pub allow_plain_http: bool,
    pub clock: Arc<dyn Clock>,
}

impl OidcSettings {
    pub fn new(issuers: Vec<IssuerSettings>, clock: Arc<dyn Clock>) -> Self {
        Self {
            issuers,
            accepted_groups: Vec::new(),
            leeway: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(3),
            request_timeout: Duration::from_secs(5),
            refresh_timeout: Duration::from_secs(30),
            discovery_lifetime: Duration::from_hours(1),
            keys_lifetime: Duration::from_mins(10),
            stale_keys: Duration::from_hours(1),
            userinfo_lifetime: Duration::from_hours(1),
            retry_first: Duration::from_millis(500),
            retry_max: Duration::from_secs(5),
            unknown_key_pause: Duration::from_secs(1),
            patience: Duration::from_secs(1),
            remembered_tokens: 4096,
            extra_roots: None,
            allow_plain_http: false,
            clock,
        }
    }

    /// The groups that were really named.
    pub(super) fn named_groups(&self) -> Vec<String> {
        let named = self.accepted_groups.iter().map(|group| group.trim());
        named.filter(|group| !group.is_empty()).map(str::to_owned).collect()
    }
}

/// What is wrong with the addresses of issuers, before anything is set up for them.
pub fn check_issuers<'a>(urls: impl IntoIterator<Item = &'a str>) -> Vec<SettingsError> {
    let (mut seen, mut faults) = (Vec::new(), Vec::new());
    for url in urls.into_iter().map(str::trim) {
        let issuer = || SettingsError::Issuer { url: without_userinfo(url), cause: "it is no address".to_owned() };
        let judged = Url::parse(url).map_err(|_| issuer()).and_then(|url| scheme_of(&url, false));
        faults.extend(judged.err());
        let plain = url.trim_end_matches('/');
        if seen.contains(&plain) {
            faults.push(SettingsError::Twice(without_userinfo(url)));
        }
        seen.push(plain);
    }
    faults
}

/// Why the settings cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("no issuer is listed, so no bearer token could ever be accepted")]
    NoIssuer,
    #[error("the issuer '{url}' cannot be used: {cause}")]
    Issuer { url: String, cause: String },
    #[error("the issuer '{0}' is listed twice")]
    Twice(String),
    #[error("the extra certificate authorities cannot be used: {0}")]
    ExtraRoots(String),
    #[error("the HTTPS client cannot be set up: {0}")]
    Client(String),
}
