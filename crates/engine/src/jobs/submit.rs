//! Accepting jobs: from a caller, and from uploads.

use std::sync::Arc;

use oscar_model::access::{Action, decide};
use oscar_model::identity::{Owner, Principal};
use oscar_model::job::admission::Waiting;
use oscar_model::job::{Event, Job, JobName, Need, ObjectRef, Source, Submission};
use oscar_model::name::ServiceName;
use oscar_model::service::Service;
use sha2::{Digest as _, Sha256};

use super::{Dispatcher, need_of, terms_of};
use crate::failure::Failure;
use crate::federate::hex;
use crate::ports::StoreError;
use crate::ports::buckets::{ObjectEvent, Subscription};
use crate::ports::jobs::{Accepted, NewJob, Once};
use crate::storage::Wanted;

/// A submission by a caller.
#[derive(Debug, Clone)]
pub struct Call {
    pub service: ServiceName,
    pub event: Arc<[u8]>,
    /// What the event names of the cluster's own store.
    pub input: Option<ObjectRef>,
    /// Makes a repeated call the same job.
    pub idempotency_key: Option<String>,
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    pub name: JobName,
    /// Whether an earlier call had made it.
    pub known: bool,
}

impl Dispatcher {
    /// Stores a job before it answers.
    pub async fn submit(self: &Arc<Self>, principal: &Principal, call: Call) -> Result<Submitted, Failure> {
        let service = self.invocable(principal, &call.service).await?;
        let submitter = match principal {
            Principal::Admin => Some(Owner::Admin),
            Principal::User(user) => Some(Owner::User(user.subject.clone())),
            Principal::ServiceToken(_) => None,
        };
        let digest = hex(&Sha256::digest(&call.event));
        let once = call.idempotency_key.map(|key| Once {
            key: format!("call\n{}\n{}\n{key}", principal.label(), call.service),
            digest: digest.clone(),
        });
        let job = self.new_job(&service, submitter, Source::Call, call.input)?;
        match self.accept(&service, NewJob { job: job.clone(), event: call.event, once }).await? {
            Accepted::New => Ok(Submitted { name: job.name, known: false }),
            Accepted::Known { job, digest: known } if known == digest => Ok(Submitted { name: job.name, known: true }),
            Accepted::Known { job, .. } => Err(Failure::KeyReused(job.name)),
        }
    }

    /// An object arrived where a service waits for it. `body` is the event as the service gets it.
    /// The same version of an object makes one job, however often it is told.
    pub async fn object_created(
        self: &Arc<Self>,
        event: &ObjectEvent,
        body: Arc<[u8]>,
    ) -> Result<Option<JobName>, Failure> {
        let Some(name) = ServiceName::parse(&event.service) else { return Ok(None) };
        let stored = match self.services.get(&name).await {
            Ok(Some(stored)) => stored,
            // A service that is gone, or cannot be read, waits for nothing.
            Ok(None) | Err(StoreError::Broken(_)) => return Ok(None),
            Err(error) => return Err(Failure::of_service(error, &name)),
        };
        let ObjectEvent { bucket, key, version, .. } = event;
        // It may have waited there before it was changed, or another one had its name.
        let waits = |one: &Subscription| one.bucket == *bucket && key.starts_with(&one.prefix);
        if !Wanted::of(&stored.service.definition).subscriptions.iter().any(waits) {
            return Ok(None);
        }
        let uploader = self.uploader(&event.principal);
        let source = Source::Upload { version: version.clone() };
        let input = ObjectRef { bucket: bucket.clone(), key: key.clone() };
        let job = self.new_job(&stored.service, uploader, source, Some(input))?;
        // What a job writes again because an attempt was repeated starts nothing again.
        let write = event.job.as_ref().map_or_else(|| version.clone(), |job| format!("job {job}"));
        let once = Once { key: format!("upload\n{name}\n{bucket}\n{key}\n{write}"), digest: String::new() };
        match self.accept(&stored.service, NewJob { job: job.clone(), event: body, once: Some(once) }).await? {
            Accepted::New => Ok(Some(job.name)),
            Accepted::Known { job, .. } => Ok(Some(job.name)),
        }
    }

