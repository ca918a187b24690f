//! One job from its beginning to where it is.

use serde_json::Value;

use super::list::{span, style_of, took};
use crate::cli::exit::Failure;
use crate::cli::screen::{self, Paint, Style, one_line};
use crate::cli::status::bytes;
use crate::cli::{Session, progress, target};
use crate::time::parse_rfc3339;

pub(super) async fn run(session: &Session, service: &str, job: &str) -> Result<(), Failure> {
    super::check_names(service, job)?;
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let job = progress::during(&format!("asking {} for {job}", target.title()), client.job(service, job)).await?;
    if session.screen.json {
        screen::value(&job);
    } else {
        screen::write_out(&told(&job, session.screen.paint));
    }
    Ok(())
}

/// The job for people.
pub(super) fn told(job: &Value, paint: Paint) -> String {
    let state = text(&job["state"]);
    let shown = style_of(&state).map_or_else(|| state.clone(), |style| paint.on(style, &state));
    let mut lines = vec![format!("{}  {shown}", paint.on(Style::Bold, &text(&job["name"])))];
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {name:<9} {value}"));
        }
    };
    fact("why", text(&job["reason"]));
    if job["cancelling"] == true {
        fact("", "somebody wants it ended".to_owned());
    }
    fact("exit code", job["exit_code"].as_i64().map_or_else(String::new, |code| code.to_string()));
    fact("made by", origin(job));
    fact("input", place(&job["input"]));
    fact("took", took(job));
    fact("attempts", job["attempts"].as_u64().map_or_else(String::new, |count| count.to_string()));
    section(&mut lines, paint, "story", &story(&job["story"]));
    section(&mut lines, paint, "outputs", &outputs(&job["outputs"]));
    lines.push(String::new());
    lines.join("\n")
}

fn section(lines: &mut Vec<String>, paint: Paint, title: &str, rows: &[String]) {
    if !rows.is_empty() {
        lines.push(paint.on(Style::Bold, title));
        lines.extend(rows.iter().map(|row| format!("  {row}")));
    }
}

fn origin(job: &Value) -> String {
    let (who, source) = (text(&job["submitter"]), &job["source"]);
    let who = if who.is_empty() { "somebody with the token of the service".to_owned() } else { who };
    match source["kind"].as_str() {
        Some("upload") => format!("an upload by {who}"),
        Some("delegated") => format!("a job that {} sent on", text(&source["from"])),
        _ => format!("a call by {who}"),
    }
}

fn story(steps: &Value) -> Vec<String> {
    let mut steps: Vec<_> = steps.as_array().map(Vec::as_slice).unwrap_or_default().iter().collect();
    let at = |step: &Value| step["time"].as_str().and_then(parse_rfc3339);
    steps.sort_by_key(|step| at(step));
    let mut before = None;
    let mut row = |step: &&Value| {
        let (time, now) = (text(&step["time"]), at(step));
        let later = before
            .zip(now)
            .map_or_else(String::new, |(before, now): (u64, u64)| format!("+{}", span(now.saturating_sub(before))));
        before = now;
        let attempt = step["attempt"].as_u64().filter(|attempt| *attempt > 1);
        let attempt = attempt.map_or_else(String::new, |attempt| format!(" (attempt {attempt})"));
        let reason = text(&step["reason"]);
        let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
        format!("{time}  {later:<14} {}{attempt}{reason}", text(&step["state"]))
    };
    steps.iter().map(&mut row).collect()
}

fn outputs(outputs: &Value) -> Vec<String> {
    let outputs = outputs.as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |output: &Value| {
        let provider = text(&output["provider"]);
        let elsewhere = if provider == "minio.default" { String::new() } else { format!("  at {provider}") };
        format!("{}  {}{elsewhere}", place(output), bytes(output["bytes"].as_u64().unwrap_or(0)))
    };
    outputs.iter().map(row).collect()
}

fn place(object: &Value) -> String {
    match (object["bucket"].as_str(), object["key"].as_str()) {
        (Some(bucket), Some(key)) => one_line(&format!("{bucket}/{key}")),
        _ => String::new(),
    }
}

fn text(value: &Value) -> String {
    one_line(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_story_is_told_in_the_order_of_time() {
        let job = json!({
            "name": "a-1", "state": "failed", "reason": "exit status 3\u{1b}[2J", "exit_code": 3, "attempts": 2,
            "source": {"kind": "upload"}, "submitter": "alice", "input": {"bucket": "a", "key": "in/x y"},
            "started": "2026-01-01T00:00:01.000Z", "finished": "2026-01-01T00:00:03.500Z",
            "outputs": [{"provider": "minio.default", "bucket": "a", "key": "out/x", "bytes": 2048}],
            "story": [
                {"time": "2026-01-01T00:00:01.000Z", "state": "running", "attempt": 2},
                {"time": "2026-01-01T00:00:00.500Z", "state": "accepted", "attempt": 0},
            ],
        });
        let told = told(&job, Paint(false));
        assert!(told.contains("made by   an upload by alice") && told.contains("took      2.500 s"), "{told}");
        assert!(told.contains("input     a/in/x y") && told.contains("  a/out/x  2 Ki\n"), "{told}");
        assert!(told.find("accepted") < told.find("+0.500 s       running (attempt 2)"), "{told}");
        assert!(!told.contains('\u{1b}'), "{told}");
    }
}
