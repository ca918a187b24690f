//! From the name of a provider to a store that can be used, or a sentence why not.

use std::collections::HashSet;
use std::sync::Arc;

use oscar_model::fault::quoted;
use oscar_model::secret::Secret;
use oscar_model::service::storage::{Provider, ProviderKind, ProviderRef};
use reqwest::Url;

use crate::config::FunctionConfig;
use crate::http::{Transport, Trust};
use crate::s3::S3Store;
use crate::task::{Access, Credentials, Limits};
use crate::webdav::WebdavStore;

/// Where clusters have their MinIO when nothing else is said.
const CLUSTER_MINIO: &str = "http://minio-service.minio:9000";

pub(crate) enum Store {
    S3(S3Store),
    Webdav(WebdavStore),
}

/// Why a provider cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It is the cluster's own store, and this job was given no keys for it.
    NoKeys,
    Because(String),
}

pub(crate) struct Providers<'a> {
    config: &'a FunctionConfig,
    credentials: &'a Credentials,
    transport: Arc<Transport>,
}

impl<'a> Providers<'a> {
    pub(crate) fn new(config: &'a FunctionConfig, credentials: &'a Credentials, limits: Limits) -> Self {
        Self { config, credentials, transport: Arc::new(Transport::new(limits)) }
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The provider of an event: the one its sender named, or the usual one. The second value is
    /// a remark for the log.
    pub(crate) fn of_event(&self, kind: ProviderKind, named: &str) -> Result<(ProviderRef, Option<String>), String> {
        let usual = self.usual(kind);
        if named.is_empty() {
            return Ok((usual, None));
        }
        let reference = match ProviderRef::parse(named) {
            Some(other) if other.kind != kind => {
                let remark = format!(
                    "The event was delegated with the storage provider {other}, but it is about an object in {}; {usual} is used.",
                    kind.as_str()
                );
                return Ok((usual, Some(remark)));
            }
            Some(reference) => reference,
            None => ProviderRef { kind, id: named.to_owned() },
        };
        if self.knows(&reference) {
            return Ok((reference, None));
        }
        Err(format!("The event names the storage provider {}, which this service does not have.", quoted(named)))
    }

    fn usual(&self, kind: ProviderKind) -> ProviderRef {
        let default = ProviderRef { kind, id: ProviderRef::DEFAULT_ID.to_owned() };
        let mut others = self.config.storage_providers.keys().filter(|reference| reference.kind == kind);
        match (self.knows(&default), others.next(), others.next()) {
            (false, Some(only), None) => only.clone(),
            _ => default,
        }
    }

    fn knows(&self, reference: &ProviderRef) -> bool {
        reference.is_own_store()
            || self.config.storage_providers.contains_key(reference)
            || self.credentials.contains_key(reference)
    }

    pub(crate) fn open(&self, reference: &ProviderRef) -> Result<Store, Unusable> {
        let because = |cause: &str| Unusable::Because(format!("the storage provider {reference} {cause}"));
        let given = self.credentials.get(reference);
        match (self.config.storage_providers.get(reference), reference.kind) {
            (Some(Provider::Minio { endpoint, verify, access_key, secret_key, region }), _) => {
                let keys = Keys::choose(given, access_key, secret_key);
                self.minio(reference, given, endpoint, *verify, region, keys)
            }
            (None, ProviderKind::Minio) if self.knows(reference) => {
                self.minio(reference, given, "", true, "", Keys::choose(given, "", &Secret::default()))
            }
            (Some(Provider::S3 { access_key, secret_key, region }), _) => {
                self.amazon(reference, given, region, Keys::choose(given, access_key, secret_key))
            }
            (None, ProviderKind::S3) if self.knows(reference) => {
                self.amazon(reference, given, "", Keys::choose(given, "", &Secret::default()))
            }
            (Some(Provider::Webdav { hostname, login, password }), _) => {
                let hostname = given.and_then(|given| given.endpoint.as_deref()).unwrap_or(hostname);
                self.webdav(hostname, login, password)
                    .ok_or_else(|| because("needs a valid hostname, a login and a password"))
            }
            (_, ProviderKind::Onedata | ProviderKind::Rucio) => {
                Err(because("cannot be used: this supervisor speaks MinIO, S3 and WebDAV only"))
            }
            (_, _) => Err(because("is not among the storage_providers of the service")),
        }
    }

    fn minio(
        &self,
        reference: &ProviderRef,
        given: Option<&Access>,
        endpoint: &str,
        verify: bool,
        region: &str,
        keys: Option<Keys>,
    ) -> Result<Store, Unusable> {
        let Some(keys) = keys else {
            let incomplete = format!("the storage provider {reference} needs an access_key and a secret_key");
            return Err(if reference.is_own_store() { Unusable::NoKeys } else { Unusable::Because(incomplete) });
        };
        let endpoint = given.and_then(|given| given.endpoint.as_deref()).unwrap_or(endpoint);
        let endpoint = if endpoint.is_empty() { CLUSTER_MINIO } else { endpoint };
        let store = self.s3_store(reference, endpoint, verify, region, false, keys)?;
        let endpoint_file = given.and_then(|given| given.endpoint_file.clone());
        Ok(Store::S3(S3Store { endpoint_file, ..store }))
    }

    fn amazon(
        &self,
        reference: &ProviderRef,
        given: Option<&Access>,
        region: &str,
        keys: Option<Keys>,
    ) -> Result<Store, Unusable> {
        let keys = keys.ok_or_else(|| {
            Unusable::Because(format!("the storage provider {reference} needs an access_key and a secret_key"))
        })?;
        let region = if region.is_empty() { "us-east-1" } else { region };
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let amazon = format!("https://s3.{region}.{domain}");
        let store = match given.and_then(|given| given.endpoint.as_deref()) {
            Some(endpoint) => self.s3_store(reference, endpoint, true, region, false, keys),
            None => self.s3_store(reference, &amazon, true, region, true, keys),
        };
        store.map(Store::S3)
    }

    fn s3_store(
        &self,
        reference: &ProviderRef,
        endpoint: &str,
        verify: bool,
        region: &str,
        virtual_host: bool,
        keys: Keys,
    ) -> Result<S3Store, Unusable> {
        let endpoint = address(endpoint);
        let endpoint = endpoint.ok_or_else(|| {
            Unusable::Because(format!("the endpoint of the storage provider {reference} is no address"))
        })?;
        Ok(S3Store {
            trust: trust(&endpoint, verify),
            endpoint,
            endpoint_file: None,
            region: region.to_owned(),
            virtual_host,
            access_key: keys.access_key,
            secret_key: keys.secret_key,
            session_token: keys.session_token,
            transport: self.transport.clone(),
        })
    }

    fn webdav(&self, hostname: &str, login: &str, password: &Secret) -> Option<Store> {
        let address = if hostname.contains("://") { hostname.to_owned() } else { format!("https://{hostname}") };
        let address = Url::parse(&address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let complete = address.has_host() && !login.is_empty() && !password.is_blank();
        complete.then(|| {
            Store::Webdav(WebdavStore {
                trust: trust(&address, true),
                address,
                login: login.to_owned(),
                password: password.clone(),
                transport: self.transport.clone(),
                folders: tokio::sync::Mutex::new(HashSet::new()),
            })
        })
    }
}

/// The address of a store, if it is one.
pub(crate) fn address(text: &str) -> Option<Url> {
    Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

fn trust(address: &Url, verify: bool) -> Trust {
    if verify && address.scheme() == "https" { Trust::Verify } else { Trust::None }
}

struct Keys {
    access_key: String,
    secret_key: Secret,
    session_token: Option<Secret>,
}

impl Keys {
    /// What the job was given comes first. Managers write `hidden` where they keep a key back.
    fn choose(given: Option<&Access>, access_key: &str, secret_key: &Secret) -> Option<Self> {
        let real = |key: &str| !key.is_empty() && key != "hidden";
        if let Some(given) = given
            && real(&given.access_key)
        {
            return Some(Self {
                access_key: given.access_key.clone(),
                secret_key: given.secret_key.clone(),
                session_token: given.session_token.clone(),
            });
        }
        (real(access_key) && real(secret_key.expose())).then(|| Self {
            access_key: access_key.to_owned(),
            secret_key: secret_key.clone(),
            session_token: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_config(providers: &[&str]) -> FunctionConfig {
        let provider = |name: &&str| {
            let reference = ProviderRef::parse(name).expect("valid");
            let secret_key = Secret::new("s");
            let provider = Provider::S3 { access_key: "a".to_owned(), secret_key, region: String::new() };
            (reference, provider)
        };
        FunctionConfig { storage_providers: providers.iter().map(provider).collect(), ..FunctionConfig::default() }
    }

    fn resolve(config: &FunctionConfig, kind: ProviderKind, named: &str) -> Result<String, String> {
        let credentials = Credentials::from([(ProviderRef::parse("minio.origin").expect("valid"), Access::default())]);
        let providers = Providers::new(config, &credentials, Limits::default());
        providers.of_event(kind, named).map(|(reference, _)| reference.to_string())
    }

    #[test]
    fn the_provider_of_a_delegated_event_is_found_by_reference_and_by_id() {
        let config = mk_config(&["s3.mine"]);
        let minio = |named| resolve(&config, ProviderKind::Minio, named);
        for (named, found) in [
            ("", "minio.default"),
            ("minio", "minio.default"),
            ("minio.default", "minio.default"),
            ("default", "minio.default"),
            ("origin", "minio.origin"),
            ("minio.origin", "minio.origin"),
            ("s3.mine", "minio.default"),
        ] {
            assert_eq!(minio(named).as_deref(), Ok(found), "{named}");
        }
        assert_eq!(resolve(&config, ProviderKind::S3, "").as_deref(), Ok("s3.mine"));
    }

    #[test]
    fn an_unknown_provider_is_no_silent_default() {
        for named in ["elsewhere", "minio.elsewhere", "my.cluster"] {
            let sentence = resolve(&mk_config(&[]), ProviderKind::Minio, named).expect_err("nobody knows it");
            assert!(sentence.contains(named), "{sentence}");
        }
    }

    #[test]
    fn hidden_keys_are_none() {
        let hidden = Keys::choose(None, "hidden", &Secret::new("hidden"));
        assert!(hidden.is_none());
    }
}
