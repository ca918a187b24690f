//! Many uploads with boto3 while the manager is killed again and again: each becomes one job and
//! one output.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use oscar_testkit::{Python, count, require};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::jobs_scene::Scene;

/// A story that stands still for that long never goes on.
const PATIENCE: Duration = Duration::from_mins(3);

const UPPER: &str = "tr a-z A-Z < \"$INPUT_FILE_PATH\" > \"$TMP_OUTPUT_DIR/$(basename \"$INPUT_FILE_PATH\")\"\n";
const BRACKETS: &str =
    "echo -n \"[$(cat \"$INPUT_FILE_PATH\")]\" > \"$TMP_OUTPUT_DIR/$(basename \"$INPUT_FILE_PATH\")\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_upload_becomes_one_output_whenever_the_manager_is_killed() {
    let python = require!(Python::find());
    story(&python, 300, 5, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: three times a thousand jobs with ten kills take minutes"]
async fn a_thousand_uploads_become_a_thousand_outputs_across_ten_kills() {
    let python = require!(Python::find());
    let given = std::env::var("OSCAR_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = given.map_or_else(|| (0..3).map(|_| rand::rng().random()).collect(), |seed| vec![seed]);
    for seed in seeds {
        story(&python, 1000, 10, seed).await;
    }
}

/// In the long run, `OSCAR_SEED` tells the same story again.
async fn story(python: &Python, uploads: usize, kills: usize, seed: u64) {
    println!("seed {seed}");
    let begun = Instant::now();
    let mut scene = Scene::start(&[("OSCAR_CPU", "2")]);
    scene.service("alone", UPPER).await;
    scene.service("first", UPPER).await;
    chain(&scene).await;
    let chained = uploads.div_ceil(3);
    let (mut uploader, stored, listener) = upload(python, &scene, uploads);

    for place in places(seed, kills, 2 * uploads) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let reached = stored.load(Ordering::SeqCst) + succeeded(&scene).await;
            if reached >= place {
                break;
            }
            let log = || scene.manager.log();
            assert!(Instant::now() < deadline, "at {reached}, the kill is at {place}\n{}", log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        scene.manager.kill();
        scene.manager.start_again_there();
    }

    let ended = uploader.wait().await.expect("the uploader ended");
    assert!(ended.success(), "{ended}: its complaints stand above\n{}", scene.manager.log());
    listener.await.expect("all it said was heard");
    assert_eq!(stored.load(Ordering::SeqCst), uploads);
    let mut repeated = 0;
    for (service, expected) in [("alone", uploads - chained), ("first", chained), ("second", chained)] {
        let jobs = scene.all_ended(service, expected).await;
        assert_eq!(jobs.len(), expected, "{service}: one job for each upload and each output");
        let others: Vec<_> = jobs.iter().filter(|job| job["state"] != "succeeded").collect();
        assert!(others.is_empty(), "{others:#?}\n{}", scene.manager.log());
        repeated += jobs.iter().filter(|job| job["attempts"].as_u64() > Some(1)).count();
    }
    let looked = script(python, &scene, uploads).arg("check").output().await.expect("it ran");
    let told = String::from_utf8_lossy(&looked.stdout).into_owned() + &String::from_utf8_lossy(&looked.stderr);
    assert!(looked.status.success() && told.contains("all done"), "{told}");
    nothing_left(&scene).await;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{uploads} uploads, {kills} kills, {} jobs ({repeated} begun again) in {seconds:.0} s", uploads + chained);
    count("kills survived by jobs", kills as u64);
    count("uploads that became one output each", uploads as u64);
}

/// A service that is started by the outputs of `first`.
async fn chain(scene: &Scene) {
    let second = json!({
        "name": "second", "image": "none", "cpu": "0.1", "memory": "64Mi", "script": BRACKETS,
        "input": [{"storage_provider": "minio.default", "path": "first/out"}],
        "output": [{"storage_provider": "minio.default", "path": "second/out"}],
    });
    assert_eq!(scene.manager.create(&second).await, 201);
}

/// Where the kills fall, counted in uploads and jobs that are done.
fn places(seed: u64, kills: usize, end: usize) -> BTreeSet<usize> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut places = BTreeSet::new();
    while places.len() < kills {
        places.insert(random.random_range(1..end));
    }
    places
}

fn script(python: &Python, scene: &Scene, uploads: usize) -> Command {
    let secret = std::fs::read_to_string(scene.manager.data().join("s3.secret")).expect("the administrator's key");
    let mut command = Command::new(python.program("python"));
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/many_uploads.py"))
        .env("OSCAR_TEST_ENDPOINT", &scene.manager.url)
        .env("OSCAR_TEST_KEY", "oscar-admin")
        .env("OSCAR_TEST_SECRET", secret.trim())
        .env("OSCAR_TEST_UPLOADS", uploads.to_string())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("no_proxy", "127.0.0.1,localhost")
        .kill_on_drop(true);
    command
}

/// Starts the uploads; how many were stored is counted.
fn upload(python: &Python, scene: &Scene, uploads: usize) -> (Child, Arc<AtomicUsize>, JoinHandle<()>) {
    let mut child = script(python, scene, uploads).stdout(Stdio::piped()).spawn().expect("python starts");
    let stored = Arc::new(AtomicUsize::new(0));
    let (out, counter) = (child.stdout.take().expect("its output"), stored.clone());
    let listener = tokio::spawn(async move {
        let mut lines = BufReader::new(out).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.starts_with("stored") {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (child, stored, listener)
}

async fn succeeded(scene: &Scene) -> usize {
    let answer = scene.manager.as_admin(Method::GET, "/metrics").send().await.expect("an answer");
    let text = answer.text().await.expect("a text");
    let line = text.lines().find_map(|line| line.strip_prefix("oscar_jobs{state=\"succeeded\"} "));
    line.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// What attempts needed is gone once their jobs have ended.
async fn nothing_left(scene: &Scene) {
    let deadline = Instant::now() + PATIENCE;
    let attempts = || std::fs::read_dir(scene.manager.data().join("attempts")).expect("the folder").count();
    while attempts() > 0 {
        assert!(Instant::now() < deadline, "{} attempts have left something", attempts());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = scene.manager.as_admin(Method::GET, "/system/status").send().await.expect("an answer");
    let status: Value = status.json().await.expect("JSON");
    assert_eq!(status["cluster"]["nodes"][0]["cpu"]["request_cores"], Value::Null, "no room is held: {status:#}");
}
