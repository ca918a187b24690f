//! Changes that meet changes of others, and members that are not what they were.

use oscar_engine::federate::{Foresight, KeyHolder};
use oscar_model::federation::plan::Act;
use oscar_model::identity::User;
use oscar_model::service::storage::{Provider, ProviderRef};

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
async fn a_change_that_is_refused_changes_nobodys_members() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let before = house.record().await;
    let mut written = house.definition().await;
    written.federation.as_mut().expect("a federation").members.clear();
    house.services.fill(true);
    let put = house.manager.update(&ana(), written, &Secret::default(), Terms::default()).await;
    assert!(put.is_err(), "{put:?}");
    let edit = Edit { add: vec![mk_member("y/s", None)], ..Edit::default() };
    let edited = house.manager.edit_federation(&ana(), &name("f"), &edit, Terms::default()).await;
    assert!(edited.is_err(), "{edited:?}");
    assert_eq!(house.record().await, before);
    house.services.fill(false);
    house.tick().await;
    assert_eq!(house.members().await, ["x/r"]);
    assert!(house.services.get(&name("r")).await.expect("read").is_some(), "it was not removed");
}

/// What was made there under a login is somebody else's for everybody without it.
#[tokio::test]
async fn a_login_is_kept_for_a_member_that_leaves_together_with_it() {
    let house = mk_house();
    let mut definition = house.mk_coordinator(Topology::Star, vec![mk_member("z/r", None)]);
    let login = Cluster {
        endpoint: HERE.to_owned(),
        auth_user: "oscar".to_owned(),
        auth_password: Secret::new("hunter2"),
        ssl_verify: true,
    };
    definition.clusters.insert("z".to_owned(), login);
    house.manager.create(&ana(), definition, &Secret::default(), Terms::default()).await.expect("created");
    let mut written = house.definition().await;
    written.federation.as_mut().expect("a federation").members.clear();
    written.clusters.clear();
    house.stubborn.store(true, Ordering::Relaxed);
    house.manager.update(&ana(), written, &Secret::default(), Terms::default()).await.expect("stored");
    let record = house.record().await;
    assert_eq!(record.leaving.keys().collect::<Vec<_>>(), [&id_of("z/r")]);
    assert_eq!(record.access.logins["z"].password, Secret::new("hunter2"));
    house.stubborn.store(false, Ordering::Relaxed);
    house.tick().await;
    let record = house.record().await;
    assert!(record.leaving.is_empty() && record.access.logins.is_empty(), "{record:?}");
    assert_eq!(house.services.get(&name("r")).await.expect("read"), None);
}

#[tokio::test]
async fn a_coordinator_that_cannot_be_read_any_more_takes_its_members_with_it() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    house.services.plant_broken("f", "torn");
    let removed = house.manager.remove(&Principal::Admin, &name("f"), Terms::default()).await;
    assert!(removed.expect("removed").is_none());
    house.tick().await;
    assert_eq!(house.services.get(&name("r")).await.expect("read"), None);
    assert!(house.journal.federations().await.expect("read").is_empty(), "nothing of it is left");
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

