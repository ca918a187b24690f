//! One job from its event to its report.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::event::{Event, Source, recognise};
use crate::http::Trouble;
use crate::input::stage_in;
use crate::journal::{Journal, Notes, OutputSink};
use crate::names::below;
use crate::output::{Harvest, Produced, Targets, harvest, store};
use crate::providers::Providers;
use crate::report::{Complaint, Failure, Manifest, Report, Response, ResponseKind, Stage};
use crate::response::{Capture, of_files};
use crate::sandbox::{Exit, Sandbox, ScriptRun};
use crate::task::{EventSource, Task};

/// What Linux allows for one variable, its name and the end of the text included.
const MOST_VARIABLE: usize = 128 * 1024;

/// The name of the manifest of staged outputs: no bucket can be called that.
const MANIFEST: &str = ".manifest.json";

/// Does one job. Whatever happens is in the report, which always comes; a failure is logged
/// once. A script that ended with an exit code, whichever, has its outputs stored where they go
/// directly, as users of OSCAR know it; what is staged waits for a success, so it is left out
/// when there was none. One that was stopped has nothing stored.
pub async fn perform(
    task: &Task,
    sandbox: &dyn Sandbox,
    sink: &mut dyn OutputSink,
    cancel: CancellationToken,
) -> Report {
    let begun = Instant::now();
    let mut job = Job {
        task,
        sandbox,
        journal: Journal::new(sink, task.config.log_level),
        cancel: cancel.child_token(),
        report: Report { job: task.job.clone(), ..Report::default() },
    };
    if let Err(failure) = job.run_in_time().await {
        job.fail(failure).await;
    }
    job.report.times.total_ms = since(begun);
    job.report
}

struct Job<'a> {
    task: &'a Task,
    sandbox: &'a dyn Sandbox,
    journal: Journal<'a>,
    cancel: CancellationToken,
    report: Report,
}

