//! Refresh tokens: who has them, and that nobody has them for ever.

use oscar_engine::ports::mint::Submission;
use oscar_engine::ports::vault::Vault as _;
use oscar_model::federation::record::{Grant, GrantState, Holder};

use super::*;

impl House {
    async fn grants(&self) -> Vec<Grant> {
        self.vault.grants().await.expect("read")
    }

    async fn token_state(&self) -> Option<GrantState> {
        self.manager.federation(&ana(), &name("f")).await.expect("shown").token.map(|token| token.state)
    }

    async fn create(&self, definition: Definition) {
        self.manager.create(&ana(), definition, &Secret::default(), Terms::default()).await.expect("created");
    }

    /// What a job of a service would see.
    async fn secrets(&self, service: &str) -> Vec<String> {
        let sensitive = self.services.reveal(&name(service)).await.expect("revealed");
        sensitive.environment.into_keys().collect()
    }

    async fn remove(&self, service: &str) {
        self.manager.remove(&ana(), &name(service), Terms::default()).await.expect("removed");
    }
}

fn mk_lonely(token: &Secret) -> Definition {
    let mut definition = mk_definition("f");
    definition.environment.secrets.insert("refresh_token".to_owned(), token.clone());
    definition.environment.secrets.insert("KEY".to_owned(), Secret::new("of the service"));
    definition
}

#[tokio::test]
async fn a_federation_that_ends_late_leaves_its_successor_the_token() {
    let house = mk_house();
    let definition = house.mk_coordinator(Topology::Star, vec![mk_member("x/r", None)]);
    house.create(definition.clone()).await;
    house.stubborn.store(true, Ordering::Relaxed);
    house.remove("f").await;
    house.tick().await;
    let mut successor = definition;
    successor.federation.as_mut().expect("given").members = vec![mk_member("x/s", None)];
    house.create(successor).await;
    house.stubborn.store(false, Ordering::Relaxed);
    house.tick().await;
    assert!(!house.has("r").await, "the first one has ended");
    assert_eq!((house.issuers.revocations(), house.token_state().await), (0, Some(GrantState::Valid)));
    house.remove("f").await;
    house.tick().await;
    assert_eq!((house.issuers.revocations(), house.grants().await), (1, vec![]), "the last one ends it");
}

#[tokio::test]
async fn what_older_managers_wrote_down_by_name_alone_is_the_living_federations() {
    let house = mk_house();
    let definition = house.mk_coordinator(Topology::Star, vec![mk_member("x/r", None)]);
    house.create(definition.clone()).await;
    house.stubborn.store(true, Ordering::Relaxed);
    house.remove("f").await;
    let mut successor = definition;
    successor.federation.as_mut().expect("given").members = vec![mk_member("x/s", None)];
    house.create(successor).await;
    let mut older = house.grants().await.remove(0);
    older.holders = [Holder::from(name("f"))].into();
    house.vault.put_grant(&older).await.expect("put");
    house.tick().await;
    house.stubborn.store(false, Ordering::Relaxed);
    house.tick().await;
    assert_eq!((house.issuers.revocations(), house.token_state().await), (0, Some(GrantState::Valid)));
}

#[tokio::test]
async fn a_service_that_does_not_federate_shows_its_refresh_token_to_no_job() {
    let house = mk_house();
    let token = house.issuers.sign_in("ana");
    house.create(mk_lonely(&token)).await;
    assert_eq!(house.secrets("f").await, ["KEY"]);
    let kept = house.grants().await;
    assert_eq!((kept.len(), &kept[0].token), (1, &token), "it is kept apart");
    assert_eq!(house.issuers.refreshes(), 0, "nobody needs it yet");

    // Who sends back what he was shown changes nothing.
    let read = house.services.get(&name("f")).await.expect("read").expect("there").service.definition.clone();
    house.manager.update(&ana(), read, &Secret::default(), Terms::default()).await.expect("put");
    assert_eq!((house.secrets("f").await, house.grants().await), (vec!["KEY".to_owned()], kept));

    house.edit("f", Edit { add: vec![mk_member("x/r", None)], ..Edit::default() }).await.expect("edited");
    assert_eq!(house.token_state().await, None, "endpoints of no topology are not deployed to");
    house.remove("f").await;
    assert_eq!((house.grants().await, house.issuers.revocations()), (vec![], 0), "it was never ours to revoke");
}

