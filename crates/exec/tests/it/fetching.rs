//! Before a container runs, its image may have to be fetched. That is bounded like the script.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use oscar_exec::Ended;
use oscar_testkit::eventually;
use tempfile::TempDir;

use crate::bench::{Bench, processes_with, unique_seconds};

const PATIENCE: Duration = Duration::from_mins(2);

/// An engine that does not come back from one of its commands.
struct Hanging {
    folder: TempDir,
    sleep: String,
    bench: Bench,
}

impl Hanging {
    async fn at(command: &str) -> Hanging {
        let folder = tempfile::tempdir().expect("a folder");
        let (engine, seconds) = (folder.path().join("podman"), unique_seconds(folder.path()));
        // Not a copy: what was just written cannot be run while another test forks.
        symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/engine-that-hangs.sh"), &engine).expect("a link");
        fs::write(folder.path().join("hangs"), command).expect("a word");
        fs::write(folder.path().join("seconds"), &seconds).expect("a number");
        let mut bench = Bench::with_engine(engine).await;
        bench.script("echo never");
        Hanging { folder, sleep: format!("sleep {seconds}"), bench }
    }

    async fn until_it_hangs(&self) {
        Bench::until(self.folder.path().join("hanging")).await;
    }

    /// No process of the engine is left, and no container, however far it came with one.
    fn has_left_nothing(&self) {
        let removed = format!("rm --force --volumes oscar-run-{}-", std::process::id());
        eventually("nothing is left", PATIENCE, || {
            let asked = fs::read_to_string(self.folder.path().join("asked")).expect("what it was asked");
            (asked.lines().any(|line| line.starts_with(&removed)) && processes_with(&self.sleep).is_empty())
                .then_some(())
        });
        let left: Vec<_> = fs::read_dir(self.bench.folder.path()).expect("a list").flatten().collect();
        assert!(left.iter().all(|entry| entry.file_name() != "output.config"), "{left:?}");
    }
}

async fn is_cancelled_at(command: &str) {
    let hanging = Hanging::at(command).await;
    let result = hanging.bench.go_with(None, hanging.until_it_hangs()).await;
    assert_eq!((result.ended(), result.said.as_str()), (Ended::Cancelled, ""));
    hanging.has_left_nothing();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_ends_the_fetching_of_an_image() {
    is_cancelled_at("pull").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_ends_the_making_of_a_container() {
    is_cancelled_at("create").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_ends_the_fetching_of_an_image() {
    let mut hanging = Hanging::at("pull").await;
    hanging.bench.run.limits.time = Some(Duration::from_secs(1));
    let result = hanging.bench.go().await;
    assert_eq!((result.ended(), result.said.as_str()), (Ended::TimedOut, ""));
    hanging.has_left_nothing();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_given_up_fetches_no_further() {
    let hanging = Hanging::at("pull").await;
    tokio::select! {
        _ = hanging.bench.go() => panic!("it fetches for years"),
        () = hanging.until_it_hangs() => {}
    }
    hanging.has_left_nothing();
}
