//! What the simulator found, each in the smallest world that shows it: one manager, whose
//! clusters all are itself.

mod edits;
mod grants;
mod late;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use oscar_engine::federate::Own;
use oscar_engine::memory::{
    MemoryAudit, MemoryCluster, MemoryIssuers, MemoryJournal, MemoryServices, MemorySettings, MemoryUsers, MemoryVault,
    SeededEntropy,
};
use oscar_engine::ports::clock::Clock;
use oscar_engine::ports::journal::Journal as _;
use oscar_engine::ports::peers::{Call, Exchange, Invitation, PeerError, Peers, Sighting, Undone};
use oscar_engine::ports::services::Services as _;
use oscar_engine::testing::make::{mk_definition, mk_owner, mk_user};
use oscar_engine::tokens::Tokens;
use oscar_engine::{Failure, FederationPorts, Manager, OwnPeer, Policy, Ports, Terms};
use oscar_model::federation::edit::Edit;
use oscar_model::federation::expand::{Audience, FEDERATION_ID_ANNOTATION, OPERATION_ANNOTATION};
use oscar_model::federation::membership::{Attributes, Membership, Place};
use oscar_model::federation::plan::{Found, Step};
use oscar_model::federation::record::{Access, Contact, FederationRecord, Former, Leaving, Role};
use oscar_model::federation::topology::MemberId;
use oscar_model::federation::{Federation, Member, Target, Topology};
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Cluster, Definition, Sensitive, WORKER_ANNOTATION};
use tokio::sync::Semaphore;

const HERE: &str = "https://here";

/// Calls to itself that can be held up before they write, and exchanges that get no answer.
struct Slow {
    own: Arc<OwnPeer>,
    gate: Arc<Semaphore>,
    silent: Arc<AtomicBool>,
    /// Whether it lets nobody go.
    stubborn: Arc<AtomicBool>,
    /// Whether a proxy answers in its place: it knows of nothing.
    away: Arc<AtomicBool>,
}

/// Stands still until it is told to go on.
struct TestClock(AtomicU64);

impl TestClock {
    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl Peers for Slow {
    async fn look(&self, call: &Call<'_>, federation_id: &str) -> Sighting {
        tokio::task::yield_now().await;
        if self.away.load(Ordering::Relaxed) {
            return Sighting { found: Found::Nothing, audience: Some(Audience::Foreign) };
        }
        self.own.look(call, federation_id).await
    }

    async fn deploy(&self, call: &Call<'_>, step: &Step, token: &Secret) -> Result<(), PeerError> {
        let _open = self.gate.acquire().await;
        self.own.deploy(call, step, token).await
    }

    async fn withdraw(&self, call: &Call<'_>, step: &Step, id: &str, operation: &str) -> Result<(), PeerError> {
        if self.stubborn.load(Ordering::Relaxed) {
            return Err(PeerError::Unreachable("no answer".to_owned()));
        }
        self.own.withdraw(call, step, id, operation).await
    }

    async fn undo(&self, call: &Call<'_>, step: &Step, operation: &str) -> Result<Undone, PeerError> {
        self.own.undo(call, step, operation).await
    }

    async fn join(&self, call: &Call<'_>, invitation: &Invitation) -> Result<(), PeerError> {
        self.own.join(call, invitation).await
    }

    async fn sync(&self, call: &Call<'_>, exchange: &Exchange) -> Result<Exchange, PeerError> {
        if self.silent.load(Ordering::Relaxed) {
            return Err(PeerError::Unreachable("no answer".to_owned()));
        }
        self.own.sync(call, exchange).await
    }
}

struct House {
    manager: Arc<Manager>,
    services: Arc<MemoryServices>,
    journal: Arc<MemoryJournal>,
    issuers: Arc<MemoryIssuers>,
    gate: Arc<Semaphore>,
    silent: Arc<AtomicBool>,
    stubborn: Arc<AtomicBool>,
    away: Arc<AtomicBool>,
    audit: Arc<MemoryAudit>,
    clock: Arc<TestClock>,
    vault: Arc<MemoryVault>,
}

fn mk_house() -> House {
    mk_house_with(Policy::default())
}

fn mk_house_with(policy: Policy) -> House {
    let (services, journal): (Arc<MemoryServices>, Arc<MemoryJournal>) = Default::default();
    let clock = Arc::new(TestClock(AtomicU64::new(1_000_000)));
    let issuers = Arc::new(MemoryIssuers::new(clock.clone(), 300));
    issuers.keep_tokens();
    let audit = Arc::<MemoryAudit>::default();
    let vault = Arc::<MemoryVault>::default();
    let tokens = Tokens::new(vault.clone(), issuers.clone(), clock.clone(), audit.clone());
    let (own, gate) = (Arc::new(OwnPeer::default()), Arc::new(Semaphore::new(100)));
    let [silent, stubborn, away]: [Arc<AtomicBool>; 3] = Default::default();
    let slow = Slow {
        own: own.clone(),
        gate: gate.clone(),
        silent: silent.clone(),
        stubborn: stubborn.clone(),
        away: away.clone(),
    };
    let federation = FederationPorts {
        journal: journal.clone(),
        peers: Arc::new(slow),
        mint: Arc::new(tokens),
        audit: audit.clone(),
        own: Own {
            public_url: HERE.to_owned(),
            urls: vec![HERE.to_owned()],
            instance_id: "one".to_owned(),
            cluster_id: "here".to_owned(),
            grace: 0,
            patience: None,
        },
    };
    let ports = Ports {
        services: services.clone(),
        users: Arc::new(MemoryUsers::new("oscar-svc")),
        settings: Arc::new(MemorySettings::default()),
        cluster: Arc::new(MemoryCluster::default()),
        clock: clock.clone(),
        entropy: Arc::new(SeededEntropy::new(7)),
        federation,
        jobs: None,
    };
    let cluster = Cluster {
        endpoint: HERE.to_owned(),
        auth_user: String::new(),
        auth_password: Secret::default(),
        ssl_verify: true,
    };
    let registry = ["x", "y"].map(|id| (id.to_owned(), cluster.clone())).into();
    let manager = Arc::new(Manager::new(ports, Policy { registry, ..policy }));
    own.bind(Arc::downgrade(&manager));
    House { manager, services, journal, issuers, gate, silent, stubborn, away, audit, clock, vault }
}

fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("valid")
}

