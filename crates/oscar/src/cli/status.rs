//! `oscar status`: the nodes of a cluster, their load, and what runs.

use serde_json::Value;

use super::Session;
use super::exit::Failure;
use super::probe::{self, Answer};
use super::screen::{self, Paint, Screen, Style, printable};
use super::table::Table;
use super::{progress, target};

/// Characters of a bar.
const BAR: u64 = 10;

pub(super) async fn run(session: &Session) -> Result<(), Failure> {
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let what = format!("asking {}", target.title());
    let both = async { tokio::join!(client.get("/system/status"), probe::hello(&target, target::ORDINARY)) };
    let (status, hello) = progress::during(&what, both).await;
    let status = status?.value;
    if session.screen.json {
        screen::value(&status);
        return Ok(());
    }
    // The status is what was asked for; the version is a courtesy.
    let version = match hello.map(|hello| hello.answer) {
        Ok(Answer::Welcome(info)) => format!("  {}", info.sentence()),
        _ => String::new(),
    };
    let title = session.screen.paint.on(Style::Bold, &target.title());
    screen::line(&format!("{title}{}", printable(&version)));
    screen::line("");
    screen::line(&nodes(&status).render(session.screen.paint, Screen::width(), 0));
    screen::line("");
    screen::line(&totals(&status, session.screen.paint));
    Ok(())
}

fn nodes(status: &Value) -> Table {
    let mut table = Table::new(["NODE", "STATUS", "CPU", "", "MEMORY", "", "GPU"]);
    for node in status["cluster"]["nodes"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = |key: &str| printable(node[key].as_str().unwrap_or_default()).replace('\n', " ");
        let (cpu, memory) = (&node["cpu"], &node["memory"]);
        let (used, all) = (number(&cpu["usage_cores"]), number(&cpu["capacity_cores"]));
        let (filled, room) = (number(&memory["usage_bytes"]), number(&memory["capacity_bytes"]));
        table.row([
            text("name"),
            text("status"),
            bar(used, all),
            format!("{} / {}", cores(used), cores(all)),
            bar(filled, room),
            format!("{} / {}", bytes(filled), bytes(room)),
            node["gpu"].as_i64().filter(|gpus| *gpus > 0).map_or_else(String::new, |gpus| gpus.to_string()),
        ]);
    }
    table.paint(2, |_| Some(Style::Cyan));
    table.paint(4, |_| Some(Style::Cyan));
    table
}

fn totals(status: &Value, paint: Paint) -> String {
    let (cluster, oscar) = (&status["cluster"], &status["oscar"]);
    let (cpu, memory) = (&cluster["metrics"]["cpu"], &cluster["metrics"]["memory"]);
    let mut lines = vec![
        ("nodes", number(&cluster["nodes_count"]).to_string()),
        (
            "free",
            format!(
                "{} cores, {}",
                cores(number(&cpu["total_free_cores"])),
                bytes(number(&memory["total_free_bytes"]))
            ),
        ),
        (
            "largest free",
            format!(
                "{} cores, {} on one node",
                cores(number(&cpu["max_free_on_node_cores"])),
                bytes(number(&memory["max_free_on_node_bytes"]))
            ),
        ),
        ("manager", if oscar["ready"] == true { "ready" } else { "not ready" }.to_owned()),
        ("jobs", number(&oscar["jobs_count"]).to_string()),
        ("pods", pods(&oscar["pods"])),
    ];
    if let Some(buckets) = status["minio"]["buckets_count"].as_u64() {
        lines.push(("buckets", format!("{buckets} with {} objects", number(&status["minio"]["total_objects"]))));
    }
    let lines: Vec<_> = lines
        .into_iter()
        .map(|(label, text)| format!("{} {text}", paint.on(Style::Dim, &format!("{label:>12}"))))
        .collect();
    lines.join("\n")
}

fn pods(pods: &Value) -> String {
    let states = pods["states"].as_object().into_iter().flatten();
    let states: Vec<_> = states
        .filter(|(_, count)| number(count) > 0)
        .map(|(state, count)| format!("{} {}", number(count), printable(&state.to_lowercase())))
        .collect();
    let total = number(&pods["total"]);
    if states.is_empty() { total.to_string() } else { format!("{total} ({})", states.join(", ")) }
}

/// Negative numbers occur when a node is used beyond what it may give; they are none.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A bar with its percentage: `███░░░░░░░  31%`.
fn bar(used: u64, all: u64) -> String {
    if all == 0 {
        return "-".to_owned();
    }
    let used = used.min(all);
    // Multiplied in 128 bits: a number of bytes times a hundred may be more than 64 hold.
    let share = |of: u64| u64::try_from((u128::from(used) * u128::from(of)).div_ceil(u128::from(all))).unwrap_or(of);
    let filled = usize::try_from(share(BAR)).unwrap_or_default();
    let empty = usize::try_from(BAR).unwrap_or_default() - filled;
    format!("{}{} {:>3}%", "█".repeat(filled), "░".repeat(empty), share(100))
}

/// Thousandths of a core, as the wire has them.
fn cores(milli: u64) -> String {
    let (whole, tenths) = (milli / 1000, milli % 1000 / 100);
    if tenths == 0 { whole.to_string() } else { format!("{whole}.{tenths}") }
}

pub(super) fn bytes(count: u64) -> String {
    let units = ["B", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let power = usize::try_from(count.checked_ilog2().unwrap_or(0) / 10).unwrap_or(0).min(units.len() - 1);
    let tenths = (u128::from(count) * 10) >> (10 * power);
    let unit = units[power];
    if power == 0 || tenths >= 1000 || tenths % 10 == 0 {
        format!("{} {unit}", tenths / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_readable() {
        assert_eq!((cores(4000).as_str(), cores(120).as_str(), cores(1250).as_str()), ("4", "0.1", "1.2"));
        assert_eq!((bytes(0).as_str(), bytes(1536).as_str(), bytes(8 << 30).as_str()), ("0 B", "1.5 Ki", "8 Gi"));
        assert_eq!(bytes(u64::MAX), "15.9 Ei");
    }

    #[test]
    fn a_bar_is_never_longer_than_it_may_be() {
        assert_eq!(bar(0, 0), "-");
        assert_eq!(bar(0, 4), "░░░░░░░░░░   0%");
        assert_eq!(bar(1, 1000), "█░░░░░░░░░   1%", "a little is not nothing");
        assert_eq!(bar(u64::MAX, u64::MAX), "██████████ 100%");
        assert_eq!(bar(9, 3), bar(3, 3));
    }

    #[test]
    fn a_status_with_gaps_is_shown_all_the_same() {
        let status = json!({"cluster": {"nodes_count": 1, "nodes": [
            {"name": "n1", "status": "Ready", "cpu": {"capacity_cores": 4000, "usage_cores": 1000},
             "memory": {"capacity_bytes": 8 << 30}, "gpu": 0}]},
            "oscar": {"ready": true, "jobs_count": 3, "pods": {"total": 2, "states": {"Running": 2, "Failed": 0}}}});
        let table = nodes(&status).render(Paint(false), None, 0);
        assert!(table.contains("n1    Ready   ███░░░░░░░  25%  1 / 4"), "{table}");
        let totals = totals(&status, Paint(false));
        assert!(totals.contains("pods 2 (2 running)") && !totals.contains("buckets"), "{totals}");
        assert_eq!(nodes(&json!({"cluster": {"nodes": null}})).render(Paint(false), None, 0).lines().count(), 1);
    }
}
