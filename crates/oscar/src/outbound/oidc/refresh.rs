//! Trading refresh tokens in, and giving them back.
//!
//! A refresh token goes to the endpoint that its listed issuer names in its own description, once,
//! without following redirects. What an issuer says about a failure is repeated only when it cannot
//! hold a token.

use std::sync::Arc;

use async_trait::async_trait;
use oscar_engine::ports::clock::Clock;
use oscar_engine::ports::issuers::{IssuerError, Issuers, Minted, Terms};
use oscar_model::secret::Secret;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{StatusCode, Url};
use serde_json::Value;

use super::discovery::{ClientLogin, Endpoint, Provider, canonical};
use super::http::{IssuerClient, Posted, Repeat, redirect_note};
use super::issuer::introduce;
use super::kept::{Held, Kept};
use super::settings::{ClientSettings, IssuerSettings, Naming, OidcSettings, SettingsError};
use super::unverified::Unverified;
use super::{quote, unix_seconds};

/// How long an access token is used when the issuer does not say how long it is good.
const DEFAULT_LIFETIME: u64 = 300;

/// A longer word in the text of an issuer may be a token.
const LONGEST_WORD: usize = 32;

/// What stands for itself in a form; name and secret of a client are written so in `Basic` too.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*');

/// The token endpoints of the listed issuers.
pub struct OidcIssuers {
    listed: Vec<Listed>,
    clock: Arc<dyn Clock>,
}

struct Listed {
    url: String,
    client: IssuerClient,
    discovery: Kept<Provider>,
    configured: Option<ClientSettings>,
    scope: Option<String>,
    naming: Naming,
}

impl OidcIssuers {
    /// Checks the settings. No issuer is contacted before it is needed; without any, every token
    /// belongs to an issuer that is not listed.
    pub fn new(settings: &OidcSettings) -> Result<Self, SettingsError> {
        let mut listed: Vec<Listed> = Vec::new();
        for issuer in &settings.issuers {
            let new = Listed::new(issuer, settings)?;
            if listed.iter().any(|other| other.is(&new.url)) {
                return Err(SettingsError::Twice(new.url));
            }
            listed.push(new);
        }
        Ok(Self { listed, clock: Arc::clone(&settings.clock) })
    }

    fn find(&self, issuer: &str) -> Result<&Listed, IssuerError> {
        let found = self.listed.iter().find(|listed| listed.is(issuer));
        found.ok_or_else(|| IssuerError::NotListed(quote(issuer)))
    }
}

#[async_trait]
impl Issuers for OidcIssuers {
    fn terms(&self, token: &Secret, bearer: Option<&Secret>) -> Result<Terms, IssuerError> {
        let own = Unverified::read(token.expose());
        let beside = bearer.map(|bearer| Unverified::read(bearer.expose())).unwrap_or_default();
        let Some(issuer) = own.text("iss").or_else(|| beside.text("iss")) else {
            let why = "it does not name its issuer, and it did not come with a bearer token that does";
            return Err(IssuerError::Untold(why.to_owned()));
        };
        let listed = self.find(issuer)?;
        // Clients of another issuer are strangers here, though they may have the same name.
        let beside = beside.text("iss").is_some_and(|iss| listed.is(iss)).then_some(&beside);
        let named = own.client().or_else(|| beside?.client());
        let Some(client) = named.or_else(|| Some(listed.configured.as_ref()?.id.as_str())) else {
            return Err(IssuerError::Untold(format!(
                "it does not name its client; the operator can set `client_id` for the issuer '{}'",
                listed.url
            )));
        };
        Ok(Terms { issuer: canonical(&listed.url).to_owned(), client: client.to_owned() })
    }

    async fn refresh(&self, terms: &Terms, token: &Secret) -> Result<Minted, IssuerError> {
        let listed = self.find(&terms.issuer)?;
        let provider = listed.provider().await?;
        let endpoint = provider.value.token.as_ref().map_err(|why| IssuerError::Refused(why.clone()))?;
        let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", token.expose())];
        if let Some(scope) = &listed.scope {
            form.push(("scope", scope));
        }
        // The token is good from when it was made; the answer may have taken a while.
        let asked = unix_seconds(self.clock.now());
        let answer = listed.post(endpoint, &terms.client, form).await?;
        if answer.status != StatusCode::OK {
            let refusal = listed.refusal(&endpoint.url, &answer, token);
            return Err(if blames_token(&answer) { refusal.ending_the_grant() } else { refusal });
        }
        read_minted(&answer.json, asked, token, &listed.naming)
            .ok_or_else(|| IssuerError::Refused(format!("{} answered without an access token", endpoint.url)))
    }

    async fn revoke(&self, terms: &Terms, token: &Secret) -> Result<bool, IssuerError> {
        let listed = self.find(&terms.issuer)?;
        let provider = listed.provider().await?;
        let endpoint = match &provider.value.revocation {
            None => return Ok(false),
            Some(endpoint) => endpoint.as_ref().map_err(|why| IssuerError::Refused(why.clone()))?,
        };
        let form = vec![("token", token.expose()), ("token_type_hint", "refresh_token")];
        let answer = listed.post(endpoint, &terms.client, form).await?;
        match (answer.status, answer.json["error"].as_str()) {
            (StatusCode::OK, _) => Ok(true),
            (_, Some("unsupported_token_type")) => Ok(false),
            _ => Err(listed.refusal(&endpoint.url, &answer, token)),
        }
    }
}