impl House {
    /// What a dry run says, as `<member> <act>`.
    async fn foresee(&self, service: &str, edit: Edit) -> Vec<String> {
        let terms = Terms { dry_run: true, ..Terms::default() };
        let edited = self.manager.edit_federation(&ana(), &name(service), &edit, terms).await.expect("foreseen");
        let act = |foresight| match foresight {
            Foresight::Act(Act::Create) => "create",
            Foresight::Act(Act::Adopt) => "adopt",
            Foresight::Act(Act::Update) => "update",
            Foresight::Act(Act::Delete) => "delete",
            Foresight::Act(Act::Release) => "release",
            Foresight::Nothing => "nothing",
            Foresight::Later => "later",
        };
        let foreseen = edited.foreseen.expect("a dry run").into_iter();
        foreseen
            .map(|foreseen| {
                assert!(!foreseen.why.is_empty(), "{foreseen:?}");
                format!("{} {}", foreseen.member, act(foreseen.foresight))
            })
            .collect()
    }
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_done_at_each_member_and_does_nothing() {
    let house = mk_house();
    house.manager.create(&ana(), mk_definition("own"), &Secret::default(), Terms::default()).await.expect("created");
    house.found(Topology::Star, vec![mk_member("x/r", None), mk_member("x/s", None)]).await;
    house.tick().await;
    let (record, definition) = (house.record().await, house.definition().await);
    let edit = |delete| Edit {
        add: vec![mk_member("x/t", None), mk_member("x/own", None)],
        remove: vec![target("x/r", None)],
        delete,
        ..Edit::default()
    };
    let expected = ["x/s nothing", "x/t create", "x/own adopt", "x/r delete"];
    let mut foreseen = house.foresee("f", edit(true)).await;
    foreseen.sort();
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!(foreseen, sorted);
    assert!(house.foresee("f", edit(false)).await.contains(&"x/r release".to_owned()));
    let urgent = Member { priority: 3, ..mk_member("x/s", None) };
    let update = Edit { update: vec![(target("x/s", None), urgent)], ..Edit::default() };
    assert_eq!(house.foresee("f", update).await, ["x/r nothing", "x/s nothing"], "a star worker is not told of it");

    house.away.store(true, Ordering::Relaxed);
    let foreseen = house.foresee("f", edit(true)).await;
    assert!(foreseen.contains(&"x/s later".to_owned()) && foreseen.contains(&"x/r later".to_owned()), "{foreseen:?}");
    house.away.store(false, Ordering::Relaxed);
    assert_eq!((house.record().await, house.definition().await), (record, definition));
    assert!(house.has("r").await && !house.has("t").await);

    // What the edit itself refuses the dry run refuses.
    let terms = Terms { dry_run: true, ..Terms::default() };
    let stranger = Edit { remove: vec![target("x/nobody", None)], ..Edit::default() };
    let refused = house.manager.edit_federation(&ana(), &name("f"), &stranger, terms).await;
    assert!(matches!(refused, Err(Failure::Invalid(_))), "{refused:?}");
}

#[tokio::test]
async fn a_dry_run_at_a_worker_or_before_the_first_member_says_it_too() {
    let house = mk_house();
    house.found(Topology::Mesh, vec![mk_member("x/r", None), mk_member("x/s", None)]).await;
    let edit = Edit { add: vec![mk_member("x/t", None)], remove: vec![target("x/s", None)], ..Edit::default() };
    assert_eq!(house.foresee("r", edit).await, ["x/r nothing", "x/t create", "x/s release"]);
    let mut lonely = mk_definition("g");
    lonely.federation = Some(Federation { topology: Topology::Star, ..Federation::blank("g") });
    house.manager.create(&ana(), lonely, &Secret::default(), Terms::default()).await.expect("created");
    let edit = Edit { add: vec![mk_member("x/t", None)], ..Edit::default() };
    assert_eq!(house.foresee("g", edit).await, ["x/t create"]);
    assert_eq!(house.journal.federation(&name("g")).await, Ok(None));
}

#[tokio::test]
async fn a_create_that_has_not_ended_is_shown() {
    let house = Arc::new(mk_house());
    house.gate.forget_permits(100);
    let create = tokio::spawn({
        let house = house.clone();
        async move { house.found(Topology::Star, vec![mk_member("x/r", None)]).await }
    });
    while house.journal.operations().await.expect("read").is_empty() {
        tokio::task::yield_now().await;
    }
    let shown = house.manager.operations(&ana()).await.expect("shown");
    assert_eq!(shown.iter().map(|operation| operation.coordinator.as_str()).collect::<Vec<_>>(), ["f"]);
    let stranger = Principal::User(mk_user("somebody"));
    assert_eq!(house.manager.operations(&stranger).await, Ok(vec![]));
    house.gate.add_permits(100);
    create.await.expect("created");
    assert_eq!(house.manager.operations(&ana()).await, Ok(vec![]));

    let mut left = shown.into_iter().next().expect("one");
    left.phase = oscar_model::federation::record::Phase::Back;
    house.journal.put_operation(&left).await.expect("put");
    let shown = house.manager.federation(&ana(), &name("f")).await.expect("shown");
    assert_eq!(shown.operations, [left]);
}

#[tokio::test]
async fn the_token_of_a_service_says_nothing_of_storage() {
    let house = mk_house();
    house.found(Topology::Star, vec![mk_member("x/r", None)]).await;
    let provider = Provider::Minio {
        endpoint: "https://elsewhere".to_owned(),
        verify: true,
        access_key: String::new(),
        secret_key: Secret::default(),
        region: String::new(),
    };
    let reference = ProviderRef::parse("minio.elsewhere").expect("valid");
    let edit = Edit {
        add: vec![mk_member("x/s", None)],
        storage_providers: [(reference, provider)].into_iter().collect(),
        ..Edit::default()
    };
    let token = Principal::ServiceToken(name("f"));
    for dry_run in [false, true] {
        let terms = Terms { dry_run, ..Terms::default() };
        let refused = house.manager.edit_federation(&token, &name("f"), &edit, terms).await;
        assert_eq!(refused.map(drop), Err(Failure::NotOwner(name("f"))));
    }
    let plain = Edit { storage_providers: BTreeMap::new(), ..edit };
    let edited = house.manager.edit_federation(&token, &name("f"), &plain, Terms::default()).await;
    assert!(edited.is_ok(), "the operator vouches for that cluster: {edited:?}");
}

#[tokio::test]
async fn a_merge_has_a_limit() {
    let house = mk_house();
    house.found(Topology::Mesh, vec![mk_member("x/r", None)]).await;
    let record = house.record().await;
    let holder = KeyHolder { federation_id: record.federation_id.clone(), member: id_of("x/r") };
    let exchange = |present: usize, removed: usize| {
        let mut membership = Membership::default();
        for number in 0..present + removed {
            let id = id_of(&format!("x/s{number}"));
            membership.add(id.clone(), Attributes::default(), Place::new(HERE, true), "two");
            if number >= present {
                membership.remove(&id, true, "two");
            }
        }
        Exchange { federation_id: record.federation_id.clone(), membership, ..Exchange::default() }
    };
    // One is there already.
    for (present, removed) in [(256, 0), (0, 4096)] {
        let refused = house.manager.sync(&holder, &name("f"), &exchange(present, removed)).await;
        assert!(matches!(refused, Err(Failure::Invalid(_))), "{present} {removed}: {refused:?}");
        assert_eq!(house.record().await.membership, record.membership, "nothing of it is kept");
    }
    house.manager.sync(&holder, &name("f"), &exchange(255, 0)).await.expect("as many as are allowed");
    assert_eq!(house.members().await.len(), 256);
}

#[tokio::test]
async fn the_administrators_federation_takes_nobodys_service_on_the_own_manager() {
    let house = mk_house();
    house.manager.create(&ana(), mk_definition("r"), &Secret::default(), Terms::default()).await.expect("created");
    let before = house.services.get(&name("r")).await.expect("read").expect("there");
    let definition = house.mk_coordinator(Topology::Star, vec![mk_member("x/r", None)]);
    let created = house.manager.create(&Principal::Admin, definition, &Secret::default(), Terms::default()).await;
    let Err(Failure::Obstacles { outcomes, .. }) = &created else { panic!("{created:?}") };
    assert!(outcomes[0].trouble.contains("somebody else"), "{outcomes:?}");
    assert_eq!(house.services.get(&name("r")).await.expect("read").expect("there"), before);
}
