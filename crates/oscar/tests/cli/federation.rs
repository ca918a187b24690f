//! Federations of real managers, as their owner sees and changes them from the command line.

use std::time::Duration;

use oscar_testkit::eventually;
use serde_json::{Value, json};

use crate::home::{Home, Manager, Ran};

const PATIENCE: Duration = Duration::from_secs(30);

/// Three clusters, and the file of a service whose coordinator is on the first.
struct Clusters {
    home: Home,
    a: Manager,
    b: Manager,
    c: Manager,
}

impl Clusters {
    fn start() -> Self {
        let home = Home::new();
        let (a, b, c) = (home.serve_cluster("a"), home.serve_cluster("b"), home.serve_cluster("c"));
        Self { home, a, b, c }
    }

    /// With a service that has replicas on the clusters named.
    fn with(topology: &str, members: &[&str]) -> Self {
        let clusters = Self::start();
        clusters.write(topology, members, "0.5");
        clusters.oscar(&["apply", "f.yaml", "--yes"]).ends(0);
        clusters
    }

    fn write(&self, topology: &str, members: &[&str], cpu: &str) {
        let place = |name: &str, manager: &Manager| {
            let Manager { url, password, .. } = manager;
            format!("        {name}: {{endpoint: '{url}', auth_user: oscar, auth_password: {password}}}\n")
        };
        let members: String = members
            .iter()
            .map(|cluster| format!("        - {{type: oscar, cluster_id: {cluster}, service_name: plants}}\n"))
            .collect();
        let text = format!(
            "functions:\n  oscar:\n  - a:\n      name: plants\n      image: ghcr.io/grycap/plants\n      \
             script: run.sh\n      cpu: {cpu}\n      environment:\n        secrets: {{refresh_token: not-for-show}}\n      \
             clusters:\n{}{}      federation:\n        topology: {topology}\n        members:\n{members}",
            place("b", &self.b),
            place("c", &self.c),
        );
        self.home.write("run.sh", "#!/bin/sh\necho hi\n");
        self.home.write("f.yaml", &text);
    }

    /// A command to the first cluster.
    fn oscar(&self, arguments: &[&str]) -> Ran {
        self.a.run(&self.home, arguments).never_says("not-for-show").never_says("\u{1b}[")
    }

    fn federation(&self, arguments: &[&str]) -> Ran {
        self.oscar(&[&["federation"], arguments].concat())
    }

    fn show(&self) -> Value {
        self.federation(&["show", "plants", "--json"]).json()
    }
}

fn services(home: &Home, manager: &Manager) -> Vec<String> {
    let listed = manager.run(home, &["service", "list", "--json"]).json();
    let names = listed.as_array().expect("a list").iter().map(|service| service["name"].as_str().expect("a name"));
    names.map(str::to_owned).collect()
}

/// One field of the node of a cluster.
fn node(view: &Value, cluster: &str, field: &str) -> Value {
    let nodes = view["graph"]["nodes"].as_array().expect("nodes");
    nodes.iter().find(|node| node["cluster_id"] == cluster).map(|node| node[field].clone()).unwrap_or_default()
}

#[test]
fn a_plan_names_every_member_and_changes_nothing() {
    let clusters = Clusters::start();
    clusters.write("star", &["b", "c"], "0.5");
    // Something of the owner's stands in the way, and is taken over.
    clusters.home.write("plain.yaml", "name: plants\nimage: busybox\nscript: run.sh\n");
    clusters.c.run(&clusters.home, &["apply", "plain.yaml", "--yes"]).ends(0);
    for plan in [&["federation", "plan", "f.yaml"][..], &["apply", "--dry-run", "f.yaml"]] {
        let ran = clusters.oscar(plan).ends(0).says("create plants").says("federation (star):");
        let ran = ran.says("+   b/plants  create").says("~   c/plants  adopt the service that is there");
        ran.says("1 to create");
    }
    let planned = clusters.oscar(&["federation", "plan", "f.yaml", "--json"]).json();
    let expected = json!([{"member": "b/plants", "action": "create"}, {"member": "c/plants", "action": "adopt"}]);
    assert_eq!((&planned[0]["federation"]["members"], &planned[0]["done"]), (&expected, &json!(false)));
    assert!(services(&clusters.home, &clusters.a).is_empty() && services(&clusters.home, &clusters.b).is_empty());

    let applied = clusters.oscar(&["apply", "f.yaml", "--yes"]).ends(0);
    applied.says("created plants").says("b/plants: created").says("c/plants: adopted");
    assert_eq!(services(&clusters.home, &clusters.b), ["plants"]);

    clusters.write("star", &["b"], "2");
    let ran = clusters.oscar(&["apply", "f.yaml", "--yes"]).ends(0).says("+ cpu: \"2\"");
    let ran = ran.says("~   b/plants  update").says("-   c/plants  delete");
    ran.says("b/plants: updated").says("c/plants: deleted");
    let there = clusters.b.run(&clusters.home, &["service", "get", "plants", "--json"]).json();
    assert_eq!(there["cpu"], "2");
    let given_back = clusters.c.run(&clusters.home, &["service", "get", "plants", "--json"]).json();
    assert_eq!(given_back["image"], "busybox", "what was adopted is given back, not deleted");
}

