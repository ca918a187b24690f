//! Whole stories of federations, each told by a seed. `OSCAR_SEED=<n>` tells one of them aloud;
//! `OSCAR_SEEDS=<n>` and `OSCAR_FROM=<n>` choose how many, and from which on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use oscar_engine::testing::world::{Figures, simulate, tell};
use oscar_engine::testing::{Bug, with_bug};

/// How many stories the suite tells.
const QUICK: u64 = 2_000;

/// Seeds of stories that once ended badly.
const FOUND: &str = include_str!("seeds.txt");

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// Tells the stories of these seeds on two threads; stops at the first few that end badly.
fn tell_all(seeds: &[u64]) -> (Figures, Vec<u64>) {
    let next = AtomicU64::new(0);
    let progress = seeds.len() > 20_000;
    let work = || {
        let (mut figures, mut bad) = (Figures::default(), Vec::new());
        loop {
            let at = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).expect("fits");
            let Some(seed) = seeds.get(at) else { return (figures, bad) };
            let report = simulate(*seed);
            figures.add(&report.figures);
            if !report.violations.is_empty() {
                bad.push(*seed);
            }
            if progress && at > 0 && at % 10_000 == 0 {
                println!("{at} stories");
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let (mut figures, mut bad) = work();
        let (more, worse) = other.join().expect("no panic reaches the thread");
        figures.add(&more);
        bad.extend(worse);
        bad.sort_unstable();
        (figures, bad)
    })
}

#[test]
fn every_story_ends_well() {
    if let Some(seed) = number("OSCAR_SEED") {
        println!("{}", tell(seed));
        assert_eq!(simulate(seed).violations, []);
        return;
    }
    let from = number("OSCAR_FROM").unwrap_or(0);
    let seeds: Vec<u64> = (from..from + number("OSCAR_SEEDS").unwrap_or(QUICK)).collect();
    let started = Instant::now();
    let (figures, bad) = tell_all(&seeds);
    println!(
        "{} stories in {:.1} s: {figures}; {} violations",
        seeds.len(),
        started.elapsed().as_secs_f64(),
        bad.len()
    );
    oscar_testkit::count("stories", seeds.len() as u64);
    oscar_testkit::count("faults in stories", figures.faults());
    if let Some(first) = bad.first() {
        panic!("{}\n{} stories end badly: {bad:?}", tell(*first), bad.len());
    }
}

#[test]
fn what_was_found_once_stays_mended() {
    let lines = FOUND.lines().filter(|line| !line.starts_with('#'));
    let seeds: Vec<u64> = lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    let (_, bad) = tell_all(&seeds);
    assert_eq!(bad, Vec::<u64>::new(), "tell them with OSCAR_SEED");
}

/// The first story that shows that a bug is there.
fn found_by(bug: Bug) -> Option<u64> {
    with_bug(bug, || (0..QUICK).find(|seed| !simulate(*seed).violations.is_empty()))
}

#[test]
fn every_planted_bug_is_found() {
    let (left, right) = Bug::ALL.split_at(Bug::ALL.len() / 2);
    let seek = |bugs: &[Bug]| -> Vec<_> { bugs.iter().map(|bug| (*bug, found_by(*bug))).collect() };
    let found = std::thread::scope(|scope| {
        let other = scope.spawn(|| seek(right));
        let mut found = seek(left);
        found.extend(other.join().expect("no panic reaches the thread"));
        found
    });
    for (bug, seed) in &found {
        println!("{bug:?}: {}", seed.map_or("not found".to_owned(), |seed| format!("found by seed {seed}")));
    }
    let missed: Vec<Bug> = found.iter().filter(|(_, seed)| seed.is_none()).map(|(bug, _)| *bug).collect();
    assert_eq!(missed, []);
    oscar_testkit::count("planted bugs found", found.len() as u64);
}

#[test]
fn one_seed_tells_one_story() {
    for seed in 0..20 {
        assert_eq!(tell(seed), tell(seed));
    }
}
