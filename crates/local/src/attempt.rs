//! The supervisor of one attempt: the process that holds the keys and runs the script in a
//! sandbox. It is started by the manager and goes on without it.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use oscar_engine::ports::runtime::ATTEMPT_SLACK;
use oscar_exec::{Ended, ExecError, Executor, Limits as Bounds, Network, Run};
use oscar_model::secret::Secret;
use oscar_model::service::storage::{ProviderKind, ProviderRef};
use oscar_supervisor::{
    Access, CancellationToken, Credentials, EventSource, Exit, FunctionConfig, Limits, OutputSink, Outputs, Report,
    Sandbox, SandboxError, ScriptRun, Stage, Task, perform,
};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::runtime::is_full;
use crate::runtime::{AttemptFolder, AttemptOrder, AttemptResult, LogWriter, ResultExit, ResultOutput};

/// How scripts are run here: what the manager found out once, for all attempts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    pub executor: Executor,
    pub network: Network,
    /// Folders that no script may see: the manager's own.
    pub hidden: Vec<PathBuf>,
    /// What may lie in an output folder.
    pub disk_bytes: Option<u64>,
}

/// Between two looks for room on a full disk.
const FOR_ROOM: Duration = Duration::from_millis(500);

/// A script that is asked to end gets this long.
const GRACE: Duration = Duration::from_secs(5);

/// Does the attempt in `folder` to its end. An error is one of the supervisor itself.
pub async fn supervise(folder: &Path) -> Result<(), String> {
    let folder = AttemptFolder::at(folder);
    let said = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| format!("{what}: {error}")
    };
    let Some(_claim) = folder.claim().map_err(said("claiming the attempt"))? else {
        return Err("the attempt has a supervisor already".to_owned());
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(said("listening for signals"))?;
    let cancel = CancellationToken::new();
    let order = folder.order().map_err(said("reading the order"))?;
    let log = LogWriter::create(&order.log, timestamp).map_err(said("writing the log"))?;
    if folder.is_to_end() {
        cancel.cancel();
    }
    let told = cancel.clone();
    tokio::spawn(async move {
        terminate.recv().await;
        told.cancel();
    });
    let mut sink = FileSink { log };
    let (result, response) = attempt(&folder, order, &mut sink, cancel).await;
    sink.log.finish();
    loop {
        match folder.finish(&result, response.as_ref()) {
            // What was done must not be done again only because there is no room to say so.
            Err(error) if error.kind() == ErrorKind::StorageFull && !folder.is_to_end() => {
                tokio::time::sleep(FOR_ROOM).await;
            }
            finished => return finished.map_err(said("writing the result")),
        }
    }
}

async fn attempt(
    folder: &AttemptFolder,
    order: AttemptOrder,
    sink: &mut FileSink,
    cancel: CancellationToken,
) -> (AttemptResult, Option<oscar_supervisor::Response>) {
    let (began, was_full) = (Mutex::new(None), AtomicBool::new(false));
    let config = match FunctionConfig::parse(&order.config) {
        Ok(config) => config,
        Err(sentence) => return (failed(sentence), None),
    };
    let sandbox = MachineSandbox { setup: &order.setup, order: &order, folder, began: &began, was_full: &was_full };
    let task = task(folder, &order, config);
    let report = perform(&task, &sandbox, sink, cancel.clone()).await;
    let began = *began.lock().unwrap_or_else(PoisonError::into_inner);
    let response = report.response.clone();
    let result = AttemptResult {
        exit: exit_of(&report, cancel.is_cancelled(), was_full.load(Ordering::Relaxed)),
        outputs: outputs_of(&report),
        began,
        ended: now(),
    };
    (result, response.filter(|_| order.synchronous))
}

