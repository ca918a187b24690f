//! What arrives late, is sent back, or is said while nobody answers.

use oscar_engine::Order;
use oscar_engine::ports::audit::Audit as _;
use oscar_engine::ports::peers::Condition;

use super::*;

impl House {
    /// What anybody reads of a service.
    async fn read(&self, service: &str) -> Definition {
        self.services.get(&name(service)).await.expect("read").expect("there").service.definition.clone()
    }

    async fn put(&self, definition: Definition, terms: Terms) -> Result<(), Failure> {
        self.manager.update(&ana(), definition, &Secret::default(), terms).await.map(drop)
    }

    /// What a coordinator sent and arrives only now.
    async fn arrive(&self, definition: &Definition, time: u64) -> Result<(), Failure> {
        let operation = definition.annotations[OPERATION_ANNOTATION].clone();
        let terms = Terms { order: Some(Order { operation, time }), ..Terms::default() };
        self.manager.create(&ana(), definition.clone(), &Secret::default(), terms).await.map(drop)
    }

    async fn condition(&self) -> (Condition, String) {
        let shown = self.manager.federation(&ana(), &name("f")).await.expect("shown").view;
        let node = shown.graph.expect("a federation").nodes.into_iter().find(|node| !node.is_coordinator);
        let trouble = shown.conditions.into_iter().next().map(|(_, trouble, _)| trouble).unwrap_or_default();
        (node.expect("a member").condition, trouble)
    }
}

fn removal(delete: bool) -> Edit {
    Edit { remove: vec![target("x/r", None)], delete, ..Edit::default() }
}

#[tokio::test]
async fn what_was_let_go_is_not_taken_over_by_who_sends_back_what_he_read() {
    let house = mk_house();
    house.manager.create(&ana(), mk_definition("r"), &Secret::default(), Terms::default()).await.expect("created");
    let before = house.read("r").await;
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let read = house.read("r").await;
    house.edit("f", removal(false)).await.expect("let go");
    let put = house.put(read, Terms::default()).await;
    assert_eq!(put, Err(Failure::OtherFederation(name("r"))));
    assert_eq!(house.read("r").await, before);
}

#[tokio::test]
async fn an_older_reading_of_a_replica_is_not_its_coordinators_word() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let read = house.read("r").await;
    let mut changed = house.read("f").await;
    changed.image = "another".to_owned();
    house.put(changed, Terms::default()).await.expect("updated");
    assert!(matches!(house.put(read.clone(), Terms::default()).await, Err(Failure::Replica { .. })));
    house.put(read, Terms { detach: true, ..Terms::default() }).await.expect("taken");
    let own = house.read("r").await;
    assert!(!own.is_worker() && own.federation.is_none(), "whoever takes a replica may send what he read");
}

#[tokio::test]
async fn what_is_made_anew_of_a_reading_is_in_no_federation() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let read = house.read("r").await;
    house.manager.remove(&ana(), &name("f"), Terms::default()).await.expect("removed");
    house.tick().await;
    house.manager.create(&ana(), read, &Secret::default(), Terms::default()).await.expect("made anew");
    let made = house.read("r").await;
    assert!(made.is_worker() && !made.annotations.contains_key(FEDERATION_ID_ANNOTATION));
    house.manager.remove(&ana(), &name("r"), Terms::default()).await.expect("it is nobody's replica");
}

#[tokio::test]
async fn what_was_taken_back_comes_too_late() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let sent = house.read("r").await;
    house.manager.undo_replica(&ana(), &name("r"), &sent.annotations[OPERATION_ANNOTATION]).await.expect("undone");
    assert_eq!(house.arrive(&sent, u64::MAX).await, Err(Failure::TooLate(name("r"))));
    assert!(!house.has("r").await);
}

#[tokio::test]
async fn what_its_owner_deleted_is_not_brought_back_by_a_rollback() {
    let house = mk_house();
    house.manager.create(&ana(), mk_definition("r"), &Secret::default(), Terms::default()).await.expect("created");
    let stored = house.services.get(&name("r")).await.expect("read").expect("there");
    let kept = Some((stored.service.clone(), Sensitive::default()));
    let former = Former { name: name("r"), label: "op".to_owned(), service: kept };
    house.journal.keep_former(&former).await.expect("a crash came before it was written over");
    house.manager.remove(&ana(), &name("r"), Terms::default()).await.expect("removed");
    house.manager.undo_replica(&ana(), &name("r"), "op").await.expect("undone");
    assert!(!house.has("r").await);
}

/// A copy of the operation was there before, found nothing, and was overtaken by the owner.
#[tokio::test]
async fn what_its_owner_made_between_two_copies_of_a_deploy_is_given_back() {
    let elsewhere = mk_house();
    elsewhere.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let sent = elsewhere.read("r").await;
    let operation = sent.annotations[OPERATION_ANNOTATION].clone();
    let house = mk_house();
    let nothing = Former { name: name("r"), label: operation.clone(), service: None };
    house.journal.keep_former(&nothing).await.expect("kept");
    house.manager.create(&ana(), mk_definition("r"), &Secret::default(), Terms::default()).await.expect("created");
    let own = house.read("r").await;
    house.arrive(&sent, u64::MAX).await.expect("adopted");
    assert_ne!(house.read("r").await, own);
    house.manager.undo_replica(&ana(), &name("r"), &operation).await.expect("undone");
    assert_eq!(house.read("r").await, own);
}

