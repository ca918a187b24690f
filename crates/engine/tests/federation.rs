//! Federations in a world of three clusters: created whole or not at all, also when a call is
//! lost or the manager dies at any point; kept as they are wanted; removed without a trace.
#![expect(clippy::large_futures, reason = "a test's stack is large enough")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use oscar_engine::Failure;
use oscar_engine::federate::{Create, CreateFailure, Federator, Kind, MemberOutcome, Tended};
use oscar_engine::memory::FixedClock;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::journal::Journal as _;
use oscar_engine::ports::peers::{Call, Exchange, Invitation, PeerError, Peers, Sighting, Undone};
use oscar_engine::ports::services::Services as _;
use oscar_engine::testing::make::{mk_definition, mk_owner, mk_service};
use oscar_engine::testing::world::{Strike, World};
use oscar_model::federation::edit::Edit;
use oscar_model::federation::expand::{Audience, OPERATION_ANNOTATION};
use oscar_model::federation::plan::{Found, Origination, Step};
use oscar_model::federation::record::{Access, Bearer};
use oscar_model::federation::topology::MemberId;
use oscar_model::federation::{Delegation, Federation, LocalShare, Member, OnUnknown, Target, Topology};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Cluster, Definition, Sensitive, Service};

const HOME: &str = "https://home";
const MEMBERS: [(&str, &str, &str); 2] = [("a", "https://a", "replica-a"), ("b", "https://b", "replica-b")];

fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("valid")
}

fn owner() -> Owner {
    mk_owner("federation-owner")
}

fn mk_create(topology: Topology) -> Create {
    let mut service = mk_service("coordinator", &owner());
    let definition = &mut service.definition;
    definition.cluster_id = "home".to_owned();
    for (id, endpoint, _) in MEMBERS {
        let cluster = Cluster {
            endpoint: endpoint.to_owned(),
            auth_user: String::new(),
            auth_password: Secret::default(),
            ssl_verify: true,
        };
        definition.clusters.insert(id.to_owned(), cluster);
    }
    definition.environment.secrets.insert("KEY".to_owned(), Secret::default());
    definition.environment.secrets.insert("refresh_token".to_owned(), Secret::default());
    definition.federation = Some(Federation {
        group_id: "coordinator".to_owned(),
        topology,
        delegation: Delegation::default(),
        rescheduler_threshold: 0,
        members: MEMBERS.map(|(id, _, service)| mk_member(id, service)).to_vec(),
        local: LocalShare::First,
        on_unknown: OnUnknown::Wait,
        share_refresh_token: false,
        share_secrets: false,
    });
    let mut sensitive = Sensitive::default();
    sensitive.environment.insert("KEY".to_owned(), Secret::new("crossing"));
    sensitive.environment.insert("refresh_token".to_owned(), Secret::new("staying"));
    let bearer = Bearer { token: Secret::new("token-of-the-owner"), expires: u64::MAX };
    let access = Access { bearer: Some(bearer), ..Access::default() };
    Create { service, sensitive, access, replaces: None, federation_id: "the-federation".to_owned() }
}

fn mk_member(cluster_id: &str, service: &str) -> Member {
    Member {
        target: Target::Oscar { cluster_id: cluster_id.to_owned(), service_name: name(service), parent: None },
        priority: 0,
        ssl_verify: true,
        headers: BTreeMap::new(),
    }
}

fn access() -> Access {
    mk_create(Topology::Star).access
}

fn mk_world() -> World {
    World::new(&[HOME, "https://a", "https://b"])
}

/// A service of the same owner that was there before, with a secret of its own.
async fn plant_adoptable(world: &World) -> Service {
    let mut plain = mk_service("replica-a", &owner());
    plain.definition.image = "former-image".to_owned();
    plain.definition.environment.secrets.insert("OWN".to_owned(), Secret::default());
    let mut sensitive = Sensitive::default();
    sensitive.environment.insert("OWN".to_owned(), Secret::new("former-secret"));
    world.at("https://a").services.create(plain.clone(), sensitive).await.expect("planted");
    plain
}

/// How many services there are on each cluster.
async fn counts(world: &World) -> Vec<usize> {
    world.snapshot().await.values().map(BTreeMap::len).collect()
}

