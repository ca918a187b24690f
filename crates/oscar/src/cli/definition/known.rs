//! What a definition may say today, to notice typing errors. Keys are matched in any case, as
//! they are read.

use oscar_api::tree::{Node, Value as Tree};
use oscar_model::fault::join;

/// What may stand in a place.
enum Shape {
    /// A value, or names that are its owner's to choose.
    Any,
    Fields(Fields),
    /// A map by names of the owner's, each with these.
    Each(Fields),
    /// A list, each with these.
    Items(Fields),
}

type Fields = &'static [(&'static str, Shape)];

use Shape::{Any, Each, Items};

const SERVICE: Fields = &[
    ("name", Any),
    ("cluster_id", Any),
    ("memory", Any),
    ("cpu", Any),
    ("total_memory", Any),
    ("total_cpu", Any),
    ("ephemeral_storage_request", Any),
    ("enable_gpu", Any),
    ("enable_sgx", Any),
    ("image_prefetch", Any),
    ("synchronous", Shape::Fields(&[("min_scale", Any), ("max_scale", Any)])),
    ("federation", Shape::Fields(FEDERATION)),
    ("log_level", Any),
    ("image", Any),
    ("alpine", Any),
    ("file_stage_in", Any),
    ("input", Items(STORAGE)),
    ("output", Items(STORAGE)),
    ("script", Any),
    ("image_pull_secrets", Any),
    ("expose", Shape::Fields(EXPOSE)),
    ("environment", Shape::Fields(&[("variables", Any), ("secrets", Any)])),
    ("secrets", Any),
    ("annotations", Any),
    ("vo", Any),
    ("labels", Any),
    ("storage_providers", Shape::Fields(PROVIDERS)),
    ("clusters", Each(&[("endpoint", Any), ("auth_user", Any), ("auth_password", Any), ("ssl_verify", Any)])),
    ("interlink_node_name", Any),
    ("visibility", Any),
    ("allowed_users", Any),
    ("isolation_level", Any),
    ("mount", Shape::Fields(STORAGE)),
    ("volume", Shape::Fields(&[("name", Any), ("size", Any), ("mount_path", Any), ("lifecycle_policy", Any)])),
    ("kserve", Shape::Fields(KSERVE)),
];

const STORAGE: Fields = &[("storage_provider", Any), ("path", Any), ("suffix", Any), ("prefix", Any), ("options", Any)];

const EXPOSE: Fields = &[
    ("min_scale", Any),
    ("max_scale", Any),
    ("api_port", Any),
    ("cpu_threshold", Any),
    ("rewrite_target", Any),
    ("nodePort", Any),
    ("default_command", Any),
    ("set_auth", Any),
    ("auth_type", Any),
    ("health_path", Any),
    ("probe_mode", Any),
];

const FEDERATION: Fields = &[
    ("group_id", Any),
    ("topology", Any),
    ("delegation", Shape::Fields(&[("mode", Any), ("weights", Any)])),
    ("weights", Any),
    ("rescheduler_threshold", Any),
    ("members", Items(MEMBER)),
    // The name of `members` in earlier documents.
    ("replicas", Items(MEMBER)),
    ("local", Any),
    ("on_unknown", Any),
    ("share_refresh_token", Any),
    ("share_secrets", Any),
];

const MEMBER: Fields = &[
    ("type", Any),
    ("cluster_id", Any),
    ("service_name", Any),
    ("url", Any),
    ("ssl_verify", Any),
    ("priority", Any),
    ("headers", Any),
    ("parent", Any),
];

const PROVIDERS: Fields = &[
    ("minio", Each(&[("endpoint", Any), ("verify", Any), ("access_key", Any), ("secret_key", Any), ("region", Any)])),
    ("s3", Each(&[("access_key", Any), ("secret_key", Any), ("region", Any)])),
    ("onedata", Each(&[("oneprovider_host", Any), ("token", Any), ("space", Any)])),
    ("webdav", Each(&[("hostname", Any), ("login", Any), ("password", Any)])),
    (
        "rucio",
        Each(&[
            ("host", Any),
            ("account", Any),
            ("rse", Any),
            ("refresh_token", Any),
            ("auth_host", Any),
            ("oidc_audience", Any),
            ("token_endpoint", Any),
        ]),
    ),
];

const KSERVE: Fields = &[
    ("type", Any),
    ("inference", Shape::Fields(&[("model_format", Any), ("runtime", Any)])),
    ("llm_inference", Shape::Fields(&[("runtime_image", Any)])),
    ("storage_uri", Any),
    ("api_version", Any),
    ("min_scale", Any),
    ("max_scale", Any),
    ("cpu", Any),
    ("memory", Any),
    ("args", Any),
    ("env", Any),
    ("enable_gpu", Any),
    ("set_auth", Any),
];

/// A key below a field of a service that nothing reads.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct Stray {
    /// Below the service: `expose.apiport`.
    pub(in crate::cli) path: String,
    pub(in crate::cli) line: Option<usize>,
    /// What may have been meant, as a path too.
    pub(in crate::cli) near: Option<String>,
}

/// Whether a service may say this at its top.
pub(super) fn is_field(key: &str) -> bool {
    find(SERVICE, key).is_some()
}

/// The field of a service that a typing error may have meant.
pub(in crate::cli) fn nearest_field(key: &str) -> Option<&'static str> {
    nearest(SERVICE, key)
}

