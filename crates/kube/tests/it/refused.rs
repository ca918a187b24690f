//! A manager that lacks a permission.

use oscar_engine::ports::StoreError;
use oscar_engine::testing::make::{mk_secretive, mk_service};
use oscar_kube::KubeWorld;
use oscar_model::identity::Owner;
use oscar_model::service::Sensitive;
use oscar_testkit::{ALICE_TOKEN, Apiserver, require};

use crate::support::{admin, apply, config, eventually, labelled, name, options, ready};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_named_and_nothing_is_changed() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "deny").await;
    let client = kube::Client::try_from(config(cluster, ALICE_TOKEN).await).expect("a client");
    let world = KubeWorld::with_client(client, options.clone());
    let said = eventually("the refusal is known", async || match world.services().get(&name("deny-a")).await {
        Err(StoreError::Forbidden(said)) => Some(said),
        _ => None,
    })
    .await;
    assert!(said.contains("configmaps") && said.contains("deploy/rbac.yaml"), "{said}");
    assert!(!world.is_synced() && world.obstacle().is_some());

    // Everything but Secrets is granted later; no restart is needed.
    apply(
        cluster,
        r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "deny-most"},
            "rules": [
              {"apiGroups": [""], "resources": ["configmaps", "namespaces", "podtemplates"], "verbs": ["*"]},
              {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
              {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]}"#,
    );
    apply(
        cluster,
        r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "deny-most"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "deny-most"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]}"#,
    );
    let world = ready(world).await;
    let (mut service, sensitive) = mk_secretive("deny-a", &Owner::Admin);
    service.namespace.clone_from(&options.services_namespace);
    let Err(StoreError::Forbidden(said)) = world.services().create(service, sensitive).await else {
        panic!("Secrets are refused");
    };
    assert!(said.contains("create Secret") && said.contains("cannot create resource"), "{said}");
    assert!(!said.contains("planted"), "{said}");
    assert_eq!(world.services().get(&name("deny-a")).await, Ok(None));
    let left = labelled::<k8s_openapi::api::core::v1::PodTemplate>(&admin(cluster).await, "deny-a").await;
    assert!(left.is_empty(), "{left:?}");

    let mut plain = mk_service("deny-a", &Owner::Admin);
    plain.namespace.clone_from(&options.services_namespace);
    world.services().create(plain, Sensitive::default()).await.expect("without secrets it is permitted");
    // Nodes were not granted: that says so, and nothing else is affected.
    assert!(matches!(world.cluster().nodes().await, Err(StoreError::Forbidden(_))));
}
