//! Whole stories of federations, each from a seed.

use oscar_engine::testing::world::{simulate, tell};

#[test]
fn explore() {
    if let Ok(seed) = std::env::var("OSCAR_SEED") {
        println!("{}", tell(seed.parse().expect("a number")));
        return;
    }
    let from: u64 = std::env::var("FROM").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let n: u64 = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(300);
    let started = std::time::Instant::now();
    let mut by = std::collections::BTreeMap::<String, Vec<u64>>::new();
    let mut figures = oscar_engine::testing::world::Figures::default();
    for seed in from..from + n {
        let report = simulate(seed);
        figures.add(&report.figures);
        for v in report.violations {
            let e = by.entry(v.promise).or_default();
            if e.last() != Some(&seed) {
                e.push(seed);
            }
        }
    }
    println!("{} seeds in {:?}; {figures}", n, started.elapsed());
    for (promise, seeds) in by {
        println!("{}: {} seeds, e.g. {:?}", promise, seeds.len(), &seeds[..seeds.len().min(8)]);
    }
}
