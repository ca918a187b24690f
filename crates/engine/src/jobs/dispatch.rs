//! Giving room, and noticing what became of it.

use std::sync::Arc;

use oscar_model::capacity::{Node, Readiness};
use oscar_model::job::admission::Waiting;
use oscar_model::job::{Event, Job, JobName, Need, Phase};

use super::{Dispatcher, Held, limit_of, run_of};
use crate::failure::Failure;
use crate::ports::StoreError;
use crate::ports::jobs::Removal;
use crate::ports::runtime::{Observed, RunId, RuntimeError};

/// How many old jobs are forgotten at once.
const FORGET_AT_ONCE: usize = 500;

impl Dispatcher {
    /// Finds again what an earlier manager left: what waits, what runs, and what ended meanwhile.
    /// Returns how many jobs were found.
    pub async fn recover(&self) -> Result<usize, Failure> {
        self.measure().await?;
        let unfinished = self.jobs.unfinished().await?;
        for job in &unfinished {
            if job.phase.is_active() {
                self.hold_again(job);
            } else {
                self.line_up(job).await;
            }
        }
        let known: std::collections::HashSet<_> = unfinished.iter().map(run_of).collect();
        // What nobody waits for any more: synchronous runs, and attempts of jobs that have ended.
        for run in self.runtime.present().await.unwrap_or_default() {
            if !known.contains(&run) && self.runtime.fence(&run).await.is_ok() {
                let _ = self.runtime.forget(&run).await;
            }
        }
        self.wake.notify_one();
        Ok(unfinished.len())
    }

