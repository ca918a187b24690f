//! The public keys of an issuer, and which signatures they prove.
//!
//! A key proves signatures of its own kind only: the algorithm that a token names is
//! never enough to choose how a key is used.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::kept::Kept;
use super::token::Token;

/// More keys than any issuer publishes.
const MOST_KEYS: usize = 64;
/// Smaller moduli can be factored; greater ones are not supported by the arithmetic below.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

/// Tells one key from every other.
pub(super) type Thumbprint = [u8; 32];

/// The keys that an issuer publishes, as of one reading.
#[derive(Default)]
pub(super) struct KeySet {
    keys: Vec<PublicKey>,
}

struct PublicKey {
    kid: Option<String>,
    thumbprint: Thumbprint,
    key: DecodingKey,
    algorithms: Vec<Algorithm>,
}

/// What a key set says about a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Proof {
    SignedBy(Thumbprint),
    /// The key is here, and the signature is not its own.
    Forged,
    /// The issuer may have got a new key since.
    KeyUnknown,
}

/// Why no key vouches for a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unproved {
    NotValid(&'static str),
    /// There are no keys to say so.
    Unavailable(String),
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The asymmetric algorithms by their registered names; `none` and shared secrets are not
/// among them.
pub(super) fn parse_algorithm(name: &str) -> Option<Algorithm> {
    Some(match name {
        "RS256" => Algorithm::RS256,
        "RS384" => Algorithm::RS384,
        "RS512" => Algorithm::RS512,
        "PS256" => Algorithm::PS256,
        "PS384" => Algorithm::PS384,
        "PS512" => Algorithm::PS512,
        "ES256" => Algorithm::ES256,
        "ES384" => Algorithm::ES384,
        "EdDSA" | "Ed25519" => Algorithm::EdDSA,
        _ => return None,
    })
}

/// Which key signed the token. When none did that is known, the keys are read anew.
pub(super) async fn prove(keys: &Kept<KeySet>, token: &Token<'_>) -> Result<Thumbprint, Unproved> {
    // Only keys read from here on can tell that a key does not exist.
    let begun = keys.begun();
    let mut held = keys.current().await.map_err(Unproved::Unavailable)?;
    loop {
        match held.value.prove(token) {
            Proof::SignedBy(key) => return Ok(key),
            Proof::Forged => return Err(Unproved::NotValid("its signature is wrong")),
            Proof::KeyUnknown if held.number > begun => {
                return Err(Unproved::NotValid("its issuer publishes no key that fits its signature"));
            }
            Proof::KeyUnknown => held = keys.later_than(held.number).await.map_err(Unproved::Unavailable)?,
        }
    }
}

impl KeySet {
    /// Keys that cannot be used here are left out, as their issuer may need them for others.
    pub(super) fn parse(document: &Value) -> Result<Self, String> {
        let listed = document.get("keys").and_then(Value::as_array);
        let listed = listed.ok_or("the key set has no list of keys")?;
        let keys = listed.iter().filter_map(PublicKey::parse).take(MOST_KEYS).collect();
        Ok(Self { keys })
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn contains(&self, thumbprint: &Thumbprint) -> bool {
        self.keys.iter().any(|key| key.thumbprint == *thumbprint)
    }

    pub(super) fn prove(&self, token: &Token<'_>) -> Proof {
        let named = |key: &&PublicKey| token.kid.is_none() || key.kid == token.kid;
        let mut known = false;
        for key in self.keys.iter().filter(named) {
            known = true;
            if key.proves(token) {
                return Proof::SignedBy(key.thumbprint);
            }
        }
        // A token that names no key may be signed with any, also with one not seen yet.
        if known && token.kid.is_some() { Proof::Forged } else { Proof::KeyUnknown }
    }
}

impl PublicKey {
    fn parse(value: &Value) -> Option<Self> {
        let jwk = Jwk::deserialize(value).ok()?;
        let for_signatures = jwk.usage.as_deref().is_none_or(|usage| usage == "sig")
            && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures {
            return None;
        }
        let (key, fitting) = jwk.material()?;
        let algorithms = match &jwk.alg {
            Some(name) => {
                let only = parse_algorithm(name)?;
                fitting.contains(&only).then(|| vec![only])?
            }
            None => fitting.to_vec(),
        };
        let thumbprint = jwk.thumbprint();
        Some(Self { kid: jwk.kid, thumbprint, key, algorithms })
    }

    fn proves(&self, token: &Token<'_>) -> bool {
        self.algorithms.contains(&token.algorithm)
            && jsonwebtoken::crypto::verify(token.signature, token.message.as_bytes(), &self.key, token.algorithm)
                .unwrap_or(false)
    }
}

impl Jwk {
    /// The key and the algorithms that fit its kind. Lengths are checked here because the
    /// library below takes them for granted.
    fn material(&self) -> Option<(DecodingKey, &'static [Algorithm])> {
        use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (decode(self.n.as_ref())?, decode(self.e.as_ref())?);
                let key = DecodingKey::from_rsa_raw_components(&n, &e);
                let fits = RSA_BITS.contains(&bits(&n)) && (2..=32).contains(&bits(&e));
                fits.then_some((key, &[RS256, RS384, RS512, PS256, PS384, PS512][..]))
            }
            ("EC", Some("P-256")) => Some((self.ec_point(32)?, &[ES256])),
            ("EC", Some("P-384")) => Some((self.ec_point(48)?, &[ES384])),
            ("OKP", Some("Ed25519")) => {
                let x = decode(self.x.as_ref())?;
                (x.len() == 32).then(|| (DecodingKey::from_ed_der(&x), &[EdDSA][..]))
            }
            _ => None,
        }
    }

    fn ec_point(&self, coordinate: usize) -> Option<DecodingKey> {
        let (x, y) = (decode(self.x.as_ref())?, decode(self.y.as_ref())?);
        if x.len() != coordinate || y.len() != coordinate {
            return None;
        }
        let uncompressed = [&[4], x.as_slice(), y.as_slice()].concat();
        Some(DecodingKey::from_ec_der(&uncompressed))
    }

    fn thumbprint(&self) -> Thumbprint {
        let parts = [&self.kid, &self.alg, &self.crv, &self.n, &self.e, &self.x, &self.y];
        let mut hash = Sha256::new();
        for part in
            std::iter::once(self.kty.as_str()).chain(parts.iter().map(|part| part.as_deref().unwrap_or_default()))
        {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

fn decode(text: Option<&String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text?).ok()
}

fn bits(number: &[u8]) -> usize {
    let mut significant = number.iter().skip_while(|byte| **byte == 0);
    match significant.next() {
        Some(first) => (8 - first.leading_zeros() as usize) + 8 * significant.count(),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn count(keys: &Value) -> usize {
        KeySet::parse(&json!({"keys": keys})).expect("a key set").len()
    }

    fn text(length: usize) -> String {
        URL_SAFE_NO_PAD.encode(vec![0xff; length])
    }

    #[test]
    fn keys_that_cannot_prove_a_signature_are_left_out() {
        let rsa = |usage: &str, alg: &str| json!({"kty": "RSA", "use": usage, "alg": alg, "n": text(256), "e": "AQAB"});
        assert_eq!(count(&json!([rsa("sig", "RS256"), rsa("sig", "PS512")])), 2);
        assert_eq!(count(&json!([rsa("enc", "RSA-OAEP"), rsa("sig", "RSA-OAEP")])), 0);
        assert_eq!(count(&json!([rsa("sig", "ES256"), rsa("sig", "HS256")])), 0);
        let ops = |op: &str| json!({"kty": "RSA", "key_ops": [op], "n": text(256), "e": "AQAB"});
        assert_eq!(count(&json!([ops("verify"), ops("wrapKey")])), 1);
    }

    #[test]
    fn shared_secrets_weak_and_broken_keys_are_left_out() {
        for key in [
            json!({"kty": "oct", "k": text(32), "alg": "HS256"}),
            json!({"kty": "RSA", "n": text(128), "e": "AQAB"}),
            json!({"kty": "RSA", "n": text(1024), "e": "AQAB"}),
            json!({"kty": "RSA", "n": text(256), "e": "AQ"}),
            json!({"kty": "RSA", "n": "not base64!", "e": "AQAB"}),
            json!({"kty": "EC", "crv": "P-256", "x": text(31), "y": text(32)}),
            json!({"kty": "EC", "crv": "P-521", "x": text(66), "y": text(66)}),
            json!({"kty": "OKP", "crv": "Ed25519", "x": text(31)}),
            json!({"kty": "OKP", "crv": "Ed25519"}),
            json!({"kty": 7}),
            json!("key"),
        ] {
            assert_eq!(count(&json!([key])), 0, "{key}");
        }
        assert!(KeySet::parse(&json!({"keys": {}})).is_err());
        assert!(KeySet::parse(&json!([])).is_err());
    }

    #[test]
    fn no_issuer_makes_us_keep_endless_keys() {
        let key = json!({"kty": "OKP", "crv": "Ed25519", "x": text(32)});
        assert_eq!(count(&json!(vec![key; 1000])), MOST_KEYS);
    }

    #[test]
    fn bits_are_counted_without_leading_zeros() {
        assert_eq!(bits(&[0, 0]), 0);
        assert_eq!(bits(&[0, 1, 0]), 9);
        assert_eq!(bits(&[0x80, 0]), 16);
    }
}