fn ana() -> Principal {
    Principal::User(mk_user("ana"))
}

fn target(id: &str, parent: Option<&str>) -> Target {
    let (cluster_id, service) = id.split_once('/').expect("two parts");
    Target::Oscar { cluster_id: cluster_id.to_owned(), service_name: name(service), parent: parent.map(str::to_owned) }
}

fn mk_member(id: &str, parent: Option<&str>) -> Member {
    Member { target: target(id, parent), priority: 0, ssl_verify: true, headers: BTreeMap::new() }
}

fn id_of(id: &str) -> MemberId {
    MemberId::of(&mk_member(id, None)).expect("a service")
}

impl House {
    fn mk_coordinator(&self, topology: Topology, members: Vec<Member>) -> Definition {
        let mut definition = mk_definition("f");
        definition.federation = Some(Federation { topology, members, ..Federation::blank("f") });
        definition.environment.secrets.insert("refresh_token".to_owned(), self.issuers.sign_in("ana"));
        definition.environment.secrets.insert("KEY".to_owned(), Secret::new("of the coordinator"));
        definition
    }

    async fn found(&self, topology: Topology, members: Vec<Member>) {
        let definition = self.mk_coordinator(topology, members);
        self.manager.create(&ana(), definition, &Secret::default(), Terms::default()).await.expect("created");
    }

    async fn record(&self) -> FederationRecord {
        self.journal.federation(&name("f")).await.expect("read").expect("there")
    }

    async fn has(&self, service: &str) -> bool {
        self.services.get(&name(service)).await.expect("read").is_some()
    }

    async fn tick(&self) {
        self.manager.tick_federations().await.expect("ticked");
    }

    async fn edit(&self, service: &str, edit: Edit) -> Result<(), Failure> {
        self.manager.edit_federation(&ana(), &name(service), &edit, Terms::default()).await.map(drop)
    }

    async fn take_away(&self, service: &str) {
        let terms = Terms { detach: true, ..Terms::default() };
        self.manager.remove(&ana(), &name(service), terms).await.expect("removed");
    }
}

fn mk_contact() -> Contact {
    Contact { endpoint: HERE.to_owned(), verify: true, audience: Audience::Ours }
}