    /// Looks after jobs until the process ends. `complain` is told what could not be done; it is
    /// tried again.
    pub async fn run(self: &Arc<Self>, complain: impl Fn(&str)) {
        let mut ticks = tokio::time::interval(std::time::Duration::from_secs(1));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.wake.notified() => {}
                run = self.runtime.changed() => {
                    let dispatcher = self.clone();
                    tokio::spawn(async move { dispatcher.look_or_keep(&run).await });
                }
                _ = ticks.tick() => {
                    if let Err(failure) = self.tick_jobs().await {
                        complain(&failure.to_string());
                    }
                }
            }
            for waiting in self.admitted() {
                let dispatcher = self.clone();
                // What fails here is in `deferred` and told by the next tick.
                tokio::spawn(async move { dispatcher.begin(waiting).await });
            }
        }
    }

    /// What is done now and then: the capacity is read again, what could not be dealt with is
    /// tried again, and what is old is forgotten.
    pub async fn tick_jobs(self: &Arc<Self>) -> Result<(), Failure> {
        self.measure().await?;
        let (unsettled, ending, deferred) = {
            let mut memory = self.memory();
            let taken = std::mem::take(&mut memory.deferred);
            (memory.unsettled.clone(), memory.ending.clone(), taken)
        };
        if !deferred.is_empty() {
            let mut memory = self.memory();
            deferred.into_iter().for_each(|waiting| memory.queue.push(waiting));
            self.wake.notify_one();
        }
        let mut trouble = None;
        for run in unsettled {
            trouble = self.look(&run).await.err().or(trouble);
        }
        for run in ending {
            let _ = self.runtime.end(&run).await;
        }
        self.forget_old().await?;
        trouble.map_or(Ok(()), |error| Err(error.into()))
    }

    /// As [`Dispatcher::run`] does it, but one step at a time: for tests.
    pub async fn step(self: &Arc<Self>) -> Result<(), Failure> {
        for waiting in self.admitted() {
            self.begin(waiting).await?;
        }
        let runs: Vec<_> = self.memory().held.keys().cloned().collect();
        for run in runs {
            self.look(&run).await?;
        }
        Ok(())
    }

    /// Jobs that may start now; their room is held. Synchronous runs among them are told.
    fn admitted(&self) -> Vec<Waiting> {
        let mut memory = self.memory();
        let mut jobs = Vec::new();
        while let Some(waiting) = memory.queue.next() {
            match memory.admitted.remove(&waiting.job) {
                None => jobs.push(waiting),
                // If he went away meanwhile, his place gives the room back.
                Some(caller) => {
                    let Waiting { job, user, service, need, .. } = waiting;
                    memory.granted.insert(job, Held { user, service, need });
                    let _ = caller.send(());
                }
            }
        }
        jobs
    }

    async fn look_or_keep(&self, run: &RunId) {
        if self.look(run).await.is_err() {
            self.memory().unsettled.insert(run.clone());
        }
    }

    /// Looks at one attempt and does what follows.
    pub(super) async fn look(&self, run: &RunId) -> Result<(), StoreError> {
        let seen = self.runtime.observe(run).await.map_err(|error| unavailable(&error))?;
        if self.is_synchronous(&run.job) {
            self.tell_caller(run, seen);
            return Ok(());
        }
        let _turn = self.turns.take(&run.job).await;
        let job = self.jobs.get(&run.job).await?;
        match job {
            Some(job) if run_of(&job) == *run && job.phase.is_active() => self.follow(&job, seen).await?,
            _ => {
                // Stale: it has no say any more.
                self.runtime.fence(run).await.map_err(|error| unavailable(&error))?;
                self.runtime.forget(run).await.map_err(|error| unavailable(&error))?;
            }
        }
        self.memory().unsettled.remove(run);
        Ok(())
    }

    async fn follow(&self, job: &Job, seen: Observed) -> Result<(), StoreError> {
        let attempt = job.attempt;
        match seen {
            // What was decided needs no attempt any more.
            Observed::Unknown | Observed::Vanished if !job.outputs.is_empty() => self.put_in_place(job).await,
            Observed::Unknown => {
                let reason = "the manager was stopped before it began".to_owned();
                self.close_attempt(job, Event::Vanish { attempt, reason }).await
            }
            Observed::Vanished => {
                let reason = "it ended without a result: it was killed, or the machine was restarted".to_owned();
                self.close_attempt(job, Event::Vanish { attempt, reason }).await
            }
            Observed::Starting => Ok(()),
            Observed::Running => self.advance(job, Event::Running { attempt }).await.map(|_| ()),
            Observed::Ended(ended) => self.finish(job, ended).await,
        }
    }

    /// Reads again what this cluster has.
    async fn measure(&self) -> Result<(), Failure> {
        let nodes = self.cluster.nodes().await?;
        let capacity = capacity(&nodes);
        let changed = {
            let mut memory = self.memory();
            let changed = memory.queue.capacity() != capacity;
            memory.queue.set_capacity(capacity);
            changed
        };
        if changed {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// A job that was running when an earlier manager ended.
    fn hold_again(&self, job: &Job) {
        let held = Held { user: job.payer().clone(), service: job.service.clone(), need: job.need };
        let mut memory = self.memory();
        memory.queue.hold(&held.user, &held.service, held.need);
        let run = run_of(job);
        if job.cancelling {
            memory.ending.insert(run.clone());
        }
        memory.held.insert(run.clone(), held);
        memory.unsettled.insert(run);
    }

    /// Puts a job in its line.
    pub(super) async fn line_up(&self, job: &Job) {
        let limit = match self.services.get(&job.service).await {
            Ok(Some(stored)) => limit_of(&stored.service.definition),
            _ => oscar_model::job::admission::ServiceLimit::default(),
        };
        let waiting = Waiting {
            job: job.name.clone(),
            user: job.payer().clone(),
            service: job.service.clone(),
            need: job.need,
            since: job.accepted_at(),
            limit,
        };
        self.memory().queue.push(waiting);
        self.wake.notify_one();
    }

    /// Gives back what an attempt held, and lines its job up again when it is to be repeated.
    pub(super) async fn after_attempt(&self, job: &Job, run: &RunId) {
        {
            let mut memory = self.memory();
            memory.ending.remove(run);
            if let Some(held) = memory.held.remove(run) {
                memory.queue.release(&held.user, &held.service, held.need);
            }
        }
        self.wake.notify_one();
        // What is left of it is in nobody's way, and is swept at the next start at the latest.
        let _ = self.buckets.discard(crate::ports::buckets::STAGING_BUCKET, &super::attempt::staging_prefix(run)).await;
        let _ = self.runtime.forget(run).await;
        if job.phase == Phase::Queued {
            self.line_up(job).await;
        }
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
        for job in &gone {
            let _ = self.runtime.remove_logs(job).await;
        }
        Ok(gone.len())
    }
}

fn unavailable(error: &RuntimeError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// What the ready nodes have together; in the one-machine world there is one.
fn capacity(nodes: &[Node]) -> Need {
    let ready = nodes.iter().filter(|node| node.readiness == Readiness::Ready);
    ready.fold(Need::default(), |sum, node| {
        sum.plus(Need { cores: node.capacity_cores, bytes: node.capacity_bytes, gpus: node.gpus })
    })
}
