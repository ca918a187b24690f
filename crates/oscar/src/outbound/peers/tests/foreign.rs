//! The whole life of a replica at a Go OSCAR.

use oscar_model::federation::plan::Origination;
use oscar_model::federation::sync::in_sync;
use serde_json::{Value, json};

use super::stand_in::{StandIn, stored};
use super::*;

/// One foreign manager, and alice who calls it.
struct World {
    there: StandIn,
    peers: HttpPeers,
    callee: Callee,
}

impl World {
    async fn new() -> Self {
        let there = StandIn::start().await;
        let callee = Callee::new(&there.url, Audience::Foreign);
        Self { there, peers: mk_peers(), callee }
    }

    /// With a plain service of alice's, as its manager shows it.
    async fn with_plain() -> (Self, Definition) {
        let world = Self::new().await;
        let service = encode_for_peer(&mk_definition(), &"old".into(), &Owner::Admin);
        world.there.put(stored(serde_json::from_slice(&service).expect("JSON"), "alice"));
        match world.look().await.found {
            Found::Plain(definition) => {
                world.there.heard();
                (world, *definition)
            }
            other => panic!("not plain: {other:?}"),
        }
    }

    async fn look(&self) -> Sighting {
        self.peers.look(&self.callee.call(), FEDERATION).await
    }

    async fn deploy(&self, step: &Step) -> Result<(), PeerError> {
        self.peers.deploy(&self.callee.call(), step, &mk_token()).await
    }

    async fn withdraw(&self, step: &Step) -> Result<(), PeerError> {
        self.peers.withdraw(&self.callee.call(), step, FEDERATION, "op-9").await
    }

    async fn undo(&self, step: &Step, operation: &str) -> Result<Undone, PeerError> {
        self.peers.undo(&self.callee.call(), step, operation).await
    }

    /// What it was asked, without bodies.
    fn heard(&self) -> Vec<String> {
        self.there.heard().into_iter().map(|heard| heard.what).collect()
    }

    fn annotation(&self, key: &str) -> Value {
        self.there.service("plants").expect("it is there")["annotations"][format!("oscar.grycap/{key}")].clone()
    }
}

#[tokio::test]
async fn a_replica_is_created_updated_and_deleted() {
    let world = World::new().await;
    let nothing = world.look().await;
    assert_eq!(nothing, Sighting { found: Found::Nothing, audience: Some(Audience::Foreign) });
    world.there.heard();

    let create = mk_step(Act::Create, Some(mk_replica(OPERATION)), None);
    assert_eq!(world.deploy(&create).await, Ok(()));
    let heard = world.there.heard();
    let [sent] = heard.as_slice() else { panic!("one request: {heard:?}") };
    assert_eq!(sent.what, "POST /system/services");
    assert_eq!(sent.headers["content-type"], "application/json");
    assert_eq!(sent.headers["authorization"], "Bearer alice-token");
    assert_eq!(sent.body["script"], "echo 1");
    assert_eq!(sent.body["token"], mk_token().expose());
    assert_eq!(sent.body["environment"]["secrets"]["KEY"], "env-secret");
    assert_eq!(sent.body["annotations"]["oscar.grycap/federation-worker"], "true");
    assert_eq!(sent.body["annotations"]["oscar.grycap/federation-op"], OPERATION);
    assert_eq!(sent.body["federation"]["topology"], "star");
    assert_eq!(sent.body["federation"]["delegation"], "random");
    assert_eq!(sent.body["cluster_id"], "oscar-b");

    match world.look().await.found {
        Found::Replica { origination: Origination::Created, definition } => {
            assert!(in_sync(&mk_replica("op-7"), &definition), "{definition:?}");
            assert!(definition.environment.secrets["KEY"].is_blank());
        }
        other => panic!("no replica: {other:?}"),
    }
    let update = mk_step(Act::Update, Some(mk_replica("op-2")), None);
    assert_eq!(world.deploy(&update).await, Ok(()));
    assert_eq!(world.annotation("federation-op"), "op-2");
    world.there.heard();

    let delete = mk_step(Act::Delete, None, None);
    assert_eq!(world.withdraw(&delete).await, Ok(()));
    assert_eq!(world.heard(), ["GET /system/services/plants", "DELETE /system/services/plants"]);
    assert_eq!(world.there.service("plants"), None);
    assert_eq!(world.withdraw(&delete).await, Ok(()), "what is gone is gone");
    let told = world.deploy(&update).await;
    assert_eq!(told, Err(PeerError::Refused("it answered 404".to_owned())), "Go OSCAR does not create on PUT");
}

