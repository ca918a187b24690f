//! A definition as it is shown: without what is not its owner's to say, and without credentials.

use std::collections::BTreeMap;

use oscar_api::service::{Mode, decode};
use oscar_api::tree::parse_json;
use oscar_model::service::labels::is_reserved;
use serde_json::Value;

use super::body::{SERVER_KEYS, request};

/// Stands where a credential is.
pub(in crate::cli) const HIDDEN: &str = "(hidden)";

/// Keys of storage providers that hold a credential.
const PROVIDER_SECRETS: [&str; 4] = ["secret_key", "token", "password", "refresh_token"];

/// Parts whose zero values mean the same as their absence.
const TRIMMED_PARTS: [&str; 4] = ["environment", "expose", "mount", "synchronous"];

/// What its owner says of a service, for comparing and editing.
pub(in crate::cli) fn definition(value: &Value) -> Value {
    let mut value = value.clone();
    if let Value::Object(fields) = &mut value {
        fields.retain(|key, _| !SERVER_KEYS.contains(&key.as_str()));
    }
    if let Some(Value::Object(labels)) = value.get_mut("labels") {
        labels.retain(|key, _| !is_reserved(key));
    }
    without_own_store(&mut value);
    trimmed(value)
}

/// What a manager of another kind gave, in the form that our requests have; as it is when it
/// cannot be understood.
pub(in crate::cli) fn normal(value: &Value) -> Value {
    let bytes = value.to_string().into_bytes();
    let draft = parse_json(&bytes).ok().and_then(|node| decode(&node, "", Mode::Stored).ok());
    draft.map_or_else(|| value.clone(), |draft| request(&draft))
}

/// A whole service for people: without what says nothing, and without credentials unless they are wanted.
pub(in crate::cli) fn readable(mut value: Value, show_secrets: bool) -> Value {
    without_own_store(&mut value);
    if value["volume_status"]["enabled"] == false
        && let Value::Object(fields) = &mut value
    {
        fields.remove("volume_status");
    }
    trimmed(if show_secrets { value } else { hidden(value) })
}

/// The cluster's own store is put in by the manager, with its keys blacked out.
fn without_own_store(value: &mut Value) {
    let Some(Value::Object(providers)) = value.get_mut("storage_providers") else { return };
    if let Some(Value::Object(minio)) = providers.get_mut("minio") {
        minio.retain(|id, provider| id != "default" || provider["secret_key"] != "hidden");
    }
    providers.retain(|_, kind| !is_zero(kind));
}

/// Without what is not said.
fn trimmed(mut value: Value) -> Value {
    for part in TRIMMED_PARTS {
        if let Some(Value::Object(fields)) = value.get_mut(part) {
            fields.retain(|_, field| !is_zero(field));
        }
    }
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, field| !is_zero(field));
    }
    value
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// With every credential hidden, for people.
pub(in crate::cli) fn hidden(mut value: Value) -> Value {
    each_secret(&mut value, &mut |_, secret| *secret = Value::from(HIDDEN));
    value
}

/// With every credential blank, for programs: the fields stay, as programs expect them.
pub(in crate::cli) fn blanked(mut value: Value) -> Value {
    each_secret(&mut value, &mut |_, secret| *secret = Value::from(""));
    value
}

/// Every credential of a service by its place; blank where there is one that is not told.
pub(in crate::cli) fn secrets(value: &Value) -> BTreeMap<String, String> {
    let mut secrets = BTreeMap::new();
    each_secret(&mut value.clone(), &mut |path, secret| {
        secrets.insert(path.to_owned(), secret.as_str().unwrap_or_default().to_owned());
    });
    secrets
}

