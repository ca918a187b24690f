//! One identity provider: its description, its keys, and what it says about people.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use oscar_engine::ports::identity::Refusal;
use oscar_model::identity::{Subject, User};
use reqwest::Url;
use serde_json::{Map, Value};

use super::discovery::{self, Provider, canonical};
use super::http::{IssuerClient, Repeat};
use super::kept::{Fetched, Kept, Pace};
use super::keys::{KeySet, Thumbprint, Unproved, prove};
use super::settings::{IssuerSettings, Naming, OidcSettings, SettingsError};
use super::standing::{Source, Standing};
use super::token::{Token, not_valid};
use super::userinfo::{NoAnswer, Question, Userinfo};
use super::{IssuerHealth, TokenHash};

/// A description changes so rarely that an old one is better than none.
const STALE_DISCOVERY: Duration = Duration::from_hours(24);

pub(super) struct Issuer {
    url: String,
    audience: Option<String>,
    naming: Naming,
    discovery: Arc<Kept<Provider>>,
    keys: Arc<Kept<KeySet>>,
    userinfo: Userinfo,
}

/// A person, and until which second and with which key this holds.
pub(super) struct Vouched {
    pub(super) user: User,
    pub(super) key: Thumbprint,
    pub(super) until: u64,
}

impl Issuer {
    pub(super) fn new(settings: &IssuerSettings, common: &OidcSettings) -> Result<Self, SettingsError> {
        let standing = Arc::new(Standing::new(settings.url.trim()));
        let (url, client, discovery) = introduce(settings, common, Repeat::Harmless, &standing)?;
        let discovery = Arc::new(discovery);

        let (reader, description) = (client.clone(), Arc::clone(&discovery));
        let keys = Arc::new(Kept::new(
            Source::Keys,
            &standing,
            pace(common, common.keys_lifetime, common.stale_keys),
            Arc::clone(&common.clock),
            Box::new(move || {
                let (reader, description) = (reader.clone(), Arc::clone(&description));
                async move { fetch_keys(&reader, &description).await }.boxed()
            }),
        ));

        let userinfo = Userinfo::new(client, &url, &keys, common);
        let naming = Naming::of(settings, &common.issuers);
        Ok(Self { url, audience: settings.audience.clone(), naming, discovery, keys, userinfo })
    }

    pub(super) fn is(&self, iss: &str) -> bool {
        canonical(&self.url) == canonical(iss)
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn audience(&self) -> Option<&str> {
        self.audience.as_deref()
    }

    /// Whether the issuer still publishes a key.
    pub(super) async fn publishes(&self, key: &Thumbprint) -> Result<bool, Refusal> {
        let keys = self.keys.current().await.map_err(|cause| self.unavailable(cause))?;
        Ok(keys.value.contains(key))
    }

    /// Which key signed the token.
    pub(super) async fn prove(&self, token: &Token<'_>) -> Result<Thumbprint, Refusal> {
        prove(&self.keys, token).await.map_err(|unproved| match unproved {
            Unproved::NotValid(why) => Refusal::NotValid(why.to_owned()),
            Unproved::Unavailable(cause) => self.unavailable(cause),
        })
    }

    /// Who the holder of a proved token is. The issuer is asked only when groups matter
    /// and the token does not speak of them.
    pub(super) async fn describe(
        &self,
        token: &Token<'_>,
        hash: TokenHash,
        end: u64,
        groups_matter: bool,
    ) -> Result<(User, u64), Refusal> {
        // What is no subject by itself does not become one by what is put behind it.
        let sub = token.text("sub").filter(|sub| Subject::parse(sub).is_some());
        let named = sub.and_then(|sub| Some((sub, Subject::parse(&self.naming.name(sub)?)?)));
        let Some((sub, subject)) = named else {
            return not_valid("it names nobody who could be a user");
        };
        let provider = self.discovery.current().await.map_err(|cause| self.unavailable(cause))?;
        let rule = &provider.value.groups;
        let mut name = display_name(&token.claims);
        let mut until = end;
        let groups = match (rule.read(&token.claims), &provider.value.userinfo) {
            (None, Some(endpoint)) if groups_matter => {
                let question = Question { hash, bearer: token.raw, subject: sub, end };
                let answered = self.userinfo.ask(endpoint, question).await.map_err(|no| match no {
                    NoAnswer::Refused(why) => Refusal::NotValid(why),
                    NoAnswer::Unavailable(cause) => self.unavailable(cause),
                })?;
                name = display_name(&answered.claims).or(name);
                until = answered.until;
                rule.read(&answered.claims)
            }
            (groups, _) => groups,
        };
        let user = User {
            subject,
            name: name.unwrap_or_default(),
            groups: groups.unwrap_or_default(),
            issuer: self.url.clone(),
        };
        Ok((user, until))
    }

    pub(super) async fn health(&self) -> IssuerHealth {
        let keys = self.keys.current().await.map_or(0, |keys| keys.value.len());
        let last_error = self.keys.last_error().or_else(|| self.discovery.last_error());
        IssuerHealth { issuer: self.url.clone(), reachable: last_error.is_none(), keys, last_error }
    }

    fn unavailable(&self, cause: String) -> Refusal {
        Refusal::Unavailable { issuer: self.url.clone(), cause }
    }
}

/// The address of a listed issuer, a client for it, and its description, which is not read yet.
pub(super) fn introduce(
    settings: &IssuerSettings,
    common: &OidcSettings,
    repeat: Repeat,
    standing: &Arc<Standing>,
) -> Result<(String, IssuerClient, Kept<Provider>), SettingsError> {
    let url = settings.url.trim().to_owned();
    let parsed =
        Url::parse(&url).map_err(|error| SettingsError::Issuer { url: url.clone(), cause: error.to_string() })?;
    let client = IssuerClient::new(&parsed, common, repeat)?;
    let (reader, issuer, source) = (client.clone(), url.clone(), settings.groups.clone());
    let discovery = Kept::new(
        Source::Discovery,
        standing,
        pace(common, common.discovery_lifetime, STALE_DISCOVERY),
        Arc::clone(&common.clock),
        Box::new(move || {
            let (reader, issuer, source) = (reader.clone(), issuer.clone(), source.clone());
            async move { discovery::fetch(&reader, &issuer, &source).await }.boxed()
        }),
    );
    Ok((url, client, discovery))
}

fn pace(common: &OidcSettings, lifetime: Duration, stale: Duration) -> Pace {
    Pace {
        lifetime,
        stale,
        patience: common.patience,
        forced_pause: common.unknown_key_pause,
        retry_first: common.retry_first,
        retry_max: common.retry_max,
    }
}

async fn fetch_keys(client: &IssuerClient, discovery: &Kept<Provider>) -> Result<Fetched<KeySet>, String> {
    let provider = discovery.current().await?;
    let url = &provider.value.jwks_uri;
    let read = client.get(url).await.map_err(|failure| failure.to_string());
    let parsed = read.and_then(|answer| {
        let value = KeySet::parse(&answer.json).map_err(|cause| format!("{url}: {cause}"))?;
        Ok(Fetched { value, max_age: answer.max_age })
    });
    // Perhaps the keys have moved; the description then says where to.
    parsed.inspect_err(|_| discovery.doubt())
}

fn display_name(claims: &Map<String, Value>) -> Option<String> {
    let name = claims.get("name")?.as_str()?;
    let printable: String = name.chars().filter(|letter| !letter.is_control()).collect();
    let name = printable.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
