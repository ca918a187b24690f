//! What lets somebody in, and who is shown it.

use std::collections::BTreeMap;

use oscar_engine::ports::services::Services as _;
use oscar_model::federation::{Federation, Member, Target};
use oscar_model::service::Sensitive;
use serde_json::{Value, json};

use super::{World, mk_service};

async fn mk_world() -> World {
    let world = World::new().await;
    let mut service = mk_service("fed", "alice", &[], 'f');
    let member = Member {
        target: Target::Endpoint { url: "https://e.example/in?key=planted".to_owned() },
        priority: 1,
        ssl_verify: true,
        headers: BTreeMap::from([("X-Key".to_owned(), "planted".to_owned())]),
    };
    service.definition.federation = Some(Federation { members: vec![member], ..Federation::blank("fed") });
    world.services.create(service, Sensitive::default()).await.expect("made");
    world
}

#[tokio::test]
async fn only_the_owner_reads_the_keys_of_members() {
    let world = mk_world().await;
    for (path, key) in [("/system/federation/fed", "members"), ("/system/replicas/fed", "replicas")] {
        for who in ["alice", "admin"] {
            let shown = world.ask(who, "GET", path, "").await.json();
            assert_eq!(shown[key][0]["headers"], json!({"X-Key": "planted"}), "{who}");
            assert_eq!(shown[key][0]["url"], "https://e.example/in?key=planted", "{who}");
        }
        let answer = world.ask("f", "GET", path, "").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()[key][0]["url"], "https://e.example/in");
        assert_eq!(answer.json()[key][0]["headers"], Value::Null);
        assert!(!answer.text().contains("planted"), "{}", answer.text());
    }
}

#[tokio::test]
async fn nobody_signs_in_under_the_name_of_a_key_of_the_store() {
    let world = World::new().await;
    for path in ["/system/config", "/system/services", "/system/info"] {
        let answer = world.ask("oscar-admin", "GET", path, "").await;
        assert_eq!((answer.status.as_u16(), answer.header("oscar-error")), (401, "token-refused"), "{path}");
    }
}

#[tokio::test]
async fn an_entry_that_names_no_repository_opens_no_cluster() {
    let world = World::new().await;
    let put = async |list: Value| {
        let body = json!({"allowed_image_repositories": list}).to_string();
        world.ask("admin", "PUT", "/system/config", body).await
    };
    let answer = put(json!(["", " ", null, "ghcr.io/grycap", "/"])).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    for index in [0, 1, 2, 4] {
        assert!(answer.text().contains(&format!("allowed_image_repositories[{index}]")), "{}", answer.text());
    }
    assert!(!answer.text().contains("repositories[3]"), "{}", answer.text());
    assert_eq!(put(json!(["ghcr.io/grycap"])).await.json(), json!(["ghcr.io/grycap"]));
    assert_eq!(put(json!([])).await.json(), json!([]), "an empty list is meant");
}
