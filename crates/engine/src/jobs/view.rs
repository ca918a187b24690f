//! What callers are shown of jobs.

use oscar_model::access::{Action, decide};
use oscar_model::identity::{Owner, Principal};
use oscar_model::job::{Job, JobName};
use oscar_model::name::ServiceName;

use super::Dispatcher;
use crate::failure::Failure;
use crate::ports::jobs::{JobPage, JobQuery, Whose};
use crate::ports::runtime::{LogPart, LogQuery, RunId, RuntimeError};
use crate::ports::usage::{UsageQuery, UsageSum};

/// One page of a service's jobs.
pub type JobList = JobPage;

/// A part of what a job said.
pub type Told = LogPart;

impl Dispatcher {
    /// Jobs of a service, the newest first: all for its owner and the administrator, their own
    /// for everybody else who may use it. None of an earlier service of that name.
    pub async fn list(
        &self,
        principal: &Principal,
        service: &ServiceName,
        page: Option<String>,
        limit: usize,
    ) -> Result<JobList, Failure> {
        let owner = self.visible(principal, service).await?;
        let whose = Self::whose(principal, owner);
        let query = JobQuery { service: service.clone(), whose, page, limit };
        Ok(self.jobs.page(&query).await?)
    }

    /// One job, for its service's owner and whoever asked for it. To others it is not there.
    pub async fn job(&self, principal: &Principal, service: &ServiceName, name: &JobName) -> Result<Job, Failure> {
        let owner = self.visible(principal, service).await?;
        // A job of an earlier service of that name is not the present owner's to see.
        let job = self.jobs.get(name).await?.filter(|job| job.service == *service && job.owner == owner);
        let own = Self::only_own(principal, &owner);
        let job = job.filter(|job| own.is_none() || own == job.submitter);
        job.ok_or_else(|| Failure::NoJob(name.clone()))
    }

    /// What the job said: its last attempt, or the one before.
    pub async fn log(
        &self,
        principal: &Principal,
        service: &ServiceName,
        name: &JobName,
        query: &LogQuery,
        previous: bool,
    ) -> Result<Told, Failure> {
        let job = self.job(principal, service, name).await?;
        let attempt = job.attempt.saturating_sub(u32::from(previous));
        if attempt == 0 {
            return Err(Failure::NoLog(name.clone()));
        }
        let run = RunId { job: name.clone(), attempt };
        match self.runtime.log(&run, query).await {
            Ok(mut part) => {
                part.is_last &= previous || job.phase.is_final();
                Ok(part)
            }
            Err(RuntimeError::NotFound) => Err(Failure::NoLog(name.clone())),
            Err(error) => Err(Failure::Runtime(error.to_string())),
        }
    }

    /// Sums over runs; nothing when there are more than the query wants.
    pub async fn usage(&self, query: &UsageQuery) -> Result<Option<Vec<UsageSum>>, Failure> {
        Ok(self.jobs.usage(query).await?)
    }

    /// Jobs in each phase, and how many attempts and runs hold room.
    pub async fn counts(&self) -> Result<(Vec<(oscar_model::job::Phase, u64)>, usize), Failure> {
        let held = self.memory().held.values().filter(|held| !held.is_given_back).count();
        Ok((self.jobs.counts().await?, held))
    }

    /// What is promised to runs now.
    pub fn held(&self) -> oscar_model::job::Need {
        self.memory().queue.held()
    }

    /// The owner of the service, if the caller may see it.
    pub(super) async fn visible(&self, principal: &Principal, service: &ServiceName) -> Result<Owner, Failure> {
        let stored = self.services.get(service).await.map_err(|error| Failure::of_service(error, service))?;
        let stored = stored.ok_or_else(|| Failure::NotFound(service.clone()))?;
        if decide(principal, Action::See, &stored.service) {
            Ok(stored.service.owner.clone())
        } else {
            Err(Failure::NotVisible(service.clone()))
        }
    }

    /// Which jobs of the service that is this owner's now a caller reaches.
    pub(super) fn whose(principal: &Principal, owner: Owner) -> Whose {
        match Self::only_own(principal, &owner) {
            Some(submitter) => Whose::Submitter { owner, submitter },
            None => Whose::Owner(owner),
        }
    }

    /// Whose jobs a caller is limited to; nobody's when he may see all.
    fn only_own(principal: &Principal, owner: &Owner) -> Option<Owner> {
        match principal {
            Principal::User(user) if !principal.acts_for(owner) => Some(Owner::User(user.subject.clone())),
            Principal::Admin | Principal::User(_) | Principal::ServiceToken(_) => None,
        }
    }
}
