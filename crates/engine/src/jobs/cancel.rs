//! Ending and forgetting jobs on request.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use oscar_model::identity::{Owner, Principal};
use oscar_model::job::{Event, Job, JobName};
use oscar_model::name::ServiceName;

use super::{Dispatcher, run_of};
use crate::failure::Failure;
use crate::ports::jobs::{JobQuery, Removal, Whose};

/// How many jobs are ended at the same time.
const END_AT_ONCE: usize = 64;

impl Dispatcher {
    /// Ends a job. One that waits ends now; one that runs as soon as its processes have.
    pub async fn cancel(&self, principal: &Principal, service: &ServiceName, name: &JobName) -> Result<Job, Failure> {
        let job = self.job(principal, service, name).await?;
        if !may_end(principal, &job) {
            return Err(Failure::NotOwner(service.clone()));
        }
        self.end_job(name, principal.label()).await
    }

    async fn end_job(&self, name: &JobName, by: &str) -> Result<Job, Failure> {
        // What is being put in its place may take as long as the store likes.
        if let Some(unwanted) = self.memory().placing.get(name) {
            unwanted.notify_one();
        }
        let _turn = self.turns.take(name).await;
        let job = self.jobs.get(name).await?.ok_or_else(|| Failure::NoJob(name.clone()))?;
        if job.phase.is_active() {
            // Before it is stored: a caller who goes away meanwhile must not leave it untold.
            self.memory().ending.insert(run_of(&job));
        }
        let next = match self.advance(&job, Event::Cancel { by: by.to_owned() }).await? {
            Some(next) => next,
            None if job.cancelling && !job.phase.is_final() => job,
            None => return Err(Failure::JobOver(name.clone())),
        };
        if next.phase.is_final() {
            let mut memory = self.memory();
            memory.queue.remove(next.payer(), &next.service, next.accepted_at(), name);
            memory.resting.retain(|(_, waiting)| waiting.job != *name);
        } else {
            // Told again at every tick, until it has ended.
            let _ = self.runtime.end(&run_of(&next)).await;
        }
        Ok(next)
    }

    /// Forgets one job that has ended, or ends and then forgets it.
    pub async fn remove(&self, principal: &Principal, service: &ServiceName, name: &JobName) -> Result<(), Failure> {
        let job = self.job(principal, service, name).await?;
        if !may_end(principal, &job) {
            return Err(Failure::NotOwner(service.clone()));
        }
        if !job.phase.is_final() && !self.end_and_forget(name, principal.label()).await? {
            return Ok(());
        }
        self.forget(&Removal::One(name.clone())).await.map(|_| ())
    }

    /// Forgets jobs of a service that have ended: all, or those that succeeded. With `all`, what
    /// has not ended is ended. A guest of the service reaches only his own; the owner, none of an
    /// earlier service of that name, which he is not shown either.
    pub async fn remove_all(&self, principal: &Principal, service: &ServiceName, all: bool) -> Result<(), Failure> {
        let owner = self.visible(principal, service).await?;
        let whose = if principal.is_admin() { Whose::Everybody } else { Self::whose(principal, owner) };
        if all {
            self.end_each(service, |job| may_end(principal, job), principal.label()).await?;
        }
        let removal = Removal::OfService { service: service.clone(), whose, succeeded_only: !all };
        self.forget(&removal).await.map(|_| ())
    }

    /// Ends a job that is forgotten once it has ended. Whether that is the case already.
    async fn end_and_forget(&self, name: &JobName, by: &str) -> Result<bool, Failure> {
        {
            let _turn = self.turns.take(name).await;
            let Some(job) = self.jobs.get(name).await? else { return Ok(true) };
            self.advance(&job, Event::Forget).await?;
        }
        match self.end_job(name, by).await {
            Ok(job) => Ok(job.phase.is_final()),
            Err(Failure::NoJob(_)) => Ok(true),
            // It has ended meanwhile.
            Err(Failure::JobOver(_)) => Ok(self.jobs.get(name).await?.is_none_or(|job| job.phase.is_final())),
            Err(failure) => Err(failure),
        }
    }

    /// The service is gone: its jobs end, and are forgotten once they have.
    pub(crate) async fn service_removed(&self, service: &ServiceName) -> Result<(), Failure> {
        self.end_each(service, |_| true, "the removal of its service").await?;
        let removal = Removal::OfService { service: service.clone(), whose: Whose::Everybody, succeeded_only: false };
        self.forget(&removal).await.map(|_| ())
    }

    /// Ends what has not ended yet, page by page and many at once: a hundred thousand may wait, and
    /// writes that come together are stored together.
    async fn end_each(&self, service: &ServiceName, concerns: impl Fn(&Job) -> bool, by: &str) -> Result<(), Failure> {
        let mut query = JobQuery { service: service.clone(), whose: Whose::Everybody, page: None, limit: 500 };
        loop {
            let page = self.jobs.page(&query).await?;
            let concerned = page.jobs.iter().filter(|job| !job.phase.is_final() && concerns(job));
            let names: Vec<JobName> = concerned.map(|job| job.name.clone()).collect();
            let ends = stream::iter(names).map(|name| async move { self.end_and_forget(&name, by).await });
            ends.buffer_unordered(END_AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
            match page.next {
                Some(next) => query.page = Some(next),
                None => return Ok(()),
            }
        }
    }
}

/// The owner of the service, whoever asked for the job, and the administrator.
fn may_end(principal: &Principal, job: &Job) -> bool {
    let is = |owner: &Owner| principal.acts_for(owner);
    is(&job.owner) || job.submitter.as_ref().is_some_and(is)
}
