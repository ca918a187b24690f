//! The permanent id of this cluster's manager, shared by the replicas of a roll-out: made by
//! whoever comes first and kept in a ConfigMap of the manager's namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use oscar_engine::ports::StoreError;

use crate::calls::Calls;
use crate::options::Options;

const KEY: &str = "id";

pub(crate) async fn instance_id(calls: &Calls, options: &Options) -> Result<String, StoreError> {
    let name = format!("{}-instance", options.name);
    // A second look finds what another replica made at the same moment.
    for _ in 0..2 {
        let found: Option<ConfigMap> = calls.get(&options.namespace, &name).await?;
        if let Some(id) = found.and_then(|object| object.data?.get(KEY).cloned()) {
            return Ok(id);
        }
        match calls.create(&build(options, &name)).await {
            Ok(_) | Err(StoreError::AlreadyExists) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Broken(format!("ConfigMap {}/{name} has no `{KEY}`", options.namespace)))
}

fn build(options: &Options, name: &str) -> ConfigMap {
    let id = uuid::Uuid::new_v4().to_string();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(options.namespace.clone()),
            labels: Some(BTreeMap::from([("app".to_owned(), options.name.clone())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(KEY.to_owned(), id)])),
        ..ConfigMap::default()
    }
}