fn mk_record(federation_id: &str, service: &str, role: Role) -> FederationRecord {
    let mut membership = Membership::default();
    membership.add(id_of("x/r"), Attributes::default(), Place::new(HERE, true), "one");
    FederationRecord {
        federation_id: federation_id.to_owned(),
        own: id_of(&format!("here/{service}")),
        role,
        owner: mk_owner("ana"),
        membership,
        leaving: BTreeMap::new(),
        deleted: None,
        access: Access::default(),
        sent: BTreeMap::new(),
        keys: BTreeMap::new(),
    }
}

#[tokio::test]
async fn what_a_crash_left_of_a_replica_is_forgotten() {
    let house = mk_house();
    let former = Former { name: name("r"), label: "op".to_owned(), service: None };
    house.journal.keep_former(&former).await.expect("kept");
    let role = Role::Worker { coordinator: id_of("x/f"), endpoint: HERE.to_owned() };
    house.journal.put_federation(&mk_record("ended", "r", role)).await.expect("put");
    house.tick().await;
    assert_eq!(house.journal.formers().await, Ok(vec![]));
    assert_eq!(house.journal.federations().await, Ok(vec![]));
}

#[tokio::test]
async fn two_names_of_one_service_are_one_member() {
    let house = mk_house();
    house.found(Topology::Mesh, vec![mk_member("x/r", None)]).await;
    let mut twice = house.services.get(&name("f")).await.expect("read").expect("there").service.definition.clone();
    twice.federation.as_mut().expect("given").members.push(mk_member("y/r", None));
    let put = house.manager.update(&ana(), twice, &Secret::default(), Terms::default()).await;
    assert!(matches!(put, Err(Failure::Obstacles { .. })), "{put:?}");

    // Two edits at places that do not hear each other bring it about all the same.
    let mut record = house.record().await;
    record.membership.add(id_of("y/r"), Attributes::default(), Place::new(HERE, true), "two");
    house.journal.put_federation(&record).await.expect("put");
    house.tick().await;
    let settled = house.services.get(&name("r")).await.expect("read").expect("there").revision.clone();
    house.tick().await;
    assert_eq!(house.services.get(&name("r")).await.expect("read").expect("there").revision, settled);

    // Taking one of the two names away takes nothing from the other.
    house.edit("f", Edit { remove: vec![target("y/r", None)], delete: true, ..Edit::default() }).await.expect("edited");
    assert!(house.has("r").await);
}

#[tokio::test]
async fn a_service_that_joins_under_another_name_brings_nobody_back() {
    let house = mk_house();
    house.found(Topology::Mesh, vec![mk_member("x/r", None)]).await;
    let mut record = house.record().await;
    // The removal of the old name was forgotten before the service heard of it.
    let mut renamed = Membership::default();
    renamed.add(id_of("y/r"), Attributes::default(), Place::new(HERE, true), "one");
    record.membership = Membership::from_records(renamed.records().map(|(id, r)| (id.clone(), r.clone())).collect(), 9);
    (record.sent, record.keys) = Default::default();
    house.journal.put_federation(&record).await.expect("put");
    house.tick().await;
    house.tick().await;
    assert!(!house.record().await.membership.is_member(&id_of("x/r")));
}

#[tokio::test]
async fn a_federation_that_was_deleted_is_not_begun_again() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let mut record = house.record().await;
    record.deleted = Some(1);
    record.leaving =
        [(id_of("x/r"), Leaving { contact: mk_contact(), delete: true, absent: None })].into_iter().collect();
    house.journal.put_federation(&record).await.expect("put");
    // A crash came before the service was removed, and somebody edits it.
    house.edit("f", Edit { add: vec![mk_member("x/s", None)], ..Edit::default() }).await.expect("edited");
    assert_ne!(house.record().await.federation_id, record.federation_id);
    let records = house.journal.federations().await.expect("read");
    assert!(records.iter().any(|known| known.federation_id == record.federation_id && known.deleted.is_some()));
}

#[tokio::test]
async fn a_create_that_succeeded_and_was_deleted_since_is_not_taken_back() {
    let house = mk_house();
    house.gate.forget_permits(100);
    let definition = house.mk_coordinator(Topology::Star, vec![mk_member("x/r", None)]);
    let (ana, none) = (ana(), Secret::default());
    let create = house.manager.create(&ana, definition, &none, Terms::default());
    let operation = async {
        loop {
            if let Some(operation) = house.journal.operations().await.expect("read").pop() {
                house.gate.add_permits(100);
                return operation;
            }
            tokio::task::yield_now().await;
        }
    };
    let (created, operation) = tokio::join!(create, operation);
    created.expect("created");
    // A crash came before it was written down that the operation had ended.
    house.journal.put_operation(&operation).await.expect("put");
    house.manager.remove(&ana, &name("f"), Terms::default()).await.expect("removed");
    house.manager.federator().recover().await.expect("recovered");
    let records = house.journal.federations().await.expect("read");
    assert!(records.iter().any(|record| record.deleted.is_some()), "what is left to remove is known");
    house.tick().await;
    assert!(!house.has("r").await);
}

