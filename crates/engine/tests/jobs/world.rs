//! A cluster in memory, in which scripts do what a test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oscar_engine::jobs::{Call, Dispatcher, JobPolicy, JobPorts};
use oscar_engine::memory::{MemoryBuckets, MemoryCluster, MemoryJobs, MemoryRuntime, MemoryServices, SeededEntropy};
use oscar_engine::ports::buckets::{Bucket, Buckets, STAGING_BUCKET, Subscription};
use oscar_engine::ports::clock::Clock;
use oscar_engine::ports::jobs::Jobs;
use oscar_engine::ports::runtime::{Ended, Exit, Order, Outputs, RunId, Runtime};
use oscar_engine::ports::services::Services;
use oscar_engine::testing::make::{mk_owner, mk_service, mk_user};
use oscar_model::capacity::{Node, Readiness};
use oscar_model::identity::Principal;
use oscar_model::job::{Job, JobName, ObjectRef, Output};
use oscar_model::name::ServiceName;
use oscar_model::quantity::Quantity;
use oscar_model::service::storage::{ProviderRef, StorageIo};
use oscar_model::service::{Definition, Sensitive, Visibility};

pub(crate) struct World {
    pub(crate) services: Arc<MemoryServices>,
    pub(crate) jobs: Arc<MemoryJobs>,
    pub(crate) runtime: Arc<MemoryRuntime>,
    pub(crate) buckets: Arc<MemoryBuckets>,
    entropy: Arc<SeededEntropy>,
    clock: Arc<Hands>,
    pub(crate) policy: JobPolicy,
}

/// A clock that goes when a test says so.
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) const NOW: u64 = 1_700_000_000_000;

impl World {
    pub(crate) async fn new() -> Self {
        let world = Self {
            services: Arc::default(),
            jobs: Arc::default(),
            runtime: Arc::default(),
            buckets: Arc::default(),
            entropy: Arc::new(SeededEntropy::new(7)),
            clock: Arc::new(Hands(AtomicU64::new(NOW))),
            policy: JobPolicy::default(),
        };
        for name in ["results", "inbox"] {
            world.ensure_bucket(name, "alice").await;
        }
        world
    }

