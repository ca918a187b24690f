//! Keys for the library that checks signatures.

use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::store::Store;

pub(super) struct StoredKeys {
    store: Store,
}

impl StoredKeys {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }
}

#[async_trait::async_trait]
impl S3Auth for StoredKeys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let inner = &self.store.inner;
        if access_key == inner.root.access_key && !inner.root.secret_key.is_blank() {
            return Ok(SecretKey::from(inner.root.secret_key.expose()));
        }
        let key = self.store.directory().keys.get(access_key).cloned();
        let now = inner.clock.now();
        key.filter(|key| key.expires.is_none_or(|expires| now < expires))
            .and_then(|key| key.secret.as_ref().map(|secret| SecretKey::from(secret.expose())))
            .ok_or_else(|| S3Error::new(S3ErrorCode::InvalidAccessKeyId))
    }
}
