//! Many callers at once: what the store answers is what the in-memory one would.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use oscar_engine::memory::MemoryServices;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Revision, Scope, Services};
use oscar_engine::testing::make::{mk_secretive, mk_service};
use oscar_local::{LocalStore, Options};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::service::{Sensitive, Service};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Create { name: u8, image: u8 },
    Replace { name: u8, image: u8, expected: Expected },
    Remove { name: u8, expected: Option<Expected> },
}

#[derive(Debug, Clone)]
enum Expected {
    /// The revision that stands at that moment.
    Current,
    Number(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    let name = 0..4u8;
    let expected = prop_oneof![Just(Expected::Current), (1..12u8).prop_map(Expected::Number)];
    prop_oneof![
        (name.clone(), any::<u8>()).prop_map(|(name, image)| Step::Create { name, image }),
        (name.clone(), any::<u8>(), expected.clone()).prop_map(|(name, image, expected)| Step::Replace {
            name,
            image,
            expected
        }),
        (name, proptest::option::of(expected)).prop_map(|(name, expected)| Step::Remove { name, expected }),
    ]
}

/// A step with everything decided.
enum Call {
    Create(Service, Sensitive),
    Replace(Service, Sensitive, Revision),
    Remove(ServiceName, Option<Revision>),
}

fn mk(name: u8, image: u8) -> (Service, Sensitive) {
    let (mut service, sensitive) = mk_secretive(&format!("s-{name}"), &Owner::Admin);
    service.definition.image = format!("image-{image}");
    (service, sensitive)
}

async fn decide(step: Step, model: &MemoryServices) -> Call {
    let name_of = |name: u8| mk_service(&format!("s-{name}"), &Owner::Admin).name().clone();
    let current = async |name: u8| match model.get(&name_of(name)).await {
        Ok(Some(stored)) => stored.revision.clone(),
        _ => Revision::new("none"),
    };
    let revision_of = async |name: u8, expected: Expected| match expected {
        Expected::Number(number) => Revision::new(number.to_string()),
        Expected::Current => current(name).await,
    };
    match step {
        Step::Create { name, image } => {
            let (service, sensitive) = mk(name, image);
            Call::Create(service, sensitive)
        }
        Step::Replace { name, image, expected } => {
            let (service, sensitive) = mk(name, image);
            Call::Replace(service, sensitive, revision_of(name, expected).await)
        }
        Step::Remove { name, expected: None } => Call::Remove(name_of(name), None),
        Step::Remove { name, expected: Some(expected) } => {
            Call::Remove(name_of(name), Some(revision_of(name, expected).await))
        }
    }
}

/// The revision that was made, if one was.
async fn run(store: &dyn Services, call: &Call) -> Result<Option<Revision>, StoreError> {
    match call {
        Call::Create(service, sensitive) => {
            store.create(service.clone(), sensitive.clone()).await.map(|stored| Some(stored.revision.clone()))
        }
        Call::Replace(service, sensitive, revision) => store
            .replace(service.clone(), sensitive.clone(), revision)
            .await
            .map(|stored| Some(stored.revision.clone())),
        Call::Remove(name, revision) => store.remove(name, revision.as_ref()).await.map(|()| None),
    }
}

async fn agrees_with_memory(steps: Vec<Step>) {
    let model = MemoryServices::default();
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
    let (mut calls, mut expected) = (Vec::new(), Vec::new());
    for step in steps {
        let call = decide(step, &model).await;
        expected.push(run(&model, &call).await);
        calls.push(call);
    }
    // They are queued in order without waiting for answers, so that most of them meet the
    // uncommitted changes of others in their batch.
    let outcomes = join_all(calls.iter().map(|call| run(&*store, call))).await;
    assert_eq!(outcomes, expected);
    let listed = model.list(&Scope::All).await;
    assert_eq!(store.list(&Scope::All).await, listed);
    drop(store);
    let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
    assert_eq!(store.list(&Scope::All).await, listed, "and after opening again");
    for entry in listed.expect("listed") {
        let name = ServiceName::parse(entry.name()).expect("a name");
        assert_eq!(store.reveal(&name).await, model.reveal(&name).await);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_answers_as_one_after_the_other(steps in proptest::collection::vec(any_step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(agrees_with_memory(steps));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_callers_leave_what_their_answers_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
    let tasks = (0..8u8).map(|worker| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut balance: BTreeMap<String, i32> = BTreeMap::new();
            for round in 0..40u8 {
                let (service, sensitive) = mk(round % 5, worker);
                let name = service.name().clone();
                let change = match (worker + round) % 3 {
                    0 => store.create(service, sensitive).await.map_or(0, |_| 1),
                    1 => store.remove(&name, None).await.map_or(0, |()| -1),
                    _ => replace_once(&store, service, sensitive).await,
                };
                *balance.entry(name.to_string()).or_default() += change;
            }
            balance
        })
    });
    let mut balance: BTreeMap<String, i32> = BTreeMap::new();
    for task in join_all(tasks).await {
        for (name, change) in task.expect("ran") {
            *balance.entry(name).or_default() += change;
        }
    }
    let listed = store.list(&Scope::All).await.expect("listed");
    let there: Vec<_> = balance.iter().filter(|(_, count)| **count == 1).map(|(name, _)| name.as_str()).collect();
    assert!(balance.values().all(|count| matches!(count, 0 | 1)), "{balance:?}");
    assert_eq!(listed.iter().map(oscar_engine::ports::services::Entry::name).collect::<Vec<_>>(), there);
    drop(store);
    let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
    assert_eq!(store.list(&Scope::All).await, Ok(listed));
}

async fn replace_once(store: &Arc<LocalStore>, service: Service, sensitive: Sensitive) -> i32 {
    if let Ok(Some(stored)) = store.get(service.name()).await {
        let outcome = store.replace(service, sensitive, &stored.revision).await;
        assert!(matches!(outcome, Ok(_) | Err(StoreError::NotFound | StoreError::Conflict)), "{outcome:?}");
    }
    0
}
