//! The keys of the provider: one pair for access tokens, one secret for its own refresh tokens.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use oscar_engine::ports::clock::Entropy;
use serde_json::{Map, Value, json};

const KID: &str = "development";

/// What stands before the 32 bytes of a private key of P-256 in PKCS #8.
const PKCS8_P256: &[u8] = &[
    0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27, 0x30, 0x25, 0x02, 0x01, 0x01, 0x04, 0x20,
];

pub(super) struct Signer {
    pair: EncodingKey,
    public: DecodingKey,
    published: Value,
    /// Refresh tokens are signed with a secret: nobody who trusts the published key takes one for
    /// an access token.
    own: EncodingKey,
    own_check: DecodingKey,
}

impl Signer {
    pub(super) fn new(entropy: &dyn Entropy) -> Self {
        let (pair, jwk, public) = mk_pair(entropy);
        let mut published = serde_json::to_value(jwk).expect("a key is JSON");
        published["kid"] = json!(KID);
        published["use"] = json!("sig");
        let mut secret = [0; 32];
        entropy.fill(&mut secret);
        let (own, own_check) = (EncodingKey::from_secret(&secret), DecodingKey::from_secret(&secret));
        Self { pair, public, published, own, own_check }
    }

    pub(super) fn published(&self) -> Value {
        json!({"keys": [self.published]})
    }

    pub(super) fn sign_access(&self, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(KID.to_owned());
        jsonwebtoken::encode(&header, claims, &self.pair).expect("a key that made its public half can sign")
    }

    pub(super) fn sign_refresh(&self, claims: &Value) -> String {
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &self.own).expect("a secret can always sign")
    }

    pub(super) fn read_access(&self, token: &str) -> Option<Map<String, Value>> {
        read(token, &self.public, Algorithm::ES256)
    }

    pub(super) fn read_refresh(&self, token: &str) -> Option<Map<String, Value>> {
        read(token, &self.own_check, Algorithm::HS256)
    }
}

/// Almost every 32 bytes are a key.
fn mk_pair(entropy: &dyn Entropy) -> (EncodingKey, Jwk, DecodingKey) {
    loop {
        let mut number = [0; 32];
        entropy.fill(&mut number);
        let pair = EncodingKey::from_ec_der(&[PKCS8_P256, &number].concat());
        if let Ok(jwk) = Jwk::from_encoding_key(&pair, Algorithm::ES256)
            && let Ok(public) = DecodingKey::from_jwk(&jwk)
        {
            return (pair, jwk, public);
        }
    }
}

/// The signature alone; time is judged by the clock of the provider.
fn read(token: &str, key: &DecodingKey, algorithm: Algorithm) -> Option<Map<String, Value>> {
    let mut validation = Validation::new(algorithm);
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    jsonwebtoken::decode(token, key, &validation).ok().map(|read| read.claims)
}
