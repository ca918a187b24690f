//! What the manager costs: throughput beside a bare server, memory, start-up.
//!
//! `cargo run --release -p oscar-bench` builds the release binary, measures it with load from
//! this process, prints a table and keeps the numbers in `bench/results/latest.json`. Numbers
//! of two machines, or of a busy one, say nothing of each other; ratios of one run do.

mod federation;
mod goals;
mod hello;
mod jobs;
mod kubernetes;
mod load;
mod local;
mod objects;
mod report;
mod server;
mod supervisor;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const USAGE: &str = "\
oscar-bench [--runs N] [--seconds N] [--keep] [--only PART]...

  --runs N      measure everything N times and take medians (3)
  --seconds N   load each kind of request for that long (4)
  --keep        also write bench/results/<date>.json
  --only PART   measure that part alone: services, federation, kubernetes, objects, jobs, supervisor";

const PARTS: [&str; 6] = ["services", "federation", "kubernetes", "objects", "jobs", "supervisor"];

pub(crate) struct Options {
    runs: usize,
    duration: Duration,
    keep: bool,
    parts: Vec<&'static str>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == hello::COMMAND) {
        hello::serve();
        return ExitCode::SUCCESS;
    }
    let Some(options) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let binary = build();
    // An error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let mut report = report::Report::new(options.runs);
    let wants = |part: &str| options.parts.contains(&part);
    let cluster = wants("kubernetes").then(kubernetes::cluster);
    let mut missing = BTreeMap::new();
    for run in 1..=options.runs {
        eprintln!("run {run} of {}", options.runs);
        if wants("services") {
            runtime.block_on(local::measure(&binary, &options, &mut report));
        }
        if wants("federation") {
            runtime.block_on(federation::measure(&binary, &mut report));
        }
        match &cluster {
            Some(Ok(cluster)) => runtime.block_on(kubernetes::measure(&binary, cluster, run, &options, &mut report)),
            Some(Err(why)) => drop(missing.insert("Kubernetes", why.clone())),
            None => {}
        }
        if wants("objects")
            && let Err(why) = runtime.block_on(objects::measure(&binary, &options, &mut report))
        {
            missing.insert("MinIO", why);
        }
        if wants("jobs") {
            runtime.block_on(jobs::measure(&binary, &options, &mut report));
        }
        if wants("supervisor")
            && let Err(why) = runtime.block_on(supervisor::measure(&binary, &mut report))
        {
            missing.insert("the supervisor", why);
        }
    }
    println!("{}", report.table());
    for (what, why) in missing {
        println!("{what} was not measured: {why}");
    }
    for path in report.write(&results(), options.keep) {
        println!("kept in {}", path.display());
    }
    ExitCode::SUCCESS
}

fn parse(arguments: &[String]) -> Option<Options> {
    let mut options = Options { runs: 3, duration: Duration::from_secs(4), keep: false, parts: Vec::new() };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--runs" => options.runs = words.next()?.parse().ok().filter(|runs| *runs > 0)?,
            "--seconds" => options.duration = Duration::from_secs(words.next()?.parse().ok().filter(|s| *s > 0)?),
            "--keep" => options.keep = true,
            "--only" => {
                let part = words.next()?;
                options.parts.push(PARTS.iter().find(|known| *known == part)?);
            }
            _ => return None,
        }
    }
    if options.parts.is_empty() {
        options.parts = PARTS.to_vec();
    }
    Some(options)
}

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// The release binaries, built now; it lies beside this program when that is a release build too.
fn build() -> PathBuf {
    eprintln!("building the release binary (minutes when nothing is built yet)");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--quiet",
            "--package",
            "oscar",
            "--bin",
            "oscar",
            "--package",
            "oscar-supervisor",
            "--bin",
            "oscar-supervisor",
        ])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the release binary was not built");
    let here = std::env::current_exe().expect("this program has a path");
    here.with_file_name("../release/oscar").canonicalize().expect("cargo put it there")
}
