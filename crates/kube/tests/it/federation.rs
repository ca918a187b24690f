//! Journal, vault, audit and the Lease of the manager, when calls get lost and managers meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, ListParams};
use oscar_engine::ports::StoreError;
use oscar_engine::testing::conformance_federation::{mk_federation, mk_grant, mk_grant_id, mk_operation};
use oscar_engine::testing::make::{mk_owner, mk_secretive};
use oscar_kube::{KubeWorld, Options};
use oscar_model::federation::record::{AuditRecord, Former};
use oscar_model::identity::Owner;
use oscar_testkit::{Apiserver, require};

use crate::support::{Fate, Faults, admin, eventually, in_charge, is_watch, name, options, ready, world};

async fn quick(cluster: &Apiserver, test: &str) -> Options {
    Options { lease_duration: Duration::from_secs(2), ..options(cluster, test).await }
}

fn is_not_in_charge(outcome: &Result<(), StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Unavailable(why)) if why.contains("another manager of this cluster"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_lost_the_lease_changes_nothing_that_its_successor_wrote() {
    let cluster = require!(Apiserver::shared());
    let options = quick(cluster, "fence").await;
    let (one, two) = (world(cluster, &options).await, world(cluster, &options).await);
    let (first, second) = (one.lease(), two.lease());
    assert_eq!((first.epoch(), first.holds()), (0, false));
    let charge = in_charge(&one).await;
    assert_eq!(first.epoch(), 1);
    assert_eq!(second.tick_hold().await, Ok(false), "there is one");
    assert_eq!(second.renew().await, Ok(false), "nobody renews what is not his");

    let operation = mk_operation("taken", 2);
    let federation = mk_federation("fed", "fence-a");
    one.journal().put_operation(&operation).await.expect("put");
    one.journal().put_federation(&federation).await.expect("put");
    // The first falls silent, and the second has watched long enough.
    drop(charge);
    let charge = in_charge(&two).await;
    assert!(!first.holds(), "it knew by its own clock before anybody took over");
    assert_eq!(second.epoch(), 2);

    let journal = one.journal();
    let outcomes = join_all([
        journal.put_operation(&operation),
        journal.remove_operation("taken"),
        journal.put_federation(&federation),
        journal.remove_federation("fed", &name("fence-a")),
    ])
    .await;
    assert!(outcomes.iter().all(is_not_in_charge), "{outcomes:?}");
    assert_eq!(two.journal().operations().await, Ok(vec![operation.clone()]));
    assert_eq!(first.renew().await, Ok(false));
    two.journal().put_operation(&operation).await.expect("put");

    drop(charge);
    second.release().await.expect("let go");
    assert!(!second.holds());
    assert_eq!(first.acquire().await, Ok(true), "nobody has to wait for what was let go");
    assert_eq!(first.epoch(), 3);

    // The count survives somebody who deletes the Lease.
    let charge = in_charge(&one).await;
    one.journal().put_operation(&operation).await.expect("put");
    drop(charge);
    let leases: Api<Lease> = Api::namespaced(admin(cluster).await, &options.namespace);
    leases.delete("oscar-manager", &DeleteParams::default()).await.expect("deleted");
    assert_eq!(first.renew().await, Ok(false));
    assert_eq!(second.acquire().await, Ok(true));
    assert_eq!(second.epoch(), 4, "above every number in the journal");
    second.release().await.expect("let go");
    leases.delete("oscar-manager", &DeleteParams::default()).await.expect("deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_before_another_manager_wrote_is_not_written_over_it() {
    let cluster = require!(Apiserver::shared());
    let options = quick(cluster, "stale").await;
    let (one, two) = (world(cluster, &options).await, world(cluster, &options).await);
    let charge = in_charge(&one).await;
    let first = mk_federation("fed", "stale-a");
    one.journal().put_federation(&first).await.expect("put");
    assert_eq!(one.journal().federation(&name("stale-a")).await, Ok(Some(first.clone())));
    drop(charge);

    // A roll-out, and back.
    let charge = in_charge(&two).await;
    let mut theirs = two.journal().federation(&name("stale-a")).await.expect("readable").expect("there");
    theirs.owner = mk_owner("stale-them");
    two.journal().put_federation(&theirs).await.expect("put");
    drop(charge);
    let charge = in_charge(&one).await;
    let mut ours = first.clone();
    ours.owner = mk_owner("stale-us");
    assert_eq!(one.journal().put_federation(&ours).await, Err(StoreError::Conflict), "it was read before theirs");
    assert_eq!(one.journal().federation(&name("stale-a")).await, Ok(Some(theirs.clone())), "nothing is lost");
    one.journal().put_federation(&ours).await.expect("now it knows what it writes over");
    one.journal().put_federation(&first).await.expect("and what it wrote itself");
    drop(charge);

    // What the other removed does not come back either.
    let charge = in_charge(&two).await;
    two.journal().remove_federation("fed", &name("stale-a")).await.expect("removed");
    drop(charge);
    let _charge = in_charge(&one).await;
    assert_eq!(one.journal().put_federation(&ours).await, Err(StoreError::Conflict));
    assert_eq!(one.journal().federations().await, Ok(vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_that_is_rolled_out_waits_until_the_old_one_lets_go() {
    let cluster = require!(Apiserver::shared());
    let options = quick(cluster, "rolled").await;
    let (old, new) = (world(cluster, &options).await, world(cluster, &options).await);
    let charge = in_charge(&old).await;
    let lease = new.lease();
    let trying = tokio::spawn(async move { lease.hold_forever().await });
    let operation = mk_operation("rolled", 1);
    let refused = new.journal().put_operation(&operation).await;
    assert!(is_not_in_charge(&refused), "{refused:?}");
    assert_eq!(new.journal().operations().await, Ok(vec![]), "everybody may read");

    let journal = new.journal();
    let waiting = tokio::spawn(async move { journal.put_operation(&mk_operation("rolled", 1)).await });
    drop(charge);
    old.lease().release().await.expect("let go");
    waiting.await.expect("no panic").expect("it is the one now");
    assert_eq!(old.journal().operations().await, Ok(vec![operation]));
    trying.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_managers_one_holds_the_lease() {
    let cluster = require!(Apiserver::shared());
    let options = quick(cluster, "elect").await;
    let mut worlds = Vec::new();
    for _ in 0..4 {
        worlds.push(world(cluster, &options).await);
    }
    for round in 1..4u64 {
        let tries = worlds.iter().map(|world| {
            let lease = world.lease();
            async move { lease.acquire().await }
        });
        let won: Vec<_> = join_all(tries).await;
        let winners = worlds.iter().filter(|world| world.lease().holds()).count();
        assert_eq!(winners, 1, "{won:?}");
        let winner = worlds.iter().find(|world| world.lease().holds()).expect("one").lease();
        assert_eq!(winner.epoch(), round);
        winner.release().await.expect("let go");
    }
    let lease = worlds[0].lease();
    let task = tokio::spawn(async move { lease.hold_forever().await });
    eventually("it is held", async || worlds[0].lease().holds().then_some(())).await;
    tokio::time::sleep(options.lease_duration * 2).await;
    assert!(worlds[0].lease().holds(), "and stays held");
    task.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_is_refused_with_its_size() {
    let cluster = require!(Apiserver::shared());
    let world = world(cluster, &options(cluster, "large").await).await;
    let _charge = in_charge(&world).await;
    let mut large = mk_operation("large", 1);
    if let Some(definition) = &mut large.steps[0].definition {
        definition.script = "x".repeat(950 * 1024);
    }
    let refused = world.journal().put_operation(&large).await;
    let Err(StoreError::Full(cause)) = refused else { panic!("{refused:?}") };
    assert!(cause.contains("KiB") && cause.contains("at most 900"), "{cause}");
    assert_eq!(world.journal().operations().await, Ok(vec![]));
    if let Some(definition) = &mut large.steps[0].definition {
        definition.script = "x".repeat(890 * 1024);
    }
    world.journal().put_operation(&large).await.expect("what fits is stored");
    assert_eq!(world.journal().operations().await, Ok(vec![large]));
}

/// Loses one call that is no watch, when it is told to.
#[derive(Clone)]
struct Loss(Arc<AtomicUsize>);

/// So far away that it never comes.
const NEVER: usize = usize::MAX / 2;

impl Loss {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(NEVER)))
    }

    async fn world(&self, cluster: &Apiserver, options: &Options, fate: Fate) -> KubeWorld {
        let left = self.0.clone();
        let faults = Faults::new(move |request| {
            let lost = !is_watch(request) && left.fetch_sub(1, Ordering::SeqCst) == 0;
            if lost { fate } else { Fate::Pass }
        });
        ready(KubeWorld::with_client(faults.client(cluster).await, options.clone())).await
    }

    /// The outcome of something that loses its n-th call. What follows loses none.
    async fn during<T>(&self, nth: usize, act: impl Future<Output = T>) -> T {
        self.0.store(nth, Ordering::SeqCst);
        let outcome = act.await;
        self.0.store(NEVER, Ordering::SeqCst);
        outcome
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_gets_lost_leaves_nothing_that_a_repetition_does_not_mend() {
    let cluster = require!(Apiserver::shared());
    // So long that no call is made for it while calls are counted.
    let options = Options { lease_duration: Duration::from_mins(10), ..options(cluster, "lost").await };
    let owner = mk_owner("lost-alice");
    let home = world(cluster, &options).await.users().ensure(&owner, "").await.expect("a home").namespace;
    for fate in [Fate::LostBefore, Fate::LostAfter] {
        for nth in 0..5 {
            let loss = Loss::new();
            let world = loss.world(cluster, &options, fate).await;
            let (vault, journal) = (world.vault(), world.journal());
            assert_eq!(world.lease().acquire().await, Ok(true));
            let mut grant = mk_grant(&mk_grant_id(&format!("lost-{nth}")), &owner, &home);
            let what = format!("call {nth}, {fate:?}");

            let first = loss.during(nth, vault.put_grant(&grant)).await;
            assert!(first.is_ok() || matches!(first, Err(StoreError::Unavailable(_))), "{what}: {first:?}");
            vault.put_grant(&grant).await.expect("a repetition works");
            assert_eq!(vault.grants().await, Ok(vec![grant.clone()]), "{what}");
            grant.holders.clear();
            let _ = loss.during(nth, vault.put_grant(&grant)).await;
            vault.put_grant(&grant).await.expect("a repetition works");
            assert_eq!(vault.grant(&grant.id).await, Ok(Some(grant.clone())), "{what}");
            let _ = loss.during(nth, vault.remove_grant(&grant.id)).await;
            vault.remove_grant(&grant.id).await.expect("a repetition works");
            assert_eq!(vault.grants().await, Ok(vec![]), "{what}");

            let operation = mk_operation(&format!("lost-{nth}"), 1);
            for _ in 0..2 {
                let _ = loss.during(nth, journal.put_operation(&operation)).await;
                journal.put_operation(&operation).await.expect("a repetition works");
                assert_eq!(journal.operations().await, Ok(vec![operation.clone()]), "{what}");
            }
            let _ = loss.during(nth, journal.remove_operation(&operation.id)).await;
            journal.remove_operation(&operation.id).await.expect("a repetition works");
            assert_eq!(journal.operations().await, Ok(vec![]), "{what}");
            world.lease().release().await.expect("let go");
        }
    }
    let secrets: Api<Secret> = Api::namespaced(admin(cluster).await, &home);
    let left = secrets.list(&ListParams::default()).await.expect("listed").items;
    assert!(left.is_empty(), "{left:?}");
    let pointers: Api<ConfigMap> = Api::namespaced(admin(cluster).await, &options.namespace);
    let left = pointers.list(&ListParams::default().labels("oscar.grycap/grant")).await.expect("listed").items;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_follows_its_owner_to_another_namespace() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "move").await;
    let world = world(cluster, &options).await;
    let owner = mk_owner("move-alice");
    let home = world.users().ensure(&owner, "").await.expect("a home").namespace;
    let mut grant = mk_grant(&mk_grant_id("move"), &owner, &options.services_namespace);
    world.vault().put_grant(&grant).await.expect("put");
    grant.namespace = home;
    world.vault().put_grant(&grant).await.expect("put elsewhere");
    assert_eq!(world.vault().grants().await, Ok(vec![grant]));
    let secrets: Api<Secret> = Api::namespaced(admin(cluster).await, &options.services_namespace);
    let left = secrets.list(&ListParams::default()).await.expect("listed").items;
    assert!(left.is_empty(), "it is in one place only: {left:?}");
}

fn mk_record(at: u64) -> AuditRecord {
    AuditRecord {
        at,
        actor: "someone".to_owned(),
        owner: "someone".to_owned(),
        act: "token-refreshed".to_owned(),
        service: "s".to_owned(),
        target: "https://issuer.example".to_owned(),
        outcome: "ok".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_records_are_written_together_and_once() {
    let cluster = require!(Apiserver::shared());
    let options = Options { audit_interval: Duration::from_millis(300), ..options(cluster, "audit").await };
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = writes.clone();
    // The answer to the first write is lost.
    let faults = Faults::new(move |request| {
        let writes =
            ["POST", "PUT"].contains(&request.method().as_str()) && request.uri().path().contains("configmaps");
        let first = writes && counted.fetch_add(1, Ordering::SeqCst) == 0;
        if first { Fate::LostAfter } else { Fate::Pass }
    });
    let world = ready(KubeWorld::with_client(faults.client(cluster).await, options.clone())).await;
    for at in 0..200 {
        world.audit().append(mk_record(at)).await;
    }
    assert!(writes.load(Ordering::SeqCst) < 3, "appending does not wait for a write");
    let rings: Api<ConfigMap> = Api::namespaced(admin(cluster).await, &options.namespace);
    let stored = eventually("they are stored by themselves", async || {
        let ring = rings.get_opt("oscar.audit").await.expect("readable")?.data?.remove("records")?;
        (ring.lines().count() == 200).then_some(ring)
    });
    stored.await;
    let newest: Vec<_> = (0..200).rev().map(mk_record).collect();
    assert_eq!(world.audit().recent(1000).await, Ok(newest), "each once, though an answer was lost");

    let other = self::world(cluster, &options).await;
    for at in 1000..1600 {
        other.audit().append(mk_record(at)).await;
    }
    let seen = other.audit().recent(1000).await.expect("read");
    assert_eq!(seen.len(), 500, "a bounded number is kept");
    world.audit().append(mk_record(5000)).await;
    assert_eq!(world.audit().recent(1).await, Ok(vec![mk_record(5000)]));
    assert!(writes.load(Ordering::SeqCst) < 10, "{writes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_federations_need_survives_a_restart_of_the_apiserver() {
    let cluster = Arc::new(require!(Apiserver::start()));
    let options = options(&cluster, "again").await;
    let world = world(&cluster, &options).await;
    let operation = mk_operation("op", 1);
    let federation = mk_federation("fed", "again-a");
    let (service, sensitive) = mk_secretive("again-a", &Owner::Admin);
    let former = Former { name: name("again-a"), label: "op".to_owned(), service: Some((service, sensitive)) };
    let grant = mk_grant(&mk_grant_id("again"), &Owner::Admin, &options.services_namespace);
    let charge = in_charge(&world).await;
    world.journal().put_operation(&operation).await.expect("put");
    world.journal().put_federation(&federation).await.expect("put");
    world.journal().keep_former(&former).await.expect("kept");
    world.vault().put_grant(&grant).await.expect("put");
    world.audit().append(mk_record(1)).await;
    world.audit().recent(0).await.expect("flushed");

    let killed = cluster.clone();
    tokio::task::spawn_blocking(move || killed.kill_apiserver()).await.expect("killed");
    let refused = world.journal().put_operation(&operation).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    world.audit().append(mk_record(2)).await;
    assert!(world.lease().renew().await.is_err());
    let started = cluster.clone();
    tokio::task::spawn_blocking(move || started.start_apiserver()).await.expect("started");

    eventually("it is reached again", async || world.journal().operations().await.ok()).await;
    assert_eq!(world.journal().operations().await, Ok(vec![operation.clone()]));
    assert_eq!(world.journal().federation(&name("again-a")).await, Ok(Some(federation)));
    assert_eq!(world.journal().former(&name("again-a"), "op").await, Ok(Some(former)));
    assert_eq!(world.vault().grants().await, Ok(vec![grant]));
    assert_eq!(world.audit().recent(9).await, Ok(vec![mk_record(2), mk_record(1)]), "what waited is written later");
    drop(charge);
    let _charge = in_charge(&world).await;
    assert_eq!(world.lease().epoch(), 1, "nobody else was the holder meanwhile");
    world.journal().put_operation(&operation).await.expect("it goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_managers_do_not_work_with_one_refresh_token_at_once() {
    let cluster = require!(Apiserver::shared());
    let options = Options { patience: Duration::from_secs(1), ..options(cluster, "claims").await };
    let (one, two) = (world(cluster, &options).await, world(cluster, &options).await);
    let at_work = Arc::new(AtomicUsize::new(0));
    let works = [&one, &two, &one, &two].map(|world| {
        let vault = world.vault();
        let at_work = at_work.clone();
        tokio::spawn(async move {
            for _ in 0..5 {
                let claim = vault.claim("shared").await.expect("claimed");
                assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0, "somebody else works with it");
                tokio::task::yield_now().await;
                at_work.fetch_sub(1, Ordering::SeqCst);
                drop(claim);
            }
        })
    });
    for work in works {
        work.await.expect("nobody met another");
    }
    let other = one.vault().claim("other").await.expect("claimed");
    drop(other);
    // Whoever works longer than others wait is not disturbed, and neither is the next one.
    let long = one.vault().claim("long").await.expect("claimed");
    let refused = two.vault().claim("long").await.map(drop);
    assert!(matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("another manager")), "{refused:?}");
    drop(long);
    let next = two.vault().claim("long").await.expect("it was given back");
    // A manager that is no more renews nothing.
    std::mem::forget(one.vault().claim("left").await.expect("claimed"));
    drop(one);
    let taken = two.vault().claim("left").await.expect("what its holder left is taken over");
    drop((next, taken));
    let leases: Api<Lease> = Api::namespaced(admin(cluster).await, &options.namespace);
    eventually("nothing is left", async || {
        leases.list(&ListParams::default()).await.expect("listed").items.is_empty().then_some(())
    })
    .await;
}