#[tokio::test]
async fn a_manager_that_knows_one_port_only_is_told_one() {
    let world = World::new().await;
    world.there.become_older();
    let mk_exposed = |operation: &str, ports: &[u16]| {
        let mut replica = mk_replica(operation);
        replica.expose.api_port = ports.to_vec();
        replica
    };
    let create = mk_step(Act::Create, Some(mk_exposed(OPERATION, &[5000])), None);
    assert_eq!(world.deploy(&create).await, Ok(()));
    assert_eq!(world.heard(), ["POST /system/services", "POST /system/services"]);
    let Found::Replica { definition, .. } = world.look().await.found else { panic!("no replica") };
    assert!(in_sync(&mk_exposed("op-2", &[5000]), &definition));
    let update = mk_step(Act::Update, Some(mk_exposed("op-2", &[5001])), None);
    assert_eq!(world.deploy(&update).await, Ok(()));
    assert_eq!(world.there.service("plants").expect("there")["expose"]["api_port"], 5001);
    let told = world.deploy(&mk_step(Act::Update, Some(mk_exposed("op-3", &[1, 2])), None)).await;
    assert!(matches!(told, Err(PeerError::Refused(why)) if why.contains("cannot unmarshal array")));
}

#[tokio::test]
async fn creating_what_exists_is_refused_with_its_reason() {
    let (world, _) = World::with_plain().await;
    let told = world.deploy(&mk_step(Act::Create, Some(mk_replica(OPERATION)), None)).await;
    let reason = "it answered 400: A service with the provided name already exists";
    assert_eq!(told, Err(PeerError::Refused(reason.to_owned())));
}

#[tokio::test]
async fn an_undone_create_deletes_only_what_that_operation_made() {
    let world = World::new().await;
    let create = mk_step(Act::Create, Some(mk_replica(OPERATION)), None);
    assert_eq!(world.undo(&create, OPERATION).await, Ok(Undone::Absent), "it may still arrive");
    world.deploy(&create).await.expect("created");
    assert_eq!(world.undo(&create, "another").await, Ok(Undone::Absent));
    assert!(world.there.service("plants").is_some(), "another operation made it");
    assert_eq!(world.undo(&create, OPERATION).await, Ok(Undone::ForGood));
    assert_eq!(world.there.service("plants"), None);
}

#[tokio::test]
async fn an_adopted_service_is_put_back_as_it_was() {
    let (world, former) = World::with_plain().await;
    let before = world.there.service("plants");
    let adopt = mk_step(Act::Adopt, Some(mk_replica(OPERATION)), Some(former.clone()));
    assert_eq!(world.deploy(&adopt).await, Ok(()));
    assert_eq!(world.heard(), ["PUT /system/services"]);
    assert_eq!(world.undo(&adopt, "another").await, Ok(Undone::Absent));
    assert_eq!(world.annotation("federation-id"), FEDERATION, "another operation wrote it");
    assert_eq!(world.undo(&adopt, OPERATION).await, Ok(Undone::ForGood));
    assert_eq!(world.look().await.found, Found::Plain(Box::new(former.clone())));

    world.deploy(&adopt).await.expect("adopted");
    let release = mk_step(Act::Release, None, Some(former.clone()));
    assert_eq!(world.withdraw(&release).await, Ok(()));
    assert_eq!(world.look().await.found, Found::Plain(Box::new(former)));
    let token = |service: Option<Value>| service.expect("it is there")["token"].clone();
    assert_eq!(token(world.there.service("plants")), token(before), "its token is its own");
}

#[tokio::test]
async fn what_was_there_before_need_not_be_known_to_let_a_service_go() {
    for former in [None, Some(mk_replica("op-0"))] {
        let (world, plain) = World::with_plain().await;
        let adopt = mk_step(Act::Adopt, Some(mk_replica(OPERATION)), Some(plain));
        world.deploy(&adopt).await.expect("adopted");
        assert_eq!(world.withdraw(&mk_step(Act::Release, None, former)).await, Ok(()));
        let Found::Plain(left) = world.look().await.found else { panic!("it is still a replica") };
        assert_eq!(left.federation, None);
        assert_eq!(left.annotations.keys().collect::<Vec<_>>(), ["note"]);
    }
}

