//! The body of a request from a definition that was read and checked here.

use oscar_api::fdl::Entry;
use oscar_api::service::{Draft, encode};
use oscar_api::tree::{Node, Value as Tree};
use oscar_model::access::View;
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::Service;
use serde_json::{Map, Value, json};

use super::known;
use super::node::to_json;

/// What the manager decides alone.
pub(super) const SERVER_KEYS: [&str; 6] = ["token", "owner", "namespace", "bucket_list", "volume_status", "deployment"];

/// What older versions said at the top of a definition; managers ignore it.
const OLD_KEYS: [&str; 4] = ["replicas", "delegation", "rescheduler_threshold", "image_rules"];

/// A field of a file that this version does not know.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct Unknown {
    pub(in crate::cli) key: String,
    pub(in crate::cli) line: Option<usize>,
    value: Value,
}

/// The definition as JSON that every manager takes, with the values of its secrets.
pub(in crate::cli) fn request(draft: &Draft) -> Value {
    let definition = draft.definition.clone();
    let (labels, environment) = (definition.labels.clone(), definition.environment.clone());
    let passwords: Vec<_> =
        definition.clusters.iter().map(|(id, cluster)| (id.clone(), cluster.auth_password.clone())).collect();
    let service = Service {
        definition,
        // The manager knows who we are; it reads nothing of this.
        owner: Owner::Admin,
        owner_name: String::new(),
        token: Secret::default(),
        namespace: String::new(),
        bucket_list: Vec::new(),
    };
    // `ServiceBody` has string keys and no failing `Serialize`.
    let mut body = serde_json::to_value(encode(&service, View::Owner)).unwrap_or_default();
    if let Value::Object(fields) = &mut body {
        fields.retain(|key, _| !SERVER_KEYS.contains(&key.as_str()));
    }
    body["labels"] = json!(labels);
    for (name, value) in &environment.secrets {
        body["environment"]["secrets"][name] = Value::from(value.expose());
    }
    for (id, password) in passwords {
        body["clusters"][id.as_str()]["auth_password"] = Value::from(password.expose());
    }
    body
}

/// The fields of a file's service that nobody here knows, maybe because of a typing error.
pub(in crate::cli) fn unknown_fields(entry: &Entry) -> Vec<Unknown> {
    let Tree::Map(fields) = &entry.node.value else { return Vec::new() };
    let is_known = |key: &str| {
        known::is_field(key) || SERVER_KEYS.iter().chain(&OLD_KEYS).any(|known| known.eq_ignore_ascii_case(key))
    };
    let unknown = fields.iter().filter(|(key, _)| !is_known(key));
    unknown
        .map(|(key, node): &(String, Node)| Unknown { key: key.clone(), line: node.line, value: to_json(node) })
        .collect()
}

/// A newer manager may know what we do not.
pub(in crate::cli) fn add_unknown(body: &mut Value, unknown: &[Unknown]) {
    if let Value::Object(fields) = body {
        for Unknown { key, value, .. } in unknown {
            fields.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// For managers before 4.1, whose ports are one number each.
pub(in crate::cli) fn with_single_ports(body: &mut Value) {
    for key in ["api_port", "nodePort"] {
        if let Some(first) = body["expose"][key].get(0).cloned() {
            body["expose"][key] = first;
        }
    }
}

/// The names of secrets that are given without a value.
pub(in crate::cli) fn blank_secrets(body: &Value) -> Vec<String> {
    let none = Map::new();
    let secrets = body["environment"]["secrets"].as_object().unwrap_or(&none);
    secrets.iter().filter(|(_, value)| value.as_str() == Some("")).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use oscar_api::fdl::{decode_entry, entries};

    use super::*;

    const FILE: &str = "name: plants\nimage: a/b\nscript: echo hi\ncpu: 1\nmemroy: 1Gi\nreplicas: []\n\
        environment:\n  variables: {PORT: 80, ON: true}\n  secrets: {KEY: hunter2, EMPTY: ''}\n\
        labels: {mine: x}\nexpose: {api_port: 80, nodePort: 0}\n\
        clusters: {other: {endpoint: 'https://o', auth_user: u, auth_password: p}}\n";

    fn draft() -> (Entry, Draft) {
        let entry = entries(FILE).expect("valid").remove(0);
        let draft = decode_entry(&entry).expect("valid");
        (entry, draft)
    }

    #[test]
    fn text_is_text_and_secrets_go_along() {
        let body = request(&draft().1);
        assert_eq!(body["cpu"], "1");
        assert_eq!(body["environment"]["variables"], json!({"PORT": "80", "ON": "true"}));
        assert_eq!(body["environment"]["secrets"], json!({"KEY": "hunter2", "EMPTY": ""}));
        assert_eq!(body["clusters"]["other"]["auth_password"], "p");
        assert_eq!(body["labels"], json!({"mine": "x"}));
        assert_eq!(body["expose"]["api_port"], json!([80]));
        assert!(SERVER_KEYS.iter().all(|key| body.get(key).is_none()), "{body}");
        assert_eq!(blank_secrets(&body), ["EMPTY"]);
    }

    #[test]
    fn every_field_that_is_sent_is_known() {
        let Value::Object(fields) = request(&draft().1) else { panic!("a map is sent") };
        assert!(fields.keys().all(|key| known::is_field(key)), "{fields:?}");
    }

    #[test]
    fn what_is_not_known_is_noticed_and_passed_on() {
        let (entry, draft) = draft();
        let unknown = unknown_fields(&entry);
        assert_eq!(
            unknown.iter().map(|field| (field.key.as_str(), field.line)).collect::<Vec<_>>(),
            [("memroy", Some(5))]
        );
        let mut body = request(&draft);
        add_unknown(&mut body, &unknown);
        assert_eq!(body["memroy"], "1Gi");
    }

    #[test]
    fn old_managers_get_one_port() {
        let mut body = request(&draft().1);
        with_single_ports(&mut body);
        assert_eq!(body["expose"]["api_port"], 80);
        assert_eq!(body["expose"].get("nodePort"), None);
    }
}
