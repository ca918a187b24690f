//! What the numbers should be.

use crate::report::Report;

pub(crate) struct Goal {
    pub(crate) name: &'static str,
    pub(crate) wanted: &'static str,
    pub(crate) measured: String,
    pub(crate) reached: bool,
}

/// At least, or at most, so much of a unit.
enum Bound {
    Least(f64),
    Most(f64),
}

/// The goals of what was measured; a part that was left out has none.
pub(crate) fn judge(report: &Report) -> Vec<Goal> {
    let value = |name: &str| report.median(name);
    let rate = |name: &str| report.median(&format!("{name}: requests per second"));
    let mut goals = Vec::new();
    let mut goal = |name, measured: f64, unit: &str, bound: Bound, wanted| {
        if measured.is_finite() {
            let reached = match bound {
                Bound::Least(least) => measured >= least,
                Bound::Most(most) => measured <= most,
            };
            let digits = usize::from(measured < 1000.0) * 2;
            goals.push(Goal { name, wanted, measured: format!("{measured:.digits$}{unit}"), reached });
        }
    };
    goal("get beside a bare axum server", rate("get") / rate("hello"), " x", Bound::Least(0.5), ">= 0.5 x");
    goal("durable creates", rate("create"), "/s", Bound::Least(2000.0), ">= 2000/s");
    goal("list of 1000 services", value("list 1000 ms"), " ms", Bound::Most(20.0), "<= 20 ms");
    let growth = value("list 10000 µs per service") / value("list 1000 µs per service");
    goal("list cost is linear (10000 beside 1000, per service)", growth, " x", Bound::Most(1.5), "<= 1.5 x");
    goal("start to first answer", value("start ms"), " ms", Bound::Most(150.0), "< 150 ms");
    goal("idle memory", value("idle MiB"), " MiB", Bound::Most(32.0), "<= 32 MiB");
    let many = value("federate 32 ms") / value("federate 1 ms");
    goal("create over 32 members 20 ms away, beside over 1", many, " x", Bound::Most(1.5), "<= 1.5 x");
    let silent = value("federate with a silent member s") / value("silent member s");
    goal("a silent member, beside its time-out", silent, " x", Bound::Most(1.2), "<= 1.2 x");
    goal("expand and plan 1000 members", value("plan 1000 ms"), " ms", Bound::Most(10.0), "<= 10 ms");
    let beside = |what: &str| rate(&format!("store: {what}")) / rate(&format!("MinIO: {what}"));
    goal("small PUT beside MinIO", beside("PUT 1 KiB"), " x", Bound::Least(1.0), ">= 1 x");
    goal("small GET beside MinIO", beside("GET 1 KiB"), " x", Bound::Least(1.0), ">= 1 x");
    goal("durable accepts of jobs", rate("accept a job"), "/s", Bound::Least(1000.0), ">= 1000/s");
    let accept = |waiting: u32| value(&format!("accept with {waiting} waiting, µs each"));
    goal("accept with 100000 waiting, beside 100", accept(100_000) / accept(100), " x", Bound::Most(1.5), "<= 1.5 x");
    let run = |waiting: u32| value(&format!("one at a time with {waiting} waiting, ms each"));
    goal("one job with 100000 waiting, beside 100", run(100_000) / run(100), " x", Bound::Most(1.5), "<= 1.5 x");
    let memory = value("memory with 100000 waiting, MiB");
    goal("memory with 100000 jobs waiting", memory, " MiB", Bound::Most(96.0), "<= 96 MiB");
    let overhead = value("oscar-supervisor, ms around the script") / value("faas-supervisor, ms around the script");
    goal("supervisor beside faas-supervisor", overhead, " x", Bound::Most(0.05), "<= 0.05 x");
    goals
}