#[tokio::test]
async fn what_was_read_of_a_replica_does_not_make_one() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let read = house.services.get(&name("r")).await.expect("read").expect("there").service.definition.clone();
    house.manager.remove(&ana(), &name("f"), Terms::default()).await.expect("removed");
    house.tick().await;
    let put = house.manager.update(&ana(), read, &Secret::default(), Terms::default()).await;
    assert_eq!(put.map(drop), Err(Failure::NotFound(name("r"))));
}

#[tokio::test]
async fn a_replica_that_was_not_invited_takes_no_edits() {
    let house = mk_house();
    house.found(Topology::Mesh, vec![mk_member("x/r", None)]).await;
    let record = house.journal.federation(&name("r")).await.expect("read").expect("there");
    house.journal.remove_federation(&record.federation_id, &name("r")).await.expect("removed");
    let edited = house.edit("r", Edit { add: vec![mk_member("x/t", None)], ..Edit::default() }).await;
    assert!(matches!(edited, Err(Failure::Replica { .. })), "{edited:?}");
}

#[tokio::test]
async fn a_replica_that_its_owner_takes_away_does_not_come_back() {
    let house = mk_house();
    house.manager.create(&ana(), mk_definition("r"), &Secret::default(), Terms::default()).await.expect("created");
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    house.take_away("r").await;
    assert_eq!(house.journal.formers().await, Ok(vec![]), "what it was before is not needed");
    house.tick().await;
    assert!(!house.has("r").await);
}

#[tokio::test]
async fn a_worker_refuses_what_its_coordinator_would_refuse() {
    let house = mk_house();
    house.found(Topology::Tree, vec![mk_member("x/r", None)]).await;
    let below_itself = (target("x/r", None), mk_member("x/r", Some("x/r")));
    let edited = house.edit("r", Edit { update: vec![below_itself], ..Edit::default() }).await;
    assert!(matches!(edited, Err(Failure::Invalid(_))), "{edited:?}");
    let edited = house.edit("r", Edit { add: vec![mk_member("y/r", None)], ..Edit::default() }).await;
    assert!(matches!(edited, Err(Failure::Invalid(_))), "another name of a member: {edited:?}");
}

#[tokio::test]
async fn who_leaves_a_tree_leaves_nobody_below_nobody() {
    let house = mk_house();
    house.found(Topology::Tree, vec![mk_member("x/r", None), mk_member("y/s", Some("x/r"))]).await;
    house.take_away("r").await;
    house.edit("f", Edit { add: vec![mk_member("x/t", None)], ..Edit::default() }).await.expect("it can be edited");
}

#[tokio::test]
async fn who_is_on_its_way_out_takes_no_edits() {
    let house = mk_house();
    house.found(Topology::Mesh, vec![mk_member("x/r", None)]).await;
    let mut record = house.journal.federation(&name("r")).await.expect("read").expect("there");
    record.membership.remove(&id_of("x/r"), true, "one");
    house.journal.put_federation(&record).await.expect("put");
    let edited = house.edit("r", Edit { add: vec![mk_member("x/t", None)], ..Edit::default() }).await;
    assert_eq!(edited, Err(Failure::NoFederation(name("r"))));
}

#[tokio::test]
async fn two_creates_of_one_name_make_one_federation() {
    let house = mk_house();
    let create = async |member: &str| {
        let definition = house.mk_coordinator(Topology::Star, vec![mk_member(member, None)]);
        house.manager.create(&ana(), definition, &Secret::default(), Terms::default()).await.map(drop)
    };
    let (one, two) = tokio::join!(create("x/r"), create("x/s"));
    assert!(one.is_ok() && two == Err(Failure::Exists(name("f"))), "{one:?} {two:?}");
    assert!(house.has("r").await && !house.has("s").await);
}

