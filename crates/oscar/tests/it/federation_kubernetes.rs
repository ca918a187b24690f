//! Federations across both worlds, on a real API server.

use oscar_testkit::{Apiserver, Dex, DexConfig, require};
use reqwest::Method;
use serde_json::json;

use super::federation_scene::{A, B, HOME, Scene, quickstart_members};

const TRIO: [(&str, &str); 3] = [(HOME, "grayifyr0"), (A, "grayifyr1"), (B, "grayifyr2")];

/// One manager lives on Kubernetes, the others on this machine.
fn mk_scene(dex: Dex, cluster: &Apiserver, on_kubernetes: &str) -> Scene {
    cluster.apply("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: oscar\n");
    let kubeconfig = cluster.admin_kubeconfig().to_string_lossy().into_owned();
    let settings = [("OSCAR_WORLD", "kubernetes"), ("KUBECONFIG", kubeconfig.as_str())];
    Scene::start_with(dex, &[(on_kubernetes, &settings)])
}

async fn edit_image(scene: &Scene, image: &str) {
    let mut service = scene.service(HOME, "grayifyr0").await.expect("there");
    service["image"] = json!(image);
    let answer = scene.ask(HOME, Method::PUT, "/system/services", Some(&service)).await;
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap_or_default());
}

async fn wait_image(scene: &Scene, image: &str) {
    for (id, name) in TRIO {
        scene
            .wait(&format!("{id} has {image}"), async || {
                scene.service(id, name).await.is_some_and(|service| service["image"] == image)
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_on_kubernetes_remembers_its_federation_across_crashes() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let cluster = require!(Apiserver::start());
    let mut scene = mk_scene(dex, &cluster, HOME);
    scene.deploy("mesh", &quickstart_members()).await;
    scene.wait_agreed(&TRIO).await;
    scene.managers.get_mut(HOME).expect("there").kill();
    scene.managers.get_mut(HOME).expect("there").start_again_there();
    // The next holder of the Lease waits until the former one is surely gone.
    scene.wait_agreed(&TRIO).await;
    edit_image(&scene, "after-the-crash").await;
    wait_image(&scene, "after-the-crash").await;
    cluster.restart_apiserver();
    scene
        .wait("the API server is back for the manager", async || {
            let answer = scene.ask(HOME, Method::GET, "/system/federation/grayifyr0", None).await;
            answer.status() == 200
        })
        .await;
    edit_image(&scene, "after-the-restart").await;
    wait_image(&scene, "after-the-restart").await;
    scene.delete(HOME, "grayifyr0").await;
    scene.wait_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_on_kubernetes_is_deployed_to_edited_and_left() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let cluster = require!(Apiserver::start());
    let scene = mk_scene(dex, &cluster, A);
    scene.deploy("star", &quickstart_members()).await;
    scene.wait_agreed(&TRIO).await;
    edit_image(&scene, "edited").await;
    wait_image(&scene, "edited").await;
    scene.delete(HOME, "grayifyr0").await;
    scene.wait_empty().await;
}
