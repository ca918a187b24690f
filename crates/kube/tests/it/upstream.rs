//! What Go OSCAR left in a namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, PodTemplate, Secret as KubeSecret};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Scope};
use oscar_engine::testing::make::mk_subject;
use oscar_model::identity::Owner;
use oscar_model::service::{Sensitive, Visibility};
use oscar_testkit::{Apiserver, require};
use serde_json::json;

use crate::support::{admin, eventually, labelled, name, options, world};

const SCRIPT: &str = "#!/bin/bash\necho hello\n";

async fn plant(client: &Client, namespace: &str, service: &str, config: &str) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let record = json!({
        "metadata": {"name": service, "labels": {"oscar_service": service}},
        "data": {"function_config.yaml": config, "script.sh": SCRIPT},
    });
    let record = serde_json::from_value(record).expect("a ConfigMap");
    api.create(&PostParams::default(), &record).await.expect("planted");
}

async fn plant_secret(client: &Client, namespace: &str, service: &str) {
    let api: Api<KubeSecret> = Api::namespaced(client.clone(), namespace);
    let secret = json!({"metadata": {"name": service}, "stringData": {"API_KEY": "planted-key"}});
    let secret = serde_json::from_value(secret).expect("a Secret");
    api.create(&PostParams::default(), &secret).await.expect("planted");
}

