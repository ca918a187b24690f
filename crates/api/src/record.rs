//! A service as it is stored: OSCAR's `function_config.yaml`, which supervisors read too, or
//! the same as JSON. Script, namespace and the values of secrets are kept beside it.

use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::Service;

use crate::json;
use crate::service::{Mode, decode};
use crate::tree::{Node, Value, parse_json, parse_yaml};

pub fn to_json(service: &Service) -> String {
    String::from_utf8_lossy(&json::to_vec(&crate::service::full(service))).into_owned()
}

/// The YAML that Go OSCAR and the supervisors read: block style, text quoted where an older
/// reader could take it for something else.
pub fn to_yaml(service: &Service) -> String {
    // `ServiceBody` has string keys and no failing `Serialize`.
    serde_saphyr::to_string(&crate::service::full(service)).unwrap_or_default()
}

/// Reads either form back. The cause of a failure names every field that cannot be understood.
pub fn from_text(config: &str, script: &str, namespace: &str) -> Result<Service, String> {
    let node = if config.trim_start().starts_with('{') { parse_json(config.as_bytes()) } else { parse_yaml(config) };
    let node = node.map_err(|malformed| malformed.to_string())?;
    let draft = decode(&node, "", Mode::Stored).map_err(|faults| faults.to_string())?;
    let text = |key: &str| match node.get(key).map(|node| &node.value) {
        Some(Value::Text(text) | Value::Number(text)) => text.clone(),
        _ => String::new(),
    };
    let owner = text("owner");
    let owner = Owner::parse(&owner).ok_or_else(|| "owner: it is no subject".to_owned())?;
    let mut definition = draft.definition;
    script.clone_into(&mut definition.script);
    let owner_name = match owner {
        // The administrator is an account and no person; his label is the same word everywhere.
        Owner::Admin => String::new(),
        Owner::User(_) => owner_name(&node, &text("owner_name")),
    };
    Ok(Service {
        definition,
        owner,
        owner_name,
        token: Secret::new(draft.token.expose()),
        namespace: namespace.to_owned(),
        bucket_list: texts(node.get("bucket_list")),
    })
}

/// Other managers keep the name in a label only.
fn owner_name(node: &Node, stored: &str) -> String {
    let label = || match node.get("labels").and_then(|labels| labels.get("owner_name")).map(|node| &node.value) {
        Some(Value::Text(text)) => text.replace('_', " "),
        _ => String::new(),
    };
    if node.get("owner_name").is_some() { stored.to_owned() } else { label() }
}

fn texts(node: Option<&Node>) -> Vec<String> {
    match node.map(|node| &node.value) {
        Some(Value::List(items)) => items
            .iter()
            .filter_map(|item| if let Value::Text(text) = &item.value { Some(text.clone()) } else { None })
            .collect(),
        _ => Vec::new(),
    }
}
