//! How a script ends, and that nothing of it is left.

use std::time::Duration;

use oscar_exec::{Ended, ExecError};

use crate::bench::{on_each, processes_with, unique_seconds};

on_each! {
    async fn a_code_is_told_as_it_is(bench) {
        let mut bench = bench;
        let result = bench.script("echo before; exit 3").go().await;
        assert_eq!((result.ended(), result.said.as_str()), (Ended::Code(3), "before\n"));
    }

    async fn a_signal_is_told_as_a_signal(bench) {
        let mut bench = bench;
        let result = bench.script("kill -KILL $$").go().await;
        assert_eq!(result.ended(), Ended::Signal(9));
    }

    async fn a_script_needs_no_right_to_be_executed_and_its_first_line_does_not_matter(bench) {
        let mut bench = bench;
        let result = bench.script("#!/no/such/interpreter\necho ran").go().await;
        assert_eq!((result.ended(), result.said.as_str()), (Ended::Code(0), "ran\n"));
    }

    async fn a_command_that_is_not_there_is_named(bench) {
        let mut bench = bench;
        let result = bench.script("no-such-program-anywhere").go().await;
        assert_eq!(result.ended(), Ended::Code(127));
        assert!(result.said.contains("no-such-program-anywhere"), "{}", result.said);
        assert!(result.ended().to_string().contains("not found"));
    }

    async fn a_command_that_is_not_executable_is_named(bench) {
        let mut bench = bench;
        std::fs::write(bench.run.input_dir.join("tool"), "echo never").expect("a file");
        let tool = bench.executor.paths(&bench.run).input.join("tool");
        let result = bench.script(&format!("{}", tool.display())).go().await;
        assert_eq!(result.ended(), Ended::Code(126));
    }

    async fn time_ends_a_script_that_ignores_sigterm_with_all_its_processes(bench) {
        let mut bench = bench;
        let seconds = unique_seconds(bench.folder.path());
        // Processes that ignore the signal, leave the group and are nobody's children any more.
        bench.script(&format!(
            "trap '' TERM\n(trap '' TERM; (setsid sleep {seconds} &) ; sleep {seconds}) &\nsetsid sh -c 'trap \"\" TERM; sleep {seconds}' &\nwhile :; do sleep {seconds}; done"
        ));
        bench.run.limits.time = Some(Duration::from_secs(1));
        let result = bench.go().await;
        assert_eq!(result.ended(), Ended::TimedOut);
        assert_eq!(processes_with(&seconds), Vec::<String>::new());
    }

    async fn a_script_may_tidy_up_when_it_is_told_to_end(bench) {
        let mut bench = bench;
        let output = bench.output_inside();
        bench.script(&format!("trap 'echo tidied > {output}/tidied; exit 0' TERM\n: > {output}/ready\nwhile :; do sleep 0.05; done"));
        bench.run.limits.grace = Duration::from_mins(1);
        let ready = crate::bench::Bench::until(bench.output("ready"));
        let result = bench.go_with(None, ready).await;
        assert_eq!(result.ended(), Ended::Cancelled);
        assert_eq!(std::fs::read_to_string(bench.output("tidied")).expect("it had the time"), "tidied\n");
    }

    async fn cancelling_ends_everything(bench) {
        let mut bench = bench;
        let (seconds, output) = (unique_seconds(bench.folder.path()), bench.output_inside());
        bench.script(&format!("for i in 1 2 3 4 5; do (setsid sleep {seconds} &) ; done\n: > {output}/ready\nsleep {seconds}"));
        let ready = crate::bench::Bench::until(bench.output("ready"));
        let result = bench.go_with(None, ready).await;
        assert_eq!(result.ended(), Ended::Cancelled);
        assert_eq!(processes_with(&seconds), Vec::<String>::new());
    }

    async fn what_a_script_leaves_running_ends_with_it(bench) {
        let mut bench = bench;
        let seconds = unique_seconds(bench.folder.path());
        let result = bench.script(&format!("(setsid sleep {seconds} &)\nsleep {seconds} &\necho done")).go().await;
        assert_eq!((result.ended(), result.said.as_str()), (Ended::Code(0), "done\n"));
        assert_eq!(processes_with(&seconds), Vec::<String>::new());
    }

    async fn a_run_that_is_given_up_leaves_nothing(bench) {
        let mut bench = bench;
        let (seconds, output) = (unique_seconds(bench.folder.path()), bench.output_inside());
        bench.script(&format!("(setsid sleep {seconds} &)\n: > {output}/ready\nsleep {seconds}"));
        tokio::select! {
            _ = bench.go() => panic!("it sleeps for years"),
            () = crate::bench::Bench::until(bench.output("ready")) => {}
        }
        // An engine is told to remove the container, and is not waited for.
        for _ in 0..2000 {
            if processes_with(&seconds).is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("left over: {:?}", processes_with(&seconds));
    }
}

#[tokio::test]
async fn an_image_that_cannot_be_had_is_named_in_a_sentence() {
    let mut bench = oscar_testkit::require!(crate::bench::Bench::container().await);
    bench.run.image = "localhost/no-such-image:1".to_owned();
    let result = bench.script("true").go().await;
    let error = result.ended.expect_err("there is no such image");
    assert!(matches!(&error, ExecError::NoImage { image, .. } if image == "localhost/no-such-image:1"), "{error}");
    assert!(error.to_string().starts_with("the image \"localhost/no-such-image:1\" could not be had: "), "{error}");
    for (image, part) in [("", "names no image"), ("--privileged", "is not the name of an image")] {
        bench.run.image = image.to_owned();
        let error = bench.go().await.ended.expect_err("that is no image");
        assert!(error.to_string().contains(part), "{error}");
    }
}
