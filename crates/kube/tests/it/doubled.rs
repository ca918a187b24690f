use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Scope};
use oscar_engine::testing::make::mk_owner;
use oscar_model::service::Sensitive;
use oscar_testkit::{Apiserver, require};

use crate::support::{admin, at_home, eventually, name, options, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_records_of_one_name_break_only_that_name() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "dbl").await;
    let world = world(cluster, &options).await;
    let (alice, bob) = (mk_owner("dbl-alice"), mk_owner("dbl-bob"));
    let service = at_home(&*world.users(), "dbl-a", &alice).await;
    let store = world.services();
    store.create(service.clone(), Sensitive::default()).await.expect("created");
    let other = at_home(&*world.users(), "dbl-b", &bob).await;
    store.create(other.clone(), Sensitive::default()).await.expect("created");

    // Somebody copies the record into another namespace.
    let client = admin(cluster).await;
    let here: Api<ConfigMap> = Api::namespaced(client.clone(), &service.namespace);
    let there: Api<ConfigMap> = Api::namespaced(client, &other.namespace);
    let mut copy = here.get("dbl-a").await.expect("there");
    copy.metadata.namespace = Some(other.namespace.clone());
    copy.metadata.resource_version = None;
    copy.metadata.uid = None;
    there.create(&PostParams::default(), &copy).await.expect("copied");

    let cause = eventually("the name is broken", async || match store.get(&name("dbl-a")).await {
        Err(StoreError::Broken(cause)) => Some(cause),
        _ => None,
    })
    .await;
    assert!(cause.contains(&service.namespace) && cause.contains(&other.namespace), "{cause}");
    let listed = store.list(&Scope::All).await.expect("listing works");
    let both: Vec<_> = listed.iter().filter(|entry| entry.name() == "dbl-a").collect();
    assert!(both.len() == 2 && both.iter().all(|entry| matches!(entry, Entry::Broken { .. })), "{both:?}");
    assert!(store.get(&name("dbl-b")).await.expect("readable").is_some(), "others are whole");
    assert!(matches!(store.remove(&name("dbl-a"), None).await, Err(StoreError::Broken(_))));
    let again = store.create(service, Sensitive::default()).await;
    assert_eq!(again, Err(StoreError::AlreadyExists));

    there.delete("dbl-a", &DeleteParams::default()).await.expect("deleted");
    eventually("the name is whole again", async || store.get(&name("dbl-a")).await.ok().flatten()).await;
}
