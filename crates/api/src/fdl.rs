//! Definition files, in both published forms.
//!
//! Entries of `functions.oscar` are keyed by a cluster id (`- my-cluster: {name: …}`) or stand
//! inline (`- name: …`). Top-level `storage_providers` and `clusters` belong to every service
//! of the file; what a service says itself comes first.

use std::collections::HashMap;

use oscar_model::fault::{Faults, join, quoted};
use oscar_model::name::{CLUSTER_ID_RULE, is_cluster_id};

use crate::service::{Draft, Mode, read};
use crate::tree::{Malformed, Node, Value, parse_yaml};

/// The most services of one file.
const MOST_SERVICES: usize = 100;

/// One service of a file.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The cluster that the file puts it on; blank when it stands inline.
    pub cluster: String,
    /// Where it stands: `functions.oscar[0].my-cluster`.
    pub path: String,
    /// The service with what the file says for all.
    pub node: Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FdlError {
    Malformed(Malformed),
    Faults(Faults),
}

/// Splits a file into its services without reading them yet. A bare service is a file of one.
pub fn entries(text: &str) -> Result<Vec<Entry>, FdlError> {
    split(text, MOST_SERVICES)
}

/// Each service gets what the file says for all, so that their number is looked at first.
fn split(text: &str, most: usize) -> Result<Vec<Entry>, FdlError> {
    let root = parse_yaml(text).map_err(FdlError::Malformed)?;
    if root.get("functions").is_none() && root.get("name").is_some() {
        return Ok(vec![Entry { cluster: String::new(), path: String::new(), node: root }]);
    }
    let mut faults = Faults::default();
    let found = root.get("functions").and_then(|functions| functions.get("oscar"));
    let items = match found.map(|node| &node.value) {
        Some(Value::List(items)) if most == 1 && items.len() > 1 => {
            faults.push("functions.oscar", format!("{} services", items.len()), "one service per request");
            &[]
        }
        Some(Value::List(items)) if !items.is_empty() && items.len() <= MOST_SERVICES => items.as_slice(),
        _ => {
            let what = found.map_or("nothing", Node::kind);
            faults.push("functions.oscar", what, format!("a list of 1 to {MOST_SERVICES} services"));
            &[]
        }
    };
    let mut entries = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let path = format!("functions.oscar[{index}]");
        match entry(item, &path) {
            Some((cluster, path, service)) => {
                entries.push(Entry { cluster, path, node: with_shared(service, &root) });
            }
            None => faults.push(path, item.kind(), "a service, or one cluster id with its service"),
        }
    }
    for fault in &mut faults.0 {
        fault.line = root.line_of(&fault.path);
    }
    faults.into_result(entries).map_err(FdlError::Faults)
}

/// Reads one service of a file.
pub fn decode_entry(entry: &Entry) -> Result<Draft, Faults> {
    let (draft, faults) = read_entry(entry);
    faults.into_result(draft)
}

/// As [`decode_entry`], with what could be read beside the faults.
pub fn read_entry(entry: &Entry) -> (Draft, Faults) {
    let (mut draft, mut faults) = read(&entry.node, &entry.path, Mode::Yaml);
    if draft.definition.cluster_id.is_empty() && !entry.cluster.is_empty() {
        if !is_cluster_id(&entry.cluster) {
            let mut own = Faults::default();
            own.push(&entry.path, quoted(&entry.cluster), CLUSTER_ID_RULE);
            own.0[0].line = entry.node.line;
            faults.absorb("", own);
        }
        draft.definition.cluster_id.clone_from(&entry.cluster);
    }
    (draft, faults)
}

/// The one service of a body that was sent to the API.
pub fn single(text: &str) -> Result<Entry, FdlError> {
    let entry = split(text, 1)?.pop();
    entry.ok_or_else(|| {
        let mut faults = Faults::default();
        faults.push("functions.oscar", "no service", "one service per request");
        FdlError::Faults(faults)
    })
}

/// What is wrong with the script of a body: a manager cannot read its client's files.
pub fn check_script(entry: &Entry) -> Faults {
    let mut faults = Faults::default();
    if let Some(script) = script_text(entry)
        && script_is_path(script)
        && script.contains(['/', '.'])
    {
        let allowed = "the text of the script; `oscar apply` reads the file and sends its text";
        faults.push(join(&entry.path, "script"), quoted(script), allowed);
    }
    faults
}

fn entry(item: &Node, path: &str) -> Option<(String, String, Node)> {
    let Value::Map(fields) = &item.value else { return None };
    if item.get("name").is_some() || item.get("image").is_some() {
        return Some((String::new(), path.to_owned(), item.clone()));
    }
    match fields.as_slice() {
        [(cluster, service)] if matches!(service.value, Value::Map(_)) => {
            Some((cluster.clone(), join(path, cluster), service.clone()))
        }
        _ => None,
    }
}