#[test]
fn a_federation_is_made_at_all_members_or_at_none() {
    let mut clusters = Clusters::start();
    clusters.write("mesh", &["b", "c"], "0.5");
    clusters.c.server.kill();
    let ran = clusters.oscar(&["apply", "f.yaml", "--yes"]).ends(1);
    let ran = ran.says("the federation was not created, and nothing was changed").says("- c/plants: ");
    ran.says("hint: try again when the member is well").never_says("- b/plants");
    let failed = clusters.oscar(&["apply", "f.yaml", "--yes", "--json"]).ends(1);
    let failed: Value = serde_json::from_str(&failed.out).expect("JSON");
    assert_eq!(failed["code"], "federation-unreachable");
    assert!(services(&clusters.home, &clusters.a).is_empty() && services(&clusters.home, &clusters.b).is_empty());
}

#[test]
fn a_federation_is_listed_and_shown_at_every_member() {
    let clusters = Clusters::with("star", &["b", "c"]);
    clusters.federation(&["list"]).ends(0).says("plants").says("coordinator").says("b/plants, c/plants");
    let listed = clusters.federation(&["ls", "--json"]).json();
    assert_eq!((&listed[0]["service"], &listed[0]["role"]), (&json!("plants"), &json!("coordinator")));
    let worker = clusters.b.run(&clusters.home, &["federation", "list"]);
    worker.ends(0).says("worker");

    let shown = clusters.federation(&["show", "plants"]).ends(0).says("plants  star with 2 replicas");
    let shown = shown.says("MEMBER").says("a/plants").says("├── b/plants  in-sync").says("└── c/plants  in-sync");
    shown.says("active").says(&clusters.c.url).says("token: ");
    let (here, there) = (clusters.show(), clusters.b.run(&clusters.home, &["federation", "show", "plants", "--json"]));
    assert_eq!(here["graph"]["federation_id"], there.json()["graph"]["federation_id"]);

    clusters.federation(&["show", "absent"]).ends(5).says("hint: ");
    clusters.federation(&["show", "../x"]).ends(2);
    assert_eq!(clusters.federation(&["list", "--deleted", "--json"]).json(), json!([]));
    clusters.federation(&["list", "--deleted"]).ends(0).says("no federation is being removed");
}

#[test]
fn a_mesh_is_drawn_as_a_ring() {
    let clusters = Clusters::with("mesh", &["b", "c"]);
    let shown = clusters.federation(&["show", "plants"]).ends(0).says("plants  mesh with 2 replicas");
    shown.says("┌⇄ a/plants").says("├⇄ b/plants").says("└⇄ c/plants");
    let seen = clusters.b.run(&clusters.home, &["federation", "show", "plants"]).ends(0);
    seen.says("┌⇄ a/plants").says("└⇄ c/plants");
}

#[test]
fn members_come_and_go() {
    let clusters = Clusters::with("star", &["b"]);
    let (home, c) = (&clusters.home, &clusters.c);
    clusters.federation(&["add", "plants", "far/plants"]).ends(6).says("hint: say where the cluster is: `--endpoint");
    clusters.federation(&["add", "plants", "c"]).ends(2).says("CLUSTER/SERVICE");
    let two = ["add", "plants", "far/plants", "c/plants", "--endpoint", &c.url];
    clusters.federation(&two).ends(2).says("one endpoint cannot be that of several clusters");

    // A cluster that neither the definition nor the operator knows.
    let add = ["federation", "add", "plants", "far/plants", "--priority", "3", "--endpoint", &c.url, "--user", "oscar"];
    let add = [&add[..], &["--password-stdin"]].concat();
    let added = clusters.a.run_with(home, &add, &c.password).ends(0).never_says(&c.password);
    added.says("added far/plants").says("└── far/plants  in-sync").says("3");
    assert_eq!(services(home, c), ["plants"]);
    let again = clusters.federation(&["add", "plants", "b/plants", "--json"]).json();
    assert_eq!(again["members"].as_array().map(Vec::len), Some(2), "adding again changes nothing");

    clusters.federation(&["update", "plants", "far/plants"]).ends(2).says("--priority");
    clusters.federation(&["update", "plants", "d/plants", "--priority", "1"]).ends(5).says("does not list the member");
    let updated = clusters.federation(&["update", "plants", "far/plants", "--priority", "7", "--json"]).json();
    assert_eq!((node(&updated, "far", "priority"), node(&updated, "far", "state")), (json!(7), json!("in-sync")));

    clusters.federation(&["remove", "plants", "far/plants"]).ends(2).says("--yes");
    clusters.federation(&["remove", "plants", "far/plants", "--yes"]).ends(0).says("removed far/plants");
    assert_eq!(services(home, c), ["plants"], "it stays as a plain service");
    c.run(home, &["federation", "list", "--json"]).says("[]");
    clusters.federation(&["rm", "plants", "b/plants", "--delete", "--yes"]).ends(0);
    assert!(services(home, &clusters.b).is_empty());
}

