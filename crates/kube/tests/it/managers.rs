//! Two managers at once, as during a roll-out.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret as KubeSecret};
use kube::api::{Api, ListParams};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Scope, Services};
use oscar_engine::testing::make::{mk_owner, mk_secretive};
use oscar_kube::KubeWorld;
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::{Sensitive, Service};
use oscar_testkit::{Apiserver, require};

use crate::support::{Fate, Faults, admin, at_home, eventually, is_watch, labelled, name, options, ready, world};

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

/// A state whose image and password say whose it is.
fn mk_state(text: &str, namespace: &str, whose: &str) -> (Service, Sensitive) {
    let (mut service, mut sensitive) = mk_secretive(text, &Owner::Admin);
    namespace.clone_into(&mut service.namespace);
    whose.clone_into(&mut service.definition.image);
    sensitive.environment.insert("PASSWORD".to_owned(), Secret::new(whose));
    (service, sensitive)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_replace_at_once_leave_the_secrets_of_the_one_that_won() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "twice").await;
    let (one, two) = (world(cluster, &options).await, world(cluster, &options).await);
    let namespace = options.services_namespace.as_str();
    let (service, sensitive) = mk_state("twice-a", namespace, "begin");
    let mut current = one.services().create(service, sensitive).await.expect("created");
    eventually("the other sees it", async || two.services().get(&name("twice-a")).await.expect("readable")).await;
    for round in 0..12 {
        let tries = [&one, &two].into_iter().enumerate().map(|(number, world)| {
            let (service, sensitive) = mk_state("twice-a", namespace, &format!("round-{round}-{number}"));
            let (store, expected) = (world.services(), current.revision.clone());
            async move { store.replace(service, sensitive, &expected).await }
        });
        let mut outcomes = join_all(tries).await;
        let lost = outcomes.iter().filter(|outcome| **outcome == Err(StoreError::Conflict)).count();
        assert_eq!(lost, 1, "one wins and one is told: {outcomes:?}");
        let won = outcomes.swap_remove(usize::from(outcomes[0].is_err())).expect("the winner's");
        let image = won.service.definition.image.clone();
        for world in [&one, &two] {
            let revealed = world.services().reveal(&name("twice-a")).await;
            let revealed = revealed.unwrap_or_else(|error| panic!("round {round}: the secrets are lost: {error}"));
            assert_eq!(revealed.environment["PASSWORD"].expose(), image, "round {round}");
        }
        let secrets: Api<KubeSecret> = Api::namespaced(admin(cluster).await, namespace);
        let kept = secrets.get("twice-a.credentials").await.expect("there").data.expect("values");
        assert_eq!(kept.len(), 1, "what is of the past is not kept");
        current = won;
    }
    no_lease_is_left(cluster, &options.namespace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_told_of_a_conflict_reads_what_is_there() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "behind").await;
    let other = world(cluster, &options).await;
    let namespace = options.services_namespace.as_str();
    let (service, sensitive) = mk_state("behind-a", namespace, "first");
    let first = other.services().create(service, sensitive).await.expect("created");
    // Lists come through, and nothing that happens afterwards.
    let blind = Faults::new(|request| if is_watch(request) { Fate::LostBefore } else { Fate::Pass });
    let behind = ready(KubeWorld::with_client(blind.client(cluster).await, options.clone())).await;
    let store = behind.services();
    assert_eq!(store.get(&name("behind-a")).await, Ok(Some(first.clone())));

    for round in ["second", "third"] {
        let now = other.services().get(&name("behind-a")).await.expect("readable").expect("there");
        let (service, sensitive) = mk_state("behind-a", namespace, round);
        let now = other.services().replace(service, sensitive, &now.revision).await.expect("replaced");
        let (service, sensitive) = mk_state("behind-a", namespace, "late");
        let refused = if round == "second" {
            store.replace(service, sensitive, &first.revision).await.map(drop)
        } else {
            store.remove(&name("behind-a"), Some(&first.revision)).await
        };
        assert_eq!(refused, Err(StoreError::Conflict));
        assert_eq!(store.get(&name("behind-a")).await, Ok(Some(now)), "the next read shows what was in the way");
    }
}
