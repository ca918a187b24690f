//! A bearer token taken apart, before and after anybody vouched for it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use oscar_engine::ports::identity::Refusal;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::keys::parse_algorithm;

const LONGEST_TOKEN: usize = 16 * 1024;

/// The parts of a token. Nothing in it is true until a key has proved its signature.
pub(super) struct Token<'a> {
    pub(super) raw: &'a str,
    /// What the signature is about.
    pub(super) message: &'a str,
    pub(super) signature: &'a str,
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
    pub(super) claims: Map<String, Value>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl<'a> Token<'a> {
    pub(super) fn parse(raw: &'a str) -> Result<Self, Refusal> {
        if raw.len() > LONGEST_TOKEN {
            return malformed(&format!("it is longer than {LONGEST_TOKEN} bytes"));
        }
        Self::take_apart(raw)
    }

    /// The same of any length, for what is not a stranger's.
    pub(super) fn take_apart(raw: &'a str) -> Result<Self, Refusal> {
        let mut parts = raw.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return malformed("it does not have three parts");
        };
        // The errors of the decoders quote what they read, so they are not passed on.
        let Some(Ok(head)) = decode(header).map(|json| serde_json::from_slice::<Header>(&json)) else {
            return malformed("its header cannot be read");
        };
        let Some(Ok(claims)) = decode(payload).map(|json| serde_json::from_slice(&json)) else {
            return malformed("its claims cannot be read");
        };
        if head.crit.is_some() {
            return not_valid("it demands an extension that is not supported");
        }
        let Some(algorithm) = parse_algorithm(&head.alg) else {
            return not_valid("its signature algorithm is not accepted");
        };
        let message = &raw[..header.len() + 1 + payload.len()];
        Ok(Self { raw, message, signature, algorithm, kid: head.kid, claims })
    }

    pub(super) fn text(&self, claim: &str) -> Option<&str> {
        self.claims.get(claim).and_then(Value::as_str)
    }

    /// The second since the epoch from which on the token is refused.
    pub(super) fn end(&self, leeway: u64) -> Result<u64, Refusal> {
        match self.claims.get("exp").and_then(seconds) {
            Some(exp) => Ok(exp.saturating_add(leeway)),
            None => not_valid("it has no expiry, or one that is not a number"),
        }
    }

    /// Everything about it that needs no key: time and audience.
    pub(super) fn check(&self, now: u64, leeway: u64, audience: Option<&str>) -> Result<(), Refusal> {
        if now >= self.end(leeway)? {
            return not_valid("it has expired");
        }
        if let Some(claim) = self.claims.get("nbf") {
            match seconds(claim) {
                Some(nbf) if nbf <= now.saturating_add(leeway) => {}
                Some(_) => return not_valid("it is not valid yet"),
                None => return not_valid("the start of its validity is not a number"),
            }
        }
        match audience {
            Some(wanted) if !self.is_for(wanted) => not_valid("it is meant for another audience"),
            _ => Ok(()),
        }
    }

    fn is_for(&self, wanted: &str) -> bool {
        match self.claims.get("aud") {
            Some(Value::String(one)) => one == wanted,
            Some(Value::Array(many)) => many.iter().any(|one| one.as_str() == Some(wanted)),
            _ => false,
        }
    }
}

fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

fn seconds(claim: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and a time before the epoch is as good as the epoch"
    )]
    let whole = |fraction: f64| fraction as u64;
    claim.as_u64().or_else(|| claim.as_f64().map(whole))
}

pub(super) fn malformed<T>(why: &str) -> Result<T, Refusal> {
    Err(Refusal::Malformed(why.to_owned()))
}

pub(super) fn not_valid<T>(why: &str) -> Result<T, Refusal> {
    Err(Refusal::NotValid(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_raw(header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2ln", part(header), part(claims))
    }

    fn check(claims: &Value, now: u64, audience: Option<&str>) -> Result<(), Refusal> {
        let raw = mk_raw(&json!({"alg": "RS256"}), claims);
        Token::parse(&raw)?.check(now, 30, audience)
    }

    #[test]
    fn what_is_no_token_is_called_malformed() {
        let claims = json!({});
        for raw in [
            String::new(),
            "opaque".to_owned(),
            "a.b".to_owned(),
            "a.b.c.d".to_owned(),
            "....".to_owned(),
            "ä.ö.ü".to_owned(),
            mk_raw(&json!({}), &claims),
            mk_raw(&json!(7), &claims),
            mk_raw(&json!({"alg": "RS256"}), &json!([1])),
            "a".repeat(LONGEST_TOKEN + 1),
        ] {
            let refusal = Token::parse(&raw).err();
            assert!(matches!(refusal, Some(Refusal::Malformed(_))), "{raw}: {refusal:?}");
        }
    }

    #[test]
    fn only_signatures_with_key_pairs_count() {
        for alg in ["none", "None", "HS256", "HS384", "HS512", "ES512", "ES256K", "", "rs256"] {
            let raw = mk_raw(&json!({"alg": alg}), &json!({}));
            let refusal = Token::parse(&raw).err();
            assert!(matches!(refusal, Some(Refusal::NotValid(_))), "{alg}: {refusal:?}");
        }
        let raw = mk_raw(&json!({"alg": "RS256", "crit": ["b64"], "b64": false}), &json!({}));
        assert!(matches!(Token::parse(&raw).err(), Some(Refusal::NotValid(_))));
    }

    #[test]
    fn a_token_is_good_from_nbf_to_exp_give_or_take_the_leeway() {
        let claims = json!({"nbf": 1000, "exp": 2000});
        assert!(check(&claims, 969, None).is_err());
        assert!(check(&claims, 970, None).is_ok());
        assert!(check(&claims, 2029, None).is_ok());
        assert!(check(&claims, 2030, None).is_err());
    }

    #[test]
    fn times_may_be_odd_but_not_absent_or_texts() {
        assert!(check(&json!({}), 0, None).is_err());
        assert!(check(&json!({"exp": "2000"}), 0, None).is_err());
        assert!(check(&json!({"exp": null}), 0, None).is_err());
        assert!(check(&json!({"exp": -5}), 1000, None).is_err());
        assert!(check(&json!({"exp": 2000, "nbf": "0"}), 0, None).is_err());
        assert!(check(&json!({"exp": 2000.7}), 2029, None).is_ok());
        assert!(check(&json!({"exp": u64::MAX}), 2029, None).is_ok());
        assert!(check(&json!({"exp": 1e300}), 2029, None).is_ok());
    }

    #[test]
    fn an_audience_counts_when_one_is_expected() {
        let ok = |aud: Value| check(&json!({"exp": 2000, "aud": aud}), 0, Some("oscar")).is_ok();
        assert!(ok(json!("oscar")));
        assert!(ok(json!(["other", "oscar"])));
        assert!(!ok(json!("oscars")));
        assert!(!ok(json!(["other"])));
        assert!(!ok(json!(null)));
        assert!(check(&json!({"exp": 2000, "aud": "other"}), 0, None).is_ok());
    }
}
