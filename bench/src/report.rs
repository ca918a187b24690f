//! The numbers of all runs, judged against the goals.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::goals::{self, Goal};
use crate::load::Load;

/// The numbers of every run by name.
pub(crate) struct Report {
    runs: usize,
    values: BTreeMap<String, Vec<f64>>,
    loads: Vec<String>,
    /// Everything else, in the order it was measured.
    numbers: Vec<String>,
}

impl Report {
    pub(crate) fn new(runs: usize) -> Report {
        Report { runs, values: BTreeMap::new(), loads: Vec::new(), numbers: Vec::new() }
    }

    pub(crate) fn put(&mut self, name: &str, value: f64) {
        if !self.numbers.iter().any(|known| known == name) {
            self.numbers.push(name.to_owned());
        }
        self.keep(name, value);
    }

    fn keep(&mut self, name: &str, value: f64) {
        eprintln!("  {name}: {value:.2}");
        self.values.entry(name.to_owned()).or_default().push(value);
    }

    pub(crate) fn put_load(&mut self, name: &str, load: Load) {
        if !self.loads.iter().any(|known| known == name) {
            self.loads.push(name.to_owned());
        }
        self.keep(&format!("{name}: requests per second"), load.per_second);
        self.keep(&format!("{name}: p50 ms"), load.p50.as_secs_f64() * 1000.0);
        self.keep(&format!("{name}: p99 ms"), load.p99.as_secs_f64() * 1000.0);
    }

    pub(crate) fn median(&self, name: &str) -> f64 {
        let mut values = self.values.get(name).cloned().unwrap_or_default();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn table(&self) -> String {
        let mut out = format!("\n{:<30} {:>10} {:>10} {:>10}\n", "", "requests/s", "p50 ms", "p99 ms");
        for name in &self.loads {
            let median = |part: &str| self.median(&format!("{name}: {part}"));
            let (rate, p50, p99) = (median("requests per second"), median("p50 ms"), median("p99 ms"));
            let _ = writeln!(out, "{name:<30} {rate:>10.0} {p50:>10.2} {p99:>10.2}");
        }
        let _ = writeln!(out);
        for name in &self.numbers {
            let _ = writeln!(out, "{name:<50} {:>12.2}", self.median(name));
        }
        let _ = writeln!(out);
        for Goal { name, wanted, measured, reached } in goals::judge(self) {
            let verdict = if reached { "pass" } else { "MISS" };
            let _ = writeln!(out, "{verdict}  {name:<54} {measured:>10}   wanted {wanted}");
        }
        let _ = write!(out, "\nmedians of {} runs on {}", self.runs, machine());
        out
    }

    /// Writes the numbers; says where.
    pub(crate) fn write(&self, folder: &Path, keep: bool) -> Vec<PathBuf> {
        let date = said(Command::new("date").arg("+%F"));
        let goals: Vec<Value> = goals::judge(self)
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
