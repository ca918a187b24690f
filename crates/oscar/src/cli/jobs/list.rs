//! The jobs of a service, from managers of both kinds.

use oscar_api::client::{Client, ClientError};
use serde_json::{Map, Value, json};

use crate::cli::exit::Failure;
use crate::cli::screen::{self, Screen, Style, one_line};
use crate::cli::service::check_name;
use crate::cli::table::Table;
use crate::cli::{Session, progress, target};
use crate::time::{now, parse_rfc3339};

pub(super) async fn run(session: &Session, service: &str, all_pages: bool) -> Result<(), Failure> {
    check_name(service)?;
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let what = format!("asking {} for jobs of {service}", target.title());
    let (jobs, remaining) = progress::during(&what, gather(&client, service, all_pages)).await?;
    if session.screen.json {
        screen::value(&Value::Array(jobs));
    } else if jobs.is_empty() {
        screen::note(&format!("{service} has no jobs that you can see on {}", target.title()));
        session.screen.hint(&format!("start one: oscar job run {service} FILE"));
    } else {
        screen::line(&table(&jobs).render(session.screen.paint, Screen::width(), 5));
    }
    match remaining {
        None => {}
        Some(0) => screen::note("there are more: --all-pages shows them"),
        Some(more) => screen::note(&format!("{more} more: --all-pages shows them")),
    }
    Ok(())
}

/// The jobs, and how many were left out: none when that is all, zero when nobody counted them.
async fn gather(client: &Client, service: &str, all_pages: bool) -> Result<(Vec<Value>, Option<u64>), ClientError> {
    let (mut jobs, mut next, mut known) = (Vec::new(), None::<String>, true);
    loop {
        let page = if known {
            client.jobs(service, next.as_deref()).await
        } else {
            client.job_states(service, next.as_deref()).await
        };
        let mut page = match page {
            // A manager of another kind does not know the address; ours says what it misses.
            Err(ClientError::Refused(problem)) if known && problem.status == 404 && problem.code.is_empty() => {
                known = false;
                continue;
            }
            page => page?,
        };
        jobs.extend(of_page(page["jobs"].take()));
        let following = page["next_page"].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        match following {
            None => return Ok((jobs, None)),
            Some(_) if !all_pages => return Ok((jobs, Some(page["remaining_jobs"].as_u64().unwrap_or(0)))),
            // The same page again would never end.
            Some(following) if next.as_ref() == Some(&following) => return Ok((jobs, None)),
            Some(following) => next = Some(following),
        }
    }
}

/// A list in our form, or a map by name in that of OSCAR's clients.
fn of_page(jobs: Value) -> Vec<Value> {
    match jobs {
        Value::Array(jobs) => jobs,
        Value::Object(states) => states.into_iter().map(|(name, state)| of_state(&name, &state)).collect(),
        _ => Vec::new(),
    }
}

fn of_state(name: &str, state: &Value) -> Value {
    let mut job = Map::from_iter([("name".to_owned(), json!(name))]);
    let said = state["status"].as_str().unwrap_or_default().to_ascii_lowercase();
    job.insert("state".to_owned(), json!(said));
    for (ours, theirs) in [("accepted", "creation_time"), ("started", "start_time"), ("finished", "finish_time")] {
        if let Some(time) = state[theirs].as_str() {
            job.insert(ours.to_owned(), json!(time));
        }
    }
    Value::Object(job)
}

fn table(jobs: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "STATE", "STARTED", "TOOK", "ATTEMPTS", "REASON"]);
    for job in jobs {
        let text = |key: &str| one_line(job[key].as_str().unwrap_or_default());
        let attempts = job["attempts"].as_u64().map_or_else(String::new, |count| count.to_string());
        table.row([text("name"), text("state"), text("started"), took(job), attempts, text("reason")]);
    }
    table.paint(0, |_| Some(Style::Cyan));
    table.paint(1, style_of);
    table
}

pub(super) fn style_of(state: &str) -> Option<Style> {
    match state {
        "succeeded" => Some(Style::Green),
        "running" | "starting" => Some(Style::Cyan),
        "failed" | "lost" => Some(Style::Red),
        "cancelled" => Some(Style::Yellow),
        _ => None,
    }
}

/// How long a job has run, until now when it still does.
pub(super) fn took(job: &Value) -> String {
    let time = |key: &str| job[key].as_str().and_then(parse_rfc3339);
    let Some(started) = time("started") else { return String::new() };
    // One that has ended says when; the clock of this machine may be another's.
    let until = time("finished").unwrap_or_else(|| now() * 1000);
    span(until.saturating_sub(started))
}

pub(super) fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..10 => format!("{seconds}.{:03} s", millis % 1000),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_list_become_one() {
        let theirs = json!({"a-1": {"status": "Succeeded", "start_time": "2026-01-01T00:00:00Z",
            "finish_time": "2026-01-01T00:02:05Z"}});
        let jobs = of_page(theirs);
        assert_eq!((jobs[0]["name"].as_str(), jobs[0]["state"].as_str()), (Some("a-1"), Some("succeeded")));
        assert_eq!(took(&jobs[0]), "2 min 5 s");
        assert_eq!(of_page(json!([{"name": "b"}]))[0]["name"], "b");
        assert_eq!(of_page(Value::Null), Vec::<Value>::new());
    }

    #[test]
    fn spans_are_told_as_exactly_as_they_matter() {
        assert_eq!([1, 9_999, 10_500, 7_200_000].map(span), ["0.001 s", "9.999 s", "10 s", "2 h 0 min"]);
    }
}