/// The service with the providers and clusters that the file gives to all.
fn with_shared(mut service: Node, root: &Node) -> Node {
    for key in ["storage_providers", "clusters"] {
        let Some(shared) = root.get(key) else { continue };
        let merged = match service.get(key) {
            Some(own) => merge(own.clone(), shared),
            None => shared.clone(),
        };
        if let Value::Map(fields) = &mut service.value {
            fields.retain(|(name, _)| !name.eq_ignore_ascii_case(key));
            fields.push((key.to_owned(), merged));
        }
    }
    service
}

/// Maps are merged key by key; what `own` says stays.
fn merge(mut own: Node, shared: &Node) -> Node {
    if let (Value::Map(fields), Value::Map(others)) = (&mut own.value, &shared.value) {
        let mut places: HashMap<String, usize> = HashMap::new();
        for (place, (name, _)) in fields.iter().enumerate() {
            // The first of a name counts.
            places.entry(name.to_ascii_lowercase()).or_insert(place);
        }
        for (key, other) in others {
            if let Some(place) = places.get(&key.to_ascii_lowercase()) {
                let field = &mut fields[*place].1;
                *field = merge(field.clone(), other);
            } else {
                places.insert(key.to_ascii_lowercase(), fields.len());
                fields.push((key.clone(), other.clone()));
            }
        }
    }
    own
}

/// The script of an entry as the file has it: a path or the text itself.
pub fn script_text(entry: &Entry) -> Option<&str> {
    match entry.node.get("script").map(|node| &node.value) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// Whether `script` of a file names another file rather than being the script: one line, no
/// blank in it, and not a shebang.
pub fn script_is_path(script: &str) -> bool {
    let line = script.trim_end();
    !line.is_empty() && !line.contains(['\n', ' ', '\t', ';', '|', '&', '$']) && !line.starts_with("#!")
}

/// Puts the text of a script where its path stood.
pub fn set_script(entry: &mut Entry, text: String) {
    if let Value::Map(fields) = &mut entry.node.value
        && let Some((_, node)) = fields.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("script"))
    {
        node.value = Value::Text(text);
    }
}

/// The sentence for a fault outside any service.
pub fn describe(error: &FdlError) -> String {
    match error {
        FdlError::Malformed(malformed) => format!("the definition cannot be read: {malformed}"),
        FdlError::Faults(faults) => faults.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYED: &str = "functions:\n  oscar:\n  - my-cluster:\n      name: plants\n      image: a/b\n      script: s.sh\n      cpu: 1.0\n      environment:\n        Variables:\n          ON: true\nclusters:\n  other:\n    endpoint: https://other\n";

    #[test]
    fn both_published_forms_are_read() {
        let keyed = entries(KEYED).expect("valid");
        assert_eq!(
            (keyed[0].cluster.as_str(), keyed[0].path.as_str()),
            ("my-cluster", "functions.oscar[0].my-cluster")
        );
        let draft = decode_entry(&keyed[0]).expect("valid");
        assert_eq!(draft.definition.cluster_id, "my-cluster");
        assert_eq!(draft.definition.environment.variables["ON"], "true");
        assert!(draft.definition.clusters.contains_key("other"));

        let inline = "functions:\n  oscar:\n  - name: plants\n    image: a/b\n    script: s.sh\n";
        let entry = single(inline).expect("valid");
        assert_eq!(decode_entry(&entry).expect("valid").definition.name.as_str(), "plants");
        assert!(check_script(&entry).mentions("functions.oscar[0].script"), "a manager cannot read s.sh");
    }

    #[test]
    fn every_fault_is_reported_with_its_path_and_line() {
        let text = "functions:\n  oscar:\n  - grayify:\n      name: Bad_Name\n      image: a/b\n      script: s.sh\n      cpu: lots\n      input:\n      - storage_provider: minio\n        path: okay/in\n      - storage_provider: ftp\n        path: /\n";
        let entries = entries(text).expect("its structure is right");
        let faults = decode_entry(&entries[0]).expect_err("four mistakes");
        let seen: Vec<_> = faults.0.iter().map(|fault| (fault.path.as_str(), fault.line)).collect();
        assert_eq!(
            seen,
            [
                ("functions.oscar[0].grayify.name", Some(4)),
                ("functions.oscar[0].grayify.cpu", Some(7)),
                ("functions.oscar[0].grayify.input[1].storage_provider", Some(11)),
                ("functions.oscar[0].grayify.input[1].path", Some(12)),
            ]
        );
    }

    #[test]
    fn a_script_may_be_a_path_or_its_text() {
        assert!(script_is_path("script.sh") && script_is_path("dir/run"));
        assert!(!script_is_path("#!/bin/sh") && !script_is_path("echo hi") && !script_is_path("a\nb"));
    }
}
