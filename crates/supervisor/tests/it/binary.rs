//! The program itself, with its folders elsewhere.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use base64::Engine as _;

use crate::store::Store;
use crate::world::mk_event;

fn mk_config(dir: &Path, script: &str, config: &str) {
    std::fs::write(dir.join("script.sh"), script).expect("written");
    std::fs::write(dir.join("function_config.yaml"), config).expect("written");
    let keys = dir.join("providers/minio.default");
    std::fs::create_dir_all(&keys).expect("made");
    std::fs::write(keys.join("accessKey"), "AKTEST\n").expect("written");
    std::fs::write(keys.join("secretKey"), "secret").expect("written");
}

fn run(dir: &Path, event: &[u8], env: &[(&str, &str)]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_oscar-supervisor"))
        .env_clear()
        .env("OSCAR_CONFIG_DIR", dir)
        .env("OSCAR_PROVIDERS_DIR", dir.join("providers"))
        .env("TMPDIR", dir)
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    child.stdin.take().expect("piped").write_all(event).expect("read");
    child.wait_with_output().expect("ended")
}

fn texts(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn a_call_gets_its_answer_alone_on_standard_output() {
    let dir = tempfile::tempdir().expect("a folder");
    mk_config(dir.path(), "cat \"$INPUT_FILE_PATH\"; exit $CODE", "name: x\nlog_level: INFO\n");
    let (out, err, code) = texts(&run(dir.path(), b"aGVsbG8=", &[("CODE", "0")]));
    assert_eq!((out.as_str(), code), ("hello\n", Some(0)), "{err}");
    assert!(err.lines().all(|line| line.contains(" - supervisor - INFO - ")), "{err}");
    let (out, err, code) = texts(&run(dir.path(), b"aGVsbG8=", &[("CODE", "42")]));
    assert_eq!((out.as_str(), code), ("hello\n", Some(42)));
    assert!(err.contains("ERROR - The script ended with exit code 42."), "{err}");
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).expect("readable").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 3, "the folder of the job is removed: {left:?}");
}

#[test]
fn a_job_passes_on_what_it_prints() {
    let dir = tempfile::tempdir().expect("a folder");
    mk_config(dir.path(), "echo working; echo x > $TMP_OUTPUT_DIR/a", "name: x\nlog_level: CRITICAL\n");
    let (out, err, code) = texts(&run(dir.path(), b"{}", &[("JOB_UUID", "x-1")]));
    assert_eq!((out.as_str(), err.as_str(), code), ("working\neAo=\n", "", Some(0)));
}

#[test]
fn definition_and_script_may_come_by_variables() {
    let dir = tempfile::tempdir().expect("a folder");
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let (config, script) = (encode("name: x\nlog_level: CRITICAL\n"), encode("echo ${SCRIPT:-clean}; exit 7"));
    let env = [("FUNCTION_CONFIG", config.as_str()), ("SCRIPT", script.as_str())];
    let (out, _, code) = texts(&run(dir.path(), b"", &env));
    assert_eq!((out.as_str(), code), ("clean\n\n", Some(7)));
    let (_, err, code) = texts(&run(dir.path(), b"", &[]));
    assert!(err.contains("FUNCTION_CONFIG is not set") && code == Some(1), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_read_from_their_folder() {
    let store = Store::start().await;
    store.put("bkt/in/a", "data");
    let dir = tempfile::tempdir().expect("a folder");
    let config = format!(
        "name: x\noutput:\n- {{storage_provider: minio, path: bkt/out}}\nstorage_providers:\n  minio:\n    default: {{endpoint: '{}', access_key: hidden, secret_key: hidden}}\n",
        store.address
    );
    mk_config(dir.path(), "cp \"$INPUT_FILE_PATH\" $TMP_OUTPUT_DIR/b", &config);
    let path = dir.path().to_owned();
    let output =
        tokio::task::spawn_blocking(move || run(&path, mk_event("bkt", "in/a").as_bytes(), &[("JOB_UUID", "x-1")]));
    let (_, err, code) = texts(&output.await.expect("ended"));
    assert_eq!((code, store.get("bkt/out/b").as_deref()), (Some(0), Some(&b"data"[..])), "{err}");
}
