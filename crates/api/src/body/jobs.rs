//! Bodies of the calls about jobs.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// The header in which a manager says whether the answer of a run is files as base64.
pub const ANSWER_ENCODING: &str = "oscar-answer-encoding";
pub const ANSWER_BASE64: &str = "base64";

/// `POST /job/{serviceName}`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Accepted {
    pub job: String,
}

/// `GET /system/logs/{serviceName}`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobStates {
    /// By name, the newest first.
    #[serde(serialize_with = "in_order")]
    #[schema(value_type = BTreeMap<String, JobState>)]
    pub jobs: Vec<(String, JobState)>,
    /// What to ask for next; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_page: Option<String>,
    /// How many come after this page.
    #[serde(skip_serializing_if = "is_zero")]
    pub remaining_jobs: u64,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobState {
    /// `Pending`, `Running`, `Succeeded` or `Failed`.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub creation_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub finish_time: Option<String>,
    /// The same more exactly, in this manager's words.
    pub state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// `GET /system/jobs/{serviceName}`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobList {
    /// The newest first.
    pub jobs: Vec<JobSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_page: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub remaining_jobs: u64,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobSummary {
    pub name: String,
    /// `accepted`, `queued`, `starting`, `running`, `succeeded`, `failed`, `cancelled` or `lost`.
    pub state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub accepted: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub started: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub finished: Option<String>,
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub exit_code: Option<i32>,
}

/// `GET /system/jobs/{serviceName}/{jobName}`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobBody {
    pub name: String,
    pub service: String,
    pub state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Somebody wants it ended, and it has not ended yet.
    pub cancelling: bool,
    /// Who asked for it; absent when the caller only held the token of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub submitter: Option<String>,
    pub source: SourceBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub input: Option<ObjectBody>,
    pub accepted: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub started: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub finished: Option<String>,
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub exit_code: Option<i32>,
    /// In their place once the job succeeded.
    pub outputs: Vec<OutputBody>,
    pub story: Vec<StepBody>,
}

/// What made a job.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SourceBody {
    /// `call`, `upload` or `delegated`.
    pub kind: String,
    /// Which write of the input, of an upload.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub version: Option<String>,
    /// The cluster that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ObjectBody {
    pub bucket: String,
    pub key: String,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct OutputBody {
    pub provider: String,
    pub bucket: String,
    pub key: String,
    pub bytes: u64,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StepBody {
    pub time: String,
    pub state: String,
    pub attempt: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// `GET /system/logs`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Executions {
    /// The newest last.
    pub logs: Vec<Execution>,
}

/// One call of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Execution {
    pub timestamp: String,
    pub status: u16,
    pub latency: String,
    pub client_ip: String,
    pub method: String,
    pub path: String,
    pub user: String,
    /// All of it in one line, as Go OSCAR writes it to its log.
    pub raw: String,
}

/// `GET /system/services/{serviceName}/deployment`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DeploymentBody {
    pub service_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(flatten)]
    pub summary: crate::service::DeploymentSummary,
}

/// `GET /system/services/{serviceName}/deployment/logs`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DeploymentLogs {
    pub service_name: String,
    pub available: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub entries: Vec<LogEntry>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct LogEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub timestamp: Option<String>,
    pub message: String,
}

fn in_order<S: Serializer>(pairs: &[(String, JobState)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (name, state) in pairs {
        map.serialize_entry(name, state)?;
    }
    map.end()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}
