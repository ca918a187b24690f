//! Beginning an attempt: its keys, and what it is told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oscar_model::identity::Owner;
use oscar_model::job::admission::{Admitted, Terms, Waiting};
use oscar_model::job::{Event, Job, JobName, Phase, Source};
use oscar_model::service::{Definition, Service, Visibility};

use super::dispatch::unavailable;
use super::{Dispatcher, Held, run_of, terms_of};
use crate::grants::take_refresh_token;
use crate::ports::StoreError;
use crate::ports::buckets::{Bucket, Grant, Keys, STAGING_BUCKET, Verb};
use crate::ports::runtime::{ATTEMPT_SLACK, Order, Outputs, RunId, RuntimeError, StoreAccess};
use crate::storage::{Wanted, per_user};

/// With this annotation outputs go straight to their place: nothing is staged, and a repeated
/// attempt may write again what a former one wrote.
pub(crate) const OUTPUTS_ANNOTATION: &str = "oscar.grycap/outputs";

/// How long keys outlive their attempt: what is begun with them takes a moment to begin and to end.
const KEY_SLACK: Duration = Duration::from_mins(30);

impl Dispatcher {
    /// Starts a job whose room is held already; the room is given back when it does not start.
    /// One that could not be looked at is tried again at the next tick.
    pub(super) async fn begin(&self, admitted: Admitted) -> Result<(), StoreError> {
        let Admitted { waiting, need } = admitted;
        let _turn = self.turns.take(&waiting.job).await;
        let held = Held { user: waiting.user.clone(), service: waiting.service.clone(), need, is_given_back: false };
        let begun = self.try_begin(&waiting.job, &held).await;
        if !matches!(begun, Ok(Begun::Yes)) {
            let mut memory = self.memory();
            memory.queue.release(&held.user, &held.service, held.need);
            match &begun {
                Ok(Begun::NeedsOther(terms)) => {
                    memory.queue.set_terms(&waiting.service, *terms);
                    memory.queue.push(Waiting { terms: *terms, ..waiting });
                }
                Ok(_) => {}
                Err(_) => memory.deferred.push(waiting),
            }
            self.wake.notify_one();
        }
        begun.map(|_| ())
    }

    async fn try_begin(&self, name: &JobName, held: &Held) -> Result<Begun, StoreError> {
        let Some(job) = self.jobs.get(name).await? else { return Ok(Begun::No) };
        if !matches!(job.phase, Phase::Accepted | Phase::Queued) {
            return Ok(if self.adopt(&job, held) { Begun::Yes } else { Begun::No });
        }
        self.runtime.ready().await.map_err(|error| unavailable(&error))?;
        if job.attempt > 0 {
            // Whatever became of it: no two attempts of a job run at the same time.
            self.fence(&run_of(&job)).await?;
        }
        let Some(stored) = self.services.get(&job.service).await? else {
            self.advance(&job, Event::Refuse { reason: "its service was removed".to_owned() }).await?;
            return Ok(Begun::No);
        };
        let terms = terms_of(&stored.service.definition);
        if terms.need != held.need {
            // It was changed meanwhile: what is held must be what is used.
            return Ok(Begun::NeedsOther(terms));
        }
        let service = Arc::new(stored.service.clone());
        let next = RunId { job: job.name.clone(), attempt: job.attempt + 1 };
        let keys = match self.keys_for(&job, &next, &service.definition).await {
            Ok(keys) => keys,
            Err(KeyTrouble::Store(error)) => return Err(error),
            Err(KeyTrouble::NotTheirs(sentence)) => {
                self.advance(&job, Event::Refuse { reason: sentence }).await?;
                return Ok(Begun::No);
            }
        };
        let access_key = keys.as_ref().map(|keys| keys.access_key.clone()).unwrap_or_default();
        let reason = "there is room for it here".to_owned();
        let started =
            self.advance(&job, Event::Start { reason, access_key: access_key.clone(), need: held.need }).await;
        let Ok(Some(job)) = started else {
            // Nobody was given it. An attempt that was stored all the same is looked at, found
            // unknown to the runtime, and tried again with another.
            let _ = self.revoke(&access_key).await;
            return started.map(|_| Begun::No);
        };
        let run = run_of(&job);
        self.memory().held.insert(run.clone(), held.clone());
        match self.launch(&job, service, keys).await {
            Ok(()) => Ok(Begun::Yes),
            // It is looked at again, found unknown to the runtime, and tried again.
            Err(Launch::Store(_)) => {
                self.memory().unsettled.insert(run);
                Ok(Begun::Yes)
            }
            Err(Launch::Runtime(error)) => {
                if self.give_up_launch(&job, &error).await.is_err() {
                    self.memory().unsettled.insert(run);
                }
                Ok(Begun::Yes)
            }
        }
    }

