//! The document in which an issuer describes itself.

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::groups::{GroupRule, GroupSource};
use super::http::IssuerClient;
use super::kept::Fetched;

/// The part of the description that is needed.
#[derive(Debug)]
pub(super) struct Provider {
    pub(super) jwks_uri: Url,
    pub(super) userinfo: Option<Url>,
    pub(super) groups: GroupRule,
    /// Or why it cannot be used, which concerns nobody who only signs in.
    pub(super) token: Result<Endpoint, String>,
    /// Where tokens are given back, at issuers that take them back.
    pub(super) revocation: Option<Result<Endpoint, String>>,
}

/// Where refresh tokens go.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    pub(super) login: ClientLogin,
}

/// How a client with a secret shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientLogin {
    Basic,
    Form,
    /// In no way that is known here.
    Unknown,
}

impl ClientLogin {
    /// Of the methods that an issuer lists; without a list there is one that all have.
    fn choose(methods: &Value) -> Self {
        let Some(methods) = methods.as_array() else { return Self::Basic };
        let lists = |name: &str| methods.iter().any(|method| method.as_str() == Some(name));
        match (lists("client_secret_basic"), lists("client_secret_post")) {
            (true, _) => Self::Basic,
            (false, true) => Self::Form,
            (false, false) => Self::Unknown,
        }
    }
}

/// What only refreshing needs is read as it comes: an oddity there must not end signing in.
#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
    #[serde(default)]
    authorization_endpoint: String,
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint: Value,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Value,
    #[serde(default)]
    revocation_endpoint: Value,
    #[serde(default)]
    revocation_endpoint_auth_methods_supported: Value,
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
    let token_methods = &document.token_endpoint_auth_methods_supported;
    let revocation_methods = match &document.revocation_endpoint_auth_methods_supported {
        Value::Null => token_methods,
        own => own,
    };
    let endpoint = |name: &str, address: &Value, methods: &Value| {
        let text = address.as_str().ok_or_else(|| format!("it names no {name}"))?;
        Ok(Endpoint { url: client.parse_secret_endpoint(name, text)?, login: ClientLogin::choose(methods) })
    };
    let revocation = match &document.revocation_endpoint {
        Value::Null => None,
        address => Some(endpoint("revocation_endpoint", address, revocation_methods)),
    };
    Ok(Provider {
        token: endpoint("token_endpoint", &document.token_endpoint, token_methods),
        revocation,
        jwks_uri: client.parse_endpoint("jwks_uri", &document.jwks_uri)?,
        userinfo,
        groups: GroupRule::decide(source, &document.authorization_endpoint),
    })
}
