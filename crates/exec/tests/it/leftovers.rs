//! What a manager that was killed leaves behind.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use oscar_testkit::{Part, eventually, require};

use crate::bench::{Bench, processes_with, unique_seconds};

/// Where the child leaves word that its script runs.
const TOLD: &str = "OSCAR_TEST_TOLD";
/// What the script of the child is.
const SCRIPT: &str = "OSCAR_TEST_SCRIPT";

const PATIENCE: Duration = Duration::from_mins(2);

/// A process beside this one that runs a script which sleeps, and is killed in the middle of it.
struct Supervisor {
    pid: u32,
    sleep: String,
}

impl Supervisor {
    /// In the script, `SLEEP` is what sleeps.
    fn kill(child: &str, script: &str, folder: &Path) -> Supervisor {
        let (told, sleep) = (folder.join("told"), format!("sleep {}", unique_seconds(folder)));
        let mut supervisor = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", child, "--ignored"])
            .env(TOLD, &told)
            .env(SCRIPT, script.replace("SLEEP", &sleep))
            .spawn()
            .expect("started");
        let pid = supervisor.id();
        let killed = Supervisor { pid, sleep };
        eventually("the script runs", PATIENCE, || (told.exists() && killed.sleeps()).then_some(()));
        supervisor.kill().expect("killed");
        supervisor.wait().expect("ended");
        killed
    }

    fn sleeps(&self) -> bool {
        !processes_with(&self.sleep).is_empty()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_whose_supervisor_was_killed_is_swept() {
    let mine = require!(Bench::container().await);
    let killed = Supervisor::kill("leftovers::child_runs_a_container", "SLEEP", mine.folder.path());
    // A test beside this one may be sweeping it already, and not be done.
    mine.executor.sweep().await.expect("the engine answers");
    let engine = Part::find("podman").expect("it was there").file("podman");
    eventually("nothing is left", PATIENCE, || {
        let list = Command::new(&engine).args(["ps", "--all", "--format", "{{.Names}}"]).output().expect("it answers");
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        (!killed.sleeps() && !list.contains(&format!("oscar-run-{}-", killed.pid))).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_without_namespaces_ends_with_its_supervisor() {
    let mine = Bench::plain_process().await;
    let killed = Supervisor::kill("leftovers::child_runs_a_plain_process", "exec SLEEP", mine.folder.path());
    eventually("the script has ended", PATIENCE, || (!killed.sleeps()).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_script_without_namespaces_has_started_is_swept() {
    let mine = Bench::plain_process().await;
    // Children do not end with the script, and those in a session of their own not with its group.
    let script = "(setsid SLEEP &)\nsetsid sh -c 'SLEEP; SLEEP' &\nSLEEP";
    let killed = Supervisor::kill("leftovers::child_runs_a_plain_process", script, mine.folder.path());
    mine.executor.sweep().await.expect("they can be killed");
    eventually("nothing is left", PATIENCE, || (!killed.sleeps()).then_some(()));
}

async fn is_not_swept(mut mine: Bench) {
    let output = mine.output_inside();
    mine.script(&format!(": > {output}/begun; until [ -e {output}/swept ]; do sleep 0.1; done; echo whole\n"));
    let begun = mine.output("begun");
    let (ran, swept) = tokio::join!(mine.go(), async {
        Bench::until(begun).await;
        let swept = mine.executor.sweep().await;
        std::fs::write(mine.output("swept"), "").expect("written");
        swept
    });
    swept.expect("there is nothing that could not be ended");
    assert!(ran.said.contains("whole"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_that_runs_is_not_swept() {
    is_not_swept(require!(Bench::container().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_without_namespaces_that_runs_is_not_swept() {
    is_not_swept(Bench::plain_process().await).await;
}

/// What a killed supervisor did until then.
async fn supervise<E: std::fmt::Debug>(mine: impl Future<Output = Result<Bench, E>>) {
    let (Some(told), Ok(script)) = (std::env::var_os(TOLD), std::env::var(SCRIPT)) else { return };
    let mut mine = mine.await.expect("its parent has found it");
    let text = format!(": > {}/begun\n{script}\n", mine.output_inside());
    mine.script(&text);
    let begun = mine.output("begun");
    tokio::join!(mine.go(), async {
        Bench::until(begun).await;
        std::fs::write(PathBuf::from(told), "").expect("written");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs as the child of another test"]
async fn child_runs_a_container() {
    supervise(Bench::container()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs as the child of another test"]
async fn child_runs_a_plain_process() {
    supervise(async { Ok::<_, Infallible>(Bench::plain_process().await) }).await;
}