#[test]
fn an_inner_node_goes_only_with_what_hangs_below_it() {
    let clusters = Clusters::with("tree", &["b"]);
    clusters.federation(&["add", "plants", "c/plants", "--parent", "b"]).ends(0).says("    └── c/plants");
    clusters.federation(&["remove", "plants", "b/plants", "--yes"]).ends(7).says("hint: remove those below it too");
    let removed = clusters.federation(&["remove", "plants", "b/plants", "--reparent", "--yes"]).ends(0);
    removed.says("└── c/plants");
}

#[test]
fn members_are_paused_drained_and_resumed() {
    let clusters = Clusters::with("star", &["b", "c"]);
    clusters.federation(&["pause", "plants", "b/plants"]).ends(0).says("paused b/plants").says("in-sync      paused");
    let drained = clusters.federation(&["drain", "plants", "c/plants", "--json"]).json();
    assert_eq!((node(&drained, "b", "duty"), node(&drained, "c", "duty")), (json!("paused"), json!("draining")));
    clusters.federation(&["resume", "plants", "b/plants", "c/plants"]).ends(0).says("resumed b/plants, c/plants");
    let view = clusters.show();
    assert_eq!((node(&view, "b", "duty"), node(&view, "c", "duty")), (json!("active"), json!("active")));
    clusters.federation(&["pause", "plants", "d/plants"]).ends(5).says("d/plants is not in the federation");
}

#[test]
fn a_member_that_was_down_gets_what_it_missed() {
    let mut clusters = Clusters::with("star", &["b", "c"]);
    clusters.c.server.kill();
    clusters.write("star", &["b", "c"], "2");
    let applied = clusters.oscar(&["apply", "f.yaml", "--yes"]).ends(0).says("updated plants");
    applied.says("b/plants: updated").says("c/plants: unreachable: ").says("warning: ");
    let synced = clusters.federation(&["sync", "plants"]).ends(0).says("unreachable").says("warning: c/plants: ");
    synced.says("hint: what is wanted is stored");
    clusters.federation(&["show", "plants"]).ends(0).says("✗ c/plants: ");
    clusters.oscar(&["doctor"]).ends(0).says("plants: c/plants is unreachable").says("oscar federation sync plants");

    // It is back, at another address.
    clusters.c = clusters.home.serve_cluster("c");
    let moved = ["federation", "update", "plants", "c/plants", "--user", "oscar", "--password-stdin", "--endpoint"];
    let moved = [&moved[..], &[&clusters.c.url]].concat();
    clusters.a.run_with(&clusters.home, &moved, &clusters.c.password).ends(0).says("└── c/plants  in-sync");
    let there = clusters.c.run(&clusters.home, &["service", "get", "plants", "--json"]).json();
    assert_eq!(there["cpu"], "2");
    let synced = clusters.federation(&["sync", "plants", "--json"]).json();
    assert_eq!((node(&synced, "c", "state"), &synced["warnings"]), (json!("in-sync"), &Value::Null));
    clusters.oscar(&["doctor"]).ends(0).says("plants: all 2 replicas are in sync");
}

#[test]
fn what_is_left_of_a_deleted_federation_is_listed() {
    let mut clusters = Clusters::with("star", &["b", "c"]);
    clusters.c.server.kill();
    clusters.oscar(&["service", "delete", "plants", "--yes"]).ends(0);
    eventually("the replica on b is removed", PATIENCE, || {
        services(&clusters.home, &clusters.b).is_empty().then_some(())
    });
    let left = eventually("only c is left", PATIENCE, || {
        let rows = clusters.federation(&["list", "--deleted", "--json"]).json();
        (rows[0]["leaving"] == json!(["c/plants"])).then_some(rows)
    });
    assert_eq!(left[0]["deleted"], true);
    clusters.federation(&["list", "--deleted"]).ends(0).says("c/plants");
    assert_eq!(clusters.federation(&["list", "--json"]).json(), json!([]));
    clusters.oscar(&["doctor"]).ends(0).says("plants is deleted, with 1 replicas still there");
}

