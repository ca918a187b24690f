//! What runs jobs in the local world: an object store, the executor of this machine, and the
//! dispatcher over both.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oscar_api::event::{Uploaded, minio_event};
use oscar_engine::OwnStore;
use oscar_engine::jobs::{Dispatcher, JobPolicy, JobPorts};
use oscar_engine::ports::buckets::{ObjectEvent, Uploads};
use oscar_engine::storage::Furnished;
use oscar_exec::{Kind, Network};
use oscar_local::attempt::Setup;
use oscar_local::{LocalCluster, LocalRuntime, LocalStore, RuntimeOptions};
use tokio::sync::watch;

use super::objects::{Objects, StoreAddresses};
use super::{StartError, SystemClock, SystemEntropy};
use crate::config::{Derived, Effective};

/// Uploads that become jobs at the same time.
const AT_ONCE: usize = 256;

pub(crate) struct Work {
    pub(crate) objects: Objects,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) furnished: Arc<Furnished>,
    pub(crate) own_store: OwnStore,
    /// What runs scripts, once that is known.
    pub(crate) executor: Arc<OnceLock<String>>,
}

impl Work {
    pub(crate) async fn prepare(
        settings: &Effective,
        derived: &Derived,
        records: &Arc<LocalStore>,
        cluster: &Arc<LocalCluster>,
        addresses: StoreAddresses,
    ) -> Result<Self, StartError> {
        let data = derived.data.as_path();
        let (objects, own_store) = Objects::open(settings, derived, records, &addresses).await?;
        let store_endpoint = objects.endpoint_here(&own_store, &addresses);
        let policy = JobPolicy {
            store_endpoint: store_endpoint.clone(),
            store_region: own_store.region.clone(),
            store_verify: own_store.verify,
            root_access_key: own_store.access_key.clone(),
            providers: settings.providers.clone(),
            ..job_policy(settings)
        };
        let executor = Arc::default();
        let options = runtime_options(settings, data, store_endpoint, Arc::clone(&executor))?;
        let runtime = LocalRuntime::open(data, options);
        let runtime = runtime.map_err(|cause| StartError::File { what: "finding attempts".to_owned(), cause })?;
        let ports = JobPorts { jobs: records.clone(), runtime, buckets: objects.buckets(), policy };
        let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
        let dispatcher = Arc::new(Dispatcher::new(records.clone(), cluster.clone(), clock, entropy, ports));
        let complain =
            |trouble: &str| tracing::warn!("what a service had in the object store was not tidied up: {trouble}");
        let furnished = Arc::new(Furnished::new(records.clone(), dispatcher.clone(), complain));
        Ok(Self { objects, dispatcher, furnished, own_store, executor })
    }

    /// Finds again what was going on, then looks after it until the process ends.
    pub(crate) async fn begin(&self, instance_id: &str) -> Result<(), StartError> {
        let found = self.dispatcher.recover().await;
        let found = found.map_err(|failure| StartError::Objects(failure.to_string()))?;
        if found > 0 {
            tracing::info!(jobs = found, "jobs of before go on");
        }
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(async move {
            let told = Mutex::new(String::new());
            // It is tried every second; what stays the same is told once.
            let complain = |trouble: &str| {
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                if *told != trouble {
                    tracing::warn!("jobs cannot be looked after: {trouble}");
                    trouble.clone_into(&mut told);
                }
            };
            dispatcher.run(complain).await;
        });
        let furnished = self.furnished.clone();
        tokio::spawn(async move {
            if let Err(error) = furnished.tick_storage().await {
                tracing::warn!("the buckets of services could not be looked after: {error}");
            }
        });
        let teller = Teller {
            region: self.own_store.region.clone(),
            endpoint: self.own_store.endpoint.clone(),
            id: instance_id.to_owned(),
        };
        tokio::spawn(take_uploads(self.objects.uploads(), self.dispatcher.clone(), teller));
        self.objects.keep();
        Ok(())
    }

    pub(crate) async fn close(&self) {
        self.objects.close().await;
    }
}