async fn secret_names(client: &Client, namespace: &str) -> Vec<String> {
    let api: Api<KubeSecret> = Api::namespaced(client.clone(), namespace);
    api.list(&kube::api::ListParams::default()).await.expect("listed").items.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_of_go_oscar_are_read_changed_and_removed() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "up").await;
    let client = admin(cluster).await;
    let namespace = options.services_namespace.as_str();
    plant_secret(&client, namespace, "up-grayify").await;
    plant(&client, namespace, "up-grayify", include_str!("../fixtures/grayify.yaml")).await;
    plant(&client, namespace, "up-exposed", include_str!("../fixtures/exposed.yaml")).await;
    plant(&client, namespace, "up-broken", include_str!("../fixtures/broken.yaml")).await;

    let world = world(cluster, &options).await;
    let store = world.services();
    let first = store.get(&name("up-grayify")).await.expect("readable").expect("there");
    let service = &first.service;
    assert_eq!(service.owner.as_str(), "62bb11b40398ff@egi.eu");
    assert_eq!(service.namespace, namespace);
    assert_eq!(service.definition.script, SCRIPT);
    assert_eq!(service.definition.visibility, Visibility::Restricted);
    assert_eq!(service.definition.environment.variables.get("LEVEL").map(String::as_str), Some("010"));
    assert!(service.definition.clusters["other"].auth_password.is_blank(), "passwords are not shown");
    let sensitive = store.reveal(&name("up-grayify")).await.expect("revealed");
    assert_eq!(sensitive.environment["API_KEY"].expose(), "planted-key");
    assert_eq!(sensitive.cluster_passwords["other"].expose(), "planted-inline-password");

    let exposed = store.get(&name("up-exposed")).await.expect("readable").expect("there");
    assert_eq!(exposed.service.owner, Owner::Admin);
    assert_eq!(exposed.service.definition.environment.variables.get("OLD").map(String::as_str), Some("spelling"));
    assert_eq!(store.reveal(&name("up-exposed")).await, Ok(Sensitive::default()));

    // The unreadable one says so and breaks nothing.
    assert!(matches!(store.get(&name("up-broken")).await, Err(StoreError::Broken(_))));
    let listed = store.list(&Scope::All).await.expect("listing works");
    let ours: BTreeMap<_, _> = listed
        .iter()
        .filter(|entry| entry.name().starts_with("up-"))
        .map(|entry| (entry.name(), matches!(entry, Entry::Good(_))))
        .collect();
    assert_eq!(ours, BTreeMap::from([("up-broken", false), ("up-exposed", true), ("up-grayify", true)]));
    let friend = store.list(&Scope::VisibleTo(mk_subject("friend@egi.eu"))).await.expect("listing works");
    assert_eq!(
        friend.iter().map(Entry::name).filter(|name| name.starts_with("up-")).collect::<Vec<_>>(),
        ["up-grayify"]
    );

    // A name that it holds is taken.
    let again = store.create(service.clone(), Sensitive::default()).await;
    assert_eq!(again, Err(StoreError::AlreadyExists));

    // Replaced, it is in the present layout, and Go OSCAR still finds what it looks for.
    let mut changed = service.clone();
    changed.definition.image = "changed".to_owned();
    let second = store.replace(changed.clone(), sensitive.clone(), &first.revision).await.expect("replaced");
    assert_eq!(second.service, changed);
    assert_eq!(store.reveal(&name("up-grayify")).await, Ok(sensitive));
    let record: ConfigMap = Api::namespaced(client.clone(), namespace).get("up-grayify").await.expect("there");
    let text = serde_json::to_string(&record.data).expect("JSON");
    assert!(!text.contains("planted-inline-password"), "the password left the record");
    assert_eq!(labelled::<PodTemplate>(&client, "up-grayify").await, ["up-grayify"]);
    let mut secrets = labelled::<KubeSecret>(&client, "up-grayify").await;
    secrets.sort();
    assert_eq!(secrets, ["up-grayify", "up-grayify.credentials"]);

    // Removed, nothing of it is left; the broken one can be removed too.
    store.remove(&name("up-grayify"), Some(&second.revision)).await.expect("removed");
    store.remove(&name("up-broken"), None).await.expect("removed");
    plant_secret(&client, namespace, "up-exposed").await;
    store.remove(&name("up-exposed"), None).await.expect("removed");
    assert_eq!(secret_names(&client, namespace).await, Vec::<String>::new());
    assert!(labelled::<PodTemplate>(&client, "up-grayify").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_go_oscar_does_to_our_services_is_followed() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "back").await;
    let client = admin(cluster).await;
    let world = world(cluster, &options).await;
    let store = world.services();
    let (mut service, sensitive) = oscar_engine::testing::make::mk_secretive("back-a", &Owner::Admin);
    service.namespace.clone_from(&options.services_namespace);
    store.create(service.clone(), sensitive).await.expect("created");

    // Go OSCAR writes the whole ConfigMap and the whole Secret anew, without our annotations.
    let namespace = options.services_namespace.as_str();
    let records: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let secrets: Api<KubeSecret> = Api::namespaced(client.clone(), namespace);
    let mut secret = secrets.get("back-a").await.expect("pods find it under the service's name");
    secret.metadata.annotations = None;
    secret.data = None;
    secret.string_data = Some(BTreeMap::from([("PASSWORD".to_owned(), "newer".to_owned())]));
    secrets.replace("back-a", &PostParams::default(), &secret).await.expect("replaced");
    let mut record = records.get("back-a").await.expect("there");
    record.metadata.annotations = None;
    records.replace("back-a", &PostParams::default(), &record).await.expect("replaced");
    eventually("the newer value is revealed", async || {
        let revealed = store.reveal(&name("back-a")).await.ok()?;
        (revealed.environment.get("PASSWORD")?.expose() == "newer").then_some(())
    })
    .await;

    // It deletes what it knows of; the rest is found and removed.
    let stored = store.get(&name("back-a")).await.expect("readable").expect("there");
    let sensitive = store.reveal(&name("back-a")).await.expect("revealed");
    store.replace(stored.service.clone(), sensitive, &stored.revision).await.expect("replaced");
    let how = kube::api::DeleteParams::default();
    records.delete("back-a", &how).await.expect("deleted");
    secrets.delete("back-a", &how).await.expect("deleted");
    eventually("the service is gone", async || {
        store.get(&name("back-a")).await.expect("readable").is_none().then_some(())
    })
    .await;
    world.tick_settle().await.expect("settled");
    assert_eq!(secret_names(&client, namespace).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_somebody_elses_is_not_taken() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "theirs").await;
    let client = admin(cluster).await;
    let world = world(cluster, &options).await;
    let namespace = options.services_namespace.as_str();
    // Keys of a user for the object store carry the user's id, which can look like a service.
    let secrets: Api<KubeSecret> = Api::namespaced(client.clone(), namespace);
    let keys = json!({"metadata": {"name": "theirs-a"}, "stringData": {"oidc_uid": "u", "secretKey": "k"}});
    let keys: KubeSecret = serde_json::from_value(keys).expect("a Secret");
    secrets.create(&PostParams::default(), &keys).await.expect("planted");
    let (mut service, sensitive) = oscar_engine::testing::make::mk_secretive("theirs-a", &Owner::Admin);
    service.namespace.clone_from(&options.services_namespace);
    let refused = world.services().create(service.clone(), sensitive).await;
    let Err(StoreError::Occupied(cause)) = refused else { panic!("{refused:?}") };
    assert!(cause.contains(&format!("Secret {namespace}/theirs-a ")), "{cause}");
    assert_eq!(secret_names(&client, namespace).await, ["theirs-a"], "and nothing was made beside it");
    let kept = secrets.get("theirs-a").await.expect("there");
    assert!(kept.data.is_some_and(|data| data.contains_key("secretKey")));

    // A ConfigMap of that name that is no service is left alone as well.
    let records: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let own = json!({"metadata": {"name": "theirs-b"}, "data": {"mine": "x"}});
    let own: ConfigMap = serde_json::from_value(own).expect("a ConfigMap");
    records.create(&PostParams::default(), &own).await.expect("planted");
    let (mut service, sensitive) = oscar_engine::testing::make::mk_secretive("theirs-b", &Owner::Admin);
    service.namespace.clone_from(&options.services_namespace);
    let refused = world.services().create(service, sensitive).await;
    assert_eq!(refused, Err(StoreError::AlreadyExists));
    assert!(records.get("theirs-b").await.expect("there").data.is_some_and(|data| data.contains_key("mine")));
    assert_eq!(secret_names(&client, namespace).await, ["theirs-a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_of_somebody_else_keeps_no_service_from_being_changed_or_removed() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "between").await;
    let client = admin(cluster).await;
    let world = world(cluster, &options).await;
    let store = world.services();
    let namespace = options.services_namespace.as_str();
    let secrets: Api<KubeSecret> = Api::namespaced(client.clone(), namespace);
    let foreign = [
        ("keys", "between-a", json!({"stringData": {"oidc_uid": "u", "mine": "x"}})),
        ("plain", "between-b", json!({"stringData": {"mine": "x"}})),
        ("special", "between-c", json!({"type": "example.org/own", "stringData": {"mine": "x"}})),
        ("beside", "between-d.credentials", json!({"stringData": {"mine": "x"}})),
    ];
    for (what, secret, mut object) in foreign {
        let text = secret.split('.').next().expect("a name");
        let (mut service, sensitive) = oscar_engine::testing::make::mk_secretive(text, &Owner::Admin);
        service.namespace.clone_from(&options.services_namespace);
        let made = store.create(service.clone(), Sensitive::default()).await.expect("created without secrets");
        object["metadata"] = json!({"name": secret});
        let object: KubeSecret = serde_json::from_value(object).expect("a Secret");
        secrets.create(&PostParams::default(), &object).await.expect("planted");

        let refused = store.replace(service.clone(), sensitive.clone(), &made.revision).await;
        let Err(StoreError::Occupied(cause)) = refused else { panic!("{what}: {refused:?}") };
        assert!(cause.contains(&format!("Secret {namespace}/{secret} ")), "{what}: {cause}");
        assert_eq!(store.get(&name(text)).await, Ok(Some(made.clone())), "{what}: nothing was changed");
        service.definition.image = "another".to_owned();
        let changed = store.replace(service.clone(), Sensitive::default(), &made.revision).await;
        let changed = changed.expect("what needs no Secret can be changed");
        store.remove(&name(text), Some(&changed.revision)).await.expect("and it can be removed");

        // Somebody replaces a Secret that the service had.
        secrets.delete(secret, &kube::api::DeleteParams::default()).await.expect("deleted");
        let made = store.create(service.clone(), sensitive.clone()).await.expect("created with secrets");
        secrets.delete(secret, &kube::api::DeleteParams::default()).await.expect("deleted");
        secrets.create(&PostParams::default(), &object).await.expect("planted");
        let refused = store.replace(service, sensitive, &made.revision).await;
        assert!(matches!(refused, Err(StoreError::Occupied(_))), "{what}: {refused:?}");
        store.remove(&name(text), None).await.expect("it can be removed all the same");
        world.tick_settle().await.expect("and nothing is unsettled");
        assert_eq!(labelled::<KubeSecret>(&client, text).await, Vec::<String>::new(), "{what}");
        let kept = secrets.get(secret).await.expect("it is still there").data.expect("with what it holds");
        assert!(kept.contains_key("mine"), "{what}");
    }
}