/// Calls `change` on every value of a service that is a credential, with its place.
pub(in crate::cli) fn each_secret(value: &mut Value, change: &mut dyn FnMut(&str, &mut Value)) {
    // Secrets of the environment come blank and are hidden all the same: there is a value behind each.
    for (name, secret) in fields_of(value.pointer_mut("/environment/secrets")) {
        change(&format!("environment.secrets.{name}"), secret);
    }
    let mut change_given = |path: &str, secret: Option<&mut Value>| {
        if let Some(secret) = secret.filter(|secret| !is_zero(secret)) {
            change(path, secret);
        }
    };
    change_given("token", value.get_mut("token"));
    for (id, cluster) in fields_of(value.get_mut("clusters")) {
        change_given(&format!("clusters.{id}.auth_password"), cluster.get_mut("auth_password"));
    }
    for (kind, providers) in fields_of(value.get_mut("storage_providers")) {
        for (id, provider) in fields_of(Some(providers)) {
            for key in PROVIDER_SECRETS {
                change_given(&format!("storage_providers.{kind}.{id}.{key}"), provider.get_mut(key));
            }
        }
    }
    if let Some(Value::Array(members)) = value.pointer_mut("/federation/members") {
        for (index, member) in members.iter_mut().enumerate() {
            // A header of a member may carry a key.
            for (name, header) in fields_of(member.get_mut("headers")) {
                change_given(&format!("federation.members[{index}].headers.{name}"), Some(header));
            }
        }
    }
}

fn fields_of(value: Option<&mut Value>) -> impl Iterator<Item = (&String, &mut Value)> {
    value.and_then(Value::as_object_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service() -> Value {
        json!({
            "name": "plants", "image": "a/b", "token": "SECRET", "owner": "cluster_admin", "vo": "",
            "labels": {"mine": "x", "oscar_service": "plants"}, "alpine": false,
            "synchronous": {"min_scale": 0, "max_scale": 0}, "expose": {"min_scale": 1, "set_auth": false},
            "environment": {"variables": {"A": "b"}, "secrets": {"K": ""}},
            "clusters": {"o": {"auth_password": "SECRET", "endpoint": "e", "ssl_verify": false}},
            "storage_providers": {
                "minio": {"default": {"access_key": "hidden", "secret_key": "hidden"}},
                "s3": {"mine": {"access_key": "A", "secret_key": "SECRET"}},
                "webdav": {"w": {"password": "SECRET"}}, "onedata": {"d": {"token": "SECRET"}},
                "rucio": {"r": {"refresh_token": "SECRET"}},
            },
            "federation": {"members": [{"cluster_id": "o", "headers": {"X-Key": "SECRET"}}]},
        })
    }

    #[test]
    fn no_credential_is_left_in_what_is_shown() {
        for shown in [hidden(service()), blanked(service()), hidden(definition(&service()))] {
            assert!(!shown.to_string().contains("SECRET"), "{shown}");
        }
        assert_eq!(hidden(service())["environment"]["secrets"]["K"], HIDDEN);
        assert_eq!(blanked(service())["token"], "");
    }

    #[test]
    fn only_what_the_owner_says_is_compared() {
        let definition = definition(&service());
        assert_eq!(definition["labels"], json!({"mine": "x"}));
        assert_eq!(definition["expose"], json!({"min_scale": 1}));
        for absent in ["token", "owner", "vo", "alpine", "synchronous"] {
            assert_eq!(definition.get(absent), None, "{absent}");
        }
        assert_eq!(definition["storage_providers"].get("minio"), None);
        assert_eq!(definition["clusters"]["o"]["ssl_verify"], false, "its absence could mean something else");
    }

    #[test]
    fn old_forms_are_brought_into_ours() {
        let old = json!({"name": "plants", "image": "a/b", "script": "x", "expose": {"api_port": 80},
            "environment": {"Variables": {"A": "b"}}});
        let normal = normal(&old);
        assert_eq!(normal["expose"]["api_port"], json!([80]));
        assert_eq!(normal["environment"]["variables"]["A"], "b");
        assert_eq!(super::normal(&json!({"name": "No!"}))["name"], "No!", "as it is when it cannot be understood");
    }
}
