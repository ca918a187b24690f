//! The topology as a picture of lines: a tree below its coordinator, or the ring of a mesh.

use std::collections::BTreeSet;

use super::view::{Graph, Member, Node, View};

/// One line of the picture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Branches and a name.
    pub(super) text: String,
    pub(super) who: Who<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Who<'a> {
    /// A service whose state is known.
    Node(&'a Node),
    /// Something that jobs are handed to, of which nothing more is known.
    Target(&'a Member),
    /// The service that was asked for, when it is in no federation.
    Own,
}

/// `own` is the service that was asked for.
pub(super) fn draw<'a>(view: &'a View, own: &str) -> Vec<Line<'a>> {
    match &view.graph {
        None => {
            let mut lines = vec![Line { text: own.to_owned(), who: Who::Own }];
            hang(&mut lines, "", view.members());
            lines
        }
        Some(graph) if view.topology == "mesh" => ring(graph, endpoints(view)),
        Some(graph) => tree(graph, endpoints(view)),
    }
}

/// Members that are no services of OSCAR: the graph does not know them.
fn endpoints(view: &View) -> Vec<&Member> {
    view.members().iter().filter(|member| member.r#type == "endpoint").collect()
}

fn hang<'a>(lines: &mut Vec<Line<'a>>, indent: &str, members: impl IntoIterator<Item = &'a Member>) {
    let members: Vec<_> = members.into_iter().collect();
    for (index, member) in members.iter().enumerate() {
        let branch = if index + 1 == members.len() { "└── " } else { "├── " };
        lines.push(Line { text: format!("{indent}{branch}{}", member.id()), who: Who::Target(member) });
    }
}

/// Everybody hands jobs to everybody; the coordinator comes first.
fn ring<'a>(graph: &'a Graph, endpoints: Vec<&'a Member>) -> Vec<Line<'a>> {
    let mut nodes: Vec<_> = graph.nodes.iter().collect();
    nodes.sort_by_key(|node| !node.is_coordinator());
    let all = nodes.len();
    let mut lines = Vec::new();
    for (index, node) in nodes.into_iter().enumerate() {
        let bow = match index {
            _ if all == 1 => "",
            0 => "┌⇄ ",
            _ if index + 1 == all => "└⇄ ",
            _ => "├⇄ ",
        };
        lines.push(Line { text: format!("{bow}{}", node.id()), who: Who::Node(node) });
    }
    hang(&mut lines, "", endpoints);
    lines
}

fn tree<'a>(graph: &'a Graph, endpoints: Vec<&'a Member>) -> Vec<Line<'a>> {
    let mut forest = Forest { graph, drawn: BTreeSet::new(), lines: Vec::new() };
    if let Some(root) = graph.nodes.iter().find(|node| node.is_coordinator()) {
        forest.lines.push(Line { text: root.id(), who: Who::Node(root) });
        forest.drawn.insert(root.id());
        forest.below(root, "", !endpoints.is_empty());
    }
    hang(&mut forest.lines, "", endpoints);
    // Whoever hangs on nothing is still shown.
    for node in graph.nodes.iter().filter(|node| !forest.drawn.contains(&node.id())) {
        forest.lines.push(Line { text: node.id(), who: Who::Node(node) });
    }
    forest.lines
}

struct Forest<'a> {
    graph: &'a Graph,
    /// A stranger's answer may go round in a circle.
    drawn: BTreeSet<String>,
    lines: Vec<Line<'a>>,
}

impl<'a> Forest<'a> {
    fn below(&mut self, node: &'a Node, indent: &str, more: bool) {
        let nodes = &self.graph.nodes;
        let known = node.targets.iter().filter_map(|target| nodes.iter().find(|node| node.id() == *target));
        let children: Vec<_> = known.filter(|child| self.drawn.insert(child.id())).collect();
        for (index, child) in children.iter().enumerate() {
            let last = index + 1 == children.len() && !more;
            let branch = if last { "└── " } else { "├── " };
            self.lines.push(Line { text: format!("{indent}{branch}{}", child.id()), who: Who::Node(child) });
            let deeper = format!("{indent}{}", if last { "    " } else { "│   " });
            self.below(child, &deeper, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn drawn(topology: &str, targets: &[(&str, &[&str])], members: &Value) -> Vec<String> {
        let nodes: Vec<_> = targets
            .iter()
            .enumerate()
            .map(|(index, (id, targets))| {
                let (cluster, service) = id.split_once('/').expect("an id");
                let role = if index == 0 { "coordinator" } else { "worker" };
                json!({"cluster_id": cluster, "service_name": service, "role": role, "targets": targets})
            })
            .collect();
        let view = View::read(&json!({"topology": topology, "graph": {"nodes": nodes}, "members": members}));
        draw(&view, "x").into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn a_tree_is_drawn_below_its_coordinator() {
        let targets: &[(&str, &[&str])] =
            &[("a/x", &["b/x", "c/x"]), ("b/x", &["d/x"]), ("c/x", &[]), ("d/x", &["a/x"]), ("lost/x", &[])];
        let lines = drawn("tree", targets, &json!(null));
        assert_eq!(lines, ["a/x", "├── b/x", "│   └── d/x", "└── c/x", "lost/x"]);
    }

    #[test]
    fn plain_endpoints_hang_on_the_coordinator() {
        let members = json!([{"type": "oscar", "cluster_id": "b", "service_name": "x"},
                             {"type": "endpoint", "url": "https://e.example/run"}]);
        let lines = drawn("star", &[("a/x", &["b/x"]), ("b/x", &[])], &members);
        assert_eq!(lines, ["a/x", "├── b/x", "└── https://e.example/run"]);
    }

    #[test]
    fn a_mesh_is_a_ring() {
        let lines = drawn("mesh", &[("a/x", &["b/x"]), ("b/x", &["a/x"]), ("c/x", &[])], &json!(null));
        assert_eq!(lines, ["┌⇄ a/x", "├⇄ b/x", "└⇄ c/x"]);
    }

    #[test]
    fn what_is_in_no_federation_shows_where_its_jobs_may_go() {
        let view = View::read(&json!({"topology": "none", "graph": null,
            "members": [{"type": "oscar", "cluster_id": "b", "service_name": "y"}]}));
        let lines: Vec<_> = draw(&view, "x").into_iter().map(|line| line.text).collect();
        assert_eq!(lines, ["x", "└── b/y"]);
    }
}
