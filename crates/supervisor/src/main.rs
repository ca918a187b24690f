//! The supervisor as a program, for the containers of jobs: the event on standard input, the
//! definition and the script in `/oscar/config`, keys in `/var/run/secrets/providers`.
//!
//! It ends with the script's exit code, or with 1 for a failure of its own. With `JOB_UUID` it
//! runs a job whose log is read: what the script prints is passed on as it comes. Without, somebody
//! waits for the answer, which stands alone on standard output. Log lines go to standard error.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use async_trait::async_trait;
use base64::Engine as _;
use oscar_model::secret::Secret;
use oscar_model::service::LogLevel;
use oscar_model::service::storage::{ProviderKind, ProviderRef};
use oscar_supervisor::{
    Access, CancellationToken, Credentials, EventSource, FunctionConfig, Limits, OutputSink, Outputs, PlainSandbox,
    Report, ResponseKind, Task, perform,
};
use tokio::signal::unix::{SignalKind, signal};

/// Variables of ours that are none of the script's business.
const OURS: [&str; 4] = ["FUNCTION_CONFIG", "SCRIPT", "OSCAR_CONFIG_DIR", "OSCAR_PROVIDERS_DIR"];

fn main() -> ExitCode {
    let work = std::env::temp_dir().join(format!("oscar-{}", uuid::Uuid::new_v4()));
    let code = match run(&work) {
        Ok(code) => code,
        Err(sentence) => {
            eprintln!("The job cannot be done: {sentence}.");
            1
        }
    };
    // What stays behind goes with the container.
    let _ = fs::remove_dir_all(&work);
    ExitCode::from(code)
}

fn run(work: &Path) -> Result<u8, String> {
    let task = task(work)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("the program cannot start: {error}"))?;
    let report = runtime.block_on(supervise(&task));
    print_response(&task, &report).map_err(|error| format!("the answer cannot be written: {error}"))?;
    Ok(report.exit_code())
}

async fn supervise(task: &Task) -> Report {
    let cancel = CancellationToken::new();
    let mut streams = Streams {
        passes_on: !task.synchronous || matches!(task.config.log_level, LogLevel::Debug | LogLevel::NotSet),
        live: !task.synchronous,
    };
    let job = perform(task, &PlainSandbox, &mut streams, cancel.clone());
    let (Ok(mut terminated), Ok(mut interrupted)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return job.await;
    };
    tokio::pin!(job);
    tokio::select! {
        report = &mut job => return report,
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    cancel.cancel();
    job.await
}

fn task(work: &Path) -> Result<Task, String> {
    let mut event = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut event);
    read.map_err(|error| format!("the event cannot be read from standard input: {error}"))?;
    let folder = |name: &str, usual: &str| PathBuf::from(std::env::var_os(name).unwrap_or_else(|| usual.into()));
    let config_dir = folder("OSCAR_CONFIG_DIR", "/oscar/config");
    let mut config = config(&config_dir.join("function_config.yaml"))?;
    if let Ok(level) = std::env::var("LOG_LEVEL") {
        config.log_level = LogLevel::parse(&level);
    }
    let made = DirBuilder::new().mode(0o700).create(work);
    made.map_err(|error| format!("the folder {} cannot be made: {error}", work.display()))?;
    let env = environment();
    let job = env.get("JOB_UUID").filter(|job| !job.is_empty()).cloned();
    Ok(Task {
        event: EventSource::Bytes(event),
        config,
        script: script(&config_dir, work)?,
        work: work.to_owned(),
        credentials: credentials(&folder("OSCAR_PROVIDERS_DIR", "/var/run/secrets/providers")),
        outputs: Outputs::Direct,
        synchronous: job.is_none(),
        job: job.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
        env,
        limits: Limits::default(),
    })
}

fn config(file: &Path) -> Result<FunctionConfig, String> {
    match (fs::read_to_string(file), std::env::var("FUNCTION_CONFIG")) {
        (Ok(text), _) => FunctionConfig::parse(&text),
        (Err(_), Ok(text)) => FunctionConfig::parse_base64(&text),
        (Err(error), Err(_)) => {
            Err(format!("{} cannot be read, and FUNCTION_CONFIG is not set: {error}", file.display()))
        }
    }
}

/// The script of the variable `SCRIPT`, else the one beside the definition.
fn script(config_dir: &Path, work: &Path) -> Result<PathBuf, String> {
    let Ok(text) = std::env::var("SCRIPT") else { return Ok(config_dir.join("script.sh")) };
    let dense: String = text.split_ascii_whitespace().collect();
    let script = base64::engine::general_purpose::STANDARD.decode(dense);
    let script = script.map_err(|_| "the variable SCRIPT is no base64".to_owned())?;
    let file = work.join("script.sh");
    fs::write(&file, script).map_err(|error| format!("the script cannot be written: {error}"))?;
    Ok(file)
}

/// What the image and the pod give, for the script.
fn environment() -> BTreeMap<String, String> {
    let texts =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut env: BTreeMap<_, _> = texts.filter(|(name, _)| !OURS.contains(&name.as_str())).collect();
    if let Some(original) = env.remove("LD_LIBRARY_PATH_ORIG") {
        env.insert("LD_LIBRARY_PATH".to_owned(), original);
    }
    env
}

/// One folder per provider, such as `minio.default`, with the files `accessKey` and `secretKey`;
/// Amazon's own variables for the provider `s3.default`.
fn credentials(folder: &Path) -> Credentials {
    let text = |file: PathBuf| fs::read_to_string(file).map(|text| text.trim().to_owned()).unwrap_or_default();
    let mut credentials = Credentials::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let access_key = text(path.join("accessKey"));
        if let Some(provider) = name.to_str().and_then(ProviderRef::parse)
            && !access_key.is_empty()
        {
            let secret_key = Secret::new(text(path.join("secretKey")));
            credentials.insert(provider, Access { access_key, secret_key, ..Access::default() });
        }
    }
    if let (Ok(access_key), Ok(secret_key)) =
        (std::env::var("AWS_ACCESS_KEY_ID"), std::env::var("AWS_SECRET_ACCESS_KEY"))
    {
        let amazon = ProviderRef { kind: ProviderKind::S3, id: ProviderRef::DEFAULT_ID.to_owned() };
        let session_token = std::env::var("AWS_SESSION_TOKEN").ok().map(Secret::new);
        let access = Access { access_key, secret_key: Secret::new(secret_key), session_token, ..Access::default() };
        credentials.entry(amazon).or_insert(access);
    }
    credentials
}

/// What a job printed was passed on already.
fn print_response(task: &Task, report: &Report) -> std::io::Result<()> {
    let Some(response) = &report.response else { return Ok(()) };
    if response.kind == ResponseKind::ScriptOutput && !task.synchronous {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    std::io::copy(&mut File::open(&response.file)?, &mut out)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The two streams of the process. Nobody reading them is no reason to fail.
struct Streams {
    passes_on: bool,
    /// The script's output goes to standard output, where no answer has to stand alone.
    live: bool,
}

#[async_trait]
impl OutputSink for Streams {
    async fn write(&mut self, bytes: &[u8]) {
        if self.passes_on && self.live {
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(bytes).and_then(|()| out.flush());
        } else if self.passes_on {
            let _ = std::io::stderr().lock().write_all(bytes);
        }
    }

    async fn log(&mut self, line: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}