    pub(super) async fn invocable(&self, principal: &Principal, name: &ServiceName) -> Result<Arc<Service>, Failure> {
        let stored = self.services.get(name).await.map_err(|error| Failure::of_service(error, name))?;
        let stored = stored.ok_or_else(|| Failure::NotFound(name.clone()))?;
        if !decide(principal, Action::Invoke, &stored.service) {
            return Err(Failure::NotVisible(name.clone()));
        }
        Ok(Arc::new(stored.service.clone()))
    }

    fn new_job(
        &self,
        service: &Service,
        submitter: Option<Owner>,
        source: Source,
        input: Option<ObjectRef>,
    ) -> Result<Job, Failure> {
        let name = self.new_name(service.name())?;
        let submission = Submission {
            name,
            service: service.name().clone(),
            owner: service.owner.clone(),
            submitter,
            source,
            input,
            need: need_of(&service.definition),
        };
        let now = self.now();
        let job = Job::new(submission, now);
        // Accepted and queued in one write: nothing happens in between here.
        let queued = job.apply(Event::Queue { reason: "waits for room".to_owned() }, now);
        queued.map_err(|_| Failure::Impossible("a new job can always be queued".to_owned()))
    }

    pub(super) fn new_name(&self, service: &ServiceName) -> Result<JobName, Failure> {
        let unique = self.unique();
        JobName::of(service, &unique).ok_or_else(|| Failure::Impossible(format!("{service}-{unique} is not a name")))
    }

    /// Users upload under their own name; the store tells of the administrator by his key.
    fn uploader(&self, principal: &str) -> Option<Owner> {
        if principal == self.policy.root_access_key {
            return Some(Owner::Admin);
        }
        Some(principal).filter(|principal| !principal.is_empty()).and_then(Owner::parse)
    }

    /// What can never fit is said at once, and does not wait for ever.
    async fn refuse_impossible(&self, job: &Job, waiting: &Waiting) -> bool {
        let (capacity, possible) = {
            let memory = self.memory();
            (memory.queue.capacity(), memory.queue.is_possible(&waiting.terms))
        };
        if possible || capacity == Need::default() {
            return false;
        }
        let mebibytes = |bytes: i64| bytes >> 20;
        let need = waiting.terms.need;
        let reason = format!(
            "it needs {} millicores, {} MiB and {} GPUs, and this cluster has {}, {} and {}; or the limits of its \
             service are below what one run needs",
            need.cores,
            mebibytes(need.bytes),
            need.gpus,
            capacity.cores,
            mebibytes(capacity.bytes),
            capacity.gpus
        );
        matches!(self.advance(job, Event::Refuse { reason }).await, Ok(Some(_)))
    }

    /// Goes on when the caller goes away: a job that is stored must be in its line too.
    async fn accept(self: &Arc<Self>, service: &Service, new: NewJob) -> Result<Accepted, Failure> {
        let waiting = Waiting {
            job: new.job.name.clone(),
            user: new.job.payer().clone(),
            service: service.name().clone(),
            since: new.job.accepted_at(),
            terms: terms_of(&service.definition),
        };
        let dispatcher = self.clone();
        let task = tokio::spawn(async move {
            let job = new.job.clone();
            let accepted = dispatcher.jobs.accept(new).await;
            match &accepted {
                Ok(Accepted::New) if dispatcher.refuse_impossible(&job, &waiting).await => {}
                Ok(Accepted::New) => {
                    let mut memory = dispatcher.memory();
                    memory.queue.set_terms(&waiting.service, waiting.terms);
                    memory.queue.push(waiting);
                    dispatcher.wake.notify_one();
                }
                // It may have been stored all the same: it is looked for at the next tick.
                Err(StoreError::Unavailable(_)) => dispatcher.memory().deferred.push(waiting),
                Ok(Accepted::Known { .. }) | Err(_) => {}
            }
            accepted
        });
        let ended = task.await.map_err(|error| StoreError::Unavailable(error.to_string()));
        Ok(ended.and_then(|accepted| accepted)?)
    }
}
