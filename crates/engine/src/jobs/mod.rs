//! Jobs: accepted, given room, run, ended; whatever happens to the manager meanwhile.
//!
//! Every decision is stored before it is acted upon. What a runtime says of an attempt is looked
//! at again after every failure, so each step here can be repeated.

mod answer;
mod attempt;
mod cancel;
mod dispatch;
mod finish;
mod invoke;
mod lent;
mod shares;
mod submit;
mod upkeep;
mod view;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use oscar_model::job::admission::{Queue, ServiceLimit, Terms, Waiting};
use oscar_model::job::{Event, Job, JobName, Millis, Need};
use oscar_model::service::Definition;
use oscar_model::service::storage::StorageProviders;
use tokio::sync::{Mutex as Lock, Notify, Semaphore, oneshot};

use crate::failure::Failure;

use crate::ports::StoreError;
use crate::ports::buckets::Buckets;
use crate::ports::clock::{Clock, Entropy};
use crate::ports::cluster::Cluster;
use crate::ports::jobs::Jobs;
use crate::ports::runtime::{Ended, RunId, Runtime};
use crate::ports::services::Services;
use crate::turns::Turns;

pub use answer::{Answer, AnswerBody};
pub(crate) use attempt::place_of;
pub use invoke::RunFailure;
pub use shares::shares;
pub use submit::{Call, Submitted};
pub use view::{JobList, Told};

/// What jobs need of the world.
#[derive(Clone)]
pub struct JobPorts {
    pub jobs: Arc<dyn Jobs>,
    pub runtime: Arc<dyn Runtime>,
    pub buckets: Arc<dyn Buckets>,
    pub policy: JobPolicy,
}

/// What the operator decided about jobs.
#[derive(Debug, Clone)]
pub struct JobPolicy {
    /// How long one attempt may take.
    pub time_limit: Duration,
    /// How long a job is remembered after its end.
    pub keep_for: Duration,
    /// How many that have ended are remembered of each service.
    pub keep_most: u64,
    /// How many synchronous runs may wait for room.
    pub most_waiting_runs: usize,
    /// How long a synchronous run may take.
    pub run_time_limit: Duration,
    /// The cluster's own object store as attempts reach it.
    pub store_endpoint: String,
    pub store_region: String,
    pub store_verify: bool,
    /// The administrator's key of that store.
    pub root_access_key: String,
    /// The operator's other stores: an attempt is told of those that its service names.
    pub providers: StorageProviders,
}

impl Default for JobPolicy {
    fn default() -> Self {
        Self {
            time_limit: Duration::from_hours(24),
            keep_for: Duration::from_hours(30 * 24),
            keep_most: 10_000,
            most_waiting_runs: 64,
            run_time_limit: Duration::from_mins(5),
            store_endpoint: String::new(),
            store_region: String::new(),
            store_verify: true,
            root_access_key: String::new(),
            providers: StorageProviders::new(),
        }
    }
}

/// Looks after the jobs of one cluster.
pub struct Dispatcher {
    services: Arc<dyn Services>,
    jobs: Arc<dyn Jobs>,
    runtime: Arc<dyn Runtime>,
    buckets: Arc<dyn Buckets>,
    cluster: Arc<dyn Cluster>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    policy: JobPolicy,
    memory: Mutex<Memory>,
    /// One decision at a time for each job.
    turns: Turns<JobName>,
    /// Something may be able to start.
    wake: Notify,
    /// So many attempts are looked at again at once.
    looks: Semaphore,
    /// Whoever does what is done now and then.
    chores: Arc<Lock<()>>,
}

