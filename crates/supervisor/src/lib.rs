//! What runs around a job: the event is read, the input fetched, the script run, the outputs
//! matched and stored, and the end of the script reported as it was.
//!
//! [`perform`] does one job and knows nothing of where it runs; a [`Sandbox`] runs the script.
//! Nothing from outside passes through a shell, nothing is held in memory that can be large,
//! and neither credentials nor signed addresses get into a log line, an error or a report.

mod config;
pub mod event;
mod http;
mod input;
mod journal;
mod names;
mod output;
mod perform;
mod plain;
mod providers;
mod report;
mod response;
mod s3;
mod sandbox;
mod slice;
mod task;
mod webdav;

pub use config::FunctionConfig;
pub use journal::{MemorySink, OutputSink};
pub use perform::perform;
pub use plain::PlainSandbox;
pub use report::{Failure, Fetched, Manifest, Report, Response, ResponseKind, Stage, Times, Written};
pub use sandbox::{Exit, Sandbox, SandboxError, ScriptRun};
pub use task::{Access, Credentials, EventSource, Limits, Outputs, Task};
pub use tokio_util::sync::CancellationToken;
