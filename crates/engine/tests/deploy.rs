//! What a manager does with definitions, over ports in memory.

use std::sync::Arc;
use std::time::SystemTime;

use oscar_engine::memory::{FixedClock, MemoryCluster, MemoryServices, MemorySettings, MemoryUsers, SeededEntropy};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Services};
use oscar_engine::ports::users::{Home, Users};
use oscar_engine::testing::make::{mk_definition, mk_user};
use oscar_engine::{Action, Failure, FederationPorts, Guard, Manager, Policy, Ports};
use oscar_model::identity::{Owner, Principal};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Cluster, Visibility, WORKER_ANNOTATION};

struct House {
    manager: Manager,
    services: Arc<MemoryServices>,
}

fn mk_house() -> House {
    let services = Arc::new(MemoryServices::default());
    let ports = Ports {
        services: services.clone(),
        users: Arc::new(MemoryUsers::new("oscar-svc")),
        settings: Arc::new(MemorySettings::default()),
        cluster: Arc::new(MemoryCluster::default()),
        clock: Arc::new(FixedClock(SystemTime::UNIX_EPOCH)),
        entropy: Arc::new(SeededEntropy::new(7)),
        federation: FederationPorts::none(),
        jobs: None,
    };
    let policy = Policy { groups: vec!["vo-a".to_owned()], ..Policy::default() };
    House { manager: Manager::new(ports, policy), services }
}

fn user(subject: &str) -> Principal {
    let mut user = mk_user(subject);
    user.groups = vec!["vo-a".to_owned()];
    Principal::User(user)
}

fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("valid")
}

fn none() -> Secret {
    Secret::default()
}

#[tokio::test]
async fn a_created_service_has_a_token_an_owner_and_a_home() {
    let house = mk_house();
    let change = house.manager.create_service(&user("alice"), mk_definition("a"), &none(), false).await.expect("made");
    assert_eq!(change.action, Action::Create);
    assert_eq!(change.service.owner.as_str(), "alice");
    assert_eq!(change.service.token.expose().len(), 64);
    assert_eq!(change.service.namespace, "oscar-svc-alice-52");
    assert_eq!(change.service.definition.vo, "vo-a", "the first accepted group of the user");
    let again = house.manager.create_service(&user("bob"), mk_definition("a"), &none(), false).await;
    assert_eq!(again, Err(Failure::Exists(name("a"))));
}

#[tokio::test]
async fn a_clients_token_is_taken_only_from_a_coordinator() {
    let house = mk_house();
    let given = Secret::new("ab".repeat(32));
    let plain = house.manager.create_service(&Principal::Admin, mk_definition("a"), &given, false).await.expect("made");
    assert_ne!(plain.service.token, given);
    let mut worker = mk_definition("b");
    worker.annotations.insert(WORKER_ANNOTATION.to_owned(), "true".to_owned());
    let kept = house.manager.create_service(&Principal::Admin, worker.clone(), &given, false).await.expect("made");
    assert_eq!(kept.service.token, given);
    worker.name = name("c");
    let odd = house.manager.create_service(&Principal::Admin, worker, &"short".into(), false).await.expect("made");
    assert_eq!(odd.service.token.expose().len(), 64, "what is no token is replaced");
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let house = mk_house();
    let dry = house.manager.create_service(&Principal::Admin, mk_definition("a"), &none(), true).await.expect("fine");
    assert_eq!((dry.action, dry.revision), (Action::Create, None));
    assert_eq!(house.services.get(&name("a")).await, Ok(None));
    house.manager.create_service(&Principal::Admin, mk_definition("a"), &none(), false).await.expect("made");
    let same = house.manager.update_service(&Principal::Admin, mk_definition("a"), &Guard::Any, true).await;
    assert_eq!(same.map(|change| change.action), Ok(Action::Nothing));
    let mut rotated = mk_definition("a");
    rotated.environment.secrets.insert("KEY".to_owned(), Secret::new("new"));
    house.manager.update_service(&Principal::Admin, rotated.clone(), &Guard::Any, false).await.expect("changed");
    rotated.environment.secrets.insert("KEY".to_owned(), Secret::new("newer"));
    let dry = house.manager.update_service(&Principal::Admin, rotated, &Guard::Any, true).await;
    assert_eq!(dry.map(|change| change.action), Ok(Action::Update), "another value of a secret is a change");
    house.manager.remove_service(&Principal::Admin, &name("a"), &Guard::Any, true).await.expect("fine");
    assert!(house.services.get(&name("a")).await.expect("read").is_some());
}

