//! What surrounds a script: our supervisor beside OSCAR's own in Python, with the same event,
//! the same definition and the same store. The script's own time is taken off both.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use bytes::Bytes;
use serde_json::json;

use crate::load::Connection;
use crate::objects::{ACCESS_KEY, SECRET_KEY, Target, keys};
use crate::report::Report;
use crate::server::Server;

const REPEATS: usize = 15;

const SCRIPT: &str = "#!/bin/sh\ncp \"$INPUT_FILE_PATH\" \"$TMP_OUTPUT_DIR/result\"\n";

pub(crate) async fn measure(binary: &Path, report: &mut Report) -> Result<(), String> {
    let python = python()?;
    let manager = Server::manager(binary, &keys());
    let target = Target::embedded(&manager, "work");
    let mut connection = Connection::anonymous(target.address).await;
    assert!(connection.call(&target.make()).await.0.is_success());
    assert!(connection.call(&target.put("in/file", Bytes::from_static(b"hello"))).await.0.is_success());

    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let login = json!({"endpoint": format!("http://{}", manager.address), "region": "us-east-1", "verify": false,
                       "access_key": ACCESS_KEY, "secret_key": SECRET_KEY});
    let config = json!({
        "name": "work",
        "storage_providers": {"minio": {"default": login}},
        "input": [{"storage_provider": "minio.default", "path": "work/in"}],
        "output": [{"storage_provider": "minio.default", "path": "work/out"}],
    });
    let environment =
        [("FUNCTION_CONFIG", encode(&config.to_string())), ("SCRIPT", encode(SCRIPT)), ("JOB_UUID", "job".to_owned())];
    let event = json!({"Key": "work/in/file", "Records": [{
        "eventSource": "minio:s3", "eventTime": "2026-01-01T00:00:00Z",
        "s3": {"bucket": {"name": "work", "arn": "arn:aws:s3:::work"}, "object": {"key": "in%2Ffile"}},
    }]})
    .to_string();

    let mut ours = Command::new(binary.with_file_name("oscar-supervisor"));
    let mut theirs = Command::new(python);
    theirs.args(["-m", "faassupervisor.supervisor"]);
    let mut script = Command::new("/bin/sh");
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (input, output) = (folder.path().join("input"), folder.path());
    std::fs::write(&input, b"hello").map_err(|error| error.to_string())?;
    script.args(["-c", SCRIPT]).env("INPUT_FILE_PATH", &input).env("TMP_OUTPUT_DIR", output);
    let mut times = Vec::new();
    for command in [&mut script, &mut ours, &mut theirs] {
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut each = Vec::new();
        for _ in 0..REPEATS {
            each.push(once(command, &event)?);
        }
        each.sort_unstable();
        times.push(each[REPEATS / 2].as_secs_f64() * 1000.0);
        assert!(
            connection.call(&target.head("out/result")).await.0.is_success() || times.len() == 1,
            "no output: {command:?}"
        );
    }
    report.put("the script alone, ms", times[0]);
    report.put("oscar-supervisor, ms around the script", times[1] - times[0]);
    report.put("faas-supervisor, ms around the script", times[2] - times[0]);
    Ok(())
}

fn once(command: &mut Command, event: &str) -> Result<Duration, String> {
    let begin = Instant::now();
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    // The script alone reads no event.
    let _ = child.stdin.take().expect("piped").write_all(event.as_bytes());
    let ended = child.wait_with_output().map_err(|error| error.to_string())?;
    let took = begin.elapsed();
    if ended.status.success() {
        return Ok(took);
    }
    let told = String::from_utf8_lossy(&ended.stderr);
    let told = told.lines().last().unwrap_or_default();
    Err(format!("{}: {}: {told}", command.get_program().display(), ended.status))
}

/// The Python that has faas-supervisor, made now when it is not there.
fn python() -> Result<std::path::PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/parts/faas-supervisor.sh");
    let made = Command::new("bash").arg(script).stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !made.status.success() {
        return Err("faas-supervisor cannot be had here".to_owned());
    }
    Ok(Path::new(String::from_utf8_lossy(&made.stdout).trim()).join("bin/python"))
}
