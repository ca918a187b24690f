//! A manager that is cut off, or dies, at every single call of every change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplate, Secret as KubeSecret};
use kube::api::{Api, ListParams};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Services, Stored};
use oscar_engine::testing::make::mk_secretive;
use oscar_kube::{KubeWorld, Options};
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::{Sensitive, Service};
use oscar_testkit::{Apiserver, count, require};

use crate::support::{Fate, Faults, admin, eventually, is_watch, labelled, name, options, ready, world};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Create,
    Replace,
    Remove,
}

#[derive(Debug, Clone, Copy)]
struct Trial {
    change: Change,
    /// Which call fails.
    call: usize,
    fate: Fate,
    /// Whether every call after it fails too.
    dies: bool,
}

/// A state of the service: its image and its secrets say which.
fn mk_state(name: &str, namespace: &str, state: &str) -> (Service, Sensitive) {
    let (mut service, mut sensitive) = mk_secretive(name, &Owner::Admin);
    namespace.clone_into(&mut service.namespace);
    service.definition.image = state.to_owned();
    sensitive.environment.insert("PASSWORD".to_owned(), Secret::new(state));
    (service, sensitive)
}

/// What a manager that begins now sees: nothing, or one whole state.
async fn observed(cluster: &Apiserver, options: &Options, text: &str) -> Option<(Arc<Stored>, String)> {
    let fresh = world(cluster, options).await;
    let stored = fresh.services().get(&name(text)).await.expect("never half-made")?;
    let sensitive = fresh.services().reveal(&name(text)).await.expect("its secrets are there");
    let state = stored.service.definition.image.clone();
    assert_eq!(sensitive.environment["PASSWORD"].expose(), state, "definition and secrets are of one change");
    assert_eq!(sensitive.cluster_passwords.len(), 1);
    Some((stored, state))
}

/// Returns whether the call that was to fail was ever made.
async fn run(cluster: &Apiserver, options: &Options, healthy: &KubeWorld, trial: Trial) -> bool {
    let Trial { change, call, fate, dies } = trial;
    let text = format!("crash-{change:?}-{call}-{fate:?}-{dies}").to_lowercase();
    let namespace = options.services_namespace.as_str();
    let (old, old_secrets) = mk_state(&text, namespace, "old");
    let (new, new_secrets) = mk_state(&text, namespace, "new");
    let store = healthy.services();
    let before = match change {
        Change::Create => None,
        Change::Replace | Change::Remove => {
            make(&*store, &old, &old_secrets).await;
            eventually("it is seen", async || store.get(&name(&text)).await.expect("readable")).await.into()
        }
    };

    let (calls, armed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, switch, about) = (calls.clone(), armed.clone(), text.clone());
    let losses = Faults::new(move |request| {
        if !switch.load(Ordering::SeqCst) {
            return Fate::Pass;
        }
        // Calls of the change itself, not of what goes on in the background.
        let named = request.uri().to_string().contains(&about) && !is_watch(request);
        let ours = named || request.method() == http::Method::POST;
        let number = if ours { counted.fetch_add(1, Ordering::SeqCst) } else { counted.load(Ordering::SeqCst) };
        match number {
            number if number > call && dies => Fate::LostBefore,
            number if ours && number == call => fate,
            _ => Fate::Pass,
        }
    });
    let faulty = ready(KubeWorld::with_client(losses.client(cluster).await, options.clone())).await;
    let own = faulty.services();
    if before.is_some() {
        eventually("it is seen", async || own.get(&name(&text)).await.expect("readable")).await;
    }
    armed.store(true, Ordering::SeqCst);
    let outcome = attempt(&*own, change, before.as_deref(), new.clone(), new_secrets.clone()).await;
    armed.store(dies, Ordering::SeqCst);
    let reached = calls.load(Ordering::SeqCst) > call;

    let seen = observed(cluster, options, &text).await;
    let state = seen.as_ref().map(|(_, state)| state.as_str());
    let (was, is) = match change {
        Change::Create => (None, Some("new")),
        Change::Replace => (Some("old"), Some("new")),
        Change::Remove => (Some("old"), None),
    };
    match &outcome {
        Ok(()) => assert_eq!(state, is, "{trial:?}"),
        Err(StoreError::Unavailable(_)) => assert!(state == was || state == is, "{trial:?}: {state:?}"),
        Err(other) => panic!("{trial:?}: {other}"),
    }
    drop(faulty);
    recover(&*store, &text, change, (new, new_secrets)).await;
    nothing_is_left(cluster, options, healthy, &text).await;
    reached
}