impl Listed {
    fn new(settings: &IssuerSettings, common: &OidcSettings) -> Result<Self, SettingsError> {
        let standing = Arc::new(super::standing::Standing::new(settings.url.trim()));
        let (url, client, discovery) = introduce(settings, common, Repeat::Never, &standing)?;
        let (configured, scope) = (settings.client.clone(), settings.refresh_scope.clone());
        let naming = Naming::of(settings, &common.issuers);
        Ok(Self { url, client, discovery, configured, scope, naming })
    }

    fn is(&self, issuer: &str) -> bool {
        canonical(&self.url) == canonical(issuer)
    }

    async fn provider(&self) -> Result<Held<Provider>, IssuerError> {
        self.discovery.current().await.map_err(IssuerError::Unreachable)
    }

    /// The secret goes with the client that it belongs to, and with no other.
    fn secret_of(&self, client: &str) -> Option<&Secret> {
        self.configured.as_ref().filter(|configured| configured.id == client)?.secret.as_ref()
    }

    async fn post<'a>(
        &'a self,
        endpoint: &Endpoint,
        client: &'a str,
        mut form: Vec<(&'static str, &'a str)>,
    ) -> Result<Posted, IssuerError> {
        let login = match (self.secret_of(client), endpoint.login) {
            (Some(secret), ClientLogin::Basic) => Some((form_encoded(client), form_encoded(secret.expose()))),
            (Some(secret), ClientLogin::Form) => {
                form.extend([("client_id", client), ("client_secret", secret.expose())]);
                None
            }
            (Some(_), ClientLogin::Unknown) => {
                let url = &endpoint.url;
                return Err(IssuerError::Refused(format!("{url} takes client secrets in no way that is known here")));
            }
            (None, _) => {
                form.push(("client_id", client));
                None
            }
        };
        let posted = self.client.post(&endpoint.url, &form, login).await;
        posted.map_err(|failure| IssuerError::Unreachable(failure.to_string()))
    }

    fn refusal(&self, url: &Url, answer: &Posted, token: &Secret) -> IssuerError {
        let mut sent = vec![token];
        sent.extend(self.configured.as_ref().and_then(|configured| configured.secret.as_ref()));
        let (status, error) = (answer.status, answer.json["error"].as_str());
        let said = |key: &str| answer.json[key].as_str().and_then(|text| harmless(text, &sent));
        let text = match (said("error"), said("error_description")) {
            (Some(error), Some(description)) => format!("{url} says {error}: {description}"),
            (Some(error), None) => format!("{url} says {error}"),
            (None, _) => format!("{url} answered {status}{}", redirect_note(status)),
        };
        let later = status.is_server_error()
            || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
            || matches!(error, Some("temporarily_unavailable" | "server_error"));
        match error {
            _ if later => IssuerError::Unreachable(text),
            Some("invalid_grant") => IssuerError::InvalidGrant(text),
            _ => IssuerError::Refused(text),
        }
    }
}

/// Whether an issuer calls a refresh token bad in words alone: dex answers `invalid_request` when
/// one was used before or has expired. The same error may also mean that our request is wrong, so
/// it has to name the token and what is the matter with it.
fn blames_token(answer: &Posted) -> bool {
    let text = |key: &str| answer.json[key].as_str().unwrap_or_default().to_ascii_lowercase();
    let why = text("error_description");
    let faults = ["is invalid", "expired", "claimed", "revoked", "already used", "not valid", "not active"];
    text("error") == "invalid_request"
        && why.contains("refresh token")
        && faults.iter().any(|fault| why.contains(fault))
}

fn form_encoded(text: &str) -> String {
    utf8_percent_encode(text, FORM).to_string()
}

fn read_minted(json: &Value, asked: u64, used: &Secret, naming: &Naming) -> Option<Minted> {
    let text = |key: &str| json[key].as_str().filter(|text| !text.is_empty());
    let access = text("access_token")?;
    let lifetime = json["expires_in"].as_u64().or_else(|| json["expires_in"].as_str()?.parse().ok());
    let rotated = text("refresh_token").filter(|rotated| *rotated != used.expose());
    Some(Minted {
        access: Secret::new(access),
        expires: asked.saturating_add(lifetime.unwrap_or(DEFAULT_LIFETIME)),
        rotated: rotated.map(Secret::new),
        // One who cannot be a user of this issuer is nobody's like.
        subject: Unverified::read(access).text("sub").map(|sub| naming.name(sub).unwrap_or_default()),
    })
}

/// A stranger's text, unless it may repeat what it was sent.
fn harmless(text: &str, sent: &[&Secret]) -> Option<String> {
    let repeats = sent.iter().any(|secret| text.contains(secret.expose()));
    let long_word = || text.split_whitespace().any(|word| word.chars().count() > LONGEST_WORD);
    (!repeats && !long_word()).then(|| quote(text)).filter(|text| !text.trim().is_empty())
}
