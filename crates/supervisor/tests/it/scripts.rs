use std::path::Path;
use std::time::Duration;

use oscar_supervisor::{Exit, Stage};

use crate::store::Store;
use crate::world::World;

/// Whether a process is there and no corpse.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits until a file has a whole line.
async fn line_of(file: &Path) -> String {
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn gone(pid: &str) {
    while lives(pid) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn exit_codes_are_told_as_they_are() {
    let store = Store::start().await;
    for (script, exit, code) in [
        ("exit 0", Exit::Code(0), 0),
        ("exit 3", Exit::Code(3), 3),
        ("kill -SEGV $$", Exit::Signal(11), 139),
        ("kill -KILL $$", Exit::Signal(9), 137),
        ("no-such-command", Exit::Code(127), 127),
        ("if then", Exit::Code(2), 2),
    ] {
        let done = World::new(&store, "", script).event("{}").run().await;
        assert_eq!((done.report.exit, done.report.exit_code()), (Some(exit), code), "{script}");
        assert_eq!(done.report.failure.is_none(), code == 0);
    }
    let done = World::new(&store, "", "exit 3").event("{}").run().await;
    assert_eq!(done.sentence(), "The script ended with exit code 3.");
}

#[tokio::test]
async fn a_missing_script_is_a_failure() {
    let store = Store::start().await;
    let world = World::new(&store, "", "true").event("{}");
    std::fs::remove_file(&world.task.script).expect("removed");
    let done = world.run().await;
    assert_eq!(done.report.failure.map(|failure| failure.stage), Some(Stage::Configuration));
}

#[tokio::test]
async fn the_environment_is_what_was_promised_and_no_more() {
    let store = Store::start().await;
    let mut world = World::new(&store, "", "env | sort").event("{}").synchronous();
    world.task.env.insert("MODEL".to_owned(), "v 2\nline".to_owned());
    world.task.env.insert("BAD=NAME".to_owned(), "x".to_owned());
    let text = world.run().await.response();
    let names: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    let shell = ["OLDPWD", "PWD", "SHLVL", "_"];
    let names: Vec<_> = names.into_iter().filter(|name| !shell.contains(name)).collect();
    let promised = [
        "EVENT",
        "EVENT_FILE",
        "INPUT_FILE_PATH",
        "JOB_UUID",
        "MODEL",
        "OSCAR_SERVICE_NAME",
        "PATH",
        "TMP_INPUT_DIR",
        "TMP_OUTPUT_DIR",
    ];
    assert_eq!(names, promised);
    assert!(text.contains("JOB_UUID=plants-1\n") && text.contains("OSCAR_SERVICE_NAME=plants\n"));
}

#[tokio::test]
async fn what_a_script_prints_without_end_is_passed_on_and_not_kept() {
    let store = Store::start().await;
    let mut world = World::new(&store, "", "head -c 100000000 /dev/zero").event("{}").synchronous();
    world.task.limits.response_bytes = 1000;
    let done = world.run().await;
    assert_eq!(done.report.exit, Some(Exit::Code(0)));
    assert!(done.dropped > 98_000_000, "{}", done.dropped);
    assert_eq!(done.report.response.map(|response| response.bytes), Some(1000));
}

#[tokio::test]
async fn a_script_that_takes_too_long_is_ended_with_all_it_started() {
    let store = Store::start().await;
    for script in [
        "sleep 1000 & echo $! > $TMP_OUTPUT_DIR/pid; sleep 1000",
        "trap '' TERM; sleep 1000 & echo $! > $TMP_OUTPUT_DIR/pid; while :; do sleep 1; done",
    ] {
        let mut world = World::new(&store, "- {storage_provider: minio, path: b/out}", script).event("{}");
        world.task.limits.script_time = Some(Duration::from_millis(500));
        let done = world.run().await;
        assert_eq!((done.report.exit, done.report.exit_code()), (Some(Exit::TimedOut), 124));
        assert!(done.sentence().contains("ran longer than the 0.5 seconds"), "{}", done.sentence());
        gone(&line_of(&world.output_dir().join("pid")).await).await;
        assert_eq!(store.count("PUT"), 0, "half an output is none");
    }
}

#[tokio::test]
async fn a_cancelled_script_may_clean_up() {
    let store = Store::start().await;
    let script = "trap 'echo cleaned; exit 0' TERM; echo $$ > $TMP_OUTPUT_DIR/pid; while :; do sleep 0.01; done";
    let world = World::new(&store, "", script).event("{}");
    let cancel = async {
        line_of(&world.output_dir().join("pid")).await;
        world.cancel.cancel();
    };
    let (done, ()) = tokio::join!(world.run(), cancel);
    assert_eq!(done.report.exit, Some(Exit::Cancelled));
    assert!(done.log.contains("cleaned\n"), "{}", done.log);
}

#[tokio::test]
async fn a_dropped_job_leaves_no_process() {
    let store = Store::start().await;
    let world = World::new(&store, "", "sleep 1000 & echo $! > $TMP_OUTPUT_DIR/pid; wait").event("{}");
    let file = world.output_dir().join("pid");
    let pid = tokio::select! {
        _ = world.run() => panic!("it sleeps"),
        pid = line_of(&file) => pid,
    };
    gone(&pid).await;
}

#[tokio::test]
async fn what_a_script_leaves_running_ends_with_it() {
    let store = Store::start().await;
    let world = World::new(&store, "", "sleep 1000 & echo $! > $TMP_OUTPUT_DIR/pid; exit 0").event("{}");
    let done = world.run().await;
    assert_eq!(done.report.exit, Some(Exit::Code(0)));
    gone(&line_of(&world.output_dir().join("pid")).await).await;
    // What ends by itself in time is waited for.
    let world = World::new(&store, "", "(sleep 0.05; echo late) & exit 0").event("{}");
    assert!(world.run().await.log.contains("late\n"));
}
