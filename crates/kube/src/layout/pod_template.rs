//! The PodTemplate that carries a service's name. Go OSCAR without Knative takes a service for
//! existing only where it finds one; nobody runs it as it is, so it holds just what makes it a
//! valid description of the service's container.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, LocalObjectReference, PodSpec, PodTemplate, PodTemplateSpec, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use oscar_model::name::{is_label_key, is_label_value};
use oscar_model::service::Service;
use oscar_model::service::labels::all_labels;

use super::companion;

pub(crate) fn build_pod_template(service: &Service, change: &str) -> PodTemplate {
    let name = service.name().as_str();
    let mut metadata = companion(&service.namespace, name.to_owned(), name, change);
    let labels = labels(service);
    let annotations = annotations(service);
    metadata.labels = Some(labels.clone());
    metadata.annotations.get_or_insert_default().extend(annotations.clone());
    PodTemplate {
        metadata,
        template: Some(PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(labels),
                annotations: (!annotations.is_empty()).then_some(annotations),
                ..ObjectMeta::default()
            }),
            spec: Some(pod(service)),
        }),
    }
}

fn pod(service: &Service) -> PodSpec {
    let definition = &service.definition;
    let pull = |name: &String| LocalObjectReference { name: name.clone() };
    PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        image_pull_secrets: (!definition.image_pull_secrets.is_empty())
            .then(|| definition.image_pull_secrets.iter().map(pull).collect()),
        containers: vec![Container {
            name: "oscar-container".to_owned(),
            image: Some(definition.image.clone()),
            image_pull_policy: Some("Always".to_owned()),
            resources: Some(ResourceRequirements {
                limits: Some(BTreeMap::from([
                    ("cpu".to_owned(), Quantity(definition.cpu.canonical())),
                    ("memory".to_owned(), Quantity(definition.memory.canonical())),
                ])),
                ..ResourceRequirements::default()
            }),
            ..Container::default()
        }],
        ..PodSpec::default()
    }
}

/// What older managers stored may hold what Kubernetes refuses in a label; the service must
/// still be writable.
fn labels(service: &Service) -> BTreeMap<String, String> {
    all_labels(service).into_iter().filter(|(key, value)| is_label_key(key) && is_label_value(value)).collect()
}

fn annotations(service: &Service) -> BTreeMap<String, String> {
    let own = service.definition.annotations.iter();
    own.filter(|(key, _)| is_label_key(key) && *key != super::CHANGE)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscar_engine::testing::make::{mk_owner, mk_service};

    #[test]
    fn the_template_describes_the_container() {
        let mut service = mk_service("grayify", &mk_owner("alice"));
        service.definition.annotations.insert("note".to_owned(), "x".to_owned());
        service.definition.annotations.insert("not a key".to_owned(), "x".to_owned());
        service.definition.image_pull_secrets.push("pull".to_owned());
        // Which labels there are is the model's to say; one of them makes it the service's.
        let labels = serde_json::json!(all_labels(&service));
        assert_eq!(labels["oscar_service"], "grayify");
        assert_eq!(
            serde_json::to_value(build_pod_template(&service, "c1")).expect("objects are JSON"),
            serde_json::json!({
                "apiVersion": "v1", "kind": "PodTemplate",
                "metadata": {
                    "namespace": "oscar-svc", "name": "grayify", "labels": labels,
                    "annotations": {"note": "x", "oscar.grycap/change": "c1"},
                },
                "template": {
                    "metadata": {"labels": labels, "annotations": {"note": "x"}},
                    "spec": {
                        "automountServiceAccountToken": false, "enableServiceLinks": false,
                        "imagePullSecrets": [{"name": "pull"}],
                        "containers": [{
                            "name": "oscar-container", "image": "ghcr.io/grycap/cowsay", "imagePullPolicy": "Always",
                            "resources": {"limits": {"cpu": "200m", "memory": "256Mi"}},
                        }],
                    },
                },
            })
        );
    }
}
