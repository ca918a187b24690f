//! The disk really is full while uploads arrive and jobs run: clear refusals, nothing lost, and
//! everything goes on by itself once there is room.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use oscar_testkit::{count, skip};
use reqwest::Method;
use serde_json::json;

use crate::jobs_scene::Scene;
use crate::manager::Disk;

const PATIENCE: Duration = Duration::from_mins(2);

/// More requests of a mebibyte than a database has room for that it does not ask the disk for.
const MOST_SET_ASIDE: usize = 32;

const UPPER: &str = "tr a-z A-Z < \"$INPUT_FILE_PATH\" > \"$TMP_OUTPUT_DIR/$(basename \"$INPUT_FILE_PATH\")\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_and_is_over_when_there_is_room() {
    if std::fs::metadata("/proc/self").expect("this process").uid() != 0 {
        skip!("making a small disk takes root");
        return;
    }
    let mut scene = Scene::start_on(Disk::Own(64), &[("OSCAR_CPU", "0.4")]);
    scene.service("upper", UPPER).await;
    scene.service("called", "true\n").await;
    let mut acknowledged = Vec::new();
    // More than can run at once: some run and others wait.
    while acknowledged.len() < 40 || running(&scene).await == 0 {
        upload(&scene, &mut acknowledged).await.expect("there is room");
    }
    let mut ballast = Ballast::new(scene.manager.data().join("ballast"));
    // What ends meanwhile gives room back, so it is filled again and again.
    let mut refused = 0_u64;
    let deadline = Instant::now() + PATIENCE;
    while refused < 10 {
        ballast.fill();
        match upload(&scene, &mut acknowledged).await {
            Ok(()) => {}
            Err(text) => {
                assert!(text.contains("<Code>XMinioStorageFull</Code>"), "{text}");
                refused += 1;
            }
        }
        assert!(Instant::now() < deadline, "{} uploads fit on a full disk", acknowledged.len());
    }
    let calls = calls_are_refused(&scene, &mut ballast).await;
    definitions_are_refused(&scene, &mut ballast).await;
    // Reading goes on.
    let listed = scene.manager.as_admin(Method::GET, "/system/buckets/upper").send().await.expect("an answer");
    assert_eq!(listed.status(), 200);
    jobs_wait(&scene).await;

    ballast.remove();
    let jobs = scene.all_ended("upper", acknowledged.len()).await;
    assert_eq!(jobs.len(), acknowledged.len(), "one job for each upload that was acknowledged, none for another");
    let others: Vec<_> = jobs.iter().filter(|job| job["state"] != "succeeded").collect();
    assert!(others.is_empty(), "{others:#?}\n{}", scene.manager.log());
    let called = scene.all_ended("called", calls).await;
    assert!(called.len() == calls && called.iter().all(|job| job["state"] == "succeeded"), "{called:#?}");
    upload(&scene, &mut acknowledged).await.expect("there is room again");
    scene.all_ended("upper", acknowledged.len()).await;

    scene.manager.move_to_shared_disk();
    for (key, body) in &acknowledged {
        let output = scene.download("upper", &format!("out/{key}")).await;
        assert_eq!(output.as_deref(), Some(body.to_uppercase().as_bytes()), "{key}");
    }
    let repeated = jobs.iter().filter(|job| job["attempts"].as_u64() > Some(1)).count();
    println!("{} uploads, {refused} refused, {repeated} jobs begun again", acknowledged.len());
    count("uploads refused by a full disk", refused);
}

/// Uploads the next file; remembers it when it was acknowledged.
async fn upload(scene: &Scene, acknowledged: &mut Vec<(String, String)>) -> Result<(), String> {
    let key = format!("{}.txt", acknowledged.len());
    let body = format!("text {} {}", acknowledged.len(), "x".repeat(100_000));
    let (status, text) = scene.try_upload("upper", &format!("in/{key}"), body.clone()).await;
    match status.as_u16() {
        200 => {
            acknowledged.push((key, body));
            Ok(())
        }
        507 => Err(text),
        other => panic!("{other}: {text}\n{}", scene.manager.log()),
    }
}

/// Calls until there is no room for another, also not in what the database has set aside; how
/// many were taken.
async fn calls_are_refused(scene: &Scene, ballast: &mut Ballast) -> usize {
    for taken in 0..MOST_SET_ASIDE {
        ballast.fill();
        let call = scene.manager.as_admin(Method::POST, "/job/called").body(vec![b'x'; 4 << 20]);
        let answer = call.send().await.expect("an answer");
        if answer.status() != 201 {
            refused_for_want_of_room(answer).await;
            return taken;
        }
    }
    panic!("calls fit on a full disk");
}

async fn definitions_are_refused(scene: &Scene, ballast: &mut Ballast) {
    for number in 0..MOST_SET_ASIDE {
        ballast.fill();
        let body = json!({"name": format!("large-{number}"), "image": "none", "script": "x".repeat(1 << 20)});
        let create = scene.manager.as_admin(Method::POST, "/system/services").json(&body);
        let answer = create.send().await.expect("an answer");
        if answer.status() != 201 {
            return refused_for_want_of_room(answer).await;
        }
    }
    panic!("definitions fit on a full disk");
}

async fn refused_for_want_of_room(answer: reqwest::Response) {
    let code = answer.headers().get("oscar-error").and_then(|code| code.to_str().ok()).map(str::to_owned);
    let (status, text) = (answer.status(), answer.text().await.expect("a text"));
    assert_eq!((status.as_u16(), code.as_deref()), (507, Some("store-full")), "{text}");
    assert!(text.contains("no room left on the disk"), "{text}");
}

/// None begins, and the operator is told why.
async fn jobs_wait(scene: &Scene) {
    let deadline = Instant::now() + PATIENCE;
    while !scene.manager.log().contains("MiB are left on the disk of the data folder") {
        assert!(Instant::now() < deadline, "{}", scene.manager.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn running(scene: &Scene) -> usize {
    scene.jobs("upper").await.iter().filter(|job| job["state"] == "running").count()
}

/// A file that takes whatever room there is.
struct Ballast {
    path: PathBuf,
    file: File,
}

impl Ballast {
    fn new(path: PathBuf) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(&path).expect("a file on the small disk");
        Self { path, file }
    }

    fn fill(&mut self) {
        let piece = vec![0; 1 << 20];
        for size in [1 << 20, 64 << 10, 4 << 10] {
            loop {
                match self.file.write(&piece[..size]) {
                    Ok(written) if written > 0 => {}
                    Ok(_) => break,
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("filling {}: {error}", self.path.display()),
                }
            }
        }
    }

    fn remove(self) {
        std::fs::remove_file(&self.path).expect("removed");
    }
}