#[tokio::test]
async fn what_cannot_be_fenced_is_not_said_to_be_taken_back() {
    let house = mk_house();
    for number in 0..256 {
        house.manager.undo_replica(&ana(), &name("r"), &format!("operation-{number}")).await.expect("undone");
    }
    let refused = house.manager.undo_replica(&ana(), &name("r"), "one-too-many").await;
    assert!(matches!(refused, Err(Failure::Store(_))), "{refused:?}");
    house.manager.undo_replica(&ana(), &name("r"), "operation-7").await.expect("known already");
    house.manager.undo_replica(&Principal::Admin, &name("r"), "one-more").await.expect("others are not concerned");
}

#[tokio::test]
async fn what_was_sent_before_a_removal_comes_too_late_and_what_is_sent_after_it_does_not() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let sent = house.read("r").await;
    house.edit("f", removal(true)).await.expect("removed");
    assert_eq!(house.arrive(&sent, 0).await, Err(Failure::TooLate(name("r"))));
    assert!(!house.has("r").await);
    house.edit("f", Edit { add: vec![mk_member("x/r", None)], ..Edit::default() }).await.expect("added again");
    assert!(house.has("r").await);
    house.manager.remove(&ana(), &name("f"), Terms::default()).await.expect("removed");
    house.tick().await;
    let long_after = house.arrive(&sent, 1_000_000).await;
    assert_eq!(long_after, Err(Failure::TooLate(name("r"))), "nothing is later than the end");
}

#[tokio::test]
async fn old_secrets_that_arrive_late_do_not_stay() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let mut sent = house.read("r").await;
    sent.environment.secrets.insert("KEY".to_owned(), Secret::new("of the coordinator"));
    let mut changed = house.read("f").await;
    changed.environment.secrets.insert("KEY".to_owned(), Secret::new("new"));
    house.put(changed, Terms::default()).await.expect("updated");
    house.arrive(&sent, 1).await.expect("nobody can tell yet");
    house.tick().await;
    let secrets = house.services.reveal(&name("r")).await.expect("revealed");
    assert_eq!(secrets.environment["KEY"].expose(), "new");
}

#[tokio::test]
async fn a_replica_leaves_also_when_its_coordinator_does_not_answer() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    house.silent.store(true, Ordering::Relaxed);
    let terms = Terms { detach: true, ..Terms::default() };
    let change = house.manager.remove(&ana(), &name("r"), terms).await.expect("removed").expect("told");
    let warnings = change.federation.expect("a warning").warnings;
    assert!(warnings[0].contains("told as soon as it answers"), "{warnings:?}");
    house.tick().await;
    assert!(!house.has("r").await, "its coordinator does not bring it back");
    assert!(house.record().await.membership.is_member(&id_of("x/r")), "which has not heard of it");
    house.silent.store(false, Ordering::Relaxed);
    house.tick().await;
    house.tick().await;
    assert!(!house.has("r").await && !house.record().await.membership.is_member(&id_of("x/r")));
    let left: Vec<_> = house.journal.federations().await.expect("read").iter().map(|r| r.own.to_string()).collect();
    assert_eq!(left, ["here/f"], "nothing more is to be told");
}

#[tokio::test]
async fn what_somebody_changed_is_shown_until_it_is_repaired() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let stored = house.services.get(&name("r")).await.expect("read").expect("there");
    let mut service = stored.service.clone();
    service.definition.image = "drifted".to_owned();
    let secrets = house.services.reveal(&name("r")).await.expect("revealed");
    house.services.replace(service, secrets, &stored.revision).await.expect("changed in the store");
    let repositories = vec!["nowhere.example".to_owned()];
    house.manager.set_image_repositories(&Principal::Admin, repositories).await.expect("set");
    house.tick().await;
    let (condition, trouble) = house.condition().await;
    assert_eq!(condition, Condition::Drifted, "{trouble}");
    assert!(trouble.contains("refused"), "why it is not repaired: {trouble}");
    house.manager.set_image_repositories(&Principal::Admin, Vec::new()).await.expect("set");
    house.tick().await;
    assert_eq!(house.condition().await, (Condition::InSync, String::new()));
}

#[tokio::test]
async fn who_says_where_a_cluster_is_keeps_who_may_go_there() {
    let house = mk_house();
    let mut definition = house.mk_coordinator(Topology::Star, vec![mk_member("z/r", None)]);
    let login = Cluster {
        endpoint: "https://old".to_owned(),
        auth_user: "oscar".to_owned(),
        auth_password: Secret::default(),
        ssl_verify: true,
    };
    definition.clusters.insert("z".to_owned(), login.clone());
    let moved = Cluster { endpoint: "https://new".to_owned(), auth_user: String::new(), ..login };
    let edit = Edit { clusters: BTreeMap::from([("z".to_owned(), moved)]), ..Edit::default() };
    let next = house.manager.federator().rehearse(&definition, &edit).expect("a good edit");
    let z = &next.clusters["z"];
    assert_eq!((z.endpoint.as_str(), z.auth_user.as_str()), ("https://new", "oscar"));
}

#[tokio::test]
async fn it_is_on_record_who_acted_and_for_whom() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let edit = Edit { add: vec![mk_member("y/s", None)], ..Edit::default() };
    house.manager.edit_federation(&Principal::Admin, &name("f"), &edit, Terms::default()).await.expect("added");
    house.services.remove(&name("r"), None).await.expect("somebody removes it in the store");
    house.tick().await;
    let records = house.audit.recent(100).await.expect("read");
    let deployed = records.iter().filter(|record| record.act == "replica-deployed");
    let told: Vec<_> = deployed.map(|r| (r.target.as_str(), r.actor.as_str(), r.owner.as_str())).collect();
    let expected = [("x/r", "manager", "ana"), ("y/s", "cluster_admin", "ana"), ("x/r", "ana", "ana")];
    assert_eq!(told, expected, "the newest first");
}