#[tokio::test]
async fn an_update_keeps_owner_token_and_blank_secrets() {
    let house = mk_house();
    let mut definition = mk_definition("a");
    definition.environment.secrets.insert("KEY".to_owned(), Secret::new("value"));
    definition.environment.secrets.insert("OLD".to_owned(), Secret::new("gone"));
    definition.clusters.insert(
        "other".to_owned(),
        Cluster {
            endpoint: "https://o".to_owned(),
            auth_user: "u".to_owned(),
            auth_password: Secret::new("pw"),
            ssl_verify: true,
        },
    );
    let made = house.manager.create_service(&user("alice"), definition, &none(), false).await.expect("made");

    let mut update = mk_definition("a");
    update.environment.secrets.insert("KEY".to_owned(), Secret::default());
    update.environment.secrets.insert("NEW".to_owned(), Secret::new("fresh"));
    update.clusters.clone_from(&made.service.definition.clusters);
    let changed = house.manager.update_service(&Principal::Admin, update, &Guard::Any, false).await.expect("changed");
    assert_eq!(changed.service.owner, made.service.owner, "the administrator does not become the owner");
    assert_eq!(changed.service.token, made.service.token);
    let values = house.services.reveal(&name("a")).await.expect("revealed");
    assert_eq!(values.environment["KEY"], Secret::new("value"));
    assert_eq!(values.environment["NEW"], Secret::new("fresh"));
    assert!(!values.environment.contains_key("OLD"), "a key that is left away goes");
    assert_eq!(values.cluster_passwords["other"], Secret::new("pw"));
}

#[tokio::test]
async fn strangers_neither_see_nor_change_what_is_private() {
    let house = mk_house();
    let (alice, bob) = (user("alice"), user("bob"));
    house.manager.create_service(&alice, mk_definition("a"), &none(), false).await.expect("made");
    let hidden = Err(Failure::NotVisible(name("a")));
    assert_eq!(house.manager.service(&bob, &name("a")).await.map(drop), hidden);
    assert_eq!(house.manager.update_service(&bob, mk_definition("a"), &Guard::Any, false).await.map(drop), hidden);
    assert_eq!(house.manager.remove_service(&bob, &name("a"), &Guard::Any, false).await.map(drop), hidden);
    assert_eq!(house.manager.services(&bob).await.expect("listed").len(), 0);

    let mut public = mk_definition("a");
    public.visibility = Visibility::Public;
    house.manager.update_service(&alice, public, &Guard::Any, false).await.expect("changed");
    assert!(house.manager.service(&bob, &name("a")).await.is_ok());
    let refused = house.manager.remove_service(&bob, &name("a"), &Guard::Any, false).await.map(drop);
    assert_eq!(refused, Err(Failure::NotOwner(name("a"))));
}

#[tokio::test]
async fn a_named_revision_guards_the_change() {
    let house = mk_house();
    let made = house.manager.create_service(&Principal::Admin, mk_definition("a"), &none(), false).await.expect("made");
    let first = Guard::Only(vec![made.revision.expect("stored").to_string()]);
    house.manager.update_service(&Principal::Admin, mk_definition("a"), &first, false).await.expect("changed");
    let stale = house.manager.update_service(&Principal::Admin, mk_definition("a"), &first, false).await;
    assert_eq!(stale.map(drop), Err(Failure::RevisionMismatch(name("a"))));
    let stale = house.manager.remove_service(&Principal::Admin, &name("a"), &first, false).await;
    assert_eq!(stale.map(drop), Err(Failure::RevisionMismatch(name("a"))));
}