/// What is forgotten when the manager ends, and found again when it starts.
struct Memory {
    queue: Queue,
    /// Who holds room: one entry for each attempt and each synchronous run.
    held: HashMap<RunId, Held>,
    /// Jobs that could not be looked at when there was room for them.
    deferred: Vec<Waiting>,
    /// Jobs whose last attempt vanished, and from when on the next one may begin.
    resting: Vec<(Millis, Waiting)>,
    /// Attempts whose last change could not be dealt with, or was not yet.
    unsettled: BTreeSet<RunId>,
    /// Jobs whose outputs are being put in their place, and how to tell that they are not wanted.
    placing: HashMap<JobName, Arc<Notify>>,
    /// What could not be removed: logs of jobs that are gone, keys of attempts that have ended.
    logs_left: BTreeSet<JobName>,
    keys_left: BTreeSet<String>,
    /// Whether what an earlier manager left was looked for: attempts, and logs.
    is_listed: bool,
    is_swept: bool,
    /// What last went wrong where nobody waits for it.
    trouble: Option<Failure>,
    /// Jobs whose attempt was told to end.
    ending: BTreeSet<RunId>,
    /// Synchronous runs that wait for room, those that were just given it, and those that were
    /// started; of the last also who waits for their end and was not told yet.
    admitted: HashMap<JobName, Guest>,
    granted: HashMap<JobName, Held>,
    ended: HashMap<JobName, Option<oneshot::Sender<Option<Ended>>>>,
}

#[derive(Debug, Clone)]
struct Held {
    user: oscar_model::identity::Owner,
    service: oscar_model::name::ServiceName,
    need: Need,
    /// The attempt has ended, but its end is not stored yet.
    is_given_back: bool,
}

/// A caller who waits for room.
struct Guest {
    user: oscar_model::identity::Owner,
    admitted: oneshot::Sender<()>,
}

impl Dispatcher {
    pub fn new(
        services: Arc<dyn Services>,
        cluster: Arc<dyn Cluster>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        ports: JobPorts,
    ) -> Self {
        let JobPorts { jobs, runtime, buckets, policy } = ports;
        let memory = Memory {
            queue: Queue::new(Need::default()),
            held: HashMap::new(),
            deferred: Vec::new(),
            resting: Vec::new(),
            unsettled: BTreeSet::new(),
            placing: HashMap::new(),
            logs_left: BTreeSet::new(),
            keys_left: BTreeSet::new(),
            is_listed: false,
            is_swept: false,
            trouble: None,
            ending: BTreeSet::new(),
            admitted: HashMap::new(),
            granted: HashMap::new(),
            ended: HashMap::new(),
        };
        Self {
            services,
            jobs,
            runtime,
            buckets,
            cluster,
            clock,
            entropy,
            policy,
            memory: Mutex::new(memory),
            turns: Turns::default(),
            wake: Notify::new(),
            looks: Semaphore::new(upkeep::AT_ONCE),
            chores: Arc::default(),
        }
    }

    pub fn buckets(&self) -> &Arc<dyn Buckets> {
        &self.buckets
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Millis {
        let since = self.clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// The job after the event, stored. `Ok(None)` when the event changes nothing.
    async fn advance(&self, job: &Job, event: Event) -> Result<Option<Job>, StoreError> {
        let Ok(next) = job.apply(event, self.now()) else { return Ok(None) };
        self.jobs.save(&next).await?;
        Ok(Some(next))
    }

    /// A UUID of version 7: names made one after the other lie side by side in an index, so that
    /// a store with many jobs takes one more as fast as an empty one.
    fn unique(&self) -> String {
        let mut bytes = [0u8; 16];
        self.entropy.fill(&mut bytes);
        bytes[..6].copy_from_slice(&self.now().to_be_bytes()[2..]);
        bytes[6] = bytes[6] & 0x0f | 0x70;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let text = crate::federate::hex(&bytes);
        [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
    }
}

/// What one run of a service holds.
fn need_of(definition: &Definition) -> Need {
    Need { cores: definition.cpu.millis(), bytes: definition.memory.units(), gpus: i64::from(definition.enable_gpu) }
}

/// What the runs of a service hold. A total of zero is no limit, as dashboards send it.
fn terms_of(definition: &Definition) -> Terms {
    let given = |quantity: &Option<oscar_model::quantity::Quantity>,
                 value: fn(&oscar_model::quantity::Quantity) -> i64| {
        quantity.as_ref().map(value).filter(|amount| *amount > 0)
    };
    let limit = ServiceLimit {
        cores: given(&definition.total_cpu, oscar_model::quantity::Quantity::millis),
        bytes: given(&definition.total_memory, oscar_model::quantity::Quantity::units),
    };
    Terms { need: need_of(definition), limit }
}

/// The attempt that a job is at.
fn run_of(job: &Job) -> RunId {
    RunId { job: job.name.clone(), attempt: job.attempt }
}
