//! A service as one manager sends it to another: what a client would send, secrets included.

use std::collections::BTreeMap;

use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::{Definition, Service};
use serde_json::{Value, json};

use super::encode::full;

/// The body of a create or an update at another manager. It holds the script, the values of
/// secrets and the keys of providers: the caller has decided what of them may leave.
///
/// `owner` is who the service belongs to there. Managers that know their caller as a person set
/// it themselves; Go OSCAR believes its administrator.
pub fn encode_for_peer(definition: &Definition, token: &Secret, owner: &Owner) -> Vec<u8> {
    let service = Service {
        definition: definition.clone(),
        owner: owner.clone(),
        owner_name: String::new(),
        token: token.clone(),
        namespace: String::new(),
        bucket_list: Vec::new(),
    };
    let mut body = full(&service);
    body.script = &definition.script;
    // The cluster's own labels are for the cluster that is called to set.
    body.labels.clone_from(&definition.labels);
    let secrets = definition.environment.secrets.iter();
    body.environment.secrets = secrets.map(|(name, value)| (name.as_str(), value.expose())).collect();
    // `ServiceBody` has string keys and no failing `Serialize`.
    let mut body = serde_json::to_value(body).unwrap_or_default();
    if let Some(federation) = &definition.federation {
        set_delegation(&mut body["federation"], &federation.delegation.weights);
    }
    body.to_string().into_bytes()
}

/// Go OSCAR knows the policy as a word only and passes over keys that it does not know, so
/// weights stand beside the word. Our own kind reads both forms.
fn set_delegation(federation: &mut Value, weights: &BTreeMap<String, u32>) {
    if weights.is_empty() {
        return;
    }
    let mode = federation["delegation"]["mode"].take();
    let weights = federation["delegation"]["weights"].take();
    federation["delegation"] = if mode.is_null() { json!("") } else { mode };
    federation["weights"] = weights;
}

/// The same body for Go OSCAR before 4.1, which knows one port where there is a list since.
/// Nothing, when it cannot be said to such a manager, or would be the same.
pub fn with_single_port(body: &[u8]) -> Option<Vec<u8>> {
    let mut body: Value = serde_json::from_slice(body).ok()?;
    let expose = body.get_mut("expose")?.as_object_mut()?;
    let mut changed = false;
    for key in ["api_port", "nodePort"] {
        if let Some(ports) = expose.get_mut(key).filter(|ports| ports.is_array()) {
            let [port] = ports.as_array()?.as_slice() else { return None };
            *ports = port.clone();
            changed = true;
        }
    }
    changed.then(|| body.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Mode, decode};
    use crate::tree::parse_json;

    fn everything() -> Definition {
        let text = include_bytes!("../../tests/everything.json");
        let node = parse_json(text).expect("a document");
        decode(&node, "", Mode::Json).expect("valid").definition
    }

    #[test]
    fn what_is_sent_is_read_as_it_was_meant() {
        let mut sent = everything();
        let federation = sent.federation.as_mut().expect("it has one");
        federation.delegation.weights = BTreeMap::from([("a".to_owned(), 1500)]);
        // Passwords of clusters are for this manager alone.
        for cluster in sent.clusters.values_mut() {
            cluster.auth_password = Secret::default();
        }
        let token = Secret::new("ab".repeat(32));
        let body = encode_for_peer(&sent, &token, &Owner::Admin);
        let node = parse_json(&body).expect("a document");
        let read = decode(&node, "", Mode::Json).expect("valid");
        assert_eq!(read.definition, sent);
        assert_eq!(read.token, token);
        let json: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(json["federation"]["weights"]["a"], 1.5);
        assert!(json["federation"]["delegation"].is_string(), "Go knows the word only");
        assert_eq!(json["owner"], "cluster_admin");
    }

    #[test]
    fn passwords_of_clusters_stay_and_secrets_go() {
        let mut definition = everything();
        for cluster in definition.clusters.values_mut() {
            cluster.auth_password = Secret::new("stays-here");
        }
        definition.environment.secrets.insert("KEY".to_owned(), Secret::new("goes-along"));
        let body = encode_for_peer(&definition, &Secret::default(), &Owner::Admin);
        let body = String::from_utf8(body).expect("text");
        assert!(!definition.clusters.is_empty() && !body.contains("stays-here"));
        assert!(body.contains("goes-along") && body.contains("\"token\":\"\""));
        assert!(!body.contains("oscar.grycap/user-service"), "labels of a cluster are its own");
    }

    #[test]
    fn one_port_can_be_said_to_older_managers() {
        let older = |expose: Value| {
            let body = json!({"name": "plants", "expose": expose}).to_string();
            with_single_port(body.as_bytes()).map(|body| serde_json::from_slice::<Value>(&body).expect("JSON"))
        };
        let told = older(json!({"api_port": [5000], "nodePort": [30500], "max_scale": 2})).expect("one port");
        assert_eq!(told, json!({"name": "plants", "expose": {"api_port": 5000, "nodePort": 30500, "max_scale": 2}}));
        assert_eq!(older(json!({"api_port": [5000, 5001]})), None);
        assert_eq!(older(json!({"max_scale": 2})), None, "nothing would be different");
    }
}