/// The keys below the fields of a service that nothing reads. Those at its top are another
/// matter, because they are passed on.
pub(in crate::cli) fn strays(service: &Node) -> Vec<Stray> {
    let mut strays = Vec::new();
    if let Tree::Map(entries) = &service.value {
        for (key, node) in entries {
            if let Some(shape) = find(SERVICE, key) {
                walk(node, shape, key, &mut strays);
            }
        }
    }
    strays
}

/// A value of another kind than expected is another check's fault.
fn walk(node: &Node, shape: &Shape, path: &str, strays: &mut Vec<Stray>) {
    match (&node.value, shape) {
        (Tree::Map(_), Shape::Fields(fields)) => fields_of(node, fields, path, strays),
        (Tree::Map(entries), Each(fields)) => {
            for (key, node) in entries {
                fields_of(node, fields, &join(path, key), strays);
            }
        }
        (Tree::List(items), Items(fields)) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, node)| fields_of(node, fields, &format!("{path}[{index}]"), strays));
        }
        _ => {}
    }
}

fn fields_of(node: &Node, fields: Fields, path: &str, strays: &mut Vec<Stray>) {
    let Tree::Map(entries) = &node.value else { return };
    for (key, child) in entries {
        if let Some(shape) = find(fields, key) {
            walk(child, shape, &join(path, key), strays);
        } else {
            let near = nearest(fields, key).map(|near| join(path, near));
            strays.push(Stray { path: join(path, key), line: child.line, near });
        }
    }
}

fn find(fields: Fields, key: &str) -> Option<&'static Shape> {
    fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(key)).map(|(_, shape)| shape)
}

fn nearest(fields: Fields, key: &str) -> Option<&'static str> {
    let key = key.to_ascii_lowercase();
    let likeness =
        |known: &str| similar::TextDiff::from_chars(key.as_str(), known.to_ascii_lowercase().as_str()).ratio();
    let alike = fields.iter().map(|(known, _)| (*known, likeness(known))).filter(|(_, ratio)| *ratio >= 0.75);
    alike.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(known, _)| known)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use oscar_api::tree::parse_yaml;
    use serde_json::Value;

    use super::*;

    #[test]
    fn typing_errors_are_found_at_every_depth() {
        let text = "Expose: {apiport: 80, API_PORT: 80}\ninput:\n- {storage_provider: minio, paht: a}\n\
                    clusters: {mine: {endpont: x}}\nstorage_providers: {mino: {a: {}}, s3: {a: {secret: x}}}\n\
                    environment: {Variables: {anything: x}, secret: {}}\nlabels: {anything: x}\n\
                    federation: {delegation: static, members: [{headers: {X: y}, wieght: 1}]}\nquux: {a: b}\n";
        let strays = strays(&parse_yaml(text).expect("valid"));
        let found: Vec<_> =
            strays.iter().map(|stray| (stray.path.as_str(), stray.near.as_deref().unwrap_or_default())).collect();
        let expected = [
            ("Expose.apiport", "Expose.api_port"),
            ("input[0].paht", "input[0].path"),
            ("clusters.mine.endpont", "clusters.mine.endpoint"),
            ("storage_providers.mino", "storage_providers.minio"),
            ("storage_providers.s3.a.secret", "storage_providers.s3.a.secret_key"),
            ("environment.secret", "environment.secrets"),
            ("federation.members[0].wieght", ""),
        ];
        assert_eq!(found, expected);
        assert_eq!(strays[1].line, Some(3));
        assert_eq!((nearest_field("memroy"), nearest_field("quux")), (Some("memory"), None));
    }

    /// The names in the document of the API: `expose.api_port`, `input[].path`, `clusters.*.endpoint`.
    fn documented(document: &Value, schema: &Value, path: &str, names: &mut BTreeSet<String>) {
        if let Some(target) = schema["$ref"].as_str() {
            let schema = document.pointer(target.trim_start_matches('#')).expect("it is in the document");
            documented(document, schema, path, names);
        }
        for key in ["oneOf", "anyOf", "allOf"] {
            let alternatives = schema[key].as_array().into_iter().flatten();
            alternatives.for_each(|schema| documented(document, schema, path, names));
        }
        documented_below(document, &schema["items"], &format!("{path}[]"), names);
        documented_below(document, &schema["additionalProperties"], &join(path, "*"), names);
        for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
            let path = join(path, key);
            documented(document, schema, &path, names);
            names.insert(path);
        }
    }

    fn documented_below(document: &Value, schema: &Value, path: &str, names: &mut BTreeSet<String>) {
        if schema.is_object() {
            documented(document, schema, path, names);
        }
    }

    fn known(fields: Fields, path: &str, names: &mut BTreeSet<String>) {
        for (key, shape) in fields {
            let path = join(path, key);
            match shape {
                Any => {}
                Shape::Fields(fields) => known(fields, &path, names),
                Each(fields) => known(fields, &join(&path, "*"), names),
                Items(fields) => known(fields, &format!("{path}[]"), names),
            }
            names.insert(path);
        }
    }

    #[test]
    fn whatever_the_api_takes_is_known() {
        let document: Value = serde_json::from_str(&crate::http::openapi_json()).expect("JSON");
        let (mut taken, mut names) = (BTreeSet::new(), BTreeSet::new());
        documented(&document, &document["components"]["schemas"]["ServiceRequest"], "", &mut taken);
        known(SERVICE, "", &mut names);
        // The manager's own, which a person does not write.
        taken.remove("token");
        assert!(taken.len() > 100, "{taken:?}");
        assert_eq!(taken.difference(&names).collect::<Vec<_>>(), Vec::<&String>::new());
    }
}
