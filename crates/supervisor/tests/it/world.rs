//! A job to be done in a folder of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use oscar_model::secret::Secret;
use oscar_model::service::storage::ProviderRef;
use oscar_supervisor::{
    Access, CancellationToken, Credentials, EventSource, FunctionConfig, Limits, MemorySink, Outputs, PlainSandbox,
    Report, Task, perform,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tempfile::TempDir;

use crate::store::Store;

pub(crate) const SECRET: &str = "planted-secret-key";
pub(crate) const PASSWORD: &str = "planted-password";

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) task: Task,
    pub(crate) cancel: CancellationToken,
}

/// What is left of a job.
pub(crate) struct Done {
    pub(crate) report: Report,
    pub(crate) log: String,
    pub(crate) dropped: u64,
    answer: Option<Vec<u8>>,
}

impl Done {
    pub(crate) fn sentence(&self) -> &str {
        self.report.failure.as_ref().map_or("", |failure| &failure.sentence)
    }

    pub(crate) fn response(&self) -> String {
        String::from_utf8_lossy(self.answer.as_ref().expect("an answer")).into_owned()
    }
}

impl World {
    /// A service on this store; `outputs` are lines of YAML of its list.
    pub(crate) fn new(store: &Store, outputs: &str, script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("script.sh");
        std::fs::write(&file, script).expect("written");
        let outputs = if outputs.is_empty() { "[]".to_owned() } else { format!("\n{outputs}") };
        let config = format!(
            "name: plants\nlog_level: DEBUG\noutput: {outputs}\ninput:\n- {{storage_provider: webdav.dcache, path: lab/in}}\n\
             storage_providers:\n  minio:\n    default: {{endpoint: '{0}', access_key: hidden, secret_key: hidden, region: us-east-1, verify: true}}\n\
             \x20 webdav:\n    dcache: {{hostname: '{0}', login: scientist, password: {PASSWORD}}}\n\
             \x20 onedata:\n    one: {{oneprovider_host: x, token: y, space: z}}\n",
            store.address
        );
        let limits = Limits {
            grace: Duration::from_millis(300),
            pause: Duration::from_millis(1),
            attempts: 4,
            stall: Duration::from_secs(20),
            ..Limits::default()
        };
        let task = Task {
            event: EventSource::Bytes(Vec::new()),
            config: FunctionConfig::parse(&config).expect("valid"),
            script: file,
            work: dir.path().join("work"),
            credentials: Credentials::from([(
                ProviderRef::parse("minio").expect("valid"),
                Access { access_key: "AKTEST".to_owned(), secret_key: Secret::new(SECRET), ..Access::default() },
            )]),
            outputs: Outputs::Direct,
            job: "plants-1".to_owned(),
            synchronous: false,
            env: BTreeMap::new(),
            limits,
        };
        Self { dir, task, cancel: CancellationToken::new() }
    }

    pub(crate) fn event(mut self, event: impl Into<Vec<u8>>) -> Self {
        self.task.event = EventSource::Bytes(event.into());
        self
    }

    pub(crate) fn synchronous(mut self) -> Self {
        self.task.synchronous = true;
        self
    }

    pub(crate) fn output_dir(&self) -> PathBuf {
        self.task.work.join("output")
    }

    pub(crate) async fn run(&self) -> Done {
        let mut sink = MemorySink::new(1 << 20);
        let report = perform(&self.task, &PlainSandbox, &mut sink, self.cancel.clone()).await;
        let answer = report.response.as_ref().map(|response| std::fs::read(&response.file).expect("it is in a file"));
        Done { report, log: sink.text(), dropped: sink.dropped, answer }
    }
}

/// The notification of MinIO for an object, its key escaped as MinIO does.
pub(crate) fn mk_event(bucket: &str, key: &str) -> String {
    let key = utf8_percent_encode(key, NON_ALPHANUMERIC).to_string().replace("%20", "+");
    serde_json::json!({"EventName": "s3:ObjectCreated:Put", "Records": [{
        "eventSource": "minio:s3", "eventTime": "2026-06-12T09:05:29.123Z",
        "s3": {"bucket": {"name": bucket}, "object": {"key": key}}}]})
    .to_string()
}