#[tokio::test]
async fn nothing_of_another_federation_or_owner_is_touched() {
    let world = World::new().await;
    let mut service: Value =
        serde_json::from_slice(&encode_for_peer(&mk_replica(OPERATION), &mk_token(), &Owner::Admin)).expect("JSON");
    let own = Some(mk_definition());
    for (owner, federation) in [("alice", "another"), ("bob", FEDERATION), ("cluster_admin", FEDERATION)] {
        service["owner"] = json!(owner);
        service["annotations"]["oscar.grycap/federation-id"] = json!(federation);
        world.there.put(service.clone());
        world.there.heard();
        for act in [Act::Delete, Act::Release] {
            assert_eq!(world.withdraw(&mk_step(act, None, own.clone())).await, Ok(()));
        }
        if owner != "alice" {
            assert_eq!(world.undo(&mk_step(Act::Create, None, None), OPERATION).await, Ok(Undone::Absent));
        }
        assert!(world.heard().iter().all(|heard| heard.starts_with("GET ")));
        assert_eq!(world.there.service("plants").as_ref(), Some(&service));
    }
}

#[tokio::test]
async fn who_calls_with_an_account_of_the_cluster_leaves_the_owner_as_he_is() {
    let (mut world, former) = World::with_plain().await;
    world.callee = Callee::new(&world.there.url, Audience::Foreign).with(mk_login());
    let owner = |world: &World| world.there.service("plants").expect("it is there")["owner"].clone();
    let adopt = mk_step(Act::Adopt, Some(mk_replica(OPERATION)), Some(former.clone()));
    assert_eq!(world.deploy(&adopt).await, Ok(()));
    assert_eq!(owner(&world), "alice");
    assert_eq!(world.undo(&adopt, OPERATION).await, Ok(Undone::ForGood));
    assert_eq!(owner(&world), "alice");
    world.deploy(&adopt).await.expect("adopted");
    assert_eq!(world.withdraw(&mk_step(Act::Delete, None, None)).await, Ok(()));

    let create = mk_step(Act::Create, Some(mk_replica(OPERATION)), None);
    assert_eq!(world.deploy(&create).await, Ok(()));
    assert_eq!(owner(&world), "cluster_admin");
    let found = world.look().await.found;
    assert!(matches!(found, Found::Replica { .. }), "the account owns what the administrator owns: {found:?}");
}

#[tokio::test]
async fn an_account_that_may_overwrite_everything_does_not() {
    let (mut world, former) = World::with_plain().await;
    world.callee = Callee::new(&world.there.url, Audience::Foreign).with(mk_login());
    world.callee.owner = Owner::User(oscar_model::identity::Subject::parse("bob").expect("a subject"));
    let before = world.there.service("plants");
    let told = world.deploy(&mk_step(Act::Adopt, Some(mk_replica(OPERATION)), Some(former))).await;
    assert_eq!(told, Err(PeerError::Refused("the name belongs to somebody else".to_owned())));
    assert_eq!(world.there.service("plants"), before);
}

#[tokio::test]
async fn a_refused_credential_is_told_from_a_refused_change() {
    let (mut world, former) = World::with_plain().await;
    world.callee.credential = Credential::Bearer("nonsense".into());
    assert_eq!(world.look().await.found, Found::Refused("it answered 401".to_owned()));
    let refused = Err(PeerError::Credentials("it answered 401".to_owned()));
    assert_eq!(world.deploy(&mk_step(Act::Create, Some(mk_replica(OPERATION)), None)).await, refused);
    assert_eq!(world.withdraw(&mk_step(Act::Delete, None, None)).await, refused);
    let undone = world.undo(&mk_step(Act::Adopt, None, Some(former)), OPERATION).await;
    assert_eq!(undone.map(drop), refused);
    world.callee.credential = Credential::Bearer("bob-token".into());
    world.callee.owner = Owner::User(oscar_model::identity::Subject::parse("bob").expect("a subject"));
    assert_eq!(world.look().await.found, Found::SomebodyElses);
    let told = world.deploy(&mk_step(Act::Update, Some(mk_replica(OPERATION)), None)).await;
    assert_eq!(told, Err(PeerError::Refused("it answered 403".to_owned())));
}
