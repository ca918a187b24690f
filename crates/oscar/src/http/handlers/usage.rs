//! What ran in a stretch of time, as far as a caller is shown it; pure but for the first part.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Uri;
use oscar_api::body::metrics::Source;
use oscar_api::problem::Code;
use oscar_engine::Failure;
use oscar_engine::ports::jobs::Usage;
use oscar_engine::ports::services::Entry;
use oscar_model::identity::Principal;

use super::super::answer::Refused;
use super::super::app::App;
use super::extract::Query;

const DAY: u64 = 24 * 3600 * 1000;

/// A stretch of time in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Range {
    /// `start` and `end` of a query; else the last day.
    pub(super) fn of(uri: &Uri) -> Result<Self, Refused> {
        let query = Query::of(uri);
        let moment = |key: &str, default: u64, sentence: &str| match query.get(key) {
            None => Ok(default),
            // A plus sign in an address is a blank.
            Some(text) => crate::time::parse_rfc3339(&text.replacen(' ', "+", usize::from(text.len() > 19)))
                .ok_or_else(|| Refused::new(Code::QueryInvalid, sentence)),
        };
        let end = moment("end", crate::time::now() * 1000, "invalid end timestamp")?;
        let start = moment("start", end.saturating_sub(DAY), "invalid start timestamp")?;
        if start >= end {
            return Err(Refused::new(Code::QueryInvalid, "end must be after start"));
        }
        Ok(Self { start, end })
    }
}

/// Runs that a caller is shown.
pub(super) struct Shown {
    pub(super) runs: Vec<Usage>,
    /// How many services he sees.
    pub(super) services: u64,
    pub(super) source: Source,
}

/// Every run of his own services, and his own runs of others'; the administrator sees all.
pub(super) async fn shown(app: &App, principal: &Principal, range: Range) -> Result<Shown, Refused> {
    let services: BTreeMap<_, _> = app
        .manager
        .services(principal)
        .await?
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Good(stored) => Some((stored.service.name().clone(), principal.acts_for(&stored.service.owner))),
            Entry::Broken { .. } => None,
        })
        .collect();
    let (mut runs, source) = match app.manager.jobs() {
        Ok(jobs) => (jobs.usage(range.start, range.end).await?, source("ok", "")),
        Err(Failure::NoJobs(_)) => (Vec::new(), source("missing", "this manager runs no jobs")),
        Err(failure) => return Err(failure.into()),
    };
    if !principal.is_admin() {
        runs.retain(|run| services.get(&run.service).is_some_and(|owns| *owns || run.user == principal.label()));
    }
    Ok(Shown { runs, services: services.len() as u64, source })
}

fn source(status: &str, notes: &str) -> Source {
    Source { name: "history".to_owned(), status: status.to_owned(), notes: notes.to_owned() }
}

/// Sums over runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub(super) synchronous: u64,
    pub(super) asynchronous: u64,
    core_millis: u128,
    gpu_millis: u128,
    /// Those who are known by name.
    pub(super) users: BTreeSet<String>,
}

impl Sums {
    pub(super) fn of<'a>(runs: impl IntoIterator<Item = &'a Usage>) -> Self {
        let mut sums = Self::default();
        for run in runs {
            sums.add(run);
        }
        sums
    }

    pub(super) fn add(&mut self, run: &Usage) {
        let count = if run.synchronous { &mut self.synchronous } else { &mut self.asynchronous };
        *count += 1;
        self.core_millis += u128::from(run.core_millis);
        self.gpu_millis += u128::from(run.gpu_millis);
        if !run.user.is_empty() {
            self.users.insert(run.user.clone());
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.synchronous + self.asynchronous
    }

    /// Of whole processors.
    pub(super) fn cpu_hours(&self) -> f64 {
        hours(self.core_millis) / 1000.0
    }

    pub(super) fn gpu_hours(&self) -> f64 {
        hours(self.gpu_millis)
    }
}

#[expect(clippy::cast_precision_loss, reason = "statistics need no more than 15 digits")]
fn hours(millis: u128) -> f64 {
    millis as f64 / 3_600_000.0
}

#[cfg(test)]
mod tests {
    use oscar_model::name::ServiceName;

    use super::*;

    fn mk_run(user: &str, synchronous: bool, core_millis: u64) -> Usage {
        let service = ServiceName::parse("s").expect("a name");
        Usage { service, user: user.to_owned(), synchronous, at: 1, core_millis, gpu_millis: 1_800_000 }
    }

    #[test]
    fn sums_count_runs_users_and_hours() {
        // Two processors for half an hour each.
        let runs = [mk_run("alice", false, 3_600_000_000), mk_run("", true, 3_600_000_000), mk_run("alice", true, 0)];
        let sums = Sums::of(&runs);
        assert_eq!((sums.asynchronous, sums.synchronous, sums.total(), sums.users.len()), (1, 2, 3, 1));
        assert!((sums.cpu_hours() - 2.0).abs() < 1e-9 && (sums.gpu_hours() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_range_is_the_last_day_unless_it_is_said() {
        let range = |query: &str| Range::of(&format!("/system/metrics?{query}").parse().expect("an address"));
        let day = range("").expect("the last day");
        assert_eq!(day.end - day.start, DAY);
        let said = range("start=1970-01-01T00:00:01Z&end=1970-01-01T01:00:02+01:00").expect("two times");
        assert_eq!((said.start, said.end), (1000, 2000));
        for wrong in ["start=x", "end=x", "start=1970-01-01T00:00:02Z&end=1970-01-01T00:00:01Z"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
