//! A manager whose objects are in an external MinIO.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oscar_testkit::{Minio, Missing, Scratch, require};
use reqwest::Method;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use crate::jobs_scene::Scene;
use crate::manager::program;

const TOKEN: &str = "token-of-the-webhook";
const UPPER: &str = "tr a-z A-Z < \"$INPUT_FILE_PATH\" > \"$TMP_OUTPUT_DIR/$(basename \"$INPUT_FILE_PATH\")\"\n";

/// The address that MinIO was given for its webhook; the manager behind it comes and goes.
struct Relay {
    manager: Arc<Mutex<Option<SocketAddr>>>,
    address: SocketAddr,
}

impl Relay {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let manager: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let target = manager.clone();
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let target = *target.lock().expect("held");
                tokio::spawn(async move {
                    let Some(target) = target else { return };
                    let Ok(mut to) = TcpStream::connect(target).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                });
            }
        });
        Self { manager, address }
    }

    fn lead_to(&self, scene: &Scene) {
        let address = scene.manager.url.trim_start_matches("http://").parse().expect("an address");
        *self.manager.lock().expect("held") = Some(address);
    }

    fn lead_nowhere(&self) {
        *self.manager.lock().expect("held") = None;
    }
}

struct World {
    minio: Minio,
    relay: Relay,
    scene: Scene,
    _queue: Scratch,
}

async fn start(webhook: bool) -> Result<World, Missing> {
    let relay = Relay::start().await;
    let queue = Scratch::new("minio-queue");
    let endpoint = format!("http://{}/system/events/minio", relay.address);
    let folder = queue.path().to_string_lossy().into_owned();
    let minio = tokio::task::spawn_blocking(move || {
        let environment = [
            ("MINIO_NOTIFY_WEBHOOK_ENABLE_OSCAR", "on"),
            ("MINIO_NOTIFY_WEBHOOK_ENDPOINT_OSCAR", endpoint.as_str()),
            ("MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_OSCAR", TOKEN),
            ("MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_OSCAR", folder.as_str()),
        ];
        Minio::start_with(if webhook { &environment } else { &[] })
    });
    let minio = minio.await.expect("tried")?;
    let scene = Scene::start(&environment(&minio));
    relay.lead_to(&scene);
    Ok(World { minio, relay, scene, _queue: queue })
}

fn environment(minio: &Minio) -> [(&str, &str); 4] {
    [
        ("MINIO_ENDPOINT", minio.url()),
        ("MINIO_ACCESS_KEY", Minio::ACCESS_KEY),
        ("MINIO_SECRET_KEY", Minio::SECRET_KEY),
        ("OSCAR_MINIO_WEBHOOK_TOKEN", TOKEN),
    ]
}

fn doctor(world: &World) -> String {
    let output = program(&world.scene.manager.data()).arg("doctor").envs(environment(&world.minio)).output();
    String::from_utf8_lossy(&output.expect("doctor runs").stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_to_minio_becomes_a_job_and_its_output_is_there() {
    let world = require!(start(true).await);
    let scene = &world.scene;
    scene.service("upper", UPPER).await;
    assert_eq!(world.minio.buckets(), ["upper"]);
    let config: Value = scene
        .manager
        .as_admin(Method::GET, "/system/config")
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    assert_eq!(config["minio_provider"]["endpoint"], world.minio.url());
    scene.upload("upper", "in/a b+ä.txt", "some text").await;
    let jobs = scene.all_ended("upper", 1).await;
    assert_eq!((jobs.len(), jobs[0]["state"].as_str()), (1, Some("succeeded")), "{jobs:#?}\n{}", scene.manager.log());
    assert_eq!(scene.download("upper", "out/a b+ä.txt").await, Some(b"SOME TEXT".to_vec()));
    let seen = doctor(&world);
    assert!(seen.contains("keeps what it could not tell"), "{seen}");
    let answer = scene.manager.as_admin(Method::DELETE, "/system/services/upper").send().await.expect("an answer");
    assert_eq!(answer.status(), 204);
    assert_eq!(world.minio.buckets(), ["oscar-staging"], "the bucket that was made for it goes with it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_webhook_uploads_are_found_and_doctor_says_what_to_set() {
    let mut world = require!(start(false).await);
    world.scene.service("upper", UPPER).await;
    world.scene.upload("upper", "in/found", "text").await;
    // A manager looks when it starts, too.
    world.scene.manager.kill();
    world.scene.manager.start_again();
    let jobs = world.scene.all_ended("upper", 1).await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(world.scene.download("upper", "out/found").await, Some(b"TEXT".to_vec()));
    let seen = doctor(&world);
    assert!(seen.contains("MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_OSCAR="), "{seen}");
    assert!(!seen.contains(TOKEN) && !seen.contains(Minio::SECRET_KEY), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_upload_to_minio_is_lost_and_none_is_done_twice_when_the_manager_is_killed() {
    let mut world = require!(start(true).await);
    world.scene.service("upper", UPPER).await;
    let (kills, each) = (3, 6);
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for round in 0..kills {
        for n in 0..each / 2 {
            world.scene.upload("upper", &format!("in/{round}-{n}"), format!("text {round} {n}")).await;
        }
        let mut addresses = Vec::new();
        for n in each / 2..each {
            addresses.push((n, world.scene.presign("upper", &format!("in/{round}-{n}"), "upload").await));
        }
        world.scene.manager.kill();
        world.relay.lead_nowhere();
        for (n, address) in addresses {
            let answer = http.put(address).body(format!("text {round} {n}")).send().await.expect("an answer");
            assert_eq!(answer.status(), 200, "MinIO takes uploads without a manager");
        }
        world.scene.manager.start_again();
        world.relay.lead_to(&world.scene);
    }
    let jobs = world.scene.all_ended("upper", kills * each).await;
    assert_eq!(jobs.len(), kills * each, "one job for each upload");
    let failed: Vec<_> = jobs.iter().filter(|job| job["state"] != "succeeded").collect();
    assert!(failed.is_empty(), "{failed:#?}\n{}", world.scene.manager.log());
    for round in 0..kills {
        for n in 0..each {
            let output = world.scene.download("upper", &format!("out/{round}-{n}")).await;
            assert_eq!(output, Some(format!("TEXT {round} {n}").into_bytes()));
        }
    }
    oscar_testkit::count("kills survived with an external store", kills as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_says_what_it_needs_to_use_a_minio() {
    let folder = Scratch::new("no-keys");
    let output = tokio::task::spawn_blocking(move || {
        let mut command = program(folder.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path().join("data"));
        command.env("MINIO_ENDPOINT", "http://127.0.0.1:9").output().expect("it ran")
    });
    let output = tokio::time::timeout(Duration::from_mins(1), output).await.expect("it ended").expect("it ran");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("MINIO_SECRET_KEY"), "{text}");
}