#[tokio::test]
async fn a_federation_is_there_on_every_cluster() {
    for topology in [Topology::Star, Topology::Tree, Topology::Mesh] {
        let world = mk_world();
        world.federator(HOME).create(mk_create(topology)).await.expect("created");
        let seen = world.snapshot().await;
        for (_, endpoint, service) in MEMBERS {
            let (worker, secrets) = &seen[endpoint][service];
            assert!(worker.definition.is_worker());
            assert_eq!(worker.token, seen[HOME]["coordinator"].0.token, "one token is valid everywhere");
            assert_eq!(secrets.environment.keys().collect::<Vec<_>>(), ["KEY"], "the refresh token stays home");
        }
    }
}

#[tokio::test]
async fn a_call_lost_at_any_point_leaves_all_or_nothing() {
    every_strike(&[Strike::FailBefore, Strike::FailAfter]).await;
}

#[tokio::test]
async fn a_crash_at_any_point_leaves_all_or_nothing_after_the_restart() {
    every_strike(&[Strike::CrashBefore, Strike::CrashAfter]).await;
}

/// Creates a federation with a strike at every call in turn, on clusters one of which has a
/// service to adopt; afterwards everything is deployed, or everything is as it was.
async fn every_strike(strikes: &[Strike]) {
    let calm = mk_world();
    plant_adoptable(&calm).await;
    calm.fate.plan(None);
    calm.federator(HOME).create(mk_create(Topology::Mesh)).await.expect("created");
    let calls = calm.fate.calls();
    let whole = calm.snapshot().await;
    assert!(calls > 5, "there is something to strike at");
    for at in 0..calls {
        for strike in strikes {
            let world = mk_world();
            plant_adoptable(&world).await;
            let before = world.snapshot().await;
            world.fate.plan(Some((at, *strike)));
            let outcome = world.fate.live(world.federator(HOME).create(mk_create(Topology::Mesh))).await;
            world.fate.plan(None);
            // The manager starts again, and finishes what it finds.
            let open = world.federator(HOME).recover().await.expect("recovered");
            assert_eq!(open, Tended::default(), "{strike:?} at {at}: nothing is left open");
            let after = world.snapshot().await;
            match outcome {
                Some(Ok(_)) => assert_eq!(after, whole, "{strike:?} at {at}: what was acknowledged is there"),
                Some(Err(_)) => assert_eq!(after, before, "{strike:?} at {at}: a failure changes nothing"),
                None => assert!(after == whole || after == before, "{strike:?} at {at}: half of it is there"),
            }
        }
    }
}

