//! What a manager that was killed leaves behind.

use std::path::PathBuf;
use std::process::Command;

use oscar_testkit::{Part, eventually, require};

use crate::bench::{Bench, processes_with, unique_seconds};

/// Where the child leaves word that its script runs.
const TOLD: &str = "OSCAR_TEST_TOLD";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_whose_supervisor_was_killed_is_swept() {
    let mine = require!(Bench::container().await);
    let (told, seconds) = (mine.folder.path().join("told"), unique_seconds(mine.folder.path()));
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "leftovers::child_runs_a_container", "--ignored"])
        .env(TOLD, &told)
        .env("OSCAR_TEST_SECONDS", &seconds)
        .spawn()
        .expect("started");
    let patience = std::time::Duration::from_mins(2);
    let sleeps = || !processes_with(&format!("sleep {seconds}")).is_empty();
    eventually("the container runs", patience, || (told.exists() && sleeps()).then_some(()));
    child.kill().expect("killed");
    child.wait().expect("ended");

    // A test beside this one may be sweeping it already, and not be done.
    mine.executor.sweep().await.expect("the engine answers");
    let engine = Part::find("podman").expect("it was there").file("podman");
    eventually("nothing is left", patience, || {
        let list = Command::new(&engine).args(["ps", "--all", "--format", "{{.Names}}"]).output().expect("it answers");
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        (!sleeps() && !list.contains(&format!("oscar-run-{}-", child.id()))).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_that_runs_is_not_swept() {
    let mut mine = require!(Bench::container().await);
    mine.script(": > /oscar/job/output/begun; until [ -e /oscar/job/output/swept ]; do sleep 0.1; done; echo whole\n");
    let begun = mine.output("begun");
    let (ran, swept) = tokio::join!(mine.go(), async {
        Bench::until(begun).await;
        let swept = mine.executor.sweep().await;
        std::fs::write(mine.output("swept"), "").expect("written");
        swept
    });
    swept.expect("the engine answers");
    assert!(ran.said.contains("whole"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs as the child of another test"]
async fn child_runs_a_container() {
    let (Some(told), Ok(seconds)) = (std::env::var_os(TOLD), std::env::var("OSCAR_TEST_SECONDS")) else { return };
    let mut mine = Bench::container().await.expect("its parent has found it");
    mine.script(&format!(": > /oscar/job/output/begun; sleep {seconds}\n"));
    let begun = mine.output("begun");
    tokio::join!(mine.go(), async {
        Bench::until(begun).await;
        std::fs::write(PathBuf::from(told), "").expect("written");
    });
}
