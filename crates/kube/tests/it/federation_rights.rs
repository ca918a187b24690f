//! Who can read refresh tokens and the journal: the manager, and nobody who runs a service.

use std::path::Path;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplate, Secret};
use kube::api::{Api, ListParams, PostParams};
use oscar_engine::testing::conformance_federation::{mk_federation, mk_grant, mk_grant_id, mk_operation};
use oscar_engine::testing::make::{mk_owner, mk_secretive};
use oscar_testkit::{Apiserver, require};
use serde_json::json;

use crate::support::{admin, apply, config, in_charge, kubectl, name, options, world};

/// Whether an account may do something to Secrets.
async fn may(client: &kube::Client, account: &str, verb: &str, namespace: &str, secret: &str) -> bool {
    let review = json!({
        "metadata": {},
        "spec": {
            "user": format!("system:serviceaccount:{account}"),
            "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{}", account.split(':').next().unwrap_or_default()), "system:authenticated"],
            "resourceAttributes": {"verb": verb, "resource": "secrets", "namespace": namespace, "name": secret},
        },
    });
    let review: SubjectAccessReview = serde_json::from_value(review).expect("a review");
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await.expect("answered");
    answer.status.expect("it was answered").allowed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_accounts_of_services_cannot_read_refresh_tokens() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "rights").await;
    let world = world(cluster, &options).await;
    let client = admin(cluster).await;
    let owner = mk_owner("rights-alice");
    let home = world.users().ensure(&owner, "Alice").await.expect("a home").namespace;
    let grant = mk_grant(&mk_grant_id("rights-and-duties"), &owner, &home);
    world.vault().put_grant(&grant).await.expect("put");
    let _charge = in_charge(&world).await;
    world.journal().put_operation(&mk_operation("op", 1)).await.expect("put");
    let token = format!("{}.refresh-token", &grant.id[..32]);

    apply(cluster, &format!("apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: runner\n  namespace: {home}\n"));
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &home);
    let entries: Api<Secret> = Api::namespaced(client.clone(), &options.namespace);
    let entry = entries.list(&ListParams::default().labels("oscar.grycap/journal=operation")).await.expect("listed");
    let entry = entry.items[0].metadata.name.clone().expect("a name");
    assert!(secrets.get_opt(&token).await.expect("readable").is_some(), "it is where the test looks");
    assert!(entry.contains('.') && token.contains('.'), "no service can be called so");

    for account in [format!("{home}:runner"), format!("{home}:default")] {
        for verb in ["get", "list", "watch", "update", "patch", "delete"] {
            assert!(!may(&client, &account, verb, &home, &token).await, "{account} may {verb} the token");
            assert!(
                !may(&client, &account, verb, &options.namespace, &entry).await,
                "{account} may {verb} the journal"
            );
        }
    }
    let manager = format!("{}:{}", options.namespace, options.controller_service_account);
    assert!(may(&client, &manager, "get", &home, &token).await, "the manager reads it by name");
    assert!(!may(&client, &manager, "list", &home, "").await, "nobody lists the Secrets of users");
    assert!(!may(&client, &manager, "list", "", "").await);

    // The same with the account's own token.
    let (made, bearer, complained) = kubectl(cluster, &["-n", &home, "create", "token", "runner"]);
    assert!(made, "{complained}");
    let runner = kube::Client::try_from(config(cluster, bearer.trim()).await).expect("a client");
    let theirs: Api<Secret> = Api::namespaced(runner.clone(), &home);
    let refused = theirs.get(&token).await.expect_err("it must be refused").to_string();
    assert!(refused.contains("forbidden") && !refused.contains("planted"), "{refused}");
    assert!(theirs.list(&ListParams::default()).await.is_err());
    let journal: Api<Secret> = Api::namespaced(runner, &options.namespace);
    assert!(journal.get(&entry).await.is_err() && journal.list(&ListParams::default()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_object_but_its_own_secret_holds_or_names_a_refresh_token() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "names").await;
    let world = world(cluster, &options).await;
    let owner = mk_owner("names-alice");
    let home = world.users().ensure(&owner, "Alice").await.expect("a home").namespace;
    let (mut service, sensitive) = mk_secretive("names-a", &owner);
    service.namespace.clone_from(&home);
    world.services().create(service, sensitive).await.expect("created");
    let mut grant = mk_grant(&mk_grant_id("names"), &owner, &home);
    grant.holders = [name("names-a").into()].into();
    world.vault().put_grant(&grant).await.expect("put");
    let _charge = in_charge(&world).await;
    world.journal().put_federation(&mk_federation("names", "names-a")).await.expect("put");

    let client = admin(cluster).await;
    let mut others = Vec::new();
    for namespace in [&home, &options.namespace] {
        let all = ListParams::default();
        let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace).list(&all).await.expect("listed").items;
        others.extend(maps.iter().map(|map| serde_json::to_string(map).expect("JSON")));
        let pods = Api::<PodTemplate>::namespaced(client.clone(), namespace).list(&all).await.expect("listed").items;
        assert!(!format!("{pods:?}").contains("refresh-token"), "no pod refers to it");
        others.extend(pods.iter().map(|pod| serde_json::to_string(pod).expect("JSON")));
    }
    for object in others {
        assert!(!object.contains("planted"), "{object}");
    }
    let secrets = Api::<Secret>::namespaced(client, &home).list(&ListParams::default()).await.expect("listed").items;
    let holding = secrets.iter().filter(|secret| {
        let values = secret.data.iter().flat_map(|data| data.values());
        values.map(|value| String::from_utf8_lossy(&value.0)).any(|value| value.contains("planted-refresh-token"))
    });
    let holding: Vec<_> = holding.collect();
    assert_eq!(holding.len(), 1);
    let notes = holding[0].metadata.annotations.as_ref().expect("annotations");
    assert_eq!(notes["oscar.grycap/holders"], "names-a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_policy_tells_who_read_a_token_and_never_what_it_is() {
    let cluster = require!(Apiserver::start());
    let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/apiserver/audit-policy.yaml");
    let policy = std::fs::read_to_string(policy).expect("the policy is there");
    let cluster = std::sync::Arc::new(cluster);
    let audited = cluster.clone();
    let log = tokio::task::spawn_blocking(move || audited.audit_with(&policy)).await.expect("it accepts the policy");
    let options = options(&cluster, "seen").await;
    let world = world(&cluster, &options).await;
    let grant = mk_grant(&mk_grant_id("seen"), &oscar_model::identity::Owner::Admin, &options.services_namespace);
    world.vault().put_grant(&grant).await.expect("put");
    world.vault().grant(&grant.id).await.expect("read").expect("there");
    let _charge = in_charge(&world).await;
    world.journal().put_operation(&mk_operation("op", 1)).await.expect("put");

    let text = std::fs::read_to_string(log).expect("a log");
    let events: Vec<serde_json::Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let about = |verb: &str, part: &str| {
        events.iter().any(|event| {
            event["verb"] == verb && event["objectRef"]["name"].as_str().is_some_and(|name| name.contains(part))
        })
    };
    assert!(about("create", "refresh-token") && about("get", "refresh-token"), "every use of a token is there");
    assert!(about("create", "journal.operation"));
    let plain = "planted-refresh-token";
    assert!(!text.contains(plain) && !text.contains("planted"), "no value is there");
    // Secrets are base64 on the wire, at any of three offsets.
    for encoded in ["cGxhbnRlZC", "BsYW50ZWQ", "wbGFudGVk"] {
        assert!(!text.contains(encoded), "no value is there in base64");
    }
}