#[tokio::test]
async fn a_crash_during_the_rollback_is_finished_by_the_restart() {
    let mk = async || {
        let world = mk_world();
        plant_adoptable(&world).await;
        // Somebody else has the name on one cluster only after everybody looked: the deploy fails there.
        world
    };
    let calm = mk().await;
    calm.fate.plan(Some((3, Strike::FailBefore)));
    let failed = calm.federator(HOME).create(mk_create(Topology::Star)).await;
    assert!(matches!(failed, Err(CreateFailure::RolledBack { .. })), "{failed:?}");
    let calls = calm.fate.calls();
    for at in 4..calls {
        for strike in [Strike::CrashBefore, Strike::CrashAfter] {
            let world = mk().await;
            let before = world.snapshot().await;
            // One member is down from the first write on, so that the create goes back.
            world.fate.plan(Some((at, strike)));
            let mut create = mk_create(Topology::Star);
            create.service.definition.clusters.get_mut("b").expect("known").endpoint = "https://nowhere".to_owned();
            let outcome = world.fate.live(world.federator(HOME).create(create)).await;
            assert!(!matches!(outcome, Some(Ok(_))));
            world.fate.plan(None);
            world.federator(HOME).recover().await.expect("recovered");
            assert_eq!(world.snapshot().await, before, "{strike:?} at {at}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_taken_back_now_is_taken_back_later() {
    let world = mk_world();
    let before = world.snapshot().await;
    // The second deploy loses its answer, and then its cluster is gone.
    world.fate.plan(Some((4, Strike::FailAfter)));
    let federator = world.federator(HOME);
    world.at("https://a").set_down(false);
    let create = federator.create(mk_create(Topology::Star));
    let outcome = create.await;
    assert!(matches!(outcome, Err(CreateFailure::RolledBack { .. })), "{outcome:?}");
    world.fate.plan(None);
    federator.recover().await.expect("recovered");
    assert_eq!(world.snapshot().await, before);
}

#[tokio::test]
async fn a_service_of_somebody_else_is_refused_untouched() {
    let world = mk_world();
    world
        .at("https://b")
        .services
        .create(mk_service("replica-b", &mk_owner("somebody")), Sensitive::default())
        .await
        .expect("planted");
    let before = world.snapshot().await;
    let refused = world.federator(HOME).create(mk_create(Topology::Mesh)).await;
    let Err(CreateFailure::Obstacles(obstacles)) = refused else { panic!("{refused:?}") };
    assert_eq!(obstacles.len(), 1);
    assert!(obstacles[0].trouble.contains("somebody else"), "{obstacles:?}");
    assert_eq!(world.snapshot().await, before);
}

#[tokio::test]
async fn a_service_of_another_federation_is_refused_untouched() {
    let world = mk_world();
    world.federator(HOME).create(mk_create(Topology::Star)).await.expect("created");
    let before = world.snapshot().await;
    let mut second = mk_create(Topology::Star);
    second.service.definition.name = name("second");
    second.federation_id = "another".to_owned();
    let refused = world.federator(HOME).create(second).await;
    assert!(matches!(refused, Err(CreateFailure::Obstacles(_))), "{refused:?}");
    assert_eq!(world.snapshot().await, before);
}

#[tokio::test]
async fn an_idle_federation_makes_no_write() {
    let world = mk_world();
    plant_adoptable(&world).await;
    let federator = world.federator(HOME);
    federator.create(mk_create(Topology::Mesh)).await.expect("created");
    let writes = world.writes.load(Ordering::SeqCst);
    for _ in 0..10 {
        let left = federator.reconcile(&name("coordinator"), Some(access())).await.expect("ticked").troubles();
        assert_eq!(left, [], "all is well");
    }
    assert_eq!(world.writes.load(Ordering::SeqCst), writes);
}

#[tokio::test]
async fn a_member_that_was_down_during_an_edit_has_it_after_its_return() {
    let world = mk_world();
    let federator = world.federator(HOME);
    federator.create(mk_create(Topology::Star)).await.expect("created");
    world.at("https://b").set_down(true);
    let home = &world.at(HOME).services;
    let stored = home.get(&name("coordinator")).await.expect("read").expect("there");
    let mut edited = stored.service.clone();
    edited.definition.image = "edited".to_owned();
    let sensitive = home.reveal(&name("coordinator")).await.expect("revealed");
    home.replace(edited, sensitive, &stored.revision).await.expect("edited");

    let left = federator.reconcile(&name("coordinator"), Some(access())).await.expect("ticked").troubles();
    assert_eq!(left.iter().map(|outcome| outcome.member.cluster_id.as_str()).collect::<Vec<_>>(), ["b"]);
    world.at("https://b").set_down(false);
    let left = federator.reconcile(&name("coordinator"), Some(access())).await.expect("ticked").troubles();
    assert_eq!(left, []);
    let seen = world.snapshot().await;
    for (_, endpoint, service) in MEMBERS {
        assert_eq!(seen[endpoint][service].0.definition.image, "edited");
    }
}

#[tokio::test]
async fn somebody_who_changes_a_replica_by_hand_is_corrected() {
    let world = mk_world();
    let federator = world.federator(HOME);
    federator.create(mk_create(Topology::Star)).await.expect("created");
    let before = world.snapshot().await;
    let at_a = &world.at("https://a").services;
    let stored = at_a.get(&name("replica-a")).await.expect("read").expect("there");
    let mut drifted = stored.service.clone();
    drifted.definition.cpu = mk_definition("x").memory;
    at_a.replace(drifted, Sensitive::default(), &stored.revision).await.expect("changed");
    federator.reconcile(&name("coordinator"), Some(access())).await.expect("ticked");
    let after = world.snapshot().await;
    let cpu = |seen: &BTreeMap<String, BTreeMap<String, (Service, Sensitive)>>| {
        seen["https://a"]["replica-a"].0.definition.cpu.clone()
    };
    assert_eq!(cpu(&after), cpu(&before));
}

#[tokio::test]
async fn deleting_removes_what_was_created_and_gives_back_what_was_adopted() {
    let world = mk_world();
    plant_adoptable(&world).await;
    let before = world.snapshot().await;
    let federator = world.federator(HOME);
    federator.create(mk_create(Topology::Mesh)).await.expect("created");
    world.at("https://b").set_down(true);
    federator.delete(&name("coordinator"), None, access()).await.expect("the local part is gone at once");
    assert_eq!(federator.finish_deleted().await.map(|tended| tended.open), Ok(1), "one member cannot be reached");
    assert_eq!(counts(&world).await, [1, 1, 0], "a is given back, b still has its replica, home has nothing");
    world.at("https://b").set_down(false);
    assert_eq!(federator.finish_deleted().await.map(|tended| tended.open), Ok(0));
    assert_eq!(world.snapshot().await, before);
}

/// Managers that know no operations, and that may be slow.
#[derive(Default)]
struct Foreign {
    there: Mutex<BTreeMap<MemberId, Definition>>,
    under_way: Mutex<Vec<(MemberId, Definition)>>,
    slow: AtomicBool,
    /// Whether it answers nothing any more.
    hangs: AtomicBool,
}

impl Foreign {
    fn there(&self) -> std::sync::MutexGuard<'_, BTreeMap<MemberId, Definition>> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was sent long ago is carried out.
    fn catch_up(&self) {
        let under_way = std::mem::take(&mut *self.under_way.lock().unwrap_or_else(PoisonError::into_inner));
        self.there().extend(under_way);
    }
}

#[async_trait]
impl Peers for Foreign {
    async fn look(&self, call: &Call<'_>, _federation_id: &str) -> Sighting {
        if self.hangs.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let found = match self.there().get(call.member) {
            None => Found::Nothing,
            Some(found) => Found::Replica { origination: Origination::Created, definition: Box::new(found.clone()) },
        };
        Sighting { found, audience: Some(Audience::Foreign) }
    }

    async fn deploy(&self, call: &Call<'_>, step: &Step, _token: &Secret) -> Result<(), PeerError> {
        let definition = *step.definition.clone().expect("something to write");
        if self.slow.load(Ordering::Relaxed) {
            let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            under_way.push((call.member.clone(), definition));
            return Err(PeerError::Unreachable("it did not answer in time".to_owned()));
        }
        self.there().insert(call.member.clone(), definition);
        Ok(())
    }

    async fn withdraw(&self, call: &Call<'_>, _step: &Step, _id: &str, _operation: &str) -> Result<(), PeerError> {
        self.there().remove(call.member);
        Ok(())
    }

    async fn undo(&self, call: &Call<'_>, _step: &Step, operation: &str) -> Result<Undone, PeerError> {
        let mut there = self.there();
        let of = |found: &Definition| found.annotations.get(OPERATION_ANNOTATION).is_some_and(|by| by == operation);
        if !there.get(call.member).is_some_and(of) {
            return Ok(Undone::Absent);
        }
        there.remove(call.member);
        Ok(Undone::ForGood)
    }

    async fn join(&self, _call: &Call<'_>, _invitation: &Invitation) -> Result<(), PeerError> {
        Err(PeerError::Refused("what is that".to_owned()))
    }

    async fn sync(&self, _call: &Call<'_>, _exchange: &Exchange) -> Result<Exchange, PeerError> {
        Err(PeerError::Refused("what is that".to_owned()))
    }
}

/// The coordinator's engine among foreign managers, so many seconds later.
fn mk_among(world: &World, foreign: &Arc<Foreign>, later: u64) -> Federator {
    let mut federator = world.federator(HOME);
    federator.peers = foreign.clone();
    federator.clock = Arc::new(FixedClock(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + later)));
    federator
}

#[tokio::test]
async fn what_a_foreign_manager_does_late_is_taken_back_too() {
    for late in [true, false] {
        let (world, foreign) = (mk_world(), Arc::<Foreign>::default());
        foreign.slow.store(true, Ordering::Relaxed);
        let refused = mk_among(&world, &foreign, 0).create(mk_create(Topology::Star)).await;
        let Err(CreateFailure::RolledBack { left, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(left.len(), 2, "nobody knows what will arrive: {left:?}");
        assert_eq!(mk_among(&world, &foreign, 10).recover().await.map(|tended| tended.open), Ok(1), "too soon");
        if late {
            foreign.catch_up();
        }
        mk_among(&world, &foreign, 31).recover().await.expect("recovered");
        mk_among(&world, &foreign, 32).recover().await.expect("recovered");
        assert_eq!(foreign.there().len(), 0);
        assert_eq!(world.at(HOME).journal.operations().await, Ok(vec![]), "it has ended");
    }
}

#[tokio::test]
async fn what_a_foreign_manager_refused_is_not_waited_for() {
    let (world, foreign) = (mk_world(), Arc::<Foreign>::default());
    let mut create = mk_create(Topology::Star);
    create.replaces = None;
    // The name was taken meanwhile: nothing was sent that could still arrive.
    world.at(HOME).services.create(mk_service("coordinator", &owner()), Sensitive::default()).await.expect("planted");
    let refused = mk_among(&world, &foreign, 0).create(create).await;
    assert!(matches!(refused, Err(CreateFailure::Local(_))), "{refused:?}");
    assert_eq!(foreign.there().len(), 0);
    assert_eq!(world.at(HOME).journal.operations().await, Ok(vec![]));
}

#[tokio::test]
async fn who_leaves_before_a_foreign_manager_has_answered_is_looked_for_once_more() {
    let (world, foreign) = (mk_world(), Arc::<Foreign>::default());
    mk_among(&world, &foreign, 0).create(mk_create(Topology::Star)).await.expect("created");
    foreign.slow.store(true, Ordering::Relaxed);
    let add = Edit { add: vec![mk_member("a", "third")], ..Edit::default() };
    let coordinator = name("coordinator");
    mk_among(&world, &foreign, 1).edit(&coordinator, &add, access()).await.expect("edited");
    let remove = vec![mk_member("a", "third").target];
    let remove = Edit { remove, delete: true, ..Edit::default() };
    mk_among(&world, &foreign, 2).edit(&coordinator, &remove, access()).await.expect("edited");
    foreign.catch_up();
    assert_eq!(foreign.there().len(), 3);
    mk_among(&world, &foreign, 40).reconcile(&coordinator, Some(access())).await.expect("looked");
    assert_eq!(foreign.there().len(), 2, "what came late is gone");
    let record = world.at(HOME).journal.federation(&coordinator).await.expect("read").expect("there");
    assert_eq!(record.leaving.len(), 0);
}

#[test]
fn who_may_still_need_the_token_of_a_create_that_failed_keeps_it() {
    let outcome = MemberOutcome {
        member: MemberId::of(&mk_member("a", "replica-a")).expect("a service"),
        kind: Kind::Unreachable,
        trouble: "no answer".to_owned(),
    };
    let rolled_back = |left: &[MemberOutcome]| CreateFailure::RolledBack { failed: vec![], left: left.to_vec() };
    assert!(rolled_back(&[]).is_settled() && CreateFailure::Obstacles(vec![outcome.clone()]).is_settled());
    assert!(!rolled_back(&[outcome]).is_settled(), "what is left is taken back with it");
    let unknown = Failure::Store(StoreError::Unavailable("gone".to_owned()));
    assert!(!CreateFailure::Local(unknown).is_settled(), "it may have been stored");
    assert!(CreateFailure::Local(Failure::Exists(name("coordinator"))).is_settled());
}

#[tokio::test]
async fn whoever_changes_a_federation_is_not_kept_waiting_for_ever() {
    let (world, foreign) = (mk_world(), Arc::<Foreign>::default());
    let coordinator = name("coordinator");
    mk_among(&world, &foreign, 0).create(mk_create(Topology::Star)).await.expect("created");
    foreign.hangs.store(true, Ordering::Relaxed);
    let mut federator = mk_among(&world, &foreign, 1);
    federator.own.patience = Some(Duration::from_millis(20));
    let remove = vec![mk_member("b", "replica-b").target];
    let edit = Edit { remove, delete: true, ..Edit::default() };
    let edited = federator.edit(&coordinator, &edit, access()).await.expect("it is stored");
    let told: Vec<_> =
        edited.troubles.iter().map(|outcome| (outcome.member.cluster_id.as_str(), outcome.kind)).collect();
    assert_eq!(told, [("a", Kind::Awaited), ("b", Kind::Awaited)]);
    foreign.hangs.store(false, Ordering::Relaxed);
    federator.reconcile(&coordinator, Some(access())).await.expect("looked");
    assert_eq!(foreign.there().len(), 1, "it is carried out when it can be");
}
