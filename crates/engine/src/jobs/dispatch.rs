//! Giving room, and noticing what became of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use oscar_model::capacity::{Node, Readiness};
use oscar_model::job::admission::{Admitted, ServiceLimit, Terms, Waiting};
use oscar_model::job::{Event, Job, Need, Phase};

use super::attempt::staging_prefix;
use super::{Dispatcher, Held, run_of, terms_of};
use crate::failure::Failure;
use crate::ports::StoreError;
use crate::ports::buckets::STAGING_BUCKET;
use crate::ports::jobs::Removal;
use crate::ports::runtime::{Observed, RunId, RuntimeError};

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
        // Ending what nobody waits for takes time, which nobody should have to wait for.
        if let Err(failure) = self.list_left().await {
            self.memory().trouble = Some(failure);
        }
        self.end_orphans(&unfinished).await?;
        self.wake.notify_one();
        Ok(unfinished.len())
    }

    /// Jobs of services that were removed while an earlier manager could not end them.
    async fn end_orphans(&self, unfinished: &[Job]) -> Result<(), Failure> {
        let services: BTreeSet<_> = unfinished.iter().map(|job| &job.service).collect();
        for service in services {
            if matches!(self.services.get(service).await, Ok(None)) {
                self.service_removed(service).await?;
            }
        }
        Ok(())
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
                    if let Err(failure) = self.tick_beside().await {
                        complain(&failure.to_string());
                    }
                }
            }
            for admitted in self.admitted() {
                let dispatcher = self.clone();
                // What fails here is in `deferred` and told by the next tick.
                tokio::spawn(async move { dispatcher.begin(admitted).await });
            }
        }
    }

    /// As [`Dispatcher::run`] does it, but one step at a time: for tests.
    pub async fn step(self: &Arc<Self>) -> Result<(), Failure> {
        let mut trouble = None;
        for admitted in self.admitted() {
            trouble = self.begin(admitted).await.err().or(trouble);
        }
        let runs: BTreeSet<_> = self.memory().held.keys().cloned().collect();
        for run in runs {
            if let Err(error) = self.look(&run).await {
                self.memory().unsettled.insert(run);
                trouble = Some(error);
            }
        }
        trouble.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Jobs that may start now; their room is held. Synchronous runs among them are told.
    fn admitted(&self) -> Vec<Admitted> {
        let (now, mut memory) = (self.now(), self.memory());
        let rested = memory.resting.extract_if(.., |(from, _)| *from <= now).map(|(_, waiting)| waiting);
        for waiting in rested.collect::<Vec<_>>() {
            memory.queue.push(waiting);
        }
        let mut jobs = Vec::new();
        while let Some(admitted) = memory.queue.admit() {
            match memory.admitted.remove(&admitted.waiting.job) {
                None => jobs.push(admitted),
                // If he went away meanwhile, his place gives the room back.
                Some(caller) => {
                    let Admitted { waiting: Waiting { job, user, service, .. }, need } = admitted;
                    memory.granted.insert(job, Held { user, service, need, is_given_back: false });
                    let _ = caller.admitted.send(());
                }
            }
        }
        jobs
    }

    pub(super) async fn look_or_keep(&self, run: &RunId) -> Result<(), StoreError> {
        let looked = self.look(run).await;
        if looked.is_err() {
            self.memory().unsettled.insert(run.clone());
        }
        looked
    }

    /// Looks at one attempt and does what follows.
    pub(super) async fn look(&self, run: &RunId) -> Result<(), StoreError> {
        if self.is_synchronous(&run.job) {
            let seen = self.runtime.observe(run).await.map_err(|error| unavailable(&error))?;
            self.tell_caller(run, seen);
            self.memory().unsettled.remove(run);
            return Ok(());
        }
        // What is seen before the turn may be from before the attempt began.
        let _turn = self.turns.take(&run.job).await;
        self.memory().unsettled.remove(run);
        let job = self.jobs.get(&run.job).await;
        let looked = match job {
            Ok(Some(job)) if run_of(&job) == *run && job.phase.is_active() => match self.runtime.observe(run).await {
                Ok(seen) => self.follow(&job, seen).await,
                Err(error) => Err(unavailable(&error)),
            },
            // Stale: it has no say any more. What it held is given back if that was not done yet,
            // as after an end that was stored although the store did not say so.
            Ok(job) => match self.fence(run).await {
                Ok(()) => {
                    self.after_attempt(job.as_ref().filter(|job| run_of(job) == *run), run).await;
                    if job.is_none() {
                        self.remove_logs(vec![run.job.clone()]).await;
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        if looked.is_err() {
            self.memory().unsettled.insert(run.clone());
        }
        looked
    }

    pub(super) async fn fence(&self, run: &RunId) -> Result<(), StoreError> {
        match self.runtime.fence(run).await {
            Ok(()) | Err(RuntimeError::NotFound) => Ok(()),
            Err(error) => Err(unavailable(&error)),
        }
    }

    async fn follow(&self, job: &Job, seen: Observed) -> Result<(), StoreError> {
        let attempt = job.attempt;
        match seen {
            // What was decided needs no attempt any more.
            Observed::Unknown | Observed::Vanished { .. } if !job.outputs.is_empty() => self.put_in_place(job).await,
            Observed::Unknown => {
                // What was on its way to the runtime must not arrive any more.
                self.fence(&run_of(job)).await?;
                let reason = "the manager was stopped before it began".to_owned();
                self.close_attempt(job, Event::Vanish { attempt, reason }).await
            }
            Observed::Vanished { began } => {
                // Its supervisor may have been started and not have come so far.
                self.fence(&run_of(job)).await?;
                self.give_back(&run_of(job));
                let running = if began { self.advance(job, Event::Running { attempt }).await? } else { None };
                let reason = "it ended without a result: it was killed, or the machine was restarted".to_owned();
                self.close_attempt(running.as_ref().unwrap_or(job), Event::Vanish { attempt, reason }).await
            }
            Observed::Starting => Ok(()),
            Observed::Running => self.advance(job, Event::Running { attempt }).await.map(|_| ()),
            Observed::Ended(ended) => self.finish(job, ended).await,
        }
    }

    /// Reads again what this cluster has.
    pub(super) async fn measure(&self) -> Result<(), Failure> {
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
        // What was decided needs no room any more.
        let is_given_back = !job.outputs.is_empty();
        let held = Held { user: job.payer().clone(), service: job.service.clone(), need: job.need, is_given_back };
        let mut memory = self.memory();
        if !is_given_back {
            memory.queue.hold(&held.user, &held.service, held.need);
        }
        let run = run_of(job);
        if job.cancelling {
            memory.ending.insert(run.clone());
        }
        memory.held.insert(run.clone(), held);
        memory.unsettled.insert(run);
    }

    /// Puts a job in its line, or beside it while it has to wait after an attempt.
    pub(super) async fn line_up(&self, job: &Job) {
        let terms = match self.services.get(&job.service).await {
            Ok(Some(stored)) => terms_of(&stored.service.definition),
            // It is looked at again when there is room for it.
            _ => Terms { need: job.need, limit: ServiceLimit::default() },
        };
        let waiting = Waiting {
            job: job.name.clone(),
            user: job.payer().clone(),
            service: job.service.clone(),
            since: job.accepted_at(),
            terms,
        };
        let (now, mut memory) = (self.now(), self.memory());
        if job.begins_from() > now {
            memory.resting.push((job.begins_from(), waiting));
        } else {
            memory.queue.push(waiting);
            self.wake.notify_one();
        }
    }

    /// Gives back the room of an attempt that has ended; what became of it is still to be stored.
    pub(super) fn give_back(&self, run: &RunId) {
        let mut memory = self.memory();
        let Some(held) = memory.held.get_mut(run).filter(|held| !held.is_given_back) else { return };
        held.is_given_back = true;
        let Held { user, service, need, .. } = held.clone();
        memory.queue.release(&user, &service, need);
        self.wake.notify_one();
    }

    /// Gives back what an attempt held, and lines its job up again when it is to be repeated.
    /// `job` is absent when it was forgotten or is at another attempt.
    pub(super) async fn after_attempt(&self, job: Option<&Job>, run: &RunId) {
        let held = {
            let mut memory = self.memory();
            memory.ending.remove(run);
            let held = memory.held.remove(run);
            if let Some(held) = held.as_ref().filter(|held| !held.is_given_back) {
                memory.queue.release(&held.user, &held.service, held.need);
            }
            held
        };
        self.wake.notify_one();
        // Only whoever gave the room back lines it up: it must not wait twice.
        if let Some(job) = job.filter(|job| job.phase == Phase::Queued && held.is_some()) {
            self.line_up(job).await;
        }
        let unwanted = job.filter(|job| job.forgetting && job.phase.is_final());
        let cleared = match (self.clear(run).await, unwanted) {
            (Ok(()), Some(job)) => self.forget(&Removal::One(job.name.clone())).await.is_ok(),
            (cleared, _) => cleared.is_ok(),
        };
        if !cleared {
            self.memory().unsettled.insert(run.clone());
        }
    }

    /// Removes what an attempt that has ended left, but its log. What it left in the runtime comes
    /// last: by that a later start finds it.
    async fn clear(&self, run: &RunId) -> Result<(), StoreError> {
        self.buckets.discard(STAGING_BUCKET, &staging_prefix(run)).await?;
        match self.runtime.forget(run).await {
            Ok(()) | Err(RuntimeError::NotFound) => Ok(()),
            Err(error) => Err(unavailable(&error)),
        }
    }
}

pub(super) fn unavailable(error: &RuntimeError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// What the ready nodes have together; in the one-machine world there is one.
fn capacity(nodes: &[Node]) -> Need {
    let ready = nodes.iter().filter(|node| node.readiness == Readiness::Ready);
    ready.fold(Need::default(), |sum, node| {
        sum.plus(Need { cores: node.capacity_cores, bytes: node.capacity_bytes, gpus: node.gpus })
    })
}
