//! Synchronous runs: the caller waits for the answer.

use std::sync::Arc;

use oscar_model::identity::{Owner, Principal};
use oscar_model::job::admission::Waiting;
use oscar_model::job::{JobName, Millis};
use oscar_model::name::ServiceName;
use oscar_model::service::Service;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::answer::{Answer, AnswerBody};
use super::{Dispatcher, Guest, Held, need_of, terms_of};
use crate::failure::Failure;
use crate::grants::take_refresh_token;
use crate::ports::runtime::{Ended, Exit, Observed, Order, Outputs, ResponsePart, RunId, RuntimeError};
use crate::ports::usage::Usage;

/// What a script says when it ends badly is told up to here.
const MOST_OUTPUT: usize = 1 << 20;

/// How often a caller queues again because the service was changed while he waited.
const MOST_PLACES: u32 = 10;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunFailure {
    #[error(transparent)]
    Refused(#[from] Failure),
    /// As many wait as may.
    #[error("too many synchronous runs are waiting; try again in a moment")]
    Busy,
    /// It would never find room.
    #[error("invalid workload: try to reduce the service resource (cpu, memory, etc.)")]
    TooLarge,
    #[error("it took longer than {0} s")]
    TimedOut(u64),
    /// The script ended badly; `output` is what it said.
    #[error("exit status {code}")]
    Script { code: i32, output: Vec<u8> },
    #[error("{0}")]
    Failed(String),
}

impl Dispatcher {
    /// Runs the service for one body. When the caller goes away and drops this, the run ends.
    pub async fn invoke(
        self: &Arc<Self>,
        principal: &Principal,
        name: &ServiceName,
        body: Arc<[u8]>,
    ) -> Result<Answer, RunFailure> {
        let mut service = self.invocable(principal, name).await?;
        let user = match principal {
            Principal::User(user) => Owner::User(user.subject.clone()),
            Principal::Admin => Owner::Admin,
            Principal::ServiceToken(_) => service.owner.clone(),
        };
        let mut tries = 0..MOST_PLACES;
        let visit = loop {
            tries.next().ok_or(RunFailure::Busy)?;
            if !self.memory().queue.is_possible(&terms_of(&service.definition)) {
                return Err(RunFailure::TooLarge);
            }
            let visit = Visit::wait(self.clone(), self.new_name(name)?, &user, caller_of(principal), &service).await?;
            // It may have been changed while he waited: what is held must be what is used.
            service = self.invocable(principal, name).await?;
            if visit.held.as_ref().is_some_and(|held| held.need == need_of(&service.definition)) {
                break visit;
            }
        };
        visit.run(&service, body).await
    }

    pub(super) fn is_synchronous(&self, job: &JobName) -> bool {
        self.memory().ended.contains_key(job)
    }

    pub(super) fn tell_caller(&self, run: &RunId, seen: Observed) {
        let ended = match seen {
            // Unknown is one that is still on its way to the runtime.
            Observed::Unknown | Observed::Starting | Observed::Running => return,
            Observed::Ended(ended) => Some(ended),
            Observed::Vanished { .. } => None,
        };
        // The entry stays while the caller reads the answer: until then the run is his.
        if let Some(caller) = self.memory().ended.get_mut(&run.job).and_then(Option::take) {
            // One who went away has no more questions.
            let _ = caller.send(ended);
        }
    }
}

/// Nobody who holds only the token of a service has a name.
fn caller_of(principal: &Principal) -> String {
    match principal {
        Principal::ServiceToken(_) => String::new(),
        other => other.label().to_owned(),
    }
}

/// One user may take as many places as he leaves free, so there is always one for somebody else
/// until many have come.
fn may_wait(mine: usize, all: usize, most: usize) -> bool {
    mine < most.saturating_sub(all)
}

/// One synchronous run that has its room. Dropped, it gives everything back.
pub(super) struct Visit {
    dispatcher: Arc<Dispatcher>,
    run: RunId,
    /// Until the script has ended.
    held: Option<Held>,
    /// Who called and since when room is held, for statistics.
    caller: String,
    owner: Owner,
    since: Millis,
    /// Its own task, because a start that is left half-way could not be ended.
    start: Option<JoinHandle<Result<(), RuntimeError>>>,
}

impl Visit {
    async fn wait(
        dispatcher: Arc<Dispatcher>,
        job: JobName,
        user: &Owner,
        caller: String,
        service: &Service,
    ) -> Result<Self, RunFailure> {
        let (sender, admitted) = oneshot::channel();
        let (since, terms) = (dispatcher.now(), terms_of(&service.definition));
        let place = Place { dispatcher: &dispatcher, user, service: service.name(), since, job: &job };
        {
            let mut memory = dispatcher.memory();
            let mine = memory.admitted.values().filter(|guest| guest.user == *user).count();
            if !may_wait(mine, memory.admitted.len(), dispatcher.policy.most_waiting_runs) {
                return Err(RunFailure::Busy);
            }
            memory.admitted.insert(job.clone(), Guest { user: user.clone(), admitted: sender });
            memory.queue.set_terms(service.name(), terms);
            let (user, service) = (user.clone(), service.name().clone());
            memory.queue.push(Waiting { job: job.clone(), user, service, since, terms });
        }
        dispatcher.wake.notify_one();
        let waited = tokio::time::timeout(dispatcher.policy.run_time_limit, admitted).await;
        if !matches!(waited, Ok(Ok(()))) {
            return Err(RunFailure::TimedOut(dispatcher.policy.run_time_limit.as_secs()));
        }
        let Some(held) = place.take() else {
            return Err(Failure::Impossible("whoever is let in was given room".to_owned()).into());
        };
        let (since, owner) = (dispatcher.now(), service.owner.clone());
        Ok(Self { run: RunId { job, attempt: 1 }, held: Some(held), caller, owner, since, start: None, dispatcher })
    }

    async fn run(mut self, service: &Arc<Service>, event: Arc<[u8]>) -> Result<Answer, RunFailure> {
        let dispatcher = self.dispatcher.clone();
        let sensitive = dispatcher.services.reveal(service.name()).await;
        let mut sensitive = sensitive.map_err(|error| Failure::of_service(error, service.name()))?;
        // Older managers stored it with the rest.
        take_refresh_token(&mut sensitive);
        let secrets = sensitive.environment;
        let (sender, ended) = oneshot::channel();
        {
            let mut memory = dispatcher.memory();
            memory.ended.insert(self.run.job.clone(), Some(sender));
            memory.held.extend(self.held.clone().map(|held| (self.run.clone(), held)));
        }
        let limit = dispatcher.policy.run_time_limit;
        let order = Order {
            run: self.run.clone(),
            service: dispatcher.with_lent_providers(service.clone()),
            secrets,
            event,
            // As upstream: a synchronous run has no key of the cluster's own store.
            store: dispatcher.store_access(None),
            outputs: Outputs::Direct,
            time_limit: Some(limit),
            synchronous: true,
        };
        let runtime = dispatcher.runtime.clone();
        let start = self.start.insert(tokio::spawn(async move { runtime.start(order).await }));
        let started = start.await.map_err(|error| RunFailure::Failed(error.to_string()))?;
        started.map_err(|error| RunFailure::Failed(error.to_string()))?;
        // The supervisor keeps the limit; this is for one that does not.
        let waited = tokio::time::timeout(limit * 2, ended).await;
        match waited {
            Ok(Ok(Some(ended))) => self.answer(ended).await,
            Ok(_) => Err(RunFailure::Failed("the run ended without a result".to_owned())),
            Err(_) => Err(RunFailure::TimedOut(limit.as_secs())),
        }
    }

    /// What it held, whatever came of it.
    fn usage(&self, held: &Held) -> Usage {
        let (now, need) = (self.dispatcher.now(), held.need);
        let amount = |units: i64| u64::try_from(units).unwrap_or(0).saturating_mul(now.saturating_sub(self.since));
        Usage {
            service: held.service.clone(),
            owner: self.owner.clone(),
            user: self.caller.clone(),
            synchronous: true,
            at: now,
            core_millis: amount(need.cores),
            gpu_millis: amount(need.gpus),
        }
    }

    async fn answer(mut self, ended: Ended) -> Result<Answer, RunFailure> {
        // The answer may take its time; the room is for who computes.
        self.give_back();
        let limit = self.dispatcher.policy.run_time_limit.as_secs();
        let millis = ended.ended.saturating_sub(ended.began.unwrap_or(ended.ended));
        match ended.exit {
            Exit::Success => {
                let body = AnswerBody::open(self).await.map_err(|error| RunFailure::Failed(error.to_string()))?;
                Ok(Answer { body, millis })
            }
            Exit::Code(code) => {
                let output = self.piece(0, MOST_OUTPUT).await.map(|part| part.bytes).unwrap_or_default();
                Err(RunFailure::Script { code, output })
            }
            Exit::TimedOut => Err(RunFailure::TimedOut(limit)),
            Exit::Cancelled => Err(RunFailure::Failed("the run was ended from outside".to_owned())),
            Exit::NoRoom(sentence) | Exit::Failed(sentence) => Err(RunFailure::Failed(sentence)),
        }
    }

    pub(super) async fn piece(&self, from: u64, limit: usize) -> Result<ResponsePart, RuntimeError> {
        self.dispatcher.runtime.response(&self.run, from, limit).await
    }

    fn give_back(&mut self) {
        let Some(held) = self.held.take() else { return };
        let mut memory = self.dispatcher.memory();
        memory.held.remove(&self.run);
        memory.queue.release(&held.user, &held.service, held.need);
        drop(memory);
        self.dispatcher.wake.notify_one();
        if self.start.is_some() {
            let (dispatcher, usage) = (self.dispatcher.clone(), self.usage(&held));
            tokio::spawn(async move { dispatcher.jobs.note_usage(&usage).await });
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.dispatcher.memory().ended.remove(&self.run.job);
        self.give_back();
        if let Some(start) = self.start.take() {
            let (dispatcher, run) = (self.dispatcher.clone(), self.run.clone());
            tokio::spawn(async move {
                if !start.is_finished() {
                    let _ = start.await;
                }
                let is_gone = dispatcher.fence(&run).await.is_ok() && dispatcher.runtime.forget(&run).await.is_ok();
                dispatcher.remove_logs(vec![run.job.clone()]).await;
                if !is_gone {
                    // As what an earlier manager left: it is nobody's, and looked at until it is gone.
                    dispatcher.memory().unsettled.insert(run);
                }
            });
        }
    }
}

/// A place in the line that is given up when its holder goes away.
struct Place<'a> {
    dispatcher: &'a Dispatcher,
    user: &'a Owner,
    service: &'a ServiceName,
    since: Millis,
    job: &'a JobName,
}

impl Place<'_> {
    /// The room is the caller's to give back from now on.
    fn take(self) -> Option<Held> {
        self.dispatcher.memory().granted.remove(self.job)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut memory = self.dispatcher.memory();
        memory.admitted.remove(self.job);
        memory.queue.remove(self.user, self.service, self.since, self.job);
        if let Some(Held { user, service, need, .. }) = memory.granted.remove(self.job) {
            memory.queue.release(&user, &service, need);
        }
        // What stood behind it may start.
        self.dispatcher.wake.notify_one();
    }
}