#[tokio::test]
async fn a_replica_of_another_federation_is_no_news_of_members() {
    let house = mk_house();
    house.found(Topology::Mesh, vec![mk_member("x/r", None)]).await;
    let mut foreign = mk_definition("f");
    foreign.federation = Some(Federation { members: vec![mk_member("y/t", None)], ..Federation::blank("g") });
    for (key, value) in [(WORKER_ANNOTATION, "true"), (FEDERATION_ID_ANNOTATION, "other"), (OPERATION_ANNOTATION, "op")]
    {
        foreign.annotations.insert(key.to_owned(), value.to_owned());
    }
    let put = house.manager.update(&ana(), foreign, &Secret::default(), Terms::default()).await;
    assert!(matches!(put, Err(Failure::Exists(_))), "{put:?}");
    assert!(!house.record().await.membership.is_member(&id_of("y/t")));
}

#[tokio::test]
async fn a_federation_that_never_came_about_is_not_that_of_the_service() {
    let house = mk_house();
    house.manager.create(&ana(), mk_definition("f"), &Secret::default(), Terms::default()).await.expect("created");
    house.journal.put_federation(&mk_record("unborn", "f", Role::Coordinator)).await.expect("put");
    let shown = house.manager.federation(&ana(), &name("f")).await.expect("shown");
    assert_eq!(shown.view.graph, None);
    house.manager.update(&ana(), mk_definition("f"), &Secret::default(), Terms::default()).await.expect("put");
    house.tick().await;
    assert!(!house.has("r").await, "nobody was deployed");
    assert_eq!(house.journal.federations().await, Ok(vec![]));
}

#[tokio::test]
async fn what_the_definition_does_not_say_yet_is_not_undone_by_an_edit() {
    let house = mk_house();
    house.found(Topology::Mesh, vec![mk_member("x/r", None), mk_member("x/s", None)]).await;
    let mut record = house.record().await;
    record.membership.remove(&id_of("x/r"), true, "two");
    record.membership.add(id_of("x/t"), Attributes::default(), Place::new(HERE, true), "two");
    house.journal.put_federation(&record).await.expect("put");
    house.edit("f", Edit { add: vec![mk_member("x/u", None)], ..Edit::default() }).await.expect("edited");
    let members = house.record().await.membership;
    let members: Vec<String> = members.members().map(|(id, _)| id.to_string()).collect();
    assert_eq!(members, ["x/s", "x/t", "x/u"]);
}

#[tokio::test]
async fn secrets_that_may_not_have_arrived_are_sent_again() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let mut record = house.record().await;
    record.sent.clear();
    house.journal.put_federation(&record).await.expect("put");
    let stored = house.services.get(&name("r")).await.expect("read").expect("there");
    let mut older = Sensitive::default();
    older.environment.insert("KEY".to_owned(), Secret::new("older"));
    house.services.replace(stored.service.clone(), older, &stored.revision).await.expect("replaced");
    house.tick().await;
    let secrets = house.services.reveal(&name("r")).await.expect("revealed");
    assert_eq!(secrets.environment.get("KEY"), Some(&Secret::new("of the coordinator")));
}

#[tokio::test]
async fn a_create_under_way_is_not_taken_back() {
    let house = Arc::new(mk_house());
    house.gate.forget_permits(100);
    let create = tokio::spawn({
        let house = house.clone();
        async move { house.found(Topology::Star, vec![mk_member("x/r", None)]).await }
    });
    while house.journal.operations().await.expect("read").is_empty() {
        tokio::task::yield_now().await;
    }
    house.tick().await;
    assert_eq!(house.journal.operations().await.expect("read").len(), 1, "it is not ended by somebody else");
    house.gate.add_permits(1);
    create.await.expect("created");
    assert!(house.has("r").await && house.has("f").await);
}

#[tokio::test]
async fn a_look_under_way_does_not_outlive_its_federation() {
    let house = Arc::new(mk_house());
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    house.gate.forget_permits(100);
    let edit = Edit { add: vec![mk_member("x/s", None)], ..Edit::default() };
    let editing = tokio::spawn({
        let house = house.clone();
        async move { house.edit("f", edit).await }
    });
    while !house.record().await.membership.is_member(&id_of("x/s")) {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    house.manager.remove(&ana(), &name("f"), Terms::default()).await.expect("removed");
    let ticking = tokio::spawn({
        let house = house.clone();
        async move { house.tick().await }
    });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    house.gate.add_permits(100);
    editing.await.expect("ended").expect("edited");
    ticking.await.expect("ended");
    house.tick().await;
    assert!(!house.has("r").await && !house.has("s").await);
}
