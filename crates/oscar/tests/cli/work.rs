//! Services that run: calls, jobs, what they say, and how the program ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::{Home, Ran};

fn service(home: &Home, name: &str, script: &str) {
    home.write(&format!("{name}.sh"), script);
    let text = format!(
        "name: {name}\nimage: none\nscript: {name}.sh\ncpu: 0.1\nmemory: 64Mi\n\
         input: [{{storage_provider: minio.default, path: {name}/in}}]\n\
         output: [{{storage_provider: minio.default, path: {name}/out}}]\n"
    );
    home.write(&format!("{name}.yaml"), &text);
    home.run(&["apply", &format!("{name}.yaml"), "--yes"]).ends(0);
}

fn name_of(ran: Ran) -> String {
    ran.good().trim().to_owned()
}

#[test]
fn a_run_answers_or_ends_with_its_sentence() {
    let home = Home::new();
    let _server = home.serve();
    service(&home, "echo", "cat \"$INPUT_FILE_PATH\"\n");
    home.run(&["run", "echo", "--text", "two words + 100% ä"]).ends(0).says("two words + 100% ä");
    home.write("file.txt", "from a file");
    home.run(&["run", "echo", "file.txt"]).ends(0).says("from a file");
    home.run_with(&["run", "echo", "-"], &[], "from a pipe").ends(0).says("from a pipe");
    home.run(&["run", "echo", "--text", "aGVsbG8=", "--decode"]).ends(0).says("aGVsbG8=").never_says("hello");
    service(&home, "files", "printf hello > \"$TMP_OUTPUT_DIR/a\"\n");
    home.run(&["run", "files", "--text", "x"]).ends(0).says("aGVsbG8=");
    home.run(&["run", "files", "--text", "x", "--decode"]).ends(0).says("hello");
    home.run(&["run", "echo", "file.txt", "-o", "out.txt"]).ends(0).says("bytes written to out.txt");
    let kept = std::fs::read_to_string(home.path().join("out.txt")).expect("written");
    assert!(kept.contains("from a file"), "{kept}");
    let told = home.run(&["run", "echo", "file.txt", "--json"]).json();
    assert!(told["answer"].as_str().is_some_and(|text| text.contains("from a file")), "{told}");

    service(&home, "bad", "echo oh; exit 4\n");
    home.run(&["run", "bad"]).ends(1).says("error: exit status 4").says("oh");
    home.run(&["run", "absent"]).ends(5);
    home.run(&["run", "echo", "absent.txt"]).ends(5).says("absent.txt cannot be read");
    home.run(&["run", "../system"]).ends(2);
}

#[test]
fn a_job_is_started_waited_for_and_told() {
    let home = Home::new();
    let _server = home.serve();
    service(&home, "upper", "echo working\ntr a-z A-Z < \"$INPUT_FILE_PATH\" > \"$TMP_OUTPUT_DIR/result\"\n");
    home.run(&["job", "list", "upper"]).ends(0).says("upper has no jobs");
    let waited = home.run(&["job", "run", "upper", "--text", "shout", "--wait", "--json"]).json();
    assert_eq!(waited["state"], "succeeded", "{waited}");
    let name = waited["name"].as_str().expect("a name");
    home.run(&["job", "list", "upper"]).ends(0).says("ATTEMPTS").says(name).says("succeeded");
    let jobs = home.run(&["job", "list", "upper", "--all-pages", "--json"]).json();
    assert_eq!(jobs.as_array().map(Vec::len), Some(1));
    let shown = home.run(&["job", "show", "upper", name]).ends(0);
    shown.says("made by   a call by").says("story").says("accepted").says("upper/out/result");
    home.run(&["job", "logs", "upper", name, "--tail", "100"]).ends(0).says("working");
    home.run(&["job", "logs", "upper", name, "--follow", "--timestamps"]).ends(0).says("working");
    home.run(&["get", "upper/out/result", "-"]).ends(0).says("SHOUT");

    home.run(&["job", "cancel", "upper", name]).ends(7).never_says("oscar apply");
    home.run(&["job", "show", "upper", "upper-absent"]).ends(5).says("`oscar job list SERVICE`");
    home.run(&["job", "delete", "upper"]).ends(2);
    home.run(&["job", "delete", "upper", "--all"]).ends(2).says("--yes");
    home.run(&["job", "delete", "upper", name]).ends(0).says("deleted");
    assert_eq!(home.run(&["job", "list", "upper", "--json"]).json(), json!([]));

    home.run(&["service", "delete", "upper", "--keep-data", "--yes"]).ends(0);
    home.run(&["get", "upper/out/result", "-"]).ends(0).says("SHOUT");
    service(&home, "brief", "true\n");
    home.run(&["bucket", "show", "brief"]).ends(0).says("service    brief");
    home.run(&["service", "delete", "brief", "--yes"]).ends(0);
    home.run(&["bucket", "show", "brief"]).ends(5);
}

#[test]
fn a_job_that_fails_fails_the_command_that_waits() {
    let home = Home::new();
    let _server = home.serve();
    service(&home, "three", "echo before; exit 3\n");
    let ran = home.run(&["job", "run", "three", "--wait"]).ends(1);
    ran.says("exit code 3").says("error: the job ended as failed").says("hint: what it said: oscar job logs three");
    let told = home.run(&["job", "run", "three", "--wait", "--json"]).ends(1);
    let told: Value = serde_json::from_str(&told.out).expect("one value");
    assert_eq!(told["exit_code"], 3);
    home.run(&["job", "delete", "three", "--succeeded", "--yes"]).ends(0);
    assert_eq!(home.run(&["job", "list", "three", "--json"]).json().as_array().map(Vec::len), Some(2));
    home.run(&["job", "delete", "three", "--all", "--yes"]).ends(0);
    assert_eq!(home.run(&["job", "list", "three", "--json"]).json(), json!([]));
}

#[test]
fn a_job_that_runs_is_cancelled() {
    let home = Home::new();
    let _server = home.serve();
    service(&home, "sleeper", "echo begun; sleep 1000\n");
    let name = name_of(home.run(&["job", "run", "sleeper"]));
    until(|| home.run(&["job", "logs", "sleeper", &name]).out.contains("begun"));
    // A log that is followed ends with the job.
    let log = std::thread::scope(|scope| {
        let following = scope.spawn(|| home.run(&["job", "logs", "sleeper", &name, "-f"]).good());
        home.run(&["job", "cancel", "sleeper", &name]).ends(0).says(&name);
        following.join().expect("it ends")
    });
    assert!(log.contains("begun"), "{log}");
    until(|| home.run(&["job", "show", "sleeper", &name, "--json"]).json()["finished"].is_string());
    home.run(&["job", "show", "sleeper", &name]).ends(0).says("cancelled");
}

/// What has not come by then never will.
fn until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !is_so() {
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn an_image_that_nobody_uses_is_told_of() {
    let home = Home::new();
    let _server = home.serve();
    home.write("s.sh", "true\n");
    home.write("named.yaml", "name: named\nimage: ghcr.io/grycap/cowsay\nscript: s.sh\n");
    service(&home, "unnamed", "true\n");
    // By then it is known what runs scripts.
    home.run(&["job", "run", "unnamed", "--wait"]).ends(0);
    let told = home.run(&["apply", "named.yaml", "--yes"]).ends(0);
    assert_eq!(told.err.matches("the image ghcr.io/grycap/cowsay is not used").count(), 1, "{}", told.err);
    let told = home.run(&["doctor"]);
    assert_eq!(told.out.matches("which uses no images: named names one").count(), 1, "{}", told.out);
}
