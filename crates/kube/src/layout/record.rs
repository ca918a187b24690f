//! The record of a service: the ConfigMap that carries its name, in its namespace. It alone
//! makes the service exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use oscar_api::record;
use oscar_engine::ports::services::{Entry, Revision, Stored};
use oscar_model::service::{Sensitive, Service};

use super::{CHANGE, SERVICE_LABEL, annotation, label, texts};

const CONFIG: &str = "function_config.yaml";
const SCRIPT: &str = "script.sh";
/// `kept` when the values of this change are in the credentials Secret, `none` when it has none.
const CREDENTIALS: &str = "oscar.grycap/credentials";

/// Where the secret values of a service are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// In the credentials Secret, under this change.
    Kept(String),
    /// This change has none.
    Nothing(String),
    /// Go OSCAR wrote the record: its Secret has the service's name, and passwords of
    /// clusters stand in the record itself.
    Upstream,
}

impl Keeping {
    pub(crate) fn of(change: &str, sensitive: &Sensitive) -> Self {
        let Sensitive { environment, cluster_passwords } = sensitive;
        if environment.is_empty() && cluster_passwords.is_empty() {
            Self::Nothing(change.to_owned())
        } else {
            Self::Kept(change.to_owned())
        }
    }

    pub(crate) fn read(meta: &ObjectMeta) -> Self {
        match (annotation(meta, CHANGE), annotation(meta, CREDENTIALS)) {
            (Some(change), Some("kept")) => Self::Kept(change.to_owned()),
            (Some(change), Some("none")) => Self::Nothing(change.to_owned()),
            _ => Self::Upstream,
        }
    }

    pub(crate) fn change(&self) -> Option<&str> {
        match self {
            Self::Kept(change) | Self::Nothing(change) => Some(change),
            Self::Upstream => None,
        }
    }
}

/// What is known of one record.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) entry: Entry,
    pub(crate) keeping: Keeping,
}

pub(crate) fn build_record(service: &Service, keeping: &Keeping) -> ConfigMap {
    let annotations = match keeping {
        Keeping::Kept(change) => Some(texts([(CHANGE, change), (CREDENTIALS, "kept")])),
        Keeping::Nothing(change) => Some(texts([(CHANGE, change), (CREDENTIALS, "none")])),
        Keeping::Upstream => None,
    };
    let data = BTreeMap::from([
        (CONFIG.to_owned(), record::to_yaml(service)),
        (SCRIPT.to_owned(), service.definition.script.clone()),
    ]);
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some(service.namespace.clone()),
            name: Some(service.name().to_string()),
            labels: Some(texts([(SERVICE_LABEL, service.name().as_str())])),
            annotations,
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}

/// Never fails: what cannot be read is a row that says so.
pub(crate) fn read_record(record: &ConfigMap) -> Row {
    let meta = &record.metadata;
    let entry = match read_service(record) {
        Ok((service, _)) => Entry::Good(Arc::new(Stored { service, revision: revision(meta) })),
        Err(cause) => Entry::Broken {
            name: meta.name.clone().unwrap_or_default(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            cause,
        },
    };
    Row { entry, keeping: Keeping::read(meta) }
}

/// The service with blank secrets, and those that stood in the record itself.
pub(crate) fn read_service(record: &ConfigMap) -> Result<(Service, Sensitive), String> {
    let meta = &record.metadata;
    let (namespace, name) = (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let text = |key: &str| record.data.as_ref().and_then(|data| data.get(key)).map(String::as_str);
    let config = text(CONFIG).ok_or_else(|| format!("ConfigMap {namespace}/{name} has no {CONFIG}"))?;
    let script = text(SCRIPT).unwrap_or_default();
    let mut service = record::from_text(config, script, namespace)
        .map_err(|cause| format!("{CONFIG} of ConfigMap {namespace}/{name}: {cause}"))?;
    let labelled = label(meta, SERVICE_LABEL).unwrap_or_default();
    if service.name().as_str() != name || labelled != name {
        return Err(format!(
            "ConfigMap {namespace}/{name} is labelled as service '{labelled}' and defines '{}'; the three must be one name",
            service.name()
        ));
    }
    let inline = Sensitive::take_from(&mut service.definition);
    Ok((service, inline))
}

/// A uid is never used again and a version of it neither.
pub(crate) fn revision(meta: &ObjectMeta) -> Revision {
    let uid = meta.uid.as_deref().unwrap_or_default();
    let version = meta.resource_version.as_deref().unwrap_or_default();
    Revision::new(format!("{uid}.{version}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscar_engine::testing::make::{mk_owner, mk_secretive, mk_service};

    #[test]
    fn the_record_is_what_go_oscar_looks_for() {
        let service = mk_service("grayify", &mk_owner("alice"));
        let built = build_record(&service, &Keeping::Nothing("c1".to_owned()));
        let mut shown = serde_json::to_value(&built).expect("objects are JSON");
        let config = shown["data"]["function_config.yaml"].take();
        assert_eq!(
            shown,
            serde_json::json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "namespace": "oscar-svc", "name": "grayify",
                    "labels": {"oscar_service": "grayify"},
                    "annotations": {"oscar.grycap/change": "c1", "oscar.grycap/credentials": "none"},
                },
                "data": {"function_config.yaml": null, "script.sh": "#!/bin/sh\necho hello\n"},
            })
        );
        let config = config.as_str().expect("text");
        assert!(config.contains("name: grayify") && config.contains("owner: alice"), "{config}");
        assert!(!config.contains("namespace:") && !config.contains("script:"), "{config}");
    }

    #[test]
    fn what_was_built_is_read_back_without_secrets() {
        let (service, sensitive) = mk_secretive("hidden", &mk_owner("alice"));
        let mut built = build_record(&service, &Keeping::of("c2", &sensitive));
        built.metadata.uid = Some("u".to_owned());
        built.metadata.resource_version = Some("7".to_owned());
        let row = read_record(&built);
        assert_eq!(row.keeping, Keeping::Kept("c2".to_owned()));
        let Entry::Good(stored) = row.entry else { panic!("readable: {:?}", row.entry) };
        assert_eq!(stored.service, service);
        assert_eq!(stored.revision.as_str(), "u.7");
        let text = serde_json::to_string(&built).expect("objects are JSON");
        assert!(!text.contains("planted"), "{text}");
    }

    #[test]
    fn a_record_that_says_two_names_is_broken() {
        let service = mk_service("one", &mk_owner("alice"));
        let mut built = build_record(&service, &Keeping::Upstream);
        built.metadata.name = Some("two".to_owned());
        let row = read_record(&built);
        assert!(matches!(row.entry, Entry::Broken { ref name, .. } if name == "two"), "{:?}", row.entry);
        assert_eq!(row.keeping, Keeping::Upstream);
    }

    #[test]
    fn a_record_without_a_definition_is_broken() {
        let row = read_record(&ConfigMap::default());
        assert!(matches!(row.entry, Entry::Broken { .. }));
    }
}