#[tokio::test]
async fn a_replica_of_a_foreign_coordinator_keeps_its_refresh_token_and_does_not_use_it() {
    let house = mk_house();
    let token = house.issuers.sign_in("ana");
    let mut worker = mk_lonely(&token);
    worker.annotations.insert(WORKER_ANNOTATION.to_owned(), "true".to_owned());
    let members = vec![mk_member("x/other", None)];
    worker.federation = Some(Federation { topology: Topology::Mesh, members, ..Federation::blank("f") });
    house.create(worker).await;
    assert_eq!(house.secrets("f").await, ["KEY"]);
    assert_eq!((house.grants().await.len(), house.issuers.refreshes()), (1, 0));
    house.remove("f").await;
    assert_eq!((house.grants().await, house.issuers.revocations()), (vec![], 0), "its coordinator uses it still");
}

#[tokio::test]
async fn a_kept_refresh_token_is_tried_when_the_first_members_come() {
    for by_put in [false, true] {
        let house = mk_house();
        let mut definition = mk_lonely(&house.issuers.sign_in("ana"));
        definition.federation = Some(Federation { topology: Topology::Star, ..Federation::blank("f") });
        house.create(definition.clone()).await;
        assert_eq!((house.secrets("f").await, house.issuers.refreshes()), (vec!["KEY".to_owned()], 0));
        if by_put {
            definition.environment.secrets.insert("refresh_token".to_owned(), Secret::default());
            definition.federation.as_mut().expect("given").members = vec![mk_member("x/r", None)];
            house.manager.update(&ana(), definition, &Secret::default(), Terms::default()).await.expect("put");
        } else {
            house.edit("f", Edit { add: vec![mk_member("x/r", None)], ..Edit::default() }).await.expect("edited");
        }
        assert_eq!((house.issuers.refreshes(), house.token_state().await), (1, Some(GrantState::Valid)), "{by_put}");
        assert_eq!(house.secrets("f").await, ["KEY"]);
        house.tick().await;
        let id = house.record().await.federation_id;
        assert_eq!(house.grants().await[0].holders, [Holder::new(&name("f"), &id)].into(), "{by_put}");
        house.remove("f").await;
        house.tick().await;
        assert_eq!((house.grants().await, house.issuers.revocations()), (vec![], 1), "{by_put}");
    }
}

#[tokio::test]
async fn a_kept_refresh_token_that_is_refused_keeps_no_member_away() {
    let house = mk_house();
    let token = house.issuers.sign_in("somebody-else");
    let mut definition = mk_lonely(&token);
    definition.federation = Some(Federation { topology: Topology::Star, ..Federation::blank("f") });
    house.create(definition).await;
    let edit = Edit { add: vec![mk_member("x/r", None)], ..Edit::default() };
    let edited = house.manager.edit_federation(&ana(), &name("f"), &edit, Terms::default()).await.expect("edited");
    assert!(edited.warnings.iter().any(|warning| warning.contains("somebody else")), "{edited:?}");
    assert!(house.has("r").await);
}

#[tokio::test]
async fn what_an_older_manager_stored_with_the_rest_is_taken_apart_with_the_first_members() {
    let house = mk_house();
    let mut definition = mk_lonely(&Secret::default());
    definition.federation = Some(Federation { topology: Topology::Star, ..Federation::blank("f") });
    house.create(definition).await;
    let stored = house.services.get(&name("f")).await.expect("read").expect("there");
    let mut sensitive = house.services.reveal(&name("f")).await.expect("revealed");
    sensitive.environment.insert("refresh_token".to_owned(), house.issuers.sign_in("ana"));
    house.services.replace(stored.service.clone(), sensitive, &stored.revision).await.expect("replaced");
    house.edit("f", Edit { add: vec![mk_member("x/r", None)], ..Edit::default() }).await.expect("edited");
    assert_eq!(house.secrets("f").await, ["KEY"]);
    assert_eq!(house.token_state().await, Some(GrantState::Valid));
}

