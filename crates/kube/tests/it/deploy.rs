//! The manifests are valid, and what they grant is enough.

use std::path::{Path, PathBuf};

use oscar_kube::{KubeWorld, Options};
use oscar_testkit::{Apiserver, require};

use crate::conformance::keeps_its_contracts;
use crate::support::{config, eventually, kubectl, ready};

fn manifest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn done(cluster: &Apiserver, arguments: &[&str]) -> String {
    let (success, said, complained) = kubectl(cluster, arguments);
    assert!(success, "kubectl {arguments:?}: {complained}");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_account_of_the_manifests_is_enough() {
    let cluster = require!(Apiserver::shared());
    for name in ["namespace.yaml", "rbac.yaml"] {
        done(cluster, &["apply", "-f", &manifest(name).display().to_string()]);
    }
    let all = manifest("").display().to_string();
    done(cluster, &["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", &all]);

    let token = done(cluster, &["-n", "oscar", "create", "token", "oscar-sa"]);
    let client = kube::Client::try_from(config(cluster, token.trim()).await).expect("a client");
    let world = ready(KubeWorld::with_client(client, Options::default())).await;
    keeps_its_contracts(&world, "dep-").await;
    world.tick_settle().await.expect("the journal is readable");
    eventually("nodes, jobs and the deployment may be read", async || {
        let cluster = world.cluster();
        let all = (cluster.nodes().await, cluster.workload().await, cluster.deployment().await);
        matches!(all, (Ok(_), Ok(_), Ok(_))).then_some(())
    })
    .await;

    world.lease().release().await.expect("and let go");

    let may_list = |scope: &[&str]| {
        let question = ["auth", "can-i", "list", "secrets", "--as=system:serviceaccount:oscar:oscar-sa"];
        let (_, answer, _) = kubectl(cluster, &[scope, &question].concat());
        answer.trim() == "yes"
    };
    assert!(may_list(&["-n", "oscar"]), "the journal can be listed");
    assert!(!may_list(&["-n", "oscar-svc"]) && !may_list(&["-A"]), "other Secrets cannot");
}
