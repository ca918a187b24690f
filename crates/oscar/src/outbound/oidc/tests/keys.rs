//! Key pairs of fake issuers, the same in every run.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A private key that protects nothing: PKCS #1, 2048 bits.
const RSA_2048: &str = include_str!("rsa-2048.b64");

const PKCS8_P256: &[u8] = &[
    0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27, 0x30, 0x25, 0x02, 0x01, 0x01, 0x04, 0x20,
];
const PKCS8_P384: &[u8] = &[
    0x30, 0x4e, 0x02, 0x01, 0x00, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b,
    0x81, 0x04, 0x00, 0x22, 0x04, 0x37, 0x30, 0x35, 0x02, 0x01, 0x01, 0x04, 0x30,
];
const PKCS8_ED25519: &[u8] =
    &[0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

pub(super) struct KeyPair {
    pub(super) kid: &'static str,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl KeyPair {
    pub(super) fn mk_es256(kid: &'static str) -> Self {
        let der = [PKCS8_P256, &seed(kid)].concat();
        Self { kid, algorithm: Algorithm::ES256, key: EncodingKey::from_ec_der(&der) }
    }

    pub(super) fn mk_es384(kid: &'static str) -> Self {
        let der = [PKCS8_P384, &seed(kid), &seed(kid)[..16]].concat();
        Self { kid, algorithm: Algorithm::ES384, key: EncodingKey::from_ec_der(&der) }
    }

    pub(super) fn mk_eddsa(kid: &'static str) -> Self {
        let der = [PKCS8_ED25519, &seed(kid)].concat();
        Self { kid, algorithm: Algorithm::EdDSA, key: EncodingKey::from_ed_der(&der) }
    }

    pub(super) fn mk_rsa(kid: &'static str, algorithm: Algorithm) -> Self {
        let der = STANDARD.decode(RSA_2048.replace('\n', "")).expect("the key is base64");
        Self { kid, algorithm, key: EncodingKey::from_rsa_der(&der) }
    }

    /// What the issuer publishes.
    pub(super) fn public(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm).expect("a public key");
        let mut jwk = serde_json::to_value(jwk).expect("a key is JSON");
        jwk["kid"] = json!(self.kid);
        jwk["use"] = json!("sig");
        jwk
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        self.sign_as(Some(self.kid), claims)
    }

    pub(super) fn sign_as(&self, kid: Option<&str>, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = kid.map(str::to_owned);
        jsonwebtoken::encode(&header, claims, &self.key).expect("a token")
    }
}

fn seed(kid: &str) -> [u8; 32] {
    Sha256::digest(kid).into()
}
