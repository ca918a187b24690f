//! What ran in a stretch of time, as far as a caller is shown it; pure but for the first part.

use std::collections::BTreeSet;

use axum::http::Uri;
use oscar_api::body::metrics::Source;
use oscar_api::problem::Code;
use oscar_engine::Failure;
use oscar_engine::jobs::shares;
use oscar_engine::ports::services::Entry;
use oscar_engine::ports::usage::{Amounts, UsageQuery, UsageSum};
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;

use super::super::answer::Refused;
use super::super::app::App;
use super::extract::Query;

const DAY: u64 = 24 * 3600 * 1000;
/// The most pairs of a service and a user that one answer is made of.
const MOST_SUMS: usize = 50_000;
const TOO_MUCH: &str = "too many services and users for one answer; ask for a shorter stretch of time";

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

/// What a caller is shown of what ran.
pub(super) struct Shown {
    /// For each service and user.
    pub(super) sums: Vec<UsageSum>,
    /// How many services he sees.
    pub(super) services: u64,
    pub(super) source: Source,
}

/// Every run of his own services, and his own runs of others'; the administrator sees all. What
/// ran in an earlier service of another's, which had the same name, is not his to see.
pub(super) async fn shown(
    app: &App,
    principal: &Principal,
    range: Range,
    only: Option<&ServiceName>,
) -> Result<Shown, Refused> {
    let entries = app.manager.services(principal).await?;
    let visible: Vec<_> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Good(stored) => Some((stored.service.name(), &stored.service.owner)),
            Entry::Broken { .. } => None,
        })
        .collect();
    let services = visible.len() as u64;
    let (sums, source) = match app.manager.jobs() {
        Ok(jobs) => {
            let shares = shares(principal, &visible, only);
            let query = UsageQuery { from: range.start, until: range.end, shares, limit: MOST_SUMS };
            let sums = jobs.usage(&query).await?;
            (sums.ok_or_else(|| Refused::new(Code::QueryInvalid, TOO_MUCH))?, source("ok", ""))
        }
        Err(Failure::NoJobs(_)) => (Vec::new(), source("missing", "this manager runs no jobs")),
        Err(failure) => return Err(failure.into()),
    };
    Ok(Shown { sums, services, source })
}

fn source(status: &str, notes: &str) -> Source {
    Source { name: "history".to_owned(), status: status.to_owned(), notes: notes.to_owned() }
}

/// Sums of sums.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    amounts: Amounts,
    /// Those who are known by name.
    pub(super) users: BTreeSet<String>,
}

impl Sums {
    pub(super) fn of(sums: &[UsageSum]) -> Self {
        let mut all = Self::default();
        for sum in sums {
            all.add(sum);
        }
        all
    }

    pub(super) fn add(&mut self, sum: &UsageSum) {
        self.amounts += sum.amounts;
        if !sum.user.is_empty() && !self.users.contains(&sum.user) {
            self.users.insert(sum.user.clone());
        }
    }

    pub(super) fn synchronous(&self) -> u64 {
        self.amounts.synchronous
    }

    pub(super) fn asynchronous(&self) -> u64 {
        self.amounts.asynchronous
    }

    pub(super) fn total(&self) -> u64 {
        self.synchronous() + self.asynchronous()
    }

    /// Of whole processors.
    pub(super) fn cpu_hours(&self) -> f64 {
        hours(self.amounts.core_millis) / 1000.0
    }

    pub(super) fn gpu_hours(&self) -> f64 {
        hours(self.amounts.gpu_millis)
    }
}

#[expect(clippy::cast_precision_loss, reason = "statistics need no more than 15 digits")]
fn hours(millis: u128) -> f64 {
    millis as f64 / 3_600_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_sum(user: &str, synchronous: u64, asynchronous: u64) -> UsageSum {
        let service = ServiceName::parse("s").expect("a name");
        // Two processors and a graphics card for half an hour, each time.
        let runs = u128::from(synchronous + asynchronous);
        let (core_millis, gpu_millis) = (3_600_000_000 * runs, 1_800_000 * runs);
        let amounts = Amounts { synchronous, asynchronous, core_millis, gpu_millis };
        UsageSum { service, user: user.to_owned(), amounts }
    }

    #[test]
    fn sums_count_runs_users_and_hours() {
        let sums = Sums::of(&[mk_sum("alice", 1, 1), mk_sum("", 1, 0), mk_sum("alice", 0, 0)]);
        assert_eq!((sums.asynchronous(), sums.synchronous(), sums.total(), sums.users.len()), (1, 2, 3, 1));
        assert!((sums.cpu_hours() - 3.0).abs() < 1e-9 && (sums.gpu_hours() - 1.5).abs() < 1e-9);
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