    /// An attempt that was stored although the store did not say so: it keeps the room, and is
    /// looked at. Whether it is one.
    fn adopt(&self, job: &Job, held: &Held) -> bool {
        let run = run_of(job);
        let mut memory = self.memory();
        if !job.phase.is_active() || memory.held.contains_key(&run) {
            return false;
        }
        memory.held.insert(run.clone(), held.clone());
        memory.unsettled.insert(run);
        true
    }

    async fn launch(&self, job: &Job, service: Arc<Service>, keys: Option<Keys>) -> Result<(), Launch> {
        let event = self.jobs.event(&job.name).await.map_err(Launch::Store)?;
        let mut sensitive = self.services.reveal(&job.service).await.map_err(Launch::Store)?;
        // Older managers stored it with the rest.
        take_refresh_token(&mut sensitive);
        let order = Order {
            run: run_of(job),
            outputs: outputs_of(&run_of(job), &service.definition),
            service: self.with_lent_providers(service),
            secrets: sensitive.environment,
            event,
            store: self.store_access(keys),
            time_limit: Some(self.policy.time_limit),
            synchronous: false,
        };
        self.runtime.start(order).await.map_err(Launch::Runtime)
    }

    async fn give_up_launch(&self, job: &Job, error: &RuntimeError) -> Result<(), StoreError> {
        let attempt = job.attempt;
        let event = match error {
            RuntimeError::Impossible(sentence) => Event::Fail { attempt, exit_code: None, reason: sentence.clone() },
            RuntimeError::NotFound | RuntimeError::Unavailable(_) => {
                // Whether it began is not known.
                self.fence(&run_of(job)).await?;
                Event::Vanish { attempt, reason: format!("it could not be started: {error}") }
            }
        };
        self.close_attempt(job, event).await
    }

    pub(super) fn store_access(&self, keys: Option<Keys>) -> StoreAccess {
        StoreAccess {
            endpoint: self.policy.store_endpoint.clone(),
            region: self.policy.store_region.clone(),
            verify: self.policy.store_verify,
            keys,
        }
    }

    /// A key that opens what this attempt needs of the cluster's own store and nothing else.
    async fn keys_for(&self, job: &Job, run: &RunId, definition: &Definition) -> Result<Option<Keys>, KeyTrouble> {
        let mut grants = self.read_grants(job, definition).await?;
        grants.extend(write_grants(run, definition, job.input.as_ref().map(|input| input.bucket.as_str())));
        for grant in grants.iter().filter(|grant| grant.bucket != STAGING_BUCKET && grant.verbs.contains(&Verb::Write))
        {
            self.still_theirs(job, &grant.bucket).await?;
        }
        if grants.is_empty() {
            return Ok(None);
        }
        let expires = self.clock.now() + self.policy.time_limit + ATTEMPT_SLACK + KEY_SLACK;
        let keys = self.buckets.scoped_key(&grants, expires).await.map_err(KeyTrouble::Store)?;
        Ok(Some(keys))
    }

    /// An input is read on behalf of whoever asked: nobody gets at another's objects by naming
    /// them in an event. The token of a service opens the buckets of that service alone: whoever
    /// holds it is not its owner.
    async fn read_grants(&self, job: &Job, definition: &Definition) -> Result<Vec<Grant>, KeyTrouble> {
        let Some(input) = &job.input else { return Ok(Vec::new()) };
        let refused =
            |reader: &str| Err(KeyTrouble::NotTheirs(format!("{reader} may not read the bucket {}", input.bucket)));
        if input.bucket == STAGING_BUCKET {
            return refused("nobody");
        }
        // The supervisor says that it is not there.
        let bucket = self.buckets.get(&input.bucket).await.map_err(KeyTrouble::Store)?;
        let Some(bucket) = bucket else { return Ok(Vec::new()) };
        if matches!(job.source, Source::Upload { .. }) {
            // Where a service waits is its owner's; it may be another's by now.
            if bucket.owner != job.owner {
                return refused("this service");
            }
        } else {
            match &job.submitter {
                None if !Wanted::of(definition).buckets.contains_key(&input.bucket) => {
                    return refused("the token of this service");
                }
                _ if !may_read(&bucket, job.payer()) => return refused(&job.payer().to_string()),
                _ => {}
            }
        }
        let verbs = vec![Verb::Read];
        Ok(vec![Grant { bucket: input.bucket.clone(), prefix: input.key.clone(), verbs }])
    }

