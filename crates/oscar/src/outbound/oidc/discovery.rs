//! The document in which an issuer describes itself.

use reqwest::Url;
use serde::Deserialize;

use super::groups::{GroupRule, GroupSource};
use super::http::IssuerClient;
use super::kept::Fetched;

/// The part of the description that is needed.
#[derive(Debug)]
pub(super) struct Provider {
    pub(super) jwks_uri: Url,
    pub(super) userinfo: Option<Url>,
    pub(super) groups: GroupRule,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
    #[serde(default)]
    authorization_endpoint: String,
    userinfo_endpoint: Option<String>,
}

/// Two spellings of an issuer that differ in a slash at the end are the same issuer.
pub(super) fn canonical(issuer: &str) -> &str {
    issuer.strip_suffix('/').unwrap_or(issuer)
}

pub(super) async fn fetch(
    client: &IssuerClient,
    issuer: &str,
    source: &GroupSource,
) -> Result<Fetched<Provider>, String> {
    let address = format!("{}/.well-known/openid-configuration", canonical(issuer));
    let url = Url::parse(&address).map_err(|error| format!("{address}: {error}"))?;
    let answer = client.get(&url).await.map_err(|failure| failure.to_string())?;
    let document: Document =
        serde_json::from_value(answer.json).map_err(|error| format!("{url} is not a discovery document: {error}"))?;
    let value = check(client, issuer, source, &document).map_err(|cause| format!("{url}: {cause}"))?;
    Ok(Fetched { value, max_age: answer.max_age })
}

fn check(client: &IssuerClient, issuer: &str, source: &GroupSource, document: &Document) -> Result<Provider, String> {
    if canonical(&document.issuer) != canonical(issuer) {
        return Err(format!("it describes another issuer, '{}'", document.issuer));
    }
    let userinfo = match &document.userinfo_endpoint {
        Some(text) => Some(client.parse_endpoint("userinfo_endpoint", text)?),
        None => None,
    };
    Ok(Provider {
        jwks_uri: client.parse_endpoint("jwks_uri", &document.jwks_uri)?,
        userinfo,
        groups: GroupRule::decide(source, &document.authorization_endpoint),
    })
}
