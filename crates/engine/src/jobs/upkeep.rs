//! What is done now and then: what could not be dealt with is tried again, and what nobody needs
//! any more is removed.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use oscar_model::job::JobName;

use super::{Dispatcher, run_of, terms_of};
use crate::failure::Failure;
use crate::ports::StoreError;
use crate::ports::jobs::Removal;
use crate::ports::runtime::RunId;

/// How many attempts, logs and keys are dealt with at the same time.
pub(super) const AT_ONCE: usize = 32;

/// How many old jobs are forgotten at once.
const FORGET_AT_ONCE: usize = 500;

impl Dispatcher {
    /// Everything that is done now and then, to its end.
    pub async fn tick_jobs(self: &Arc<Self>) -> Result<(), Failure> {
        let mut trouble = self.prepare_room().await.err();
        trouble = self.list_left().await.err().or(trouble);
        let runs = std::mem::take(&mut self.memory().unsettled);
        let looks = runs.into_iter().map(|run| async move { self.look_or_keep(&run).await });
        trouble = first_error(looks).await.map(Failure::from).or(trouble);
        trouble = self.do_chores().await.err().or(trouble);
        trouble = self.check_ready().await.err().or(trouble);
        trouble.map_or(Ok(()), Err)
    }

    /// The same for whoever gives room, and must not wait for a store that does not answer: what
    /// may take long goes on beside him. Errors of that are told by the next.
    pub(super) async fn tick_beside(self: &Arc<Self>) -> Result<(), Failure> {
        let prepared = self.prepare_room().await.err();
        let trouble = self.memory().trouble.take().or(prepared);
        // Out of the set while they are looked at: none is looked at twice at the same time.
        for run in std::mem::take(&mut self.memory().unsettled) {
            let dispatcher = self.clone();
            tokio::spawn(async move {
                let _permit = dispatcher.looks.acquire().await;
                if let Err(error) = dispatcher.look_or_keep(&run).await {
                    dispatcher.memory().trouble = Some(error.into());
                }
            });
        }
        if let Ok(turn) = self.chores.clone().try_lock_owned() {
            let dispatcher = self.clone();
            tokio::spawn(async move {
                let listed = dispatcher.list_left().await.err();
                if let Some(failure) = dispatcher.do_chores().await.err().or(listed) {
                    dispatcher.memory().trouble = Some(failure);
                }
                drop(turn);
            });
        }
        let ready = self.check_ready().await.err();
        ready.or(trouble).map_or(Ok(()), Err)
    }

    /// Reads again what there is, and lets those stand in line again that could not be looked at.
    async fn prepare_room(&self) -> Result<(), Failure> {
        let measured = self.measure().await;
        self.reread_terms().await;
        let mut memory = self.memory();
        let deferred = std::mem::take(&mut memory.deferred);
        if !deferred.is_empty() {
            self.wake.notify_one();
        }
        for waiting in deferred {
            memory.queue.push(waiting);
        }
        measured
    }

    /// Services may be changed while their jobs wait. What they are comes from memory, and there
    /// are fewer of them than jobs.
    async fn reread_terms(&self) {
        let services: Vec<_> = self.memory().queue.services().cloned().collect();
        for service in services {
            // What cannot be read now is read when there is room for it.
            if let Ok(Some(stored)) = self.services.get(&service).await
                && self.memory().queue.set_terms(&service, terms_of(&stored.service.definition))
            {
                self.wake.notify_one();
            }
        }
    }

    /// Whatever else is wrong, this is what the operator can change.
    async fn check_ready(&self) -> Result<(), Failure> {
        let someone_waits = !self.memory().queue.is_empty();
        if someone_waits {
            self.runtime.ready().await.map_err(|why| Failure::Runtime(why.to_string()))?;
        }
        Ok(())
    }

