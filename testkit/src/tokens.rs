//! Tokens from a provider's token endpoint.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;
use ureq::Agent;

use crate::http;

/// The public client every provider of the kit knows.
pub(crate) const CLIENT: &str = "oscar";

/// Users are called alice and bob; their passwords follow from their names.
pub(crate) fn password_of(user: &str) -> String {
    format!("{user}-password")
}

#[derive(Debug, Clone)]
pub struct Tokens {
    pub access: String,
    pub id: String,
    pub refresh: String,
}

impl Tokens {
    /// The claims of the access token, unverified.
    pub fn claims(&self) -> Value {
        let payload = self.access.split('.').nth(1).unwrap_or_default();
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(payload).expect("an access token of these providers is a JWT");
        serde_json::from_slice(&bytes).expect("a JWT holds JSON")
    }

    /// `sub` of the access token.
    pub fn subject(&self) -> String {
        self.claims()["sub"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn by_password(agent: &Agent, endpoint: &str, scope: &str, user: &str) -> Tokens {
        let form = [
            ("grant_type", "password"),
            ("client_id", CLIENT),
            ("scope", scope),
            ("username", &format!("{user}@example.org")),
            ("password", &password_of(user)),
        ];
        ask(agent, endpoint, &form).unwrap_or_else(|problem| panic!("no token for {user} from {endpoint}: {problem}"))
    }

    pub(crate) fn by_refresh(agent: &Agent, endpoint: &str, refresh: &str) -> Result<Tokens, Value> {
        let form = [("grant_type", "refresh_token"), ("client_id", CLIENT), ("refresh_token", refresh)];
        ask(agent, endpoint, &form)
    }
}

fn ask(agent: &Agent, endpoint: &str, form: &[(&str, &str)]) -> Result<Tokens, Value> {
    let (status, body) = http::post_form(agent, endpoint, form);
    if status != 200 {
        return Err(body);
    }
    let field = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    Ok(Tokens { access: field("access_token"), id: field("id_token"), refresh: field("refresh_token") })
}
