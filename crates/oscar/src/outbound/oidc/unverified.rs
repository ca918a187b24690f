//! What a token says of itself, when nobody vouches for it.
//!
//! Good for finding out whom to ask. Never a reason to believe or to permit anything.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

const LONGEST_TOKEN: usize = 16 * 1024;
const LONGEST_CLAIM: usize = 1024;

/// The claims of a JWT. An opaque token has none.
#[derive(Debug, Default)]
pub(super) struct Unverified(Map<String, Value>);

impl Unverified {
    pub(super) fn read(token: &str) -> Self {
        Self(claims(token).unwrap_or_default())
    }

    pub(super) fn text(&self, claim: &str) -> Option<&str> {
        let text = self.0.get(claim)?.as_str()?;
        let fits = !text.is_empty() && text.len() <= LONGEST_CLAIM && !text.contains(char::is_control);
        fits.then_some(text)
    }

    /// The client that it was issued to.
    pub(super) fn client(&self) -> Option<&str> {
        self.text("azp").or_else(|| self.text("client_id"))
    }
}

fn claims(token: &str) -> Option<Map<String, Value>> {
    if token.len() > LONGEST_TOKEN {
        return None;
    }
    let mut parts = token.split('.');
    let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_token(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn claims_are_read_whoever_signed_them() {
        let token = Unverified::read(&mk_token(&json!({"iss": "https://one", "client_id": "b"})));
        assert_eq!((token.text("iss"), token.client()), (Some("https://one"), Some("b")));
        let token = Unverified::read(&mk_token(&json!({"azp": "a", "client_id": "b"})));
        assert_eq!(token.client(), Some("a"));
    }

    #[test]
    fn what_is_no_token_or_odd_says_nothing() {
        for token in ["", "dummy-token", "a.b.c", "a.b", "e30.e30.e30.e30.e30", &mk_token(&json!([1])), "ä.ö.ü"] {
            assert_eq!(Unverified::read(token).text("iss"), None, "{token}");
        }
        for value in [json!(7), json!(""), json!("a\nb"), json!("x".repeat(LONGEST_CLAIM + 1)), json!(["a"])] {
            assert_eq!(Unverified::read(&mk_token(&json!({"iss": value}))).text("iss"), None, "{value}");
        }
    }
}
