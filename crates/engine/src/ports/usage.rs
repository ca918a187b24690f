//! What ran, kept for statistics longer than the jobs themselves.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use oscar_model::identity::Owner;
use oscar_model::job::Millis;
use oscar_model::name::ServiceName;

/// One run that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub service: ServiceName,
    /// Whose service it was: another's may have had the name before, and may have it afterwards.
    pub owner: Owner,
    /// Who asked; blank when only the service's token was shown.
    pub user: String,
    pub synchronous: bool,
    pub at: Millis,
    /// Millicores times milliseconds that were held.
    pub core_millis: u64,
    pub gpu_millis: u64,
}

/// Which runs are summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageQuery {
    /// From this time on …
    pub from: Millis,
    /// … and before this one.
    pub until: Millis,
    /// What is in at least one of these; each service stands in one at most. Absent: everything,
    /// also of services that are gone.
    pub shares: Option<Vec<Share>>,
    /// The most sums that are wanted.
    pub limit: usize,
}

/// Runs of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub service: ServiceName,
    /// Only while it was this owner's.
    pub owner: Option<Owner>,
    /// Only what this user asked for.
    pub user: Option<String>,
}

/// What one user had of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSum {
    pub service: ServiceName,
    /// Blank when only the service's token was shown.
    pub user: String,
    pub amounts: Amounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    pub synchronous: u64,
    pub asynchronous: u64,
    pub core_millis: u128,
    pub gpu_millis: u128,
}

impl Amounts {
    pub fn of_run(synchronous: bool, core_millis: u64, gpu_millis: u64) -> Self {
        Self {
            synchronous: u64::from(synchronous),
            asynchronous: u64::from(!synchronous),
            core_millis: core_millis.into(),
            gpu_millis: gpu_millis.into(),
        }
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, other: Self) {
        self.synchronous += other.synchronous;
        self.asynchronous += other.asynchronous;
        self.core_millis += other.core_millis;
        self.gpu_millis += other.gpu_millis;
    }
}

/// Adds runs up as they are read: it holds as much as there are sums, not runs.
#[derive(Debug)]
pub struct Tally {
    /// By service and user.
    sums: BTreeMap<String, BTreeMap<String, Amounts>>,
    length: usize,
    limit: usize,
}

impl Tally {
    pub fn new(limit: usize) -> Self {
        Self { sums: BTreeMap::new(), length: 0, limit }
    }

    /// Whether there was room for it; once there was none, the rest need not be read.
    pub fn add(&mut self, service: &str, user: &str, amounts: Amounts) -> bool {
        if let Some(sum) = self.sums.get_mut(service).and_then(|users| users.get_mut(user)) {
            *sum += amounts;
            return true;
        }
        self.length += 1;
        if self.length > self.limit {
            return false;
        }
        self.sums.entry(service.to_owned()).or_default().insert(user.to_owned(), amounts);
        true
    }

    /// By service and user; nothing when there are more than were wanted.
    pub fn finish(self) -> Option<Vec<UsageSum>> {
        if self.length > self.limit {
            return None;
        }
        let mut sums = Vec::with_capacity(self.length);
        for (service, users) in self.sums {
            let Some(service) = ServiceName::parse(&service) else { continue };
            sums.extend(users.into_iter().map(|(user, amounts)| UsageSum { service: service.clone(), user, amounts }));
        }
        Some(sums)
    }
}
