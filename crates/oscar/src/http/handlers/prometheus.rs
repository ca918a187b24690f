//! Numbers for Prometheus, in its text format.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use oscar_api::problem::Code;
use oscar_model::identity::Principal;
use oscar_model::job::Phase;

use super::super::answer::Refused;
use super::super::app::App;
use super::super::caller::authenticate;
use super::super::documented::PrometheusRefusals;

/// Numbers of this manager, for monitoring.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "In the text format of Prometheus.", body = String, content_type = "text/plain"),
    PrometheusRefusals))]
pub(in super::super) async fn get_prometheus(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match page(&app, &headers).await {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn page(app: &App, headers: &HeaderMap) -> Result<String, Refused> {
    if authenticate(app, headers).await? != Principal::Admin {
        return Err(Refused::new(Code::NotAdministrator, "only the administrator may read these numbers"));
    }
    let mut page = Page::default();
    page.family("oscar_http_requests_total", "counter", "Requests that were answered.");
    for (status, count) in app.traffic.counts() {
        page.sample("oscar_http_requests_total", &[("code", &status.to_string())], count);
    }
    if let Ok(jobs) = app.manager.jobs() {
        let (counts, holding) = jobs.counts().await?;
        let waiting: u64 = counts
            .iter()
            .filter(|(phase, _)| matches!(phase, Phase::Accepted | Phase::Queued))
            .map(|(_, count)| count)
            .sum();
        page.family("oscar_jobs", "gauge", "Jobs that are remembered, by state.");
        for (phase, count) in counts {
            page.sample("oscar_jobs", &[("state", phase.as_str())], count);
        }
        let held = jobs.held();
        page.gauge("oscar_jobs_waiting", "Jobs that wait for room.", waiting);
        page.gauge("oscar_runs_holding_room", "Attempts of jobs and synchronous runs that hold room.", holding);
        page.gauge("oscar_held_millicores", "Thousandths of processors that runs hold.", held.cores);
        page.gauge("oscar_held_memory_bytes", "Memory that runs hold.", held.bytes);
        page.gauge("oscar_held_gpus", "GPUs that runs hold.", held.gpus);
    }
    if let Some(bytes) = resident_bytes() {
        page.gauge("process_resident_memory_bytes", "Memory of the manager itself.", bytes);
    }
    Ok(page.0)
}

/// Of this process; none where the system does not tell.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[derive(Default)]
struct Page(String);

/// Writing to a string does not fail.
impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<_> = labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_as_prometheus_reads_them() {
        let mut page = Page::default();
        page.gauge("a", "Of nothing.", 3);
        page.sample("b", &[("x", "a\"b\\c\nd"), ("y", "z")], 7);
        let expected = "# HELP a Of nothing.\n# TYPE a gauge\na 3\nb{x=\"a\\\"b\\\\c\\nd\",y=\"z\"} 7\n";
        assert_eq!(page.0, expected);
    }
}