fn task(folder: &AttemptFolder, order: &AttemptOrder, config: FunctionConfig) -> Task {
    let own = ProviderRef { kind: ProviderKind::Minio, id: ProviderRef::DEFAULT_ID.to_owned() };
    let access = order.store.as_ref().map(|store| Access {
        access_key: store.access_key.clone(),
        secret_key: Secret::new(store.secret_key.as_str()),
        session_token: None,
        endpoint: Some(store.endpoint.clone()),
        endpoint_file: Some(store.endpoint_file.clone()),
    });
    Task {
        event: EventSource::File(folder.event()),
        config,
        script: folder.script(),
        work: folder.work(),
        credentials: access.map(|access| (own, access)).into_iter().collect::<Credentials>(),
        outputs: match &order.staging {
            None => Outputs::Direct,
            Some(staging) => Outputs::Staged { bucket: staging.bucket.clone(), prefix: staging.prefix.clone() },
        },
        job: order.job.clone(),
        synchronous: order.synchronous,
        env: order.environment.clone(),
        limits: Limits {
            script_time: order.time_limit_ms.map(Duration::from_millis),
            whole_time: order.time_limit_ms.map(|limit| Duration::from_millis(limit) + ATTEMPT_SLACK),
            grace: GRACE,
            ..Limits::default()
        },
    }
}

fn failed(sentence: String) -> AttemptResult {
    AttemptResult { exit: ResultExit::Failed(sentence), outputs: Vec::new(), began: None, ended: now() }
}

/// `was_full`: there was no room left on the disk when the script ended.
fn exit_of(report: &Report, cancelled: bool, was_full: bool) -> ResultExit {
    match (&report.exit, &report.failure) {
        (_, Some(failure)) if failure.stage == Stage::Time && !cancelled => {
            ResultExit::Failed(failure.sentence.clone())
        }
        (Some(Exit::TimedOut), _) => ResultExit::TimedOut,
        (Some(Exit::Cancelled), _) => ResultExit::Cancelled,
        (_, Some(_)) if cancelled => ResultExit::Cancelled,
        (_, Some(failure)) if failure.wants_room => ResultExit::NoRoom(failure.sentence.clone()),
        // Also of a script that ended well: nobody knows whether it wrote everything.
        _ if was_full => ResultExit::NoRoom(FULL_AT_THE_END.to_owned()),
        (Some(Exit::Code(code)), _) if *code != 0 => ResultExit::Code(*code),
        (_, Some(failure)) => ResultExit::Failed(failure.sentence.clone()),
        (_, None) => ResultExit::Success,
    }
}

fn outputs_of(report: &Report) -> Vec<ResultOutput> {
    let output = |written: &oscar_supervisor::Written| ResultOutput {
        provider: written.provider.clone(),
        bucket: written.bucket.clone(),
        key: written.key.clone(),
        bytes: written.bytes,
        staged: written.staged_key.clone(),
    };
    report.outputs.iter().map(output).collect()
}

/// What the script and the supervisor say, in the attempt's log.
struct FileSink {
    log: LogWriter,
}

#[async_trait]
impl OutputSink for FileSink {
    async fn write(&mut self, bytes: &[u8]) {
        self.log.write(bytes);
    }
}

/// Runs scripts the way that this machine was found to allow.
struct MachineSandbox<'a> {
    setup: &'a Setup,
    order: &'a AttemptOrder,
    folder: &'a AttemptFolder,
    began: &'a Mutex<Option<u64>>,
    was_full: &'a AtomicBool,
}

#[async_trait]
impl Sandbox for MachineSandbox<'_> {
    async fn run(&self, script: &ScriptRun, output: &mut dyn OutputSink) -> Result<Exit, SandboxError> {
        let mut run = self.describe(script);
        let paths = self.setup.executor.paths(&run);
        // Scripts see their folders only, so the event is shown in one of them.
        let event = script.input_dir.join(free_name(&script.input_dir).await);
        tokio::fs::rename(&script.event_file, &event)
            .await
            .map_err(|error| SandboxError::of_io("showing it the event", &error))?;
        run.env = script.environment(|path| {
            let path = if path == script.event_file { &event } else { path };
            inside(path, &script.input_dir, &paths.input)
                .or_else(|| inside(path, &script.output_dir, &paths.output))
                .unwrap_or_else(|| path.to_owned())
        });
        self.tell_running();
        let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(16);
        let cancel = script.cancel.clone();
        let running = self.setup.executor.run(&run, None, sender, async move { cancel.cancelled().await });
        let mut running = std::pin::pin!(running);
        let ended = loop {
            tokio::select! {
                Some(piece) = pieces.recv() => output.write(&piece).await,
                ended = &mut running => break ended,
            }
        };
        while let Some(piece) = pieces.recv().await {
            output.write(&piece).await;
        }
        self.was_full.store(is_full(&script.output_dir), Ordering::Relaxed);
        match ended {
            Ok(Ended::Code(code)) => Ok(Exit::Code(code)),
            Ok(Ended::Signal(signal)) => Ok(Exit::Signal(signal)),
            Ok(Ended::TimedOut) => Ok(Exit::TimedOut),
            Ok(Ended::OutOfMemory) => Ok(Exit::OutOfMemory),
            Ok(Ended::Cancelled) => Ok(Exit::Cancelled),
            Ok(Ended::DiskFull) => Ok(Exit::DiskFull),
            Err(ExecError::Io { doing, source }) => {
                Err(SandboxError::of_io(&format!("the job could not be started: {doing}"), &source))
            }
            Err(error) => Err(SandboxError { cause: error.to_string(), wants_room: false }),
        }
    }
}

