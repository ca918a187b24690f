//! The two Secrets of a service.
//!
//! `<service>` holds the environment secrets under plain keys, as Go OSCAR has it, so that a
//! pod takes it whole with `envFrom`. It is a copy. What counts is `<service>.credentials`
//! (no service can be named so, and no pod refers to it): it holds everything of a change in
//! one value, under the name of that change, so that the record can move from one change to
//! the next in one step while both are there.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as KubeSecret;
use oscar_model::secret::Secret;
use oscar_model::service::Sensitive;
use serde_json::{Map, Value};

use super::{belongs_to, companion};

pub(crate) fn credentials_name(service: &str) -> String {
    format!("{service}.credentials")
}

/// What pods read; `None` when there is nothing to read.
pub(crate) fn build_environment(
    namespace: &str,
    service: &str,
    change: &str,
    sensitive: &Sensitive,
) -> Option<KubeSecret> {
    if sensitive.environment.is_empty() {
        return None;
    }
    let data = sensitive.environment.iter().map(|(key, value)| (key.clone(), bytes(value.expose()))).collect();
    Some(opaque(namespace, service.to_owned(), service, change, data))
}

/// What counts: the values of this change, beside those of others that are given.
pub(crate) fn build_credentials(
    namespace: &str,
    service: &str,
    change: &str,
    sensitive: &Sensitive,
    others: BTreeMap<String, ByteString>,
) -> KubeSecret {
    let mut data = others;
    data.insert(change.to_owned(), bytes(&to_json(sensitive)));
    opaque(namespace, credentials_name(service), service, change, data)
}

/// The values of one change; `None` when they are not there.
pub(crate) fn read_credentials(secret: &KubeSecret, change: &str) -> Result<Option<Sensitive>, String> {
    let Some(value) = secret.data.as_ref().and_then(|data| data.get(change)) else { return Ok(None) };
    // The parser's own words could quote a value.
    let broken = || format!("the values of change {change} are not what this manager writes");
    let Ok(Value::Object(mut kept)) = serde_json::from_slice(&value.0) else { return Err(broken()) };
    let mut part = |key: &str| from_json(kept.remove(key)).ok_or_else(broken);
    Ok(Some(Sensitive { environment: part("environment")?, cluster_passwords: part("cluster_passwords")? }))
}

/// What Go OSCAR keeps: one key for each variable.
pub(crate) fn read_environment(secret: KubeSecret) -> Result<BTreeMap<String, Secret>, String> {
    let read = |(key, value): (String, ByteString)| match String::from_utf8(value.0) {
        Ok(text) => Ok((key, Secret::new(text))),
        Err(_) => Err(format!("the value of '{key}' is not text")),
    };
    secret.data.unwrap_or_default().into_iter().map(read).collect()
}

/// Whether a Secret that has a service's name is something else: keys of a user for the
/// object store, which carry the user's id as their name, or a Secret of a special type.
pub(crate) fn is_foreign(secret: &KubeSecret) -> bool {
    let special = secret.type_.as_deref().is_some_and(|kind| kind != "Opaque");
    special || secret.data.as_ref().is_some_and(|data| data.contains_key("oidc_uid"))
}

/// Whether a Secret that has a name of a service's does not say that it is the service's.
pub(crate) fn is_somebody_elses(secret: &KubeSecret, service: &str) -> bool {
    is_foreign(secret) || !belongs_to(&secret.metadata, service)
}

fn opaque(
    namespace: &str,
    name: String,
    service: &str,
    change: &str,
    data: BTreeMap<String, ByteString>,
) -> KubeSecret {
    KubeSecret {
        metadata: companion(namespace, name, service, change),
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..KubeSecret::default()
    }
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

fn to_json(sensitive: &Sensitive) -> String {
    let Sensitive { environment, cluster_passwords } = sensitive;
    let object = |values: &BTreeMap<String, Secret>| -> Value {
        values.iter().map(|(key, value)| (key.clone(), Value::from(value.expose()))).collect::<Map<_, _>>().into()
    };
    serde_json::json!({"environment": object(environment), "cluster_passwords": object(cluster_passwords)}).to_string()
}

fn from_json(values: Option<Value>) -> Option<BTreeMap<String, Secret>> {
    let Some(Value::Object(values)) = values else { return None };
    let read = |(key, value)| if let Value::String(text) = value { Some((key, Secret::new(text))) } else { None };
    values.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscar_engine::testing::make::{mk_owner, mk_secretive};
    use proptest::prelude::*;

    #[test]
    fn pods_read_plain_keys() {
        let (_, sensitive) = mk_secretive("a", &mk_owner("alice"));
        let built = build_environment("ns", "a", "c1", &sensitive).expect("it has one");
        let shown = serde_json::to_value(&built).expect("objects are JSON");
        assert_eq!(
            shown,
            serde_json::json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": {
                    "namespace": "ns", "name": "a",
                    "labels": {"oscar_service": "a"}, "annotations": {"oscar.grycap/change": "c1"},
                },
                "data": {"PASSWORD": "cGxhbnRlZC1wYXNzd29yZA=="},
            })
        );
        assert_eq!(read_environment(built).expect("readable"), sensitive.environment);
        assert!(build_environment("ns", "a", "c1", &Sensitive::default()).is_none());
    }

    #[test]
    fn two_changes_stand_side_by_side() {
        let (_, first) = mk_secretive("a", &mk_owner("alice"));
        let second = Sensitive::default();
        let one = build_credentials("ns", "a", "c1", &first, BTreeMap::new());
        let two = build_credentials("ns", "a", "c2", &second, one.data.expect("it has data"));
        assert_eq!(two.metadata.name.as_deref(), Some("a.credentials"));
        assert_eq!(read_credentials(&two, "c1"), Ok(Some(first)));
        assert_eq!(read_credentials(&two, "c2"), Ok(Some(second)));
        assert_eq!(read_credentials(&two, "c3"), Ok(None));
    }

    #[test]
    fn a_broken_value_is_not_quoted() {
        let data = BTreeMap::from([("c1".to_owned(), bytes("planted-secret"))]);
        let secret = opaque("ns", "a.credentials".to_owned(), "a", "c1", data);
        let said = read_credentials(&secret, "c1").expect_err("no JSON");
        assert!(!said.contains("planted"), "{said}");
    }

    #[test]
    fn keys_of_users_are_foreign() {
        let data = BTreeMap::from([("oidc_uid".to_owned(), bytes("x"))]);
        assert!(is_foreign(&KubeSecret { data: Some(data), ..KubeSecret::default() }));
        let pull = KubeSecret { type_: Some("kubernetes.io/dockerconfigjson".to_owned()), ..KubeSecret::default() };
        assert!(is_foreign(&pull));
        assert!(!is_foreign(&KubeSecret::default()));
    }

    proptest! {
        #[test]
        fn any_value_survives(key in "[A-Z_]{1,8}", value in "\\PC{0,40}") {
            let sensitive = Sensitive {
                environment: BTreeMap::from([(key, Secret::new(value.clone()))]),
                cluster_passwords: BTreeMap::from([("other".to_owned(), Secret::new(value))]),
            };
            let built = build_credentials("ns", "a", "c", &sensitive, BTreeMap::new());
            prop_assert_eq!(read_credentials(&built, "c"), Ok(Some(sensitive)));
        }
    }
}
