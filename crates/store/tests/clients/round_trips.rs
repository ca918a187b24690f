//! Whole round trips of three published clients, each against both stores.

use std::path::{Path, PathBuf};

use oscar_testkit::{Missing, Part, Python, require};

use crate::servers::{Target, start_minio};
use crate::support::Served;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_minio_package_makes_a_round_trip() {
    let python = require!(Python::find());
    let minio = require!(start_minio().await);
    on_both("minio_package", &python, &Target::of_minio(&minio), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mc_makes_a_round_trip() {
    let python = require!(Python::find());
    let program = require!(program("minio", "mc"));
    let minio = require!(start_minio().await);
    on_both("mc", &python, &Target::of_minio(&minio), Some(("MC", program))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rclone_makes_a_round_trip() {
    let python = require!(Python::find());
    let program = require!(program("rclone", "rclone"));
    let minio = require!(start_minio().await);
    on_both("rclone", &python, &Target::of_minio(&minio), Some(("RCLONE", program))).await;
}

fn program(part: &str, name: &str) -> Result<PathBuf, Missing> {
    Ok(Part::find(part)?.file(name))
}

async fn on_both(client: &'static str, python: &Python, minio: &Target, program: Option<(&'static str, PathBuf)>) {
    let served = Served::start().await;
    for (store, target) in [("the store", Target::of_store(&served)), ("MinIO", minio.clone())] {
        let (python, program) = (python.clone(), program.clone());
        let run = tokio::task::spawn_blocking(move || {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python/round_trips.py");
            let path = program.as_ref().map(|(variable, path)| (*variable, path.to_str().expect("a readable path")));
            let environment: Vec<_> =
                target.environment().into_iter().chain([("S3_TEST", client)]).chain(path).collect();
            python.run(&script, &environment)
        });
        let output = run.await.expect("the script was run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(
            output.status.success() && said.contains(&format!("{client} done")),
            "{client}, {store}: {errors}{said}"
        );
    }
}
