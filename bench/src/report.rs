//! The numbers of all runs, judged against the goals.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::load::Load;

/// The numbers of every run by name.
pub(crate) struct Report {
    runs: usize,
    values: BTreeMap<String, Vec<f64>>,
    loads: Vec<String>,
}

struct Goal {
    name: &'static str,
    wanted: &'static str,
    measured: String,
    reached: bool,
}

impl Report {
    pub(crate) fn new(runs: usize) -> Report {
        Report { runs, values: BTreeMap::new(), loads: Vec::new() }
    }

    pub(crate) fn put(&mut self, name: &str, value: f64) {
        eprintln!("  {name}: {value:.2}");
        self.values.entry(name.to_owned()).or_default().push(value);
    }

    pub(crate) fn put_load(&mut self, name: &str, load: Load) {
        if !self.loads.iter().any(|known| known == name) {
            self.loads.push(name.to_owned());
        }
        self.put(&format!("{name}: requests per second"), load.per_second);
        self.put(&format!("{name}: p50 ms"), load.p50.as_secs_f64() * 1000.0);
        self.put(&format!("{name}: p99 ms"), load.p99.as_secs_f64() * 1000.0);
    }

    fn median(&self, name: &str) -> f64 {
        let mut values = self.values.get(name).cloned().unwrap_or_default();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn goals(&self) -> Vec<Goal> {
        let rate = |name: &str| self.median(&format!("{name}: requests per second"));
        let ratio = rate("get") / rate("hello");
        let (list, start, idle) = (self.median("list 1000 ms"), self.median("start ms"), self.median("idle MiB"));
        let small = self.median("list 1000 µs per service");
        let large = self.median("list 10000 µs per service");
        let (one, many) = (self.median("federate 1 ms"), self.median("federate 32 ms"));
        let silent = self.median("federate with a silent member s") / self.median("silent member s");
        let plan = self.median("plan 1000 ms");
        let goal = |name, wanted, measured, reached| Goal { name, wanted, measured, reached };
        vec![
            goal("get beside a bare axum server", ">= 0.5 x", format!("{ratio:.2} x"), ratio >= 0.5),
            goal("durable creates", ">= 2000/s", format!("{:.0}/s", rate("create")), rate("create") >= 2000.0),
            goal("list of 1000 services", "<= 20 ms", format!("{list:.2} ms"), list <= 20.0),
            goal(
                "list cost is linear (10000 beside 1000, per service)",
                "<= 1.5 x",
                format!("{:.2} x", large / small),
                large <= 1.5 * small,
            ),
            goal("start to first answer", "< 150 ms", format!("{start:.0} ms"), start < 150.0),
            goal("idle memory", "<= 32 MiB", format!("{idle:.1} MiB"), idle <= 32.0),
            goal(
                "create over 32 members 20 ms away, beside over 1",
                "<= 1.5 x",
                format!("{:.2} x", many / one),
                many <= 1.5 * one,
            ),
            goal("a silent member, beside its time-out", "<= 1.2 x", format!("{silent:.2} x"), silent <= 1.2),
            goal("expand and plan 1000 members", "<= 10 ms", format!("{plan:.2} ms"), plan <= 10.0),
        ]
    }

    pub(crate) fn table(&self) -> String {
        let mut out = format!("\n{:<26} {:>10} {:>10} {:>10}\n", "", "requests/s", "p50 ms", "p99 ms");
        for name in &self.loads {
            let median = |part: &str| self.median(&format!("{name}: {part}"));
            let (rate, p50, p99) = (median("requests per second"), median("p50 ms"), median("p99 ms"));
            let _ = writeln!(out, "{name:<26} {rate:>10.0} {p50:>10.2} {p99:>10.2}");
        }
        for count in [100, 1000, 10_000] {
            let (once, each) =
                (self.median(&format!("list {count} ms")), self.median(&format!("list {count} µs per service")));
            let _ = writeln!(out, "list of {count:>5}: {once:>8.2} ms, {each:.2} µs per service");
        }
        for count in [1, 2, 4, 8, 16, 32] {
            let _ = writeln!(
                out,
                "create over {count:>2} members: {:>8.1} ms",
                self.median(&format!("federate {count} ms"))
            );
        }
        let _ = writeln!(out, "memory with 10000 services: {:.1} MiB\n", self.median("full MiB"));
        for Goal { name, wanted, measured, reached } in self.goals() {
            let verdict = if reached { "pass" } else { "MISS" };
            let _ = writeln!(out, "{verdict}  {name:<54} {measured:>10}   wanted {wanted}");
        }
        let _ = write!(out, "\nmedians of {} runs on {}", self.runs, machine());
        out
    }

    /// Writes the numbers; says where.
    pub(crate) fn write(&self, folder: &Path, keep: bool) -> Vec<PathBuf> {
        let date = said(Command::new("date").arg("+%F"));
        let goals: Vec<Value> = self
            .goals()
            .into_iter()
            .map(|goal| json!({"goal": goal.name, "wanted": goal.wanted, "measured": goal.measured, "pass": goal.reached}))
            .collect();
        let medians: BTreeMap<_, _> = self.values.keys().map(|name| (name, self.median(name))).collect();
        let text = json!({"date": date, "machine": machine(), "runs": self.runs, "goals": goals, "medians": medians, "values": self.values});
        let text = format!("{text:#}\n");
        let mut paths = vec![folder.join("latest.json")];
        if keep {
            paths.push(folder.join(format!("{date}.json")));
        }
        std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("making {}: {error}", folder.display()));
        for path in &paths {
            std::fs::write(path, &text).unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
        }
        paths
    }
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']);
    format!("{cores} cores of {model}, {}", said(Command::new("uname").arg("-sr")))
}

fn said(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}