const FULL_AT_THE_END: &str = "The disk of this job was full when its script ended, so its outputs may not be whole.";

/// The name of the event in the input folder; listings leave it out.
const EVENT_FILE: &str = ".event";
/// There is one input, so this one is free.
const SECOND_EVENT_FILE: &str = ".event-of-this-job";

/// An input may have that very name.
async fn free_name(folder: &Path) -> &'static str {
    let is_taken = tokio::fs::symlink_metadata(folder.join(EVENT_FILE)).await.is_ok();
    if is_taken { SECOND_EVENT_FILE } else { EVENT_FILE }
}

impl MachineSandbox<'_> {
    fn describe(&self, script: &ScriptRun) -> Run {
        let amount = |units: i64| u64::try_from(units).ok().filter(|units| *units > 0);
        Run {
            script: script.script.clone(),
            input_dir: script.input_dir.clone(),
            output_dir: script.output_dir.clone(),
            env: std::collections::BTreeMap::new(),
            image: self.order.image.clone(),
            limits: Bounds {
                cpu_millis: amount(self.order.cores),
                memory_bytes: amount(self.order.bytes),
                disk_bytes: self.setup.disk_bytes,
                time: script.time,
                grace: script.grace,
                ..Bounds::default()
            },
            network: self.setup.network,
            hidden: self.setup.hidden.clone(),
            gpu: self.order.gpu,
        }
    }

    /// The manager may be gone; then it reads the mark when it is back.
    fn tell_running(&self) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some(now());
        let _ = self.folder.mark_running();
        let mut out = std::io::stdout();
        let _ = out.write_all(b"r").and_then(|()| out.flush());
    }
}

/// Where the script finds a path of this machine.
fn inside(path: &Path, outer: &Path, inner: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(outer).ok()?;
    Some(if rest.as_os_str().is_empty() { inner.to_owned() } else { inner.join(rest) })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time before a line of a log.
fn timestamp() -> String {
    format!("{:.9}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use oscar_supervisor::Failure;

    use super::*;

    fn mk_report(exit: Option<Exit>, failure: Option<(Stage, bool)>) -> Report {
        let sentence = "The output `No space left on device` could not be stored.".to_owned();
        let failure = failure.map(|(stage, wants_room)| Failure { stage, sentence, wants_room });
        Report { exit, failure, ..Report::default() }
    }

    #[test]
    fn an_end_is_told_by_what_it_was_and_not_by_its_words() {
        let ended = Some(Exit::Code(0));
        let of = |report: &Report| exit_of(report, false, false);
        assert!(matches!(of(&mk_report(ended, Some((Stage::Output, true)))), ResultExit::NoRoom(_)));
        assert!(matches!(of(&mk_report(ended, Some((Stage::Output, false)))), ResultExit::Failed(_)));
        assert!(matches!(of(&mk_report(None, Some((Stage::Script, true)))), ResultExit::NoRoom(_)));
        // Nobody asked for its end: it took too long in all.
        assert!(matches!(of(&mk_report(Some(Exit::Cancelled), Some((Stage::Time, false)))), ResultExit::Failed(_)));
        let asked = exit_of(&mk_report(Some(Exit::Cancelled), Some((Stage::Script, false))), true, false);
        assert_eq!(asked, ResultExit::Cancelled);
        assert!(matches!(exit_of(&mk_report(ended, None), false, true), ResultExit::NoRoom(_)));
        assert_eq!(of(&mk_report(ended, None)), ResultExit::Success);
    }
}
