//! What each object looks like. Pure: the same input gives the same object.

pub(crate) mod federation;
pub(crate) mod home;
pub(crate) mod journal;
pub(crate) mod pod_template;
pub(crate) mod record;
pub(crate) mod secrets;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// On everything that belongs to one service; its value is the service's name.
pub(crate) const SERVICE_LABEL: &str = "oscar_service";
/// Which change of a service an object belongs to. Go OSCAR drops it when it writes, which
/// tells that the object is Go OSCAR's from then on.
pub(crate) const CHANGE: &str = "oscar.grycap/change";
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub(crate) const OSCAR: &str = "oscar";

pub(crate) fn texts<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Whether an object says that it belongs to that service.
pub(crate) fn belongs_to(meta: &ObjectMeta, service: &str) -> bool {
    label(meta, SERVICE_LABEL) == Some(service)
}

pub(crate) fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

pub(crate) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The metadata of what stands beside a service's record.
fn companion(namespace: &str, name: String, service: &str, change: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name),
        labels: Some(texts([(SERVICE_LABEL, service)])),
        annotations: Some(texts([(CHANGE, change)])),
        ..ObjectMeta::default()
    }
}
