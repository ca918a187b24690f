//! What the administrator changes while the manager runs: one ConfigMap in the manager's
//! namespace, followed by a watch, so that reading costs no call.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::runtime::watcher::watcher;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::settings::Settings;
use tokio::task::JoinHandle;

use crate::calls::Calls;
use crate::mirror::Mirror;
use crate::options::Options;
use crate::shelf::Key;
use crate::watch::{self, Link, Sink};

const IMAGE_REPOSITORIES: &str = "allowed_image_repositories";

pub(crate) struct KubeSettings {
    calls: Calls,
    key: Key,
    /// The text under [`IMAGE_REPOSITORIES`], when there is one.
    seen: Arc<Mirror<ConfigMap, Option<String>>>,
    /// Changes take turns, so that the last to answer is the last that was made.
    turn: tokio::sync::Mutex<()>,
}

impl KubeSettings {
    pub(crate) fn start(calls: &Calls, options: &Options, tasks: &mut Vec<JoinHandle<()>>) -> Arc<Self> {
        let key = Key::new(&options.namespace, &options.additional_config);
        let seen = Arc::new(Mirror::new(|found: ConfigMap| found.data?.remove(IMAGE_REPOSITORIES)));
        let api: Api<ConfigMap> = Api::namespaced(calls.client.clone(), &key.namespace);
        let only = format!("metadata.name={}", key.name);
        let open = move || watcher(api.clone(), watch::settings().fields(&only));
        tasks.push(tokio::spawn(watch::follow("settings", seen.clone(), open)));
        Arc::new(Self { calls: calls.clone(), key, seen, turn: tokio::sync::Mutex::default() })
    }

    pub(crate) fn link(&self) -> &Link {
        Sink::link(&*self.seen)
    }

    async fn store(&self, text: &str) -> Result<ConfigMap, StoreError> {
        for _ in 0..4 {
            let found: Option<ConfigMap> = self.calls.get(&self.key.namespace, &self.key.name).await?;
            let written = match found {
                Some(mut found) => {
                    found.metadata.managed_fields = None;
                    found.data.get_or_insert_default().insert(IMAGE_REPOSITORIES.to_owned(), text.to_owned());
                    self.calls.replace(&found).await
                }
                None => self.calls.create(&build_settings(&self.key, text)).await,
            };
            match written {
                Err(StoreError::Conflict | StoreError::AlreadyExists) => {}
                // Nothing was there, and creating it found no namespace to create it in.
                Err(StoreError::NotFound) => {
                    let namespace = &self.key.namespace;
                    return Err(StoreError::Unavailable(format!("the namespace '{namespace}' does not exist")));
                }
                other => return other,
            }
        }
        Err(StoreError::Unavailable(format!("ConfigMap {} keeps changing", self.key.name)))
    }
}

#[async_trait]
impl Settings for KubeSettings {
    async fn image_repositories(&self) -> Result<Vec<String>, StoreError> {
        self.link().check("settings")?;
        let seen = self.seen.read();
        match seen.get(&self.key).and_then(Option::as_deref) {
            None => Ok(Vec::new()),
            Some(text) => read_repositories(text).map_err(|cause| {
                StoreError::Broken(format!("{IMAGE_REPOSITORIES} of ConfigMap {}: {cause}", self.key.name))
            }),
        }
    }

    async fn set_image_repositories(&self, repositories: Vec<String>) -> Result<(), StoreError> {
        let text = serde_json::Value::from(repositories).to_string();
        let _turn = self.turn.lock().await;
        let ticket = self.seen.begin_write();
        let written = self.store(&text).await;
        let (answer, outcome) = match written {
            Ok(stored) => (Some(stored), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.seen.end_write(ticket, answer);
        outcome
    }
}

fn build_settings(key: &Key, text: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(IMAGE_REPOSITORIES.to_owned(), text.to_owned())])),
        ..ConfigMap::default()
    }
}

/// Upstream writes `null` for an empty list.
fn read_repositories(text: &str) -> Result<Vec<String>, String> {
    let list: Option<Vec<String>> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(list.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_a_json_array_or_null() {
        assert_eq!(read_repositories(r#"["ghcr.io/grycap"]"#), Ok(vec!["ghcr.io/grycap".to_owned()]));
        assert_eq!(read_repositories("null"), Ok(vec![]));
        assert!(read_repositories("ghcr.io").is_err());
        assert!(read_repositories(r#"{"a":1}"#).is_err());
    }
}
