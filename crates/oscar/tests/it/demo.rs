//! The README's first command.

use oscar_testkit::Scratch;
use serde_json::Value;

use super::manager::program;

#[test]
fn the_demo_tells_its_story_to_the_end_and_leaves_nothing() {
    let home = Scratch::new("demo");
    let temporary = home.path().join("tmp");
    std::fs::create_dir(&temporary).expect("a folder");
    let output = program(home.path()).args(["demo", "--once", "--json"]).env("TMPDIR", &temporary).output();
    let output = output.expect("it runs");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let graphs: Vec<_> = events.iter().filter_map(|event| event.get("graph")).collect();
    let shown: Vec<(usize, usize)> = graphs
        .iter()
        .map(|graph| {
            let nodes = graph["nodes"].as_array().expect("nodes");
            (nodes.len(), nodes.iter().filter(|node| node["state"] == "in-sync").count())
        })
        .collect();
    assert_eq!(shown, [(3, 3), (4, 4), (4, 3), (4, 4)], "deployed, added to, one away, converged");
    let left: Vec<_> = std::fs::read_dir(&temporary).expect("a folder").flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}