#[tokio::test]
async fn one_broken_definition_breaks_no_list_and_can_be_removed() {
    let house = mk_house();
    house.manager.create_service(&Principal::Admin, mk_definition("a"), &none(), false).await.expect("made");
    house.services.plant_broken("b", "bad YAML");
    let listed = house.manager.services(&Principal::Admin).await.expect("listed");
    assert!(matches!(listed.as_slice(), [Entry::Good(_), Entry::Broken { .. }]));
    let read = house.manager.service(&Principal::Admin, &name("b")).await.map(drop);
    assert!(matches!(read, Err(Failure::Unreadable { .. })));
    let refused = house.manager.remove_service(&user("alice"), &name("b"), &Guard::Any, false).await.map(drop);
    assert_eq!(refused, Err(Failure::NotVisible(name("b"))), "what is wrong with it quotes it");
    let stale = Guard::Only(vec!["1".to_owned()]);
    let refused = house.manager.remove_service(&Principal::Admin, &name("b"), &stale, false).await.map(drop);
    assert!(matches!(refused, Err(Failure::Unreadable { .. })), "a named revision is not the broken one");
    house.manager.remove_service(&Principal::Admin, &name("b"), &Guard::Any, false).await.expect("removed");
    assert_eq!(house.manager.services(&Principal::Admin).await.expect("listed").len(), 1);
}

#[tokio::test]
async fn every_fault_of_the_clusters_own_rules_is_named() {
    let house = mk_house();
    let admin = Principal::Admin;
    house.manager.set_image_repositories(&admin, vec!["ghcr.io/other".to_owned()]).await.expect("stored");
    let mut definition = mk_definition("a");
    definition.vo = "vo-b".to_owned();
    let refused = house.manager.create_service(&user("alice"), definition, &none(), false).await;
    let Err(Failure::Invalid(faults)) = refused else { panic!("{refused:?}") };
    let paths: Vec<_> = faults.0.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(paths, ["image", "vo"]);
    assert_eq!(house.manager.set_image_repositories(&user("alice"), vec![]).await, Err(Failure::NotAdministrator));
}

#[tokio::test]
async fn concurrent_updates_without_a_revision_all_succeed() {
    let house = mk_house();
    house.manager.create_service(&Principal::Admin, mk_definition("a"), &none(), false).await.expect("made");
    let updates =
        (0..128).map(|_| house.manager.update_service(&Principal::Admin, mk_definition("a"), &Guard::Any, false));
    for outcome in futures::future::join_all(updates).await {
        outcome.expect("the last one wins, nobody fails");
    }
}

#[tokio::test]
async fn concurrent_first_contacts_make_one_home() {
    struct Counting {
        inner: MemoryUsers,
        made: std::sync::atomic::AtomicUsize,
    }

    #[async_trait::async_trait]
    impl Users for Counting {
        async fn ensure(&self, owner: &Owner, name: &str) -> Result<Home, StoreError> {
            self.made.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            tokio::task::yield_now().await;
            self.inner.ensure(owner, name).await
        }
    }

    let users = Arc::new(Counting { inner: MemoryUsers::new("oscar-svc"), made: 0.into() });
    let ports = Ports {
        services: Arc::new(MemoryServices::default()),
        users: users.clone(),
        settings: Arc::new(MemorySettings::default()),
        cluster: Arc::new(MemoryCluster::default()),
        clock: Arc::new(FixedClock(SystemTime::UNIX_EPOCH)),
        entropy: Arc::new(SeededEntropy::new(7)),
        federation: FederationPorts::none(),
        jobs: None,
    };
    let manager = Manager::new(ports, Policy::default());
    let alice = mk_user("alice");
    for welcome in futures::future::join_all((0..32).map(|_| manager.welcome(&alice))).await {
        welcome.expect("welcome");
    }
    assert_eq!(users.made.load(std::sync::atomic::Ordering::SeqCst), 1);
}
