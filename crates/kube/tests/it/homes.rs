use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, PostParams};
use oscar_engine::testing::make::mk_owner;
use oscar_kube::KubeWorld;
use oscar_model::identity::Owner;
use oscar_model::namespace::candidates;
use oscar_testkit::{Apiserver, require};
use serde_json::json;

use crate::support::{Fate, Faults, admin, eventually, is_watch, options, ready, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_is_the_users_own_and_is_found_again() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "home").await;
    let client = admin(cluster).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let (alice, bob) = (mk_owner("home-alice@egi.eu"), mk_owner("bob-of-home@egi.eu"));
    // Somebody made a namespace with the name that bob's would have.
    let taken = candidates(&bob, &options.services_namespace).remove(0);
    let taken: Namespace = serde_json::from_value(json!({"metadata": {"name": taken}})).expect("a namespace");
    namespaces.create(&PostParams::default(), &taken).await.expect("created");

    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let watched = Faults::new(move |request| {
        let path = request.uri().path();
        let namespace = path.starts_with("/api/v1/namespaces") && path.split('/').count() <= 5;
        let about_homes = namespace || path.contains("rbac.authorization");
        counted.fetch_add(usize::from(about_homes && !is_watch(request)), Ordering::SeqCst);
        Fate::Pass
    });
    let first = ready(KubeWorld::with_client(watched.client(cluster).await, options.clone())).await;
    let home = first.users().ensure(&alice, "Alice").await.expect("a home").namespace;
    assert_eq!(home, candidates(&alice, &options.services_namespace)[0], "the name that Go OSCAR would use");
    let other = first.users().ensure(&bob, "Bob").await.expect("a home").namespace;
    assert_eq!(other, candidates(&bob, &options.services_namespace)[1], "somebody else's is left alone");
    let own = first.users().ensure(&Owner::Admin, "").await.expect("a home").namespace;
    assert_eq!(own, options.services_namespace);

    let before = calls.load(Ordering::SeqCst);
    for _ in 0..10 {
        for owner in [&alice, &bob, &Owner::Admin] {
            first.users().ensure(owner, "").await.expect("a home");
        }
    }
    assert_eq!(calls.load(Ordering::SeqCst), before, "whoever was here before costs no call");

    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), &home);
    let binding = bindings.get("oscar-controller-binding").await.expect("the manager is bound");
    assert_eq!(binding.role_ref.name, "oscar-controller");
    let roles: Api<Role> = Api::namespaced(client, &home);
    roles.get("oscar-controller").await.expect("there is a role");

    let second = world(cluster, &options).await;
    assert_eq!(second.users().ensure(&bob, "Bob").await.expect("a home").namespace, other);

    // A home that is deleted is made again, once it is gone.
    namespaces.delete(&home, &DeleteParams::default()).await.expect("deleted");
    eventually("it is made again", async || {
        let again = first.users().ensure(&alice, "Alice").await.ok()?;
        let live = namespaces.get_opt(&home).await.expect("readable")?;
        (again.namespace == home && live.metadata.deletion_timestamp.is_none()).then_some(())
    })
    .await;
}
