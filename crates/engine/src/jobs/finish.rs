//! How an attempt's end becomes the end of its job.

use std::sync::Arc;

use oscar_model::job::{Event, Job, Millis, Output, Phase};
use tokio::sync::Notify;

use super::{Dispatcher, run_of};
use crate::ports::StoreError;
use crate::ports::buckets::{Move, STAGING_BUCKET};
use crate::ports::runtime::{Ended, Exit};
use crate::ports::usage::Usage;

impl Dispatcher {
    pub(super) async fn finish(&self, job: &Job, ended: Ended) -> Result<(), StoreError> {
        let attempt = job.attempt;
        self.give_back(&run_of(job));
        if !job.outputs.is_empty() {
            return self.put_in_place(job).await;
        }
        let mut job = job.clone();
        if ended.began.is_some()
            && job.phase == Phase::Starting
            && let Some(running) = self.advance(&job, Event::Running { attempt }).await?
        {
            job = running;
        }
        let event = match ended.exit {
            _ if job.cancelling => Event::Cancelled { attempt },
            Exit::Success => return self.succeed(job, ended.outputs).await,
            Exit::Code(code) => Event::Fail {
                attempt,
                exit_code: Some(code),
                reason: format!("the script ended with exit code {code}"),
            },
            Exit::TimedOut => Event::Fail {
                attempt,
                exit_code: None,
                reason: format!("it took longer than {} s, its time limit", self.policy.time_limit.as_secs()),
            },
            // Nobody here asked for it.
            Exit::Cancelled => Event::Fail { attempt, exit_code: None, reason: "it was ended from outside".to_owned() },
            // The same may go well when there is room.
            Exit::NoRoom(reason) => Event::Rest { attempt, reason, patience: self.patience() },
            Exit::Failed(sentence) => Event::Fail { attempt, exit_code: None, reason: sentence },
        };
        self.close_attempt(&job, event).await
    }

    async fn succeed(&self, job: Job, outputs: Vec<Output>) -> Result<(), StoreError> {
        let attempt = job.attempt;
        let mut decided = job;
        if !outputs.is_empty() && decided.outputs.is_empty() {
            match self.advance(&decided, Event::Decide { attempt, outputs }).await? {
                Some(next) => decided = next,
                None => return Ok(()),
            }
        }
        self.put_in_place(&decided).await
    }

    /// Puts the outputs of the attempt that counts in their place. Can be repeated. Nothing runs
    /// any more, so no room is held, and whoever wants the job ended need not wait.
    pub(super) async fn put_in_place(&self, job: &Job) -> Result<(), StoreError> {
        let attempt = job.attempt;
        self.give_back(&run_of(job));
        if job.cancelling {
            // Nobody has the key any more; a store that is away must not hold the end up.
            if self.revoke(&job.access_key).await.is_err() {
                self.memory().keys_left.insert(job.access_key.clone());
            }
            return self.close_part(job, Event::Cancelled { attempt }).await;
        }
        let unwanted = Arc::new(Notify::new());
        self.memory().placing.insert(job.name.clone(), unwanted.clone());
        let placed = tokio::select! {
            biased;
            placed = self.place(job) => Some(placed),
            () = unwanted.notified() => None,
        };
        self.memory().placing.remove(&job.name);
        let placed = placed.ok_or_else(|| StoreError::Unavailable("its outputs are not wanted any more".to_owned()))?;
        match placed {
            Ok(None) => self.close_attempt(job, Event::Succeed { attempt }).await,
            Ok(Some(sentence)) => {
                let reason = format!("its outputs cannot be put in their place: {sentence}");
                self.close_attempt(job, Event::Fail { attempt, exit_code: Some(0), reason }).await
            }
            Err(error) => self.hindered(job, error).await,
        }
    }

    /// A sentence when it can never be done.
    async fn place(&self, job: &Job) -> Result<Option<String>, StoreError> {
        // From here on the attempt can write nothing that would not be looked at.
        self.revoke(&job.access_key).await?;
        if let Some(sentence) = self.strange_target(job).await? {
            return Ok(Some(sentence));
        }
        let moves: Vec<_> = job.outputs.iter().filter_map(|output| move_of(job, output)).collect();
        if moves.is_empty() {
            return Ok(None);
        }
        match self.buckets.commit(&moves).await {
            Ok(()) => Ok(None),
            Err(error @ (StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Conflict)) => Err(error),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// It is tried again, and told in the job's story; but not for ever.
    async fn hindered(&self, job: &Job, error: StoreError) -> Result<(), StoreError> {
        let reason = format!("its outputs could not be put in their place: {error}");
        let event = Event::Hinder { attempt: job.attempt, reason, patience: self.patience() };
        if job.apply(event.clone(), self.now()).is_ok_and(|next| next.phase.is_final()) {
            return self.close_attempt(job, event).await;
        }
        self.advance(job, event).await?;
        Err(error)
    }

    /// How long a job waits for what it cannot help.
    fn patience(&self) -> Millis {
        Millis::try_from(self.policy.time_limit.as_millis()).unwrap_or(Millis::MAX)
    }

    /// For statistics; a run that is not counted is no reason to hold a job up.
    pub(super) async fn note(&self, job: &Job) {
        let Some(ended) = job.finished_at() else { return };
        let held = ended.saturating_sub(job.started_at().unwrap_or(ended));
        let amount = |units: i64| u64::try_from(units).unwrap_or(0).saturating_mul(held);
        let usage = Usage {
            service: job.service.clone(),
            owner: job.owner.clone(),
            user: job.submitter.as_ref().map(|owner| owner.as_str().to_owned()).unwrap_or_default(),
            synchronous: false,
            at: ended,
            core_millis: amount(job.need.cores),
            gpu_millis: amount(job.need.gpus),
        };
        let _ = self.jobs.note_usage(&usage).await;
    }
}

fn move_of(job: &Job, output: &Output) -> Option<Move> {
    Some(Move {
        from_bucket: STAGING_BUCKET.to_owned(),
        from_key: output.staged.clone()?,
        to_bucket: output.bucket.clone(),
        to_key: output.key.clone(),
        job: job.name.as_str().to_owned(),
    })
}
