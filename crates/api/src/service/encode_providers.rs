//! Storage providers on the wire, by kind and id.

use std::collections::BTreeMap;

use oscar_model::service::storage::{Provider, Rucio, StorageProviders};
use serde::Serialize;
use utoipa::ToSchema;

use crate::body::MinioProvider;

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = StorageProviders)]
pub struct StorageProvidersBody {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub minio: BTreeMap<String, MinioProvider>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub s3: BTreeMap<String, S3Provider>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub onedata: BTreeMap<String, OnedataProvider>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub webdav: BTreeMap<String, WebdavProvider>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rucio: BTreeMap<String, RucioProvider>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct S3Provider {
    pub access_key: String,
    pub secret_key: String,
    pub region: String,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct OnedataProvider {
    pub oneprovider_host: String,
    pub token: String,
    pub space: String,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct WebdavProvider {
    pub hostname: String,
    pub login: String,
    pub password: String,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RucioProvider {
    pub host: String,
    pub account: String,
    pub rse: String,
    pub refresh_token: String,
    pub auth_host: String,
    pub oidc_audience: String,
    pub token_endpoint: String,
}

impl StorageProvidersBody {
    pub(super) fn is_empty(&self) -> bool {
        let Self { minio, s3, onedata, webdav, rucio } = self;
        minio.is_empty() && s3.is_empty() && onedata.is_empty() && webdav.is_empty() && rucio.is_empty()
    }
}

pub(super) fn providers(providers: &StorageProviders) -> StorageProvidersBody {
    let mut body = StorageProvidersBody::default();
    for (reference, provider) in providers {
        let id = reference.id.clone();
        match provider.clone() {
            Provider::Minio { endpoint, verify, access_key, secret_key, region } => {
                let secret_key = secret_key.expose().to_owned();
                body.minio.insert(id, MinioProvider { endpoint, verify, access_key, secret_key, region });
            }
            Provider::S3 { access_key, secret_key, region } => {
                let secret_key = secret_key.expose().to_owned();
                body.s3.insert(id, S3Provider { access_key, secret_key, region });
            }
            Provider::Onedata { oneprovider_host, token, space } => {
                let token = token.expose().to_owned();
                body.onedata.insert(id, OnedataProvider { oneprovider_host, token, space });
            }
            Provider::Webdav { hostname, login, password } => {
                let password = password.expose().to_owned();
                body.webdav.insert(id, WebdavProvider { hostname, login, password });
            }
            Provider::Rucio(Rucio { host, account, rse, refresh_token, auth_host, oidc_audience, token_endpoint }) => {
                let refresh_token = refresh_token.expose().to_owned();
                let rucio =
                    RucioProvider { host, account, rse, refresh_token, auth_host, oidc_audience, token_endpoint };
                body.rucio.insert(id, rucio);
            }
        }
    }
    body
}
