//! A coordinator that dies at any moment of a create, an edit or a delete leaves nothing half-done.

use std::time::Duration;

use oscar_testkit::{Dex, DexConfig, require};
use reqwest::Method;
use serde_json::json;

use super::federation_scene::{A, B, HOME, Scene, quickstart_members};

const TRIO: [(&str, &str); 3] = [(HOME, "grayifyr0"), (A, "grayifyr1"), (B, "grayifyr2")];

/// From before the first call to after the last one.
const MOMENTS: [u64; 8] = [0, 3, 6, 10, 15, 25, 40, 80];

async fn present(scene: &Scene) -> Vec<&'static str> {
    let mut present = Vec::new();
    for (id, name) in TRIO {
        if scene.service(id, name).await.is_some() {
            present.push(id);
        }
    }
    present
}

/// Kills the coordinator that long after a request was sent. Whether the request was acknowledged.
async fn kill_during(scene: &mut Scene, request: reqwest::RequestBuilder, after: Duration) -> bool {
    let sent = tokio::spawn(request.send());
    // Not a wait for something: the moment of death is the point.
    tokio::time::sleep(after).await;
    scene.managers.get_mut(HOME).expect("there").kill();
    let acknowledged = sent.await.expect("it ends").is_ok_and(|answer| answer.status().is_success());
    scene.managers.get_mut(HOME).expect("there").start_again_there();
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_is_killed_leaves_everything_or_nothing() {
    let mut scene = Scene::start(require!(Dex::start(&DexConfig::default())));
    let mut survived = 0;
    for after in MOMENTS.map(Duration::from_millis) {
        let token = scene.alice.access.clone();
        let create = scene.at(HOME).as_nobody(Method::POST, "/system/services").bearer_auth(&token);
        let create = create.header("content-type", "application/yaml");
        let create = create.body(scene.quickstart("mesh", &quickstart_members()));
        let acknowledged = kill_during(&mut scene, create, after).await;
        scene
            .wait("all or nothing", async || {
                let present = present(&scene).await.len();
                present == TRIO.len() || (present == 0 && !acknowledged)
            })
            .await;
        survived += 1;
        if present(&scene).await.is_empty() {
            // It was taken back; the next part needs one.
            scene.alice = scene.dex.token("alice");
            scene.deploy("mesh", &quickstart_members()).await;
        }
        scene.wait_agreed(&TRIO).await;

        let image = format!("image-{}", after.as_millis());
        let mut service = scene.service(HOME, "grayifyr0").await.expect("there");
        service["image"] = json!(image);
        let edit = scene.at(HOME).as_nobody(Method::PUT, "/system/services").bearer_auth(&token).json(&service);
        let acknowledged = kill_during(&mut scene, edit, after).await;
        scene
            .wait("the edit is everywhere or nowhere", async || {
                let mut with = 0;
                for (id, name) in TRIO {
                    with += usize::from(scene.service(id, name).await.is_some_and(|it| it["image"] == image));
                }
                with == TRIO.len() || (with == 0 && !acknowledged)
            })
            .await;
        survived += 1;
        scene.wait_agreed(&TRIO).await;

        let delete = scene.at(HOME).as_nobody(Method::DELETE, "/system/services/grayifyr0").bearer_auth(&token);
        let acknowledged = kill_during(&mut scene, delete, after).await;
        scene
            .wait("deleted everywhere or nowhere", async || {
                let present = present(&scene).await.len();
                present == 0 || (present == TRIO.len() && !acknowledged)
            })
            .await;
        survived += 1;
        // What was begun and not acknowledged may still be finished, before or after this.
        let answer = scene.ask(HOME, Method::DELETE, "/system/services/grayifyr0", None).await;
        assert!(matches!(answer.status().as_u16(), 204 | 404), "{}", answer.text().await.unwrap_or_default());
        scene.wait_empty().await;
        scene.alice = scene.dex.token("alice");
    }
    oscar_testkit::count("kills survived", survived);
}
