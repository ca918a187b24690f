//! A graph as text: every service with its state, and whom it hands jobs to.

use serde_json::Value;

pub(super) fn draw(graph: &Value, colours: bool) -> String {
    let nodes: Vec<_> = graph["nodes"].as_array().into_iter().flatten().collect();
    let text = |node: &Value, key: &str| node[key].as_str().unwrap_or_default().to_owned();
    let name = |node: &Value| format!("{}/{}", text(node, "cluster_id"), text(node, "service_name"));
    let width = nodes.iter().map(|node| name(node).len()).max().unwrap_or_default();
    let mut drawn = String::new();
    for node in nodes {
        let state = text(node, "state");
        let mark = match state.as_str() {
            "in-sync" => '●',
            "pending" => '◌',
            _ => '○',
        };
        let colour = if state == "in-sync" { "32" } else { "33" };
        let (mark, state) = if colours {
            (format!("\x1b[{colour}m{mark}\x1b[0m"), format!("\x1b[{colour}m{state:<11}\x1b[0m"))
        } else {
            (mark.to_string(), format!("{state:<11}"))
        };
        let targets: Vec<_> = node["targets"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let short = |target: &&str| target.rsplit('/').next().unwrap_or_default().to_owned();
        let targets = targets.iter().map(short).collect::<Vec<_>>().join(", ");
        drawn.push_str(&format!("{mark} {:<width$}  {state}  ⇄ {targets}\n", name(node)));
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_node_has_a_line_with_its_state_and_targets() {
        let graph = json!({"nodes": [
            {"cluster_id": "home", "service_name": "zero", "state": "in-sync", "targets": ["a/one"]},
            {"cluster_id": "a", "service_name": "one", "state": "unreachable", "targets": ["home/zero"]},
        ]});
        let drawn = draw(&graph, false);
        assert_eq!(drawn, "● home/zero  in-sync      ⇄ one\n○ a/one      unreachable  ⇄ zero\n");
    }
}