/// Creates it as a patient client does: a loaded machine may be too slow at first.
async fn make(store: &dyn Services, service: &Service, secrets: &Sensitive) {
    eventually("it can be made", async || match store.create(service.clone(), secrets.clone()).await {
        Ok(_) | Err(StoreError::AlreadyExists) => Some(()),
        Err(StoreError::Unavailable(_)) => None,
        Err(other) => panic!("{}: {other}", service.name()),
    })
    .await;
}

async fn attempt(
    store: &dyn Services,
    change: Change,
    before: Option<&Stored>,
    new: Service,
    secrets: Sensitive,
) -> Result<(), StoreError> {
    match (change, before) {
        (Change::Replace, Some(before)) => store.replace(new, secrets, &before.revision).await.map(drop),
        (Change::Remove, Some(before)) => store.remove(new.name(), Some(&before.revision)).await,
        _ => store.create(new, secrets).await.map(drop),
    }
}

/// Somebody else tries the same again, and takes everything away in the end.
async fn recover(store: &dyn Services, text: &str, change: Change, (new, secrets): (Service, Sensitive)) {
    match change {
        Change::Create => {
            make(store, &new, &secrets).await;
            eventually("it is seen", async || store.get(&name(text)).await.expect("readable")).await;
        }
        Change::Replace => {
            eventually("a retry succeeds", async || {
                let now = store.get(&name(text)).await.expect("readable").expect("there");
                store.replace(new.clone(), secrets.clone(), &now.revision).await.ok()
            })
            .await;
            assert_eq!(store.reveal(&name(text)).await, Ok(secrets));
        }
        Change::Remove => {}
    }
    eventually("it can be removed", async || match store.remove(&name(text), None).await {
        Ok(()) | Err(StoreError::NotFound) => Some(()),
        Err(StoreError::Unavailable(_)) => None,
        Err(other) => panic!("{text}: {other}"),
    })
    .await;
}

async fn nothing_is_left(cluster: &Apiserver, options: &Options, healthy: &KubeWorld, text: &str) {
    let client = admin(cluster).await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), &options.namespace);
    eventually(&format!("nothing of {text} is left"), async || {
        healthy.tick_settle().await.expect("settling works");
        let lease = leases.list(&ListParams::default()).await.expect("listed").items;
        let lease = lease.iter().any(|lease| lease.metadata.name.as_deref() == Some(&format!("oscar-name.{text}")));
        let records = labelled::<ConfigMap>(&client, text).await;
        let secrets = labelled::<KubeSecret>(&client, text).await;
        let templates = labelled::<PodTemplate>(&client, text).await;
        (!lease && records.is_empty() && secrets.is_empty() && templates.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_can_be_lost_with_harm() {
    let cluster = require!(Apiserver::shared());
    let mut options = options(cluster, "crash").await;
    options.patience = Duration::from_secs(5);
    let healthy = world(cluster, &options).await;
    let changes = [Change::Create, Change::Replace, Change::Remove];
    let lost = join_all(changes.map(|change| lose_each_call(cluster, &options, &healthy, change))).await;
    count("kube_calls_lost", lost.iter().sum());
}

/// Three calls at a time, until the change is over before its turn to fail comes.
async fn lose_each_call(cluster: &Apiserver, options: &Options, healthy: &KubeWorld, change: Change) -> u64 {
    let mut lost = 0;
    for first in (0..).step_by(3) {
        let trials = (first..first + 3).flat_map(|call| {
            let fates = [Fate::LostBefore, Fate::LostAfter].into_iter();
            fates.flat_map(move |fate| [false, true].map(|dies| Trial { change, call, fate, dies }))
        });
        let reached = join_all(trials.map(|trial| run(cluster, options, healthy, trial))).await;
        lost += reached.iter().map(|reached| u64::from(*reached)).sum::<u64>();
        if reached.iter().any(|reached| !reached) {
            assert!(first > 3, "{change:?} makes more calls than that");
            return lost;
        }
    }
    lost
}