    /// A bucket may have been removed since the service was deployed, and another one made under
    /// its name by somebody else.
    async fn still_theirs(&self, job: &Job, bucket: &str) -> Result<(), KeyTrouble> {
        match self.buckets.get(bucket).await.map_err(KeyTrouble::Store)? {
            Some(there) if there.owner != job.owner => {
                Err(KeyTrouble::NotTheirs(format!("the bucket {bucket} belongs to somebody else now")))
            }
            _ => Ok(()),
        }
    }

    /// The first of its outputs' buckets that is somebody else's, as a sentence.
    pub(super) async fn strange_target(&self, job: &Job) -> Result<Option<String>, StoreError> {
        let targets: BTreeSet<_> =
            job.outputs.iter().filter(|output| output.staged.is_some()).map(|output| &output.bucket).collect();
        for bucket in targets {
            match self.still_theirs(job, bucket).await {
                Ok(()) => {}
                Err(KeyTrouble::NotTheirs(sentence)) => return Ok(Some(sentence)),
                Err(KeyTrouble::Store(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Ends the part that an attempt had in the store and in the runtime, then stores the event.
    pub(super) async fn close_attempt(&self, job: &Job, event: Event) -> Result<(), StoreError> {
        self.revoke(&job.access_key).await?;
        self.close_part(job, event).await
    }

    /// The same when the key is somebody else's business.
    pub(super) async fn close_part(&self, job: &Job, event: Event) -> Result<(), StoreError> {
        let run = run_of(job);
        if let Some(job) = self.advance(job, event).await? {
            if job.phase.is_final() {
                // After it, not before: what is tried again until it is stored would count again.
                self.note(&job).await;
            }
            self.after_attempt(Some(&job), &run).await;
        }
        Ok(())
    }

    pub(super) async fn revoke(&self, access_key: &str) -> Result<(), StoreError> {
        if access_key.is_empty() {
            return Ok(());
        }
        match self.buckets.revoke(access_key).await {
            Ok(()) | Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Where the outputs of an attempt go.
pub(super) fn outputs_of(run: &RunId, definition: &Definition) -> Outputs {
    if writes_directly(definition) {
        Outputs::Direct
    } else {
        Outputs::Staged { bucket: STAGING_BUCKET.to_owned(), prefix: staging_prefix(run) }
    }
}

pub(super) fn writes_directly(definition: &Definition) -> bool {
    definition.annotations.get(OUTPUTS_ANNOTATION).is_some_and(|value| value == "direct")
}

pub(super) fn staging_prefix(run: &RunId) -> String {
    format!("{}/{}/", run.job, run.attempt)
}

/// What came from a user's own bucket goes back to it: `source` is where the input is.
fn write_grants(run: &RunId, definition: &Definition, source: Option<&str>) -> Vec<Grant> {
    let own: Vec<_> = definition.output.iter().filter(|io| io.provider.is_own_store()).collect();
    let verbs = vec![Verb::Write];
    if own.is_empty() {
        Vec::new()
    } else if writes_directly(definition) {
        own.iter()
            .filter_map(|io| place_of(&io.path))
            .map(|(bucket, prefix)| {
                let of_user = source.filter(|source| per_user::names(definition).iter().any(|name| name == source));
                let bucket = of_user.map_or(bucket, str::to_owned);
                Grant { bucket, prefix, verbs: verbs.clone() }
            })
            .collect()
    } else {
        vec![Grant { bucket: STAGING_BUCKET.to_owned(), prefix: staging_prefix(run), verbs }]
    }
}

/// The bucket of a normalised path, and what keys below it begin with.
pub(crate) fn place_of(path: &str) -> Option<(String, String)> {
    let path = path.trim_matches('/');
    let (bucket, folder) = path.split_once('/').unwrap_or((path, ""));
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    (!bucket.is_empty()).then(|| (bucket.to_owned(), prefix))
}

fn may_read(bucket: &Bucket, reader: &Owner) -> bool {
    match (reader, bucket.visibility) {
        (Owner::Admin, _) | (_, Visibility::Public) => true,
        (reader, _) if *reader == bucket.owner => true,
        (Owner::User(subject), Visibility::Restricted) => bucket.allowed_users.contains(subject),
        (Owner::User(_), Visibility::Private) => false,
    }
}

/// Whether a job that was given room took it.
enum Begun {
    Yes,
    No,
    /// Its service asks for something else than was held for it.
    NeedsOther(Terms),
}

enum KeyTrouble {
    Store(StoreError),
    NotTheirs(String),
}

enum Launch {
    #[expect(dead_code, reason = "told apart; the cause shows again when the attempt is looked at")]
    Store(StoreError),
    Runtime(RuntimeError),
}
