//! A short run of every fuzz target: the kept seeds, then mutations that are the same every time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use oscar_fuzz::{Random, Target};

fn seeds(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    // The order of a folder differs between machines; the inputs must not.
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(&path).expect("a readable seed"))).collect()
}

/// Checks the seeds and then so many mutations of them.
fn run(name: &str, inputs: u64, seed: u64) {
    let target = Target::named(name);
    let seeds = seeds(target);
    for (path, data) in &seeds {
        check(target, data, &path.display().to_string());
    }
    let kept: Vec<_> = seeds.into_iter().map(|(_, data)| data).collect();
    let mut random = Random::new(seed);
    for index in 0..inputs {
        let data = (target.mutate)(&mut random, &kept);
        check(target, &data, &format!("input {index} of seed {seed}"));
    }
    oscar_testkit::count("seeds", kept.len() as u64);
    oscar_testkit::count("fuzz inputs", inputs + kept.len() as u64);
}

/// A failing input is written to a file, ready to be kept as a seed.
fn check(target: &Target, data: &[u8], which: &str) {
    if std::panic::catch_unwind(|| (target.check)(data)).is_err() {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", target.name));
        let kept = std::fs::write(&path, data).map(|()| format!("; it is in {}", path.display())).unwrap_or_default();
        panic!("{which} fails{kept}:\n{}", String::from_utf8_lossy(data));
    }
}

#[test]
fn fdl() {
    run("fdl", 6000, 1);
}

#[test]
fn quantity() {
    run("quantity", 20_000, 2);
}

#[test]
fn record() {
    run("record", 6000, 3);
}

#[test]
#[cfg(feature = "request")]
fn request() {
    run("request", 6000, 4);
}

#[test]
fn service() {
    run("service", 6000, 5);
}

/// Minutes for [`long`]; an hour when nothing is said.
const MINUTES: &str = "OSCAR_FUZZ_MINUTES";

#[test]
#[ignore = "takes an hour, with other inputs each time"]
fn long() {
    let minutes = std::env::var(MINUTES).ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let end = Instant::now() + Duration::from_mins(minutes);
    let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    std::thread::scope(|scope| {
        for target in oscar_fuzz::TARGETS {
            scope.spawn(move || {
                for seed in (first..).step_by(1000) {
                    run(target.name, 10_000, seed);
                    if Instant::now() >= end {
                        break;
                    }
                }
            });
        }
    });
}
