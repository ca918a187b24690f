//! An apiserver that has too much to do: 429 and 5xx.

use std::collections::HashSet;

use http::{Method, StatusCode};
use oscar_engine::ports::StoreError;
use oscar_engine::testing::make::mk_secretive;
use oscar_kube::{KubeWorld, Options};
use oscar_model::identity::Owner;
use oscar_model::service::{Sensitive, Service};
use oscar_testkit::{Apiserver, require};

use crate::gate::{Gate, Verdict};
use crate::support::{name, options, ready, world};

fn mk_state(text: &str, options: &Options) -> (Service, Sensitive) {
    let (mut service, sensitive) = mk_secretive(text, &Owner::Admin);
    service.namespace.clone_from(&options.services_namespace);
    (service, sensitive)
}

async fn scene(cluster: &Apiserver, test: &str) -> (Options, Gate, KubeWorld) {
    let options = options(cluster, test).await;
    let gate = Gate::before(cluster).await;
    let world = ready(KubeWorld::with_client(gate.client(), options.clone())).await;
    (options, gate, world)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_put_off_is_made_again() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "putoff").await;
    let gate = Gate::before(cluster).await;
    // Also the first lists of a manager that begins.
    let mut once = HashSet::new();
    gate.rule(
        move |call| {
            if once.insert(call.clone()) { Verdict::Refuse(StatusCode::TOO_MANY_REQUESTS) } else { Verdict::Pass }
        },
    );
    let world = ready(KubeWorld::with_client(gate.client(), options.clone())).await;
    let services = world.services();

    let records = format!("/api/v1/namespaces/{}/configmaps", options.services_namespace);
    let is_create = |call: &crate::gate::Call| call.method == Method::POST && call.path == records;
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        let text = format!("putoff-{}", status.as_u16());
        let (service, sensitive) = mk_state(&text, &options);
        let mut refused = false;
        let path = records.clone();
        gate.rule(move |call| {
            if call.method == Method::POST && call.path == path && !std::mem::replace(&mut refused, true) {
                Verdict::Refuse(status)
            } else {
                Verdict::Pass
            }
        });
        services.create(service, sensitive).await.expect("it was only put off");
        assert_eq!(gate.calls(is_create), 2, "{status}: once refused, once made");
        assert!(services.get(&name(&text)).await.expect("an answer").is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeating_what_had_its_effect_is_no_wrong_answer() {
    let cluster = require!(Apiserver::shared());
    let (options, gate, through) = scene(cluster, "spoilt").await;
    let services = through.services();
    let spoil = || {
        let mut once = HashSet::new();
        gate.rule(move |call| {
            if call.changes() && once.insert(call.clone()) {
                Verdict::Spoil(StatusCode::GATEWAY_TIMEOUT)
            } else {
                Verdict::Pass
            }
        });
    };
    let (service, sensitive) = mk_state("spoilt-a", &options);
    spoil();
    let made = services.create(service.clone(), sensitive.clone()).await.expect("it was created, not there before");

    let mut changed = service;
    changed.definition.image = "another".to_owned();
    spoil();
    let made = services.replace(changed, sensitive.clone(), &made.revision).await.expect("no conflict with itself");
    let fresh = world(cluster, &options).await;
    let seen = fresh.services().get(&name("spoilt-a")).await.expect("an answer").expect("it is there");
    assert_eq!((seen.service.definition.image.as_str(), &seen.revision), ("another", &made.revision));
    assert_eq!(fresh.services().reveal(&name("spoilt-a")).await, Ok(sensitive));

    spoil();
    services.remove(&name("spoilt-a"), Some(&made.revision)).await.expect("it was removed, not absent before");
    assert_eq!(services.get(&name("spoilt-a")).await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apiserver_that_fails_is_called_unavailable_and_nothing_else() {
    let cluster = require!(Apiserver::shared());
    let (options, gate, world) = scene(cluster, "failing").await;
    let services = world.services();
    let (service, sensitive) = mk_state("failing-a", &options);
    let made = services.create(service.clone(), sensitive.clone()).await.expect("created");

    // 500 is not made again by anybody, so it is told at once; 429 is, until time is up.
    for status in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::BAD_GATEWAY, StatusCode::TOO_MANY_REQUESTS] {
        gate.rule(move |_| Verdict::Refuse(status));
        let is_unavailable = |error: &StoreError| matches!(error, StoreError::Unavailable(_));
        let (new, its) = mk_state(&format!("failing-{}", status.as_u16()), &options);
        let created = services.create(new.clone(), its).await.expect_err("it cannot be created");
        assert!(is_unavailable(&created), "{status}: {created:?}");
        if status == StatusCode::TOO_MANY_REQUESTS {
            let tries = gate.calls(|call| call.method == Method::POST);
            assert!((2..=16).contains(&tries), "made again, and not without end: {tries} times");
        } else {
            let replaced = services.replace(service.clone(), sensitive.clone(), &made.revision).await;
            let removed = services.remove(&name("failing-a"), None).await;
            let revealed = services.reveal(&name("failing-a")).await;
            let absent = services.remove(&name("failing-absent"), None).await;
            let errors = [replaced.err(), removed.err(), revealed.err(), absent.err()];
            assert!(errors.iter().all(|error| error.as_ref().is_some_and(is_unavailable)), "{status}: {errors:?}");
        }
        // What was seen is still answered.
        assert_eq!(services.get(&name("failing-a")).await, Ok(Some(made.clone())));
        assert_eq!(services.get(new.name()).await, Ok(None));
    }

    gate.rule(|_| Verdict::Pass);
    services.replace(service, sensitive, &made.revision).await.expect("everything is as it was");
}
