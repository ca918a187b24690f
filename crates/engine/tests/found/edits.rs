//! Changes that meet changes of others, and members that are not what they were.

use oscar_model::identity::User;

use super::*;

impl House {
    async fn definition(&self) -> Definition {
        self.services.get(&name("f")).await.expect("read").expect("there").service.definition.clone()
    }

    async fn members(&self) -> Vec<String> {
        self.record().await.membership.members().map(|(id, _)| id.to_string()).collect()
    }

    async fn listed(&self) -> Vec<String> {
        let federation = self.definition().await.federation.expect("a federation");
        federation.members.iter().filter_map(MemberId::of).map(|id| id.to_string()).collect()
    }
}

#[tokio::test]
async fn a_put_does_not_undo_what_its_writer_cannot_have_read() {
    let house = mk_house();
    house.found(Topology::Mesh, vec![mk_member("x/r", None)]).await;
    let mut written = house.definition().await;
    written.script = "another".to_owned();
    let mut record = house.record().await;
    record.membership.add(id_of("x/s"), Attributes::default(), Place::new(HERE, true), "two");
    house.journal.put_federation(&record).await.expect("put");

    let put = async |definition: &Definition| {
        house.manager.update(&ana(), definition.clone(), &Secret::default(), Terms::default()).await.map(drop)
    };
    assert_eq!(put(&written).await, Err(Failure::MembersChanged(name("f"))));
    assert_eq!(house.members().await, ["x/r", "x/s"]);
    assert_eq!(house.listed().await, ["x/r", "x/s"], "who reads it again knows");
    let mut again = house.definition().await;
    again.script = "another".to_owned();
    put(&again).await.expect("put");
    assert_eq!(
        (house.members().await, house.definition().await.script.as_str()),
        (vec!["x/r".to_owned(), "x/s".to_owned()], "another")
    );
    // Whoever has seen a member and leaves it out means it.
    put(&written).await.expect("put");
    assert_eq!(house.members().await, ["x/r"]);
}

#[tokio::test]
async fn what_the_coordinator_heard_from_a_worker_is_in_its_definition_at_once() {
    let house = mk_house();
    house.found(Topology::Mesh, vec![mk_member("x/r", None)]).await;
    house.silent.store(true, Ordering::Relaxed);
    house.edit("r", Edit { add: vec![mk_member("x/s", None)], ..Edit::default() }).await.expect("kept for later");
    house.silent.store(false, Ordering::Relaxed);
    assert_eq!(house.listed().await, ["x/r"]);
    house.manager.reconcile_now(&ana(), &name("f"), Terms::default()).await.expect("looked");
    assert_eq!(house.listed().await, ["x/r", "x/s"]);
}

#[tokio::test]
async fn members_on_the_coordinators_own_manager_are_in_the_group_of_their_owner() {
    let house = mk_house_with(Policy { groups: vec!["vo.example".to_owned()], ..Policy::default() });
    let user = User { groups: vec!["vo.example".to_owned()], ..mk_user("ana") };
    for vo in ["", "vo.example"] {
        let mut definition = house.mk_coordinator(Topology::Star, vec![mk_member("x/r", None)]);
        definition.vo = vo.to_owned();
        let caller = Principal::User(user.clone());
        house.manager.create(&caller, definition, &Secret::default(), Terms::default()).await.expect("created");
        house.tick().await;
        let replica = house.services.get(&name("r")).await.expect("read").expect("there");
        assert_eq!(replica.service.definition.vo, "vo.example");
        house.manager.remove(&caller, &name("f"), Terms::default()).await.expect("removed");
        house.tick().await;
    }
}

#[tokio::test]
async fn a_proxy_that_knows_of_nothing_makes_nobody_forgotten() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None), mk_member("x/s", None)]).await;
    house.away.store(true, Ordering::Relaxed);
    let removal = Edit { remove: vec![target("x/r", None)], delete: true, ..Edit::default() };
    house.edit("f", removal).await.expect("edited");
    house.tick().await;
    assert!(house.record().await.leaving.contains_key(&id_of("x/r")), "it may still be there");
    let shown = house.manager.federation(&ana(), &name("f")).await.expect("shown").view;
    assert!(shown.conditions.iter().any(|(id, trouble, _)| *id == id_of("x/s") && trouble.contains("not the manager")));
    house.away.store(false, Ordering::Relaxed);
    house.tick().await;
    assert!(!house.has("r").await && house.has("s").await);
    assert_eq!(house.record().await.leaving.len(), 0);
}