#[test]
fn a_replica_is_changed_at_its_coordinator() {
    let clusters = Clusters::with("star", &["b"]);
    let deleted = clusters.b.run(&clusters.home, &["service", "delete", "plants", "--yes"]);
    deleted.ends(7).says("is a replica of a/plants").says("hint: make the change at the coordinator");
    let set = clusters.b.run_with(&clusters.home, &["federation", "token", "set", "plants", "-"], "not-for-show");
    set.ends(7).never_says("not-for-show");

    clusters.b.run(&clusters.home, &["service", "delete", "plants", "--detach", "--yes"]).ends(0);
    assert!(services(&clusters.home, &clusters.b).is_empty());
    eventually("the coordinator knows", PATIENCE, || {
        let synced = clusters.federation(&["sync", "plants", "--json"]).json();
        (node(&synced, "b", "state").is_null() && synced["leaving"] == json!([])).then_some(())
    });
}

/// By its operator, after everybody was asked and said yes.
fn allow_only(manager: &Manager, repository: &str) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let body = json!({"allowed_image_repositories": [repository]});
    let request = reqwest::Client::new().put(format!("{}/system/config", manager.url)).json(&body);
    let sent = runtime.block_on(request.basic_auth("oscar", Some(&manager.password)).send());
    assert!(sent.expect("an answer").status().is_success());
}

#[test]
fn what_was_made_is_taken_back_when_a_member_fails() {
    let clusters = Clusters::start();
    clusters.write("star", &["b", "c"], "0.5");
    allow_only(&clusters.c, "docker.io/other");
    let ran = clusters.oscar(&["apply", "f.yaml", "--yes"]).ends(1).says("federation (star):");
    let ran =
        ran.says("error: create plants: the federation was not created; everything that had been done was taken back");
    ran.says("  - c/plants: ").says("hint: try again when the member is well").never_says("- b/plants");
    let failed = clusters.oscar(&["apply", "f.yaml", "--yes", "--json"]).ends(1);
    let failed: Value = serde_json::from_str(&failed.out).expect("JSON");
    assert_eq!(failed[0]["failure"]["code"], "federation-rolled-back");
    for manager in [&clusters.a, &clusters.b, &clusters.c] {
        assert!(services(&clusters.home, manager).is_empty());
    }
}

#[test]
fn a_token_is_looked_at_replaced_and_revoked_without_being_seen() {
    let clusters = Clusters::with("star", &["b"]);
    let (home, a) = (&clusters.home, &clusters.a);
    let token = |arguments: &[&str]| clusters.federation(&[&["token"], arguments].concat());
    token(&["status", "plants"]).ends(0).says("state:").says("age:");
    assert_eq!(token(&["status", "plants", "--json"]).json()["services"], 1);

    token(&["set", "plants"]).ends(2).says("hint: give a file, or `-`");
    token(&["set", "plants", "absent"]).ends(5).says("cannot be read");
    a.run_with(home, &["federation", "token", "set", "plants", "-"], "\n").ends(2).says("no refresh token was given");
    home.write("token", "a-new-one\n");
    token(&["set", "plants", "token"]).ends(0).says("state:").never_says("a-new-one");
    let piped = a.run_with(home, &["federation", "token", "set", "plants", "-", "--json"], "another-one");
    piped.ends(0).says("\"state\"").never_says("another-one");

    token(&["revoke", "plants"]).ends(2).says("--yes");
    token(&["revoke", "plants", "--yes"]).ends(0).says("is revoked and forgotten");
    token(&["status", "plants"]).ends(0).says("there is no refresh token");
    home.write("plain.yaml", "name: alone\nimage: busybox\nscript: run.sh\n");
    clusters.oscar(&["apply", "plain.yaml", "--yes"]).ends(0);
    token(&["revoke", "alone", "--yes"]).ends(5).says("hint: `oscar federation list`");
}

#[test]
fn what_was_done_elsewhere_is_on_record() {
    let clusters = Clusters::with("star", &["b", "c"]);
    clusters.oscar(&["audit"]).ends(0).says("WHEN (UTC)").says("replica-deployed").says("b/plants").says("ok");
    let all = clusters.oscar(&["audit", "--json"]).json();
    let deployed = all.as_array().expect("a list").iter().filter(|record| record["act"] == "replica-deployed");
    assert_eq!(deployed.count(), 2);
    assert_eq!(clusters.oscar(&["audit", "--limit", "1", "--json"]).json().as_array().map(Vec::len), Some(1));
    clusters.oscar(&["audit", "--limit", "0"]).ends(2);
    clusters.b.run(&clusters.home, &["--no-color", "audit"]).ends(0);
}