/// Uploads become jobs. Each is settled when its job is stored, and told again until it is.
async fn take_uploads(store: Arc<dyn Uploads>, dispatcher: Arc<Dispatcher>, teller: Teller) {
    loop {
        store.arrival().await;
        loop {
            let events = match store.next(AT_ONCE).await {
                Ok(events) if events.is_empty() => break,
                Ok(events) => events,
                Err(error) => {
                    tracing::warn!("uploads cannot be read: {error}");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            };
            let all =
                futures::future::join_all(events.iter().map(|event| take_upload(&dispatcher, &teller, event))).await;
            let done: Vec<u64> = all.iter().filter_map(|outcome| outcome.as_ref().ok().copied()).collect();
            if let Err(error) = store.settle(&done).await {
                tracing::warn!("uploads will be told again: {error}");
            }
            if let Some(trouble) = all.iter().find_map(|outcome| outcome.as_ref().err()) {
                tracing::warn!("an upload has not become a job yet: {trouble}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// What events say of the store itself.
struct Teller {
    region: String,
    endpoint: String,
    id: String,
}

impl Teller {
    fn tell(&self, event: &ObjectEvent) -> Vec<u8> {
        minio_event(&Uploaded {
            bucket: &event.bucket,
            key: &event.key,
            bytes: event.bytes,
            etag: &event.etag,
            version: &event.version,
            content_type: &event.content_type,
            user_metadata: &event.user_metadata,
            principal: &event.principal,
            source_ip: &event.source_ip,
            time: &crate::time::rfc3339_millis(millis(event.time)),
            region: &self.region,
            deployment: &self.id,
            endpoint: &self.endpoint,
        })
    }
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

async fn take_upload(dispatcher: &Arc<Dispatcher>, teller: &Teller, event: &ObjectEvent) -> Result<u64, String> {
    let body = teller.tell(event);
    let taken = dispatcher.object_created(event, body.into()).await;
    taken.map(|_| event.id).map_err(|failure| failure.to_string())
}

fn job_policy(settings: &Effective) -> JobPolicy {
    let seconds = |name: &str| Duration::from_secs(settings.count(name));
    JobPolicy {
        time_limit: seconds("job_time_limit"),
        keep_for: seconds("job_keep_for"),
        keep_most: settings.count("job_keep_most"),
        most_waiting_runs: usize::try_from(settings.count("run_queue")).unwrap_or(usize::MAX),
        run_time_limit: seconds("run_time_limit"),
        ..JobPolicy::default()
    }
}

/// Trying out how scripts can be run takes a moment; the manager serves meanwhile.
fn runtime_options(
    settings: &Effective,
    data: &Path,
    store_address: String,
    known: Arc<OnceLock<String>>,
) -> Result<RuntimeOptions, StartError> {
    let program = std::env::current_exe();
    let program = program.map_err(|cause| StartError::File { what: "finding this program".to_owned(), cause })?;
    let wish: Kind = settings.text("executor").parse().unwrap_or(Kind::Auto);
    let network = if settings.text("job_network") == "none" { Network::None } else { Network::Host };
    let disk_bytes =
        settings.quantity("job_disk").and_then(|most| u64::try_from(most.units()).ok()).filter(|most| *most > 0);
    let hidden = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let (sender, setup) = watch::channel(None);
    tokio::spawn(async move {
        let chosen = oscar_exec::choose(wish, &oscar_exec::Settings::default()).await;
        if let Ok(executor) = &chosen {
            let described = executor.describe();
            tracing::info!(executor = %described.kind, with = described.with, "scripts are run");
            // Nobody else sets it.
            let _ = known.set(described.kind.to_string());
            sweep(executor).await;
        }
        let setup = chosen.map(|executor| Setup { executor, network, hidden: vec![hidden], disk_bytes });
        if let Err(why) = &setup {
            tracing::error!("no job can run on this machine: {why}; `oscar doctor` says more");
        }
        let _ = sender.send(Some(setup));
        // Attempts ask as long as there are any.
        sender.closed().await;
    });
    Ok(RuntimeOptions { store_address, program, arguments: vec!["of-an-attempt".to_owned()], setup })
}

/// What earlier managers on this machine left running goes before anything begins.
async fn sweep(executor: &oscar_exec::Executor) {
    match executor.sweep().await {
        Ok(0) => {}
        Ok(left) => tracing::info!(left, "what was left of earlier jobs was removed"),
        Err(why) => tracing::warn!("what is left of earlier jobs cannot be removed: {why}"),
    }
}
