//! Starting a job, and waiting for its end.

use std::cell::RefCell;
use std::time::Duration;

use oscar_api::client::{Client, ClientError};
use serde_json::{Value, json};

use super::show;
use crate::cli::exit::{Exit, Failure};
use crate::cli::input::InputArgs;
use crate::cli::screen::{self, one_line};
use crate::cli::service::check_name;
use crate::cli::{Session, progress, target};

/// Between two looks at a job, at first and later.
const SOON: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(2);

/// A manager that restarts is waited for, so many looks long.
const MOST_SILENT: u32 = 30;

pub(super) async fn run(session: &Session, service: &str, input: &InputArgs, wait: bool) -> Result<(), Failure> {
    check_name(service)?;
    let event = input.event()?;
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let name = progress::during(&format!("calling {service}"), client.submit(service, event)).await?;
    let Some(name) = name else {
        if !wait {
            accepted(session, service);
            return Ok(());
        }
        // There is a job all the same.
        return Err(Failure::new(Exit::Failed, "the job was accepted, but this manager does not tell its name")
            .hint(format!("`oscar job list {service}` shows it")));
    };
    super::check_names(service, &name)?;
    if !wait {
        if session.screen.json {
            screen::value(&json!({"job": name}));
        } else {
            screen::line(&name);
        }
        return Ok(());
    }
    screen::note(&name);
    let state = RefCell::new(String::new());
    let waiting = ended(&client, service, &name, &state);
    let look = async || Some(state.borrow().clone());
    let job = progress::watching(&format!("waiting for {name}"), waiting, look).await?;
    report(session, service, &name, &job)
}

fn accepted(session: &Session, service: &str) {
    if session.screen.json {
        screen::value(&json!({"job": null}));
    } else {
        screen::note(&format!("accepted; this manager does not tell the name: `oscar job list {service}` shows it"));
    }
}

/// The job as it is when it has ended.
async fn ended(client: &Client, service: &str, name: &str, state: &RefCell<String>) -> Result<Value, Failure> {
    let (mut pause, mut silent) = (SOON, 0);
    loop {
        match client.job(service, name).await {
            Ok(job) => {
                silent = 0;
                let now = one_line(job["state"].as_str().unwrap_or_default());
                if ["succeeded", "failed", "cancelled", "lost"].contains(&now.as_str()) {
                    return Ok(job);
                }
                state.replace(now);
            }
            Err(ClientError::Unreachable { .. }) if silent < MOST_SILENT => {
                silent += 1;
                state.replace("the manager does not answer".to_owned());
            }
            Err(error) => {
                return Err(Failure::from(error).hint(format!("the job goes on: oscar job show {service} {name}")));
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(LATER);
    }
}

fn report(session: &Session, service: &str, name: &str, job: &Value) -> Result<(), Failure> {
    if session.screen.json {
        screen::value(job);
    } else {
        screen::write_out(&show::told(job, session.screen.paint));
    }
    let state = job["state"].as_str().unwrap_or_default();
    if state == "succeeded" {
        return Ok(());
    }
    if session.screen.json {
        return Err(Failure::told(Exit::Failed));
    }
    Err(Failure::new(Exit::Failed, format!("the job ended as {state}"))
        .hint(format!("what it said: oscar job logs {service} {name}")))
}