#[tokio::test]
async fn a_token_whose_federation_was_never_written_down_ends() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    // A crash came after the submission and before anything else.
    let (owner, token) = (mk_owner("ana"), house.issuers.sign_in("ana"));
    let holder = Holder::new(&name("g"), "never-begun");
    let submission = Submission {
        actor: "ana",
        owner: &owner,
        namespace: "",
        holder: &holder,
        token: &token,
        bearer: None,
        strict: true,
    };
    house.manager.federator().mint.submit(submission).await.expect("a good token");
    house.tick().await;
    assert!(house.grants().await.iter().any(|grant| grant.holders.contains(&holder)), "it may be under way");
    house.clock.advance(3601);
    house.tick().await;
    assert!(!house.grants().await.iter().any(|grant| grant.holders.contains(&holder)));
    house.clock.advance(24 * 3600);
    house.tick().await;
    assert_eq!((house.grants().await.len(), house.issuers.revocations()), (1, 1), "the other one is in use");
    assert_eq!(house.token_state().await, Some(GrantState::Valid));
}

#[tokio::test]
async fn who_needs_a_token_and_was_not_written_down_as_its_holder_is() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let mut grant = house.grants().await.remove(0);
    grant.holders.clear();
    house.vault.put_grant(&grant).await.expect("put");
    house.clock.advance(2 * 24 * 3600);
    house.tick().await;
    assert_eq!((house.issuers.revocations(), house.token_state().await), (0, Some(GrantState::Valid)));
}

#[tokio::test]
async fn a_put_that_is_refused_ends_no_token() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let mut definition = house.mk_coordinator(Topology::Star, vec![mk_member("x/r", None)]);
    definition.federation.as_mut().expect("given").members.push(mk_member("nowhere/t", None));
    let put = house.manager.update(&ana(), definition, &Secret::default(), Terms::default()).await;
    assert!(put.is_err(), "{put:?}");
    assert_eq!((house.issuers.revocations(), house.token_state().await), (0, Some(GrantState::Valid)));
}

#[tokio::test]
async fn a_put_with_a_new_token_uses_the_new_one_and_ends_the_former() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let former = house.record().await.access.grant.expect("a grant");
    let definition = house.mk_coordinator(Topology::Star, vec![mk_member("x/r", None)]);
    house.manager.update(&ana(), definition, &Secret::default(), Terms::default()).await.expect("put");
    let grants = house.grants().await;
    assert_eq!(grants.len(), 1);
    assert_eq!(house.record().await.access.grant.as_ref(), Some(&grants[0].id));
    assert_ne!(grants[0].id, former);
    assert_eq!(house.issuers.revocations(), 1);
}

#[tokio::test]
async fn one_definition_that_cannot_be_read_stops_nothing_else() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let role = Role::Worker { coordinator: id_of("x/other"), endpoint: HERE.to_owned() };
    for (id, role, deleted) in [("a", role, None), ("b", Role::Coordinator, Some(1)), ("c", Role::Coordinator, None)] {
        let record = FederationRecord { deleted, ..mk_record(id, "broken", role) };
        house.journal.put_federation(&record).await.expect("put");
    }
    let former = Former { name: name("broken"), label: "op".to_owned(), service: None };
    house.journal.keep_former(&former).await.expect("kept");
    house.services.plant_broken("broken", "planted");
    house.remove("f").await;
    let tended = house.manager.tick_federations().await.expect("ticked");
    assert!(!house.has("r").await, "what was deleted is finished");
    assert_eq!(house.issuers.revocations(), 1);
    assert!(tended.failures.len() >= 3 && tended.open >= 3, "{tended:?}");
    assert!(tended.failures.iter().all(|(service, _)| *service == name("broken")), "{tended:?}");
}