    pub(crate) fn wait(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).expect("a short time");
        self.clock.0.fetch_add(millis, Ordering::SeqCst);
    }

    pub(crate) async fn ensure_bucket(&self, name: &str, owner: &str) {
        let bucket = Bucket {
            name: name.to_owned(),
            owner: mk_owner(owner),
            visibility: Visibility::Private,
            allowed_users: vec![],
            from_service: None,
        };
        self.buckets.ensure(&bucket).await.expect("made");
    }

    /// A service of alice's that needs one core of the four, and writes to the bucket `results`.
    pub(crate) async fn serve(&self, name: &str, change: impl FnOnce(&mut Definition)) {
        let mut service = mk_service(name, &mk_owner("alice"));
        let definition = &mut service.definition;
        definition.cpu = Quantity::from_millis(1000);
        definition.memory = Quantity::from_bytes(1 << 20);
        definition.output = vec![StorageIo {
            provider_text: "minio.default".to_owned(),
            provider: ProviderRef::parse("minio.default").expect("valid"),
            path: format!("results/{name}"),
            suffix: vec![],
            prefix: vec![],
            options: String::new(),
        }];
        change(definition);
        self.services.create(service, Sensitive::default()).await.expect("made");
    }

    /// What arrives in `inbox/in` starts the service.
    pub(crate) async fn serve_uploads(&self, name: &str) {
        let input = |definition: &mut Definition| {
            let output = definition.output[0].clone();
            definition.input = vec![StorageIo { path: "inbox/in".to_owned(), ..output }];
        };
        self.serve(name, input).await;
        let subscription =
            Subscription { bucket: "inbox".to_owned(), prefix: "in/".to_owned(), service: name.to_owned() };
        self.buckets.subscribe(&subscription).await.expect("subscribed");
    }

    /// The service is changed by its owner.
    pub(crate) async fn change(&self, service: &str, change: impl FnOnce(&mut Definition)) {
        let stored = self.services.get(&name(service)).await.expect("read").expect("there");
        let mut service = stored.service.clone();
        change(&mut service.definition);
        self.services.replace(service, Sensitive::default(), &stored.revision).await.expect("changed");
    }

    pub(crate) fn dispatcher(&self) -> Arc<Dispatcher> {
        self.dispatcher_on(self.jobs.clone(), self.runtime.clone(), self.buckets.clone())
    }

    pub(crate) fn dispatcher_on(
        &self,
        jobs: Arc<dyn Jobs>,
        runtime: Arc<dyn Runtime>,
        buckets: Arc<dyn Buckets>,
    ) -> Arc<Dispatcher> {
        let node =
            Node { capacity_cores: 4000, capacity_bytes: 1 << 30, readiness: Readiness::Ready, ..Node::default() };
        Arc::new(Dispatcher::new(
            self.services.clone(),
            Arc::new(MemoryCluster { nodes: vec![node] }),
            self.clock.clone(),
            self.entropy.clone(),
            JobPorts { jobs, runtime, buckets, policy: self.policy.clone() },
        ))
    }

    /// A manager that has looked at what there is.
    pub(crate) async fn started(&self) -> Arc<Dispatcher> {
        let dispatcher = self.dispatcher();
        dispatcher.recover().await.expect("recovered");
        dispatcher
    }

    pub(crate) async fn job(&self, name: &JobName) -> Job {
        self.jobs.get(name).await.expect("read").expect("there")
    }

    pub(crate) fn order(&self, run: &RunId) -> Order {
        self.runtime.orders().into_iter().find(|order| order.run == *run).expect("it was started")
    }

    /// The script ends well, with one output that it staged with its own key.
    pub(crate) fn succeed(&self, run: &RunId) {
        let order = self.order(run);
        let Outputs::Staged { bucket, prefix } = &order.outputs else { panic!("it stages: {order:?}") };
        let staged = format!("{prefix}out.txt");
        let key = order.store.keys.expect("it has a key").access_key;
        let service = order.service.name();
        let exit = match self.buckets.put(&key, bucket, &staged, b"result") {
            Ok(()) => Exit::Success,
            Err(error) => Exit::Failed(error.to_string()),
        };
        let output = Output {
            provider: "minio.default".to_owned(),
            bucket: "results".to_owned(),
            key: format!("{service}/{}.txt", run.job),
            bytes: 6,
            staged: Some(staged),
        };
        self.runtime.begin(run);
        self.runtime.finish(run, mk_ended(exit, vec![output]));
    }

    /// Objects that attempts left and nobody put in place.
    pub(crate) async fn staged(&self) -> usize {
        self.buckets.objects(STAGING_BUCKET, None, 100).await.expect("listed").objects.len()
    }
}

pub(crate) fn mk_ended(exit: Exit, outputs: Vec<Output>) -> Ended {
    Ended { exit, outputs, began: Some(NOW), ended: NOW + 5 }
}

pub(crate) fn user(subject: &str) -> Principal {
    Principal::User(mk_user(subject))
}

pub(crate) fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("valid")
}

pub(crate) fn run(job: &JobName, attempt: u32) -> RunId {
    RunId { job: job.clone(), attempt }
}

pub(crate) fn call(service: &str) -> Call {
    Call { service: name(service), event: Arc::from(&b"{}"[..]), input: None, idempotency_key: None }
}

pub(crate) fn keyed(service: &str, key: &str) -> Call {
    Call { idempotency_key: Some(key.to_owned()), ..call(service) }
}

pub(crate) fn reading(service: &str, bucket: &str) -> Call {
    Call { input: Some(ObjectRef { bucket: bucket.to_owned(), key: "in/a".to_owned() }), ..call(service) }
}
