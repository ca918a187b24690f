//! A federation as a manager tells it, read generously: other managers tell less.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct View {
    pub(in crate::cli) topology: String,
    pub(in crate::cli) group_id: String,
    delegation: Value,
    members: Option<Vec<Member>>,
    pub(in crate::cli) token: Option<Token>,
    pub(in crate::cli) graph: Option<Graph>,
    conditions: Vec<Condition>,
    pub(in crate::cli) leaving: Vec<String>,
    pub(super) operations: Vec<Operation>,
    pub(in crate::cli) warnings: Vec<String>,
}

/// What a service hands jobs to, with everything that was said of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Member {
    pub(super) r#type: String,
    pub(super) cluster_id: String,
    pub(super) service_name: String,
    pub(super) url: String,
    pub(super) priority: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Graph {
    pub(in crate::cli) federation_id: String,
    pub(in crate::cli) coordinator: String,
    pub(in crate::cli) nodes: Vec<Node>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Node {
    cluster_id: String,
    service_name: String,
    pub(in crate::cli) role: String,
    pub(in crate::cli) endpoint: String,
    pub(in crate::cli) priority: u32,
    pub(in crate::cli) duty: String,
    pub(in crate::cli) state: String,
    pub(in crate::cli) targets: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Condition {
    member: String,
    error: String,
    last_seen: Option<u64>,
}

/// A create that has not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Operation {
    pub(super) phase: String,
    pub(super) begun: u64,
    pub(super) members: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Token {
    pub(in crate::cli) state: String,
    pub(in crate::cli) reason: String,
    pub(in crate::cli) issuer: String,
    pub(in crate::cli) client: String,
    pub(in crate::cli) age: u64,
    pub(in crate::cli) used: Option<u64>,
    pub(in crate::cli) services: u64,
    pub(in crate::cli) warning: String,
}

impl View {
    /// What cannot be read is left out: a look at a federation must not fail on one field.
    pub(in crate::cli) fn read(value: &Value) -> Self {
        serde_json::from_value(value.clone()).unwrap_or_default()
    }

    pub(super) fn members(&self) -> &[Member] {
        self.members.as_deref().unwrap_or_default()
    }

    pub(super) fn delegation(&self) -> &str {
        let word = self.delegation.as_str().or_else(|| self.delegation["mode"].as_str());
        word.unwrap_or("static")
    }

    pub(in crate::cli) fn nodes(&self) -> &[Node] {
        self.graph.as_ref().map(|graph| graph.nodes.as_slice()).unwrap_or_default()
    }

    /// What went wrong at a member last.
    pub(in crate::cli) fn error_of(&self, member: &str) -> Option<&str> {
        let condition = self.conditions.iter().find(|condition| condition.member == member)?;
        Some(condition.error.as_str()).filter(|error| !error.is_empty())
    }

    pub(super) fn seen(&self, member: &str) -> Option<u64> {
        self.conditions.iter().find(|condition| condition.member == member)?.last_seen
    }

    /// `1 of 3 in sync, b/plants pending, c/plants unreachable`: for a line that may be cut.
    pub(in crate::cli) fn states(&self) -> String {
        let workers: Vec<_> = self.nodes().iter().filter(|node| !node.is_coordinator()).collect();
        let off: Vec<_> = workers.iter().filter(|node| node.state != "in-sync").collect();
        let mut text = format!("{} of {} in sync", workers.len() - off.len(), workers.len());
        for node in off {
            text = format!("{text}, {} {}", node.id(), node.state);
        }
        text
    }
}

impl Member {
    /// As people name it.
    pub(super) fn id(&self) -> String {
        if self.r#type == "endpoint" { self.url.clone() } else { format!("{}/{}", self.cluster_id, self.service_name) }
    }
}

impl Node {
    pub(in crate::cli) fn id(&self) -> String {
        format!("{}/{}", self.cluster_id, self.service_name)
    }

    pub(in crate::cli) fn is_coordinator(&self) -> bool {
        self.role == "coordinator"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_states_begin_with_what_is_well() {
        let node = |cluster: &str, state: &str| json!({"cluster_id": cluster, "service_name": "x", "state": state});
        let view = View::read(&json!({"graph": {"nodes": [
            {"cluster_id": "a", "service_name": "x", "role": "coordinator", "state": "in-sync"},
            node("b", "in-sync"), node("c", "unreachable")]}}));
        assert_eq!(view.states(), "1 of 2 in sync, c/x unreachable");
    }

    #[test]
    fn what_another_manager_tells_is_enough() {
        let view = View::read(&json!({"topology": "star", "members": null}));
        assert_eq!((view.topology.as_str(), view.members().len(), view.delegation()), ("star", 0, "static"));
        assert_eq!(View::read(&json!([1])), View::default());
    }
}