    /// Finds what an earlier manager left that nobody waits for any more: synchronous runs, and
    /// attempts that have ended or were given up. It is looked at like anything else.
    pub(super) async fn list_left(&self) -> Result<(), Failure> {
        if self.memory().is_listed {
            return Ok(());
        }
        let present = self.runtime.present().await.map_err(|error| Failure::Runtime(error.to_string()))?;
        let mut memory = self.memory();
        let left: Vec<_> = present.into_iter().filter(|run| !memory.held.contains_key(run)).collect();
        memory.unsettled.extend(left);
        memory.is_listed = true;
        Ok(())
    }

    async fn do_chores(&self) -> Result<(), Failure> {
        let ending = self.memory().ending.clone();
        let ends = ending.into_iter().map(|run| async move { self.end_again(&run).await });
        let mut trouble = first_error(ends).await.map(Failure::from);
        trouble = self.forget_old().await.err().or(trouble);
        trouble = self.find_stray_logs().await.err().or(trouble);
        let logs = std::mem::take(&mut self.memory().logs_left);
        self.remove_logs(logs.into_iter().collect()).await;
        let keys = std::mem::take(&mut self.memory().keys_left);
        let revoked = keys.into_iter().map(|key| async move {
            let revoked = self.revoke(&key).await;
            if revoked.is_err() {
                self.memory().keys_left.insert(key);
            }
            revoked
        });
        trouble = first_error(revoked).await.map(Failure::from).or(trouble);
        trouble.map_or(Ok(()), Err)
    }

    /// Tells an attempt to end, if its job is to be ended.
    async fn end_again(&self, run: &RunId) -> Result<(), StoreError> {
        let _turn = self.turns.take(&run.job).await;
        let job = self.jobs.get(&run.job).await?;
        if job.is_some_and(|job| run_of(&job) == *run && job.phase.is_active() && job.cancelling) {
            let _ = self.runtime.end(run).await;
        } else {
            self.memory().ending.remove(run);
        }
        Ok(())
    }

    async fn forget_old(&self) -> Result<(), Failure> {
        let now = self.now();
        let keep = u64::try_from(self.policy.keep_for.as_millis()).unwrap_or(u64::MAX);
        let removal = Removal::Old {
            ended_before: now.saturating_sub(keep),
            most_per_service: self.policy.keep_most,
            limit: FORGET_AT_ONCE,
        };
        self.forget(&removal).await.map(|_| ())
    }

    /// Forgets jobs with their logs; how many.
    pub(super) async fn forget(&self, removal: &Removal) -> Result<usize, Failure> {
        let gone: Vec<JobName> = self.jobs.remove(removal).await?;
        let count = gone.len();
        self.remove_logs(gone).await;
        Ok(count)
    }

    /// Of jobs that are gone. What cannot be removed now is tried again.
    pub(super) async fn remove_logs(&self, jobs: Vec<JobName>) {
        let removals = jobs.into_iter().map(|job| async move {
            if self.runtime.remove_logs(&job).await.is_err() {
                self.memory().logs_left.insert(job);
            }
        });
        stream::iter(removals).buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    /// Logs of which an earlier manager forgot the job, or whose caller it left.
    async fn find_stray_logs(&self) -> Result<(), Failure> {
        if self.memory().is_swept {
            return Ok(());
        }
        let logged = self.runtime.logged().await.map_err(|error| Failure::Runtime(error.to_string()))?;
        let looks = logged.into_iter().map(|job| async move {
            match self.jobs.get(&job).await {
                Ok(None) if !self.is_synchronous(&job) => {
                    self.memory().logs_left.insert(job);
                    Ok(())
                }
                // One that cannot be read is there.
                Ok(_) | Err(StoreError::Broken(_)) => Ok(()),
                Err(error) => Err(error),
            }
        });
        match first_error(looks).await {
            None => self.memory().is_swept = true,
            Some(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Does everything, many at once; the first error that came.
async fn first_error<F, E>(work: impl Iterator<Item = F>) -> Option<E>
where
    F: Future<Output = Result<(), E>>,
{
    let keep = |first: Option<E>, done: Result<(), E>| async move { first.or(done.err()) };
    stream::iter(work).buffer_unordered(AT_ONCE).fold(None, keep).await
}
