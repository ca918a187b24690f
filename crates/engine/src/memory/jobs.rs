use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use oscar_model::job::{Job, JobName, Millis, Phase};
use oscar_model::name::ServiceName;

use crate::ports::StoreError;
use crate::ports::jobs::{Accepted, JobPage, JobQuery, Jobs, NewJob, Once, Removal, Whose};
use crate::ports::usage::{Amounts, Share, Tally, Usage, UsageQuery, UsageSum};

#[derive(Default)]
pub struct MemoryJobs {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In the order of acceptance.
    rows: BTreeMap<u64, Row>,
    numbers: HashMap<JobName, u64>,
    once: HashMap<String, u64>,
    last: u64,
    usage: Vec<Usage>,
}

struct Row {
    job: Job,
    /// Absent once the job has ended.
    event: Option<Arc<[u8]>>,
    once: Option<Once>,
}

impl State {
    fn row(&mut self, name: &JobName) -> Option<&mut Row> {
        self.numbers.get(name).and_then(|number| self.rows.get_mut(number))
    }

    fn forget(&mut self, number: u64) -> Option<JobName> {
        let Row { job, once, .. } = self.rows.remove(&number)?;
        self.numbers.remove(&job.name);
        if let Some(once) = once {
            self.once.remove(&once.key);
        }
        Some(job.name)
    }

    /// The numbers of jobs that have ended, those that ended first in front.
    fn ended(&self) -> Vec<(Millis, u64)> {
        let ended = |(number, row): (&u64, &Row)| Some((row.job.finished_at()?, *number));
        let mut ended: Vec<_> = self.rows.iter().filter_map(ended).collect();
        ended.sort_unstable();
        ended
    }

    fn old(&self, ended_before: Millis, most_per_service: u64) -> Vec<u64> {
        let ended = self.ended();
        let mut of_service: HashMap<&ServiceName, u64> = HashMap::new();
        let mut old = Vec::new();
        for (at, number) in ended.iter().rev() {
            let kept = of_service.entry(&self.rows[number].job.service).or_default();
            *kept += 1;
            if *at < ended_before || *kept > most_per_service {
                old.push(*number);
            }
        }
        old.reverse();
        old
    }
}

impl MemoryJobs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Jobs for MemoryJobs {
    async fn accept(&self, new: NewJob) -> Result<Accepted, StoreError> {
        let mut state = self.state();
        let NewJob { job, event, once } = new;
        if let Some(once) = &once
            && let Some(row) = state.once.get(&once.key).and_then(|number| state.rows.get(number))
        {
            let digest = row.once.as_ref().map(|once| once.digest.clone()).unwrap_or_default();
            return Ok(Accepted::Known { job: Box::new(row.job.clone()), digest });
        }
        if state.numbers.contains_key(&job.name) {
            return Err(StoreError::AlreadyExists);
        }
        state.last += 1;
        let number = state.last;
        state.numbers.insert(job.name.clone(), number);
        if let Some(once) = &once {
            state.once.insert(once.key.clone(), number);
        }
        let event = (!job.phase.is_final()).then_some(event);
        state.rows.insert(number, Row { job, event, once });
        Ok(Accepted::New)
    }

    async fn save(&self, job: &Job) -> Result<(), StoreError> {
        let mut state = self.state();
        let row = state.row(&job.name).ok_or(StoreError::NotFound)?;
        if row.job.version + 1 != job.version {
            return Err(StoreError::Conflict);
        }
        row.job = job.clone();
        if job.phase.is_final() {
            row.event = None;
        }
        Ok(())
    }

    async fn get(&self, name: &JobName) -> Result<Option<Job>, StoreError> {
        Ok(self.state().row(name).map(|row| row.job.clone()))
    }

    async fn event(&self, name: &JobName) -> Result<Arc<[u8]>, StoreError> {
        self.state().row(name).and_then(|row| row.event.clone()).ok_or(StoreError::NotFound)
    }

    async fn unfinished(&self) -> Result<Vec<Job>, StoreError> {
        let state = self.state();
        let unfinished = state.rows.values().filter(|row| !row.job.phase.is_final());
        Ok(unfinished.map(|row| row.job.clone()).collect())
    }

    async fn page(&self, query: &JobQuery) -> Result<JobPage, StoreError> {
        let before = match query.page.as_deref().map(str::parse) {
            None => u64::MAX,
            Some(Ok(number)) => number,
            Some(Err(_)) => return Ok(JobPage::default()),
        };
        let state = self.state();
        let wanted = |(_, row): &(&u64, &Row)| is_of(&row.job, &query.service, &query.whose);
        let mut rows = state.rows.range(..before).rev().filter(wanted);
        let shown: Vec<_> = rows.by_ref().take(query.limit.max(1)).collect();
        let remaining = rows.count() as u64;
        let last = shown.last().map(|(number, _)| number.to_string());
        Ok(JobPage {
            jobs: shown.into_iter().map(|(_, row)| row.job.clone()).collect(),
            next: last.filter(|_| remaining > 0),
            remaining,
        })
    }

    async fn remove(&self, which: &Removal) -> Result<Vec<JobName>, StoreError> {
        let mut state = self.state();
        let numbers: Vec<u64> = match which {
            Removal::One(name) => {
                let number = state.numbers.get(name).copied();
                number.filter(|number| state.rows[number].job.phase.is_final()).into_iter().collect()
            }
            Removal::OfService { service, whose, succeeded_only } => {
                let wanted = |number: &u64| {
                    let job = &state.rows[number].job;
                    is_of(job, service, whose) && (!succeeded_only || job.phase == Phase::Succeeded)
                };
                state.ended().into_iter().map(|(_, number)| number).filter(wanted).collect()
            }
            Removal::Old { ended_before, most_per_service, limit } => {
                state.old(*ended_before, *most_per_service).into_iter().take(*limit).collect()
            }
        };
        Ok(numbers.into_iter().filter_map(|number| state.forget(number)).collect())
    }

    async fn counts(&self) -> Result<Vec<(Phase, u64)>, StoreError> {
        let state = self.state();
        let count = |phase: Phase| state.rows.values().filter(|row| row.job.phase == phase).count() as u64;
        Ok(Phase::ALL.into_iter().map(|phase| (phase, count(phase))).collect())
    }

    async fn usage(&self, query: &UsageQuery) -> Result<Option<Vec<UsageSum>>, StoreError> {
        let state = self.state();
        let mut tally = Tally::new(query.limit);
        for usage in state.usage.iter().filter(|usage| is_wanted(usage, query)) {
            let amounts = Amounts::of_run(usage.synchronous, usage.core_millis, usage.gpu_millis);
            if !tally.add(usage.service.as_str(), &usage.user, amounts) {
                break;
            }
        }
        Ok(tally.finish())
    }

    async fn note_usage(&self, usage: &Usage) -> Result<(), StoreError> {
        self.state().usage.push(usage.clone());
        Ok(())
    }
}

fn is_of(job: &Job, service: &ServiceName, whose: &Whose) -> bool {
    job.service == *service
        && whose.owner().is_none_or(|owner| job.owner == *owner)
        && whose.submitter().is_none_or(|submitter| job.submitter.as_ref() == Some(submitter))
}

fn is_wanted(usage: &Usage, query: &UsageQuery) -> bool {
    let is_in = |share: &Share| {
        usage.service == share.service
            && share.owner.as_ref().is_none_or(|owner| usage.owner == *owner)
            && share.user.as_ref().is_none_or(|user| usage.user == *user)
    };
    (query.from..query.until).contains(&usage.at) && query.shares.as_ref().is_none_or(|shares| shares.iter().any(is_in))
}
