//! What a manager does with definitions, over ports in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use oscar_engine::memory::{FixedClock, MemoryCluster, MemoryServices, MemorySettings, MemoryUsers, SeededEntropy};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Revision, Scope, Services, Stored};
use oscar_engine::ports::users::{Home, Users};
use oscar_engine::testing::make::{mk_definition, mk_user};
use oscar_engine::{Action, Failure, FederationPorts, Guard, Manager, Policy, Ports, Purpose};
use oscar_model::identity::{Owner, Principal};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Cluster, Sensitive, Service, Visibility, WORKER_ANNOTATION};

struct House {
    manager: Manager,
    services: Arc<MemoryServices>,
}

fn mk_ports(services: Arc<dyn Services>) -> Ports {
    Ports {
        services,
        users: Arc::new(MemoryUsers::new("oscar-svc")),
        settings: Arc::new(MemorySettings::default()),
        cluster: Arc::new(MemoryCluster::default()),
        clock: Arc::new(FixedClock(SystemTime::UNIX_EPOCH)),
        entropy: Arc::new(SeededEntropy::new(7)),
        federation: FederationPorts::none(),
        jobs: None,
    }
}

fn mk_policy() -> Policy {
    Policy { groups: vec!["vo-a".to_owned()], ..Policy::default() }
}

fn mk_house() -> House {
    let services = Arc::new(MemoryServices::default());
    House { manager: Manager::new(mk_ports(services.clone()), mk_policy()), services }
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

/// Homes in memory, with how often one was to be made.
struct Counting {
    inner: MemoryUsers,
    made: AtomicUsize,
}

#[async_trait::async_trait]
impl Users for Counting {
    async fn ensure(&self, owner: &Owner, name: &str) -> Result<Home, StoreError> {
        self.made.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.inner.ensure(owner, name).await
    }

    async fn look(&self, owner: &Owner) -> Result<Home, StoreError> {
        self.inner.look(owner).await
    }
}

fn mk_counted() -> (Manager, Arc<Counting>) {
    let users = Arc::new(Counting { inner: MemoryUsers::new("oscar-svc"), made: 0.into() });
    let ports = Ports { users: users.clone(), ..mk_ports(Arc::new(MemoryServices::default())) };
    (Manager::new(ports, mk_policy()), users)
}

#[tokio::test]
async fn concurrent_first_contacts_make_one_home() {
    let (manager, users) = mk_counted();
    let alice = mk_user("alice");
    for welcome in futures::future::join_all((0..32).map(|_| manager.welcome(&alice))).await {
        welcome.expect("welcome");
    }
    assert_eq!(users.made.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_home_that_was_made_once_is_asked_for_again() {
    let (manager, users) = mk_counted();
    let alice = mk_user("alice");
    for time in 1..4 {
        manager.welcome(&alice).await.expect("welcome");
        assert_eq!(users.made.load(Ordering::SeqCst), time, "somebody may have deleted it since");
    }
}

#[tokio::test]
async fn a_dry_run_makes_no_home() {
    let (manager, users) = mk_counted();
    for principal in [user("alice"), Principal::Admin] {
        let dry = manager.create_service(&principal, mk_definition("a"), &none(), true).await.expect("a plan");
        assert_eq!(users.made.load(Ordering::SeqCst), 0);
        let wet = manager.create_service(&principal, mk_definition("a"), &none(), false).await.expect("made");
        assert_eq!(dry.service.namespace, wet.service.namespace, "where it would be is told all the same");
        manager.remove_service(&principal, &name("a"), &Guard::Any, false).await.expect("removed");
        users.made.store(0, Ordering::SeqCst);
    }
}

/// Services that somebody else changes just before every change.
struct Hurried {
    inner: MemoryServices,
    tries: AtomicUsize,
}

impl Hurried {
    fn lose<T>(&self) -> Result<T, StoreError> {
        self.tries.fetch_add(1, Ordering::SeqCst);
        Err(StoreError::Conflict)
    }
}

#[async_trait::async_trait]
impl Services for Hurried {
    async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError> {
        self.inner.create(service, sensitive).await
    }

    async fn replace(&self, _: Service, _: Sensitive, _: &Revision) -> Result<Arc<Stored>, StoreError> {
        self.lose()
    }

    async fn remove(&self, _: &ServiceName, _: Option<&Revision>) -> Result<(), StoreError> {
        self.lose()
    }

    async fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError> {
        self.inner.get(name).await
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<Entry>, StoreError> {
        self.inner.list(scope).await
    }

    async fn reveal(&self, name: &ServiceName) -> Result<Sensitive, StoreError> {
        self.inner.reveal(name).await
    }
}

#[tokio::test]
async fn a_change_that_always_loses_is_given_up() {
    let services = Arc::new(Hurried { inner: MemoryServices::default(), tries: 0.into() });
    let manager = Manager::new(mk_ports(services.clone()), mk_policy());
    manager.create_service(&Principal::Admin, mk_definition("a"), &none(), false).await.expect("made");
    let updated = manager.update_service(&Principal::Admin, mk_definition("a"), &Guard::Any, false).await;
    let tries = services.tries.swap(0, Ordering::SeqCst);
    assert!((2..=16).contains(&tries), "tried again, and not without end: {tries} times");
    let removed = manager.remove_service(&Principal::Admin, &name("a"), &Guard::Any, false).await;
    assert_eq!(services.tries.load(Ordering::SeqCst), tries);
    for outcome in [updated.err(), removed.err()] {
        let Some(Failure::Store(StoreError::Unavailable(why))) = outcome else { panic!("{outcome:?}") };
        assert!(why.contains("others keep changing"), "{why}");
    }
}

#[tokio::test]
async fn what_is_somebody_elses_is_not_judged() {
    let house = mk_house();
    house.manager.create_service(&user("alice"), mk_definition("hers"), &none(), false).await.expect("made");
    let mut wrong = mk_definition("hers");
    wrong.vo = "no-such-group".to_owned();
    let faults = house.manager.check_definition(&user("alice"), &wrong, Purpose::Change).await.expect("judged");
    assert!(!faults.is_empty(), "its owner is told what is wrong");
    let asked = house.manager.check_definition(&user("bob"), &wrong, Purpose::Change).await;
    assert_eq!(asked, Err(Failure::NotVisible(name("hers"))));
    let asked = house.manager.check_definition(&user("bob"), &wrong, Purpose::Create).await;
    assert_eq!(asked, Err(Failure::Exists(name("hers"))));
}

#[tokio::test]
async fn nobody_fills_the_journal_with_names_that_he_makes_up() {
    let house = mk_house();
    let undo = async |who: &Principal, number: usize| {
        house.manager.undo_replica(who, &name(&format!("made-up-{number}")), "operation").await
    };
    for number in 0..1024 {
        undo(&user("mallory"), number).await.expect("it may still arrive");
    }
    let refused = undo(&user("mallory"), 1024).await;
    let Err(Failure::Store(StoreError::Unavailable(why))) = refused else { panic!("{refused:?}") };
    assert!(why.contains("tomorrow"), "{why}");
    undo(&user("alice"), 0).await.expect("others are not concerned");
}
