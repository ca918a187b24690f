//! `oscar job`: start, look, listen, end, forget.

mod list;
mod show;
mod start;

use clap::{Args, Subcommand};
use oscar_api::client::LogWish;
use serde_json::json;

use super::exit::{Exit, Failure};
use super::input::InputArgs;
use super::screen::printable;
use super::service::check_name;
use super::stranger::Stranger;
use super::{Session, progress, screen, target};

/// Longer than any job: the log of one that runs is followed to its end.
const FOLLOWING: std::time::Duration = std::time::Duration::from_hours(24 * 365);

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Start a job and print its name.
    Run {
        service: String,
        #[command(flatten)]
        input: InputArgs,
        /// Wait for its end; a job that does not succeed is a failure of the command.
        #[arg(long, short)]
        wait: bool,
    },
    /// List the jobs of a service, the newest first.
    #[command(visible_alias = "ls")]
    List {
        service: String,
        /// Not only the first page.
        #[arg(long)]
        all_pages: bool,
    },
    /// Show the whole story of a job.
    Show { service: String, job: String },
    /// Print what a job said.
    Logs {
        service: String,
        job: String,
        /// Go on until the job has ended.
        #[arg(long, short)]
        follow: bool,
        /// Begin each line with its time.
        #[arg(long)]
        timestamps: bool,
        /// Only the last lines.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        tail: Option<u32>,
    },
    /// End a job.
    Cancel { service: String, job: String },
    /// Forget jobs with their logs. Those that have not ended are ended.
    // The usage that is made by itself names the job before its service.
    #[command(visible_alias = "rm", override_usage = "oscar job delete [OPTIONS] <SERVICE> <JOB|--all|--succeeded>")]
    Delete {
        service: String,
        #[command(flatten)]
        which: Which,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    job: Option<String>,
    /// Every job of the service.
    #[arg(long)]
    all: bool,
    /// Those that succeeded.
    #[arg(long)]
    succeeded: bool,
}

pub(super) async fn run(session: &Session, command: JobCommand) -> Result<(), Failure> {
    match command {
        JobCommand::Run { service, input, wait } => start::run(session, &service, &input, wait).await,
        JobCommand::List { service, all_pages } => list::run(session, &service, all_pages).await,
        JobCommand::Show { service, job } => show::run(session, &service, &job).await,
        JobCommand::Logs { service, job, follow, timestamps, tail } => {
            logs(session, &service, &job, LogWish { follow, timestamps, tail_lines: tail }).await
        }
        JobCommand::Cancel { service, job } => cancel(session, &service, &job).await,
        JobCommand::Delete { service, which, yes } => delete(session, &service, which, yes).await,
    }
}

async fn logs(session: &Session, service: &str, job: &str, wish: LogWish) -> Result<(), Failure> {
    check_names(service, job)?;
    let target = target::current(session)?;
    let client = target.client(if wish.follow { FOLLOWING } else { target::ORDINARY })?;
    let mut log = progress::during(&format!("asking {}", target.title()), client.log(service, job, wish)).await?;
    let (mut stranger, mut whole) = (Stranger::new(), Vec::new());
    while let Some(piece) = log.next().await? {
        if session.screen.json {
            whole.extend(piece);
        } else if !stranger.write(&piece) {
            return Ok(());
        }
    }
    if session.screen.json {
        screen::value(&json!({"job": job, "log": String::from_utf8_lossy(&whole)}));
    }
    Ok(())
}

async fn cancel(session: &Session, service: &str, job: &str) -> Result<(), Failure> {
    check_names(service, job)?;
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let now = progress::during(&format!("cancelling {job}"), client.cancel_job(service, job)).await?;
    if session.screen.json {
        screen::value(&now);
    } else if now["state"] == "cancelled" {
        screen::line(&format!("cancelled {job}"));
    } else {
        screen::line(&format!(
            "{job} is {} and was told to end",
            printable(now["state"].as_str().unwrap_or("running"))
        ));
    }
    Ok(())
}

async fn delete(session: &Session, service: &str, which: Which, yes: bool) -> Result<(), Failure> {
    check_names(service, which.job.as_deref().unwrap_or("any"))?;
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let told = if let Some(job) = &which.job {
        progress::during(&format!("deleting {job}"), client.delete_job(service, job)).await?;
        format!("deleted {job}")
    } else {
        let what = if which.all { "every job" } else { "every job that succeeded" };
        screen::confirm(&format!("delete {what} of {service} on {}, with its log?", target.title()), yes)?;
        progress::during(&format!("deleting jobs of {service}"), client.delete_jobs(service, which.all)).await?;
        format!("deleted {what} of {service}")
    };
    if session.screen.json {
        screen::value(&json!({"service": service, "job": which.job, "action": "delete", "done": true}));
    } else {
        screen::line(&told);
    }
    Ok(())
}

/// Both become parts of an address.
fn check_names(service: &str, job: &str) -> Result<(), Failure> {
    check_name(service)?;
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if !job.is_empty() && job.len() <= 253 && job.bytes().all(fits) && !job.starts_with('.') {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("`{job}` cannot be the name of a job")))
}
