//! A script that wants too much.

use std::time::Duration;

use oscar_exec::Ended;

use crate::bench::{on_each, processes_with, unique_seconds};

const MEGABYTE: u64 = 1024 * 1024;

on_each! {
    async fn too_much_memory_is_told_as_that(bench) {
        let mut bench = bench;
        bench.run.limits.memory_bytes = Some(64 * MEGABYTE);
        let result = bench.script("dd if=/dev/zero of=/dev/null bs=150M count=100").go().await;
        assert_eq!(result.ended(), Ended::OutOfMemory, "{}", result.said);
        let result = bench.script("dd if=/dev/zero of=/dev/null bs=1M count=100").go().await;
        assert_eq!(result.ended(), Ended::Code(0), "{}", result.said);
    }

    async fn a_fork_bomb_stays_small_and_ends(bench) {
        let mut bench = bench;
        let seconds = unique_seconds(bench.folder.path());
        bench.run.limits.processes = Some(60);
        bench.run.limits.time = Some(Duration::from_secs(2));
        bench.script(&format!("bomb() {{ sleep {seconds} & bomb | bomb & }}; bomb; sleep {seconds}; sleep {seconds}"));
        let watching = async {
            let mut most = 0;
            loop {
                most = most.max(processes_with(&seconds).len());
                assert!(most < 70, "{most} processes");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            result = bench.go() => assert!(!matches!(result.ended(), Ended::Code(0)), "{result:?}"),
            () = watching => {}
        }
        assert_eq!(processes_with(&seconds), Vec::<String>::new());
    }

    async fn one_file_that_is_too_large_ends_the_script(bench) {
        let mut bench = bench;
        bench.run.limits.disk_bytes = Some(8 * MEGABYTE);
        let output = bench.output_inside();
        let result = bench.script(&format!("head -c 500000000 /dev/zero > {output}/file")).go().await;
        assert_eq!(result.ended(), Ended::DiskFull, "{}", result.said);
        assert!(std::fs::metadata(bench.output("file")).expect("a part of it").len() <= 8 * MEGABYTE);
    }

    async fn many_files_that_are_too_large_together_end_the_script(bench) {
        let mut bench = bench;
        bench.run.limits.disk_bytes = Some(8 * MEGABYTE);
        let output = bench.output_inside();
        let script = format!("n=0; while :; do n=$((n+1)); head -c 1000000 /dev/zero > {output}/file$n; done");
        assert_eq!(bench.script(&script).go().await.ended(), Ended::DiskFull);
    }

    async fn a_small_share_of_a_core_is_enough_to_run(bench) {
        let mut bench = bench;
        bench.run.limits.cpu_millis = Some(500);
        assert_eq!(bench.script("echo ran").go().await.said, "ran\n");
    }
}

/// A folder in memory has an end, and its end is told to the script.
#[tokio::test]
async fn the_folder_for_temporary_files_has_an_end() {
    let mut bench = oscar_testkit::require!(crate::bench::Bench::bubblewrap().await);
    bench.run.limits.memory_bytes = Some(64 * MEGABYTE);
    for folder in ["/tmp", "/dev/shm"] {
        let result = bench.script(&format!("head -c 200000000 /dev/zero > {folder}/file || exit 7")).go().await;
        assert_eq!(result.ended(), Ended::Code(7), "{}", result.said);
        assert!(result.said.contains("No space left"), "{}", result.said);
    }
    let result = bench.script("echo x > /dev/file").go().await;
    assert!(result.said.contains("Read-only"), "{}", result.said);
}