impl Job<'_> {
    async fn run_in_time(&mut self) -> Result<(), Failure> {
        let Some(limit) = self.task.limits.whole_time else { return self.run().await };
        let cancel = self.cancel.clone();
        let mut run = std::pin::pin!(self.run());
        tokio::select! {
            done = &mut run => return done,
            () = tokio::time::sleep(limit) => cancel.cancel(),
        }
        // What was begun ends in order.
        run.await.map_err(|_| {
            let seconds = limit.as_secs_f64();
            let sentence = format!(
                "The job was stopped because fetching its input, its script and storing its outputs took longer than \
                 {seconds} seconds together."
            );
            Failure::new(Stage::Time, sentence)
        })
    }

    async fn run(&mut self) -> Result<(), Failure> {
        let task = self.task;
        let (input_dir, output_dir) = self.make_folders().await?;
        let event = self.read_event().await?;
        self.report.event = event.source.kind().to_owned();
        self.journal.info(&format!("The event of this job is of the type {}.", self.report.event)).await;
        let script = tokio::fs::metadata(&task.script).await;
        if !script.is_ok_and(|script| script.is_file()) {
            return Err(Failure::new(Stage::Configuration, "The service has no script, or it cannot be read."));
        }
        let providers = Providers::new(&task.config, &task.credentials, task.limits.clone());
        let object = if let Source::Object(object) = &event.source { Some(object) } else { None };
        let targets = Targets::open(&task.job, &task.config, &task.outputs, object, &providers);
        let targets = targets.map_err(|sentence| Failure::new(Stage::Configuration, sentence))?;
        self.check_keys(&targets).await?;

        let begun = Instant::now();
        let mut input_file = None;
        if task.config.file_stage_in {
            self.journal.info("The input is not fetched: the service says `file_stage_in: true`.").await;
        } else {
            let cancel = self.cancel.clone();
            let fetched = tokio::select! {
                fetched = stage_in(&event, &task.config, &providers, &input_dir, &mut self.journal) => fetched,
                () = cancel.cancelled() => Err("The job was cancelled while its input was fetched.".into()),
            };
            let fetched = fetched.map_err(|complaint| Failure::new(Stage::Input, complaint))?;
            input_file = Some(fetched.file.clone());
            self.report.inputs.push(fetched);
        }
        self.report.times.input_ms = since(begun);

        let run = self.prepare(&event, input_dir, output_dir, input_file).await?;
        let printed = self.run_script(&run, task.synchronous || event.source.is_payload()).await?;
        let exit = self.report.exit;
        if matches!(exit, Some(Exit::Code(_))) {
            let begun = Instant::now();
            let done = self.finish(&run, &event, &targets, printed).await;
            self.report.times.output_ms = since(begun);
            done?;
        } else if task.synchronous {
            self.report.response = printed;
        }
        match exit {
            Some(exit) if !exit.is_success() => {
                Err(Failure::new(Stage::Script, exit.sentence(task.limits.script_time)))
            }
            _ => Ok(()),
        }
    }

    /// Stores the outputs and puts the answer together.
    async fn finish(
        &mut self,
        run: &ScriptRun,
        event: &Event,
        targets: &Targets<'_>,
        printed: Option<Response>,
    ) -> Result<(), Failure> {
        let (folder, most) = (run.output_dir.clone(), self.task.limits.output_files);
        let found = tokio::task::spawn_blocking(move || harvest(&folder, most)).await;
        let found = found.unwrap_or_else(|_| Err("Looking for outputs was interrupted.".to_owned()));
        let Harvest { files, remarks } = found.map_err(|sentence| Failure::new(Stage::Output, sentence))?;
        for remark in remarks {
            self.journal.warning(&remark).await;
        }
        let succeeded = self.report.exit.is_some_and(Exit::is_success);
        let (wanted, left): (Vec<_>, Vec<_>) =
            targets.usable.iter().partition(|target| succeeded || target.staged().is_none());
        if left.iter().any(|target| target.wants_any(&files)) {
            self.journal.warning("Outputs for the cluster's own store are left out: the script failed.").await;
        }
        let (at_once, cancel) = (self.task.limits.uploads, &self.cancel);
        let stored = store(&wanted, &run.output_dir, &files, at_once, &mut self.journal, cancel);
        let (written, failure) = stored.await;
        self.report.outputs = written;
        if let Some(complaint) = failure {
            return Err(Failure::new(Stage::Output, complaint));
        }
        if succeeded {
            self.write_manifest(targets).await?;
        }
        self.report.response = if event.source.is_payload() && !files.is_empty() && succeeded {
            self.answer_files(run, files).await?
        } else {
            printed
        };
        Ok(())
    }

    async fn answer_files(&mut self, run: &ScriptRun, files: Vec<Produced>) -> Result<Option<Response>, Failure> {
        let (folder, target, most) =
            (run.output_dir.clone(), self.task.work.join("response"), self.task.limits.response_bytes);
        let made = tokio::task::spawn_blocking(move || of_files(&folder, &files, target, most)).await;
        match made.unwrap_or_else(|_| Err("Putting the answer together was interrupted.".into())) {
            Ok(response) => Ok(Some(response)),
            Err(complaint) if self.task.synchronous => Err(Failure::new(Stage::Response, complaint)),
            // Nobody waits for it.
            Err(complaint) => {
                self.journal.warning(&complaint.sentence).await;
                Ok(None)
            }
        }
    }

    async fn write_manifest(&mut self, targets: &Targets<'_>) -> Result<(), Failure> {
        let Some((store, bucket, prefix)) = targets.usable.iter().find_map(|target| target.staged()) else {
            return Ok(());
        };
        let outputs = self.report.outputs.iter().filter(|written| written.staged_key.is_some()).cloned().collect();
        let manifest = Manifest { job: self.task.job.clone(), exit: self.report.exit, outputs };
        let text = serde_json::to_string(&manifest).unwrap_or_default();
        let (key, notes) = (below(prefix, MANIFEST), Notes::default());
        let stored = tokio::select! {
            stored = store.put_text(&notes, bucket, &key, &text) => stored,
            () = self.cancel.cancelled() => Err(Trouble::last("the job was cancelled")),
        };
        self.journal.take_notes(&notes).await;
        stored.map_err(|trouble| {
            let say = |cause: &str| format!("The list of outputs could not be stored as `{bucket}/{key}`: {cause}.");
            Failure::new(Stage::Output, trouble.complain(say))
        })?;
        self.report.manifest = Some(key);
        Ok(())
    }

    /// Runs the script. Gives what it printed, when somebody wants it.
    async fn run_script(&mut self, run: &ScriptRun, wanted: bool) -> Result<Option<Response>, Failure> {
        let begun = Instant::now();
        let file = self.task.work.join("script-output");
        let keep = if wanted { tokio::fs::File::create(&file).await.ok() } else { None };
        let kept = keep.is_some();
        self.journal.info("The script begins.").await;
        let mut capture = Capture::new(&mut *self.journal.sink, keep, self.task.limits.response_bytes);
        let exit = self.sandbox.run(run, &mut capture).await;
        let cut = capture.finish().await;
        self.report.times.script_ms = since(begun);
        let exit = exit.map_err(|error| {
            let sentence = format!("The script could not be run: {error}.");
            Failure::new(Stage::Script, Complaint { sentence, wants_room: error.wants_room })
        })?;
        self.report.exit = Some(exit);
        if exit.is_success() {
            self.journal.info("The script has ended.").await;
        }
        if cut {
            self.journal.warning("The script printed more than an answer can hold; only the beginning is kept.").await;
        }
        let bytes = if kept { tokio::fs::metadata(&file).await.map_or(0, |file| file.len()) } else { 0 };
        Ok(kept.then_some(Response { kind: ResponseKind::ScriptOutput, file, bytes }))
    }

    async fn prepare(
        &mut self,
        event: &Event,
        input_dir: PathBuf,
        output_dir: PathBuf,
        input_file: Option<PathBuf>,
    ) -> Result<ScriptRun, Failure> {
        let event_file = self.task.work.join("event");
        tokio::fs::write(&event_file, &event.content).await.map_err(|error| no_room(&error))?;
        let mut env = self.task.env.clone();
        env.extend(event.variables.clone());
        if let Some(note) = event_variables(event, &mut env) {
            self.journal.warning(note).await;
        }
        env.insert("JOB_UUID".to_owned(), self.task.job.clone());
        env.entry("OSCAR_SERVICE_NAME".to_owned()).or_insert_with(|| self.task.config.name.clone());
        // Neither can be in a variable; nothing that is meant holds them.
        env.retain(|name, value| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0'));
        self.journal.debug(&format!("The script has {} variables.", env.len())).await;
        Ok(ScriptRun {
            script: self.task.script.clone(),
            input_dir,
            output_dir,
            event_file,
            input_file,
            env,
            time: self.task.limits.script_time,
            grace: self.task.limits.grace,
            cancel: self.cancel.clone(),
        })
    }

    async fn make_folders(&self) -> Result<(PathBuf, PathBuf), Failure> {
        let (input, output) = (self.task.work.join("input"), self.task.work.join("output"));
        for folder in [&input, &output] {
            tokio::fs::create_dir_all(folder).await.map_err(|error| no_room(&error))?;
        }
        Ok((input, output))
    }

    async fn read_event(&self) -> Result<Event, Failure> {
        let bytes = match &self.task.event {
            EventSource::Bytes(bytes) => return Ok(recognise(bytes)),
            EventSource::File(path) => tokio::fs::read(path).await,
        };
        let bytes = bytes.map_err(|error| Failure::new(Stage::Event, format!("The event cannot be read: {error}.")))?;
        Ok(recognise(&bytes))
    }

    /// A synchronous call may have no keys of the cluster's store: its answer is the output.
    async fn check_keys(&mut self, targets: &Targets<'_>) -> Result<(), Failure> {
        for output in &targets.without_keys {
            let place = format!("`{}` of {}", output.path, output.provider);
            if !self.task.synchronous {
                let sentence =
                    format!("Outputs cannot be stored in {place}: this job was given no credentials for it.");
                return Err(Failure::new(Stage::Configuration, sentence));
            }
            let message = format!("Outputs are not stored in {place}: a synchronous call has no credentials for it.");
            self.journal.warning(&message).await;
        }
        Ok(())
    }

    async fn fail(&mut self, failure: Failure) {
        self.journal.error(&failure.sentence).await;
        self.report.failure = Some(failure);
    }
}

/// Sets what scripts are told about the event. Gives a remark when it does not fit.
fn event_variables(event: &Event, env: &mut BTreeMap<String, String>) -> Option<&'static str> {
    if let Source::Object(object) = &event.source {
        env.insert("STORAGE_OBJECT_KEY".to_owned(), object.key.clone());
        env.insert("EVENT_TIME".to_owned(), object.time.clone());
    }
    // Whoever started us may have had it from outside, in another form.
    env.remove("EVENT");
    if event.content.len() + "EVENT=".len() + 1 > MOST_VARIABLE {
        return Some("The event is too large for the variable EVENT; the file that EVENT_FILE names has it.");
    }
    match std::str::from_utf8(&event.content) {
        Ok(text) if !text.contains('\0') => {
            env.insert("EVENT".to_owned(), text.to_owned());
            None
        }
        _ => Some("The event is no text and not in the variable EVENT; the file that EVENT_FILE names has it."),
    }
}

fn no_room(error: &std::io::Error) -> Failure {
    let say = |cause: &str| format!("The folders of the job cannot be made: {cause}.");
    Failure::new(Stage::Configuration, Complaint::of_io(error, say))
}

fn since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
