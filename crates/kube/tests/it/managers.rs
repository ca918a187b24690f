//! Two managers at once, as during a roll-out.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Scope, Services};
use oscar_engine::testing::make::{mk_owner, mk_secretive};
use oscar_model::service::Sensitive;
use oscar_testkit::{Apiserver, require};

use crate::support::{admin, at_home, eventually, labelled, name, options, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_taken_once_in_all_namespaces() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "mgr").await;
    let (one, two) = (world(cluster, &options).await, world(cluster, &options).await);
    let owners = [mk_owner("mgr-alice"), mk_owner("mgr-bob")];
    for round in 0..4 {
        let text = format!("mgr-same-{round}");
        let mut tries = Vec::new();
        for store in [one.services(), two.services()] {
            for owner in owners.iter().cycle().take(4) {
                let service = at_home(&*one.users(), &text, owner).await;
                let store = store.clone();
                tries.push(async move { store.create(service, Sensitive::default()).await });
            }
        }
        let outcomes = join_all(tries).await;
        let won: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        assert_eq!(won.len(), 1, "{outcomes:?}");
        let lost = |outcome: &Result<_, _>| matches!(outcome, Ok(_) | Err(StoreError::AlreadyExists));
        assert!(outcomes.iter().all(lost), "{outcomes:?}");
        assert_eq!(labelled::<ConfigMap>(&admin(cluster).await, &text).await.len(), 1);
        for store in [one.services(), two.services()] {
            let seen = eventually("both managers see it", async || store.get(&name(&text)).await.expect("readable"));
            assert_eq!(&seen.await, won[0]);
        }
    }
    no_lease_is_left(cluster, &options.namespace).await;
}

async fn no_lease_is_left(cluster: &Apiserver, namespace: &str) {
    let leases: Api<Lease> = Api::namespaced(admin(cluster).await, namespace);
    let left = leases.list(&ListParams::default()).await.expect("listed").items;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_sees_what_the_other_changes() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "see").await;
    let (one, two) = (world(cluster, &options).await, world(cluster, &options).await);
    let (first, second): (Arc<dyn Services>, Arc<dyn Services>) = (one.services(), two.services());
    let owner = mk_owner("see-alice");
    let (mut service, sensitive) = mk_secretive("see-a", &owner);
    service.namespace = at_home(&*one.users(), "see-a", &owner).await.namespace;
    let made = first.create(service.clone(), sensitive.clone()).await.expect("created");

    // The other one may act on what it was told by its caller before its own watch told it.
    let mut changed = service.clone();
    changed.definition.image = "second".to_owned();
    let changed = second.replace(changed, sensitive.clone(), &made.revision).await.expect("replaced");
    assert_eq!(second.get(&name("see-a")).await.expect("readable").as_ref(), Some(&changed));
    let stale = first.replace(service.clone(), sensitive.clone(), &made.revision).await;
    assert_eq!(stale, Err(StoreError::Conflict));
    eventually("the first sees the change", async || {
        let seen = first.get(&name("see-a")).await.expect("readable");
        (seen.as_ref() == Some(&changed)).then_some(())
    })
    .await;
    assert_eq!(first.reveal(&name("see-a")).await, Ok(sensitive));

    first.remove(&name("see-a"), Some(&changed.revision)).await.expect("removed");
    eventually("the second sees it go", async || {
        let seen = second.list(&Scope::All).await.expect("listed");
        seen.iter().all(|entry| entry.name() != "see-a").then_some(())
    })
    .await;
    assert_eq!(second.remove(&name("see-a"), None).await, Err(StoreError::NotFound));
}
