//! Services on the Kubernetes API.
//!
//! **The record counts.** A service exists from the moment its ConfigMap does until it does
//! not. A create writes everything beside it first and the record last; a removal deletes the
//! record first; a replacement puts the new secret values beside the old ones, moves the record
//! from one change to the next in one conditional write, and tidies up after it. So no reader
//! meets half a service, wherever a manager stops.
//!
//! **One writer for a name.** Kubernetes keeps a name unique in one namespace, not in the
//! cluster, and two managers run side by side while one is rolled out. Whoever changes a
//! service first creates the Lease `oscar-name.<service>` in the manager's namespace, which
//! only one can. While holding it, a create lists the records of that name in all namespaces,
//! so that services are respected whoever made them, Go OSCAR included (a Go OSCAR that
//! creates the same name in the same instant is not held back by a Lease it does not know;
//! the doubled name is then shown as broken, see `index`). The Lease goes when the change is
//! done.
//!
//! **The Lease is the journal.** It names the namespaces that something unfinished may be in.
//! One that stood still for [`Options::patience`](crate::Options) is abandoned: the next writer
//! of that name, or the background tick, takes it over, makes what stands beside the record
//! agree with it (`settle`) and deletes the Lease. A writer that was slower than that finds out,
//! takes back what it made, and says that it does not know.

mod journal;
mod names;
mod settle;
mod write;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, Secret as KubeSecret};
use kube::Api;
use kube::runtime::watcher::watcher;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Revision, Scope, Services, Stored};
use oscar_model::name::ServiceName;
use oscar_model::service::{Sensitive, Service};
use tokio::task::JoinHandle;

use crate::calls::Calls;
use crate::index::{Found, Index};
use crate::layout::record::{Keeping, read_service};
use crate::layout::secrets::{credentials_name, is_foreign, read_credentials, read_environment};
use crate::layout::{SERVICE_LABEL, belongs_to};
use crate::options::Options;
use crate::watch::{self, Link, Sink};

use journal::Journal;
use names::Names;

pub(crate) struct KubeServices {
    shared: Arc<Shared>,
}

struct Shared {
    calls: Calls,
    index: Arc<Index>,
    journal: Journal,
    names: Names,
    /// How long a change may take once it holds the Lease: less than others wait for it.
    limit: Duration,
}

impl KubeServices {
    pub(crate) fn start(calls: &Calls, options: &Arc<Options>, tasks: &mut Vec<JoinHandle<()>>) -> Arc<Self> {
        let index = Arc::new(Index::default());
        let api: Api<ConfigMap> = Api::all(calls.client.clone());
        let open = move || watcher(api.clone(), watch::settings().labels(SERVICE_LABEL));
        tasks.push(tokio::spawn(watch::follow("services", index.clone(), open)));
        let shared = Arc::new(Shared {
            calls: calls.clone(),
            index,
            journal: Journal::new(calls, options),
            names: Names::default(),
            limit: options.patience * 2 / 3,
        });
        tasks.push(tokio::spawn(settle::run(shared.clone(), options.patience)));
        Arc::new(Self { shared })
    }

    pub(crate) fn link(&self) -> &Link {
        Sink::link(&*self.shared.index)
    }

    pub(crate) async fn tick_settle(&self) -> Result<usize, StoreError> {
        self.shared.tick_settle().await
    }
}

/// A change that began is finished also when its caller goes away.
async fn finished<T: Send + 'static>(
    change: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::spawn(change).await {
        Ok(outcome) => outcome,
        Err(stopped) => Err(StoreError::Unavailable(format!("the change was interrupted: {stopped}"))),
    }
}

#[async_trait]
impl Services for KubeServices {
    async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError> {
        let shared = self.shared.clone();
        finished(async move { Box::pin(shared.create(service, sensitive)).await }).await
    }

    async fn replace(
        &self,
        service: Service,
        sensitive: Sensitive,
        expected: &Revision,
    ) -> Result<Arc<Stored>, StoreError> {
        let (shared, expected) = (self.shared.clone(), expected.clone());
        finished(async move { Box::pin(shared.replace(service, sensitive, &expected)).await }).await
    }

    async fn remove(&self, name: &ServiceName, expected: Option<&Revision>) -> Result<(), StoreError> {
        let (shared, name, expected) = (self.shared.clone(), name.clone(), expected.cloned());
        finished(async move { Box::pin(shared.remove(&name, expected.as_ref())).await }).await
    }

    async fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError> {
        self.shared.index.get(name)
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<Entry>, StoreError> {
        self.shared.index.list(scope)
    }

    async fn reveal(&self, name: &ServiceName) -> Result<Sensitive, StoreError> {
        self.shared.reveal(name.as_str()).await
    }
}

impl Shared {
    async fn reveal(&self, name: &str) -> Result<Sensitive, StoreError> {
        let (namespace, mut keeping) = match self.index.find(name)? {
            Found::Nowhere => return Err(StoreError::NotFound),
            Found::Doubled(cause) => return Err(StoreError::Broken(cause)),
            Found::At(key, row) => (key.namespace, row.keeping),
        };
        // Another manager may move the record on between two of our reads; what the record
        // says now is then followed, as long as it keeps moving.
        for _ in 0..8 {
            let change = match &keeping {
                Keeping::Nothing(_) => return Ok(Sensitive::default()),
                Keeping::Upstream => return self.reveal_upstream(&namespace, name).await,
                Keeping::Kept(change) => change,
            };
            let secret: Option<KubeSecret> = self.calls.get(&namespace, &credentials_name(name)).await?;
            if let Some(secret) = secret
                && let Some(sensitive) = read_credentials(&secret, change).map_err(StoreError::Broken)?
            {
                return Ok(sensitive);
            }
            let record = self.live_record(&namespace, name).await?.ok_or(StoreError::NotFound)?;
            let now = Keeping::read(&record.metadata);
            if now == keeping {
                break;
            }
            keeping = now;
        }
        Err(StoreError::Broken(format!(
            "Secret {namespace}/{} does not hold the values of the service's last change",
            credentials_name(name)
        )))
    }

    async fn reveal_upstream(&self, namespace: &str, name: &str) -> Result<Sensitive, StoreError> {
        let record = self.live_record(namespace, name).await?.ok_or(StoreError::NotFound)?;
        let (_, inline) = read_service(&record).map_err(StoreError::Broken)?;
        let secret: Option<KubeSecret> = self.calls.get(namespace, name).await?;
        let environment = match secret.filter(|secret| !is_foreign(secret)) {
            Some(secret) => read_environment(secret)
                .map_err(|cause| StoreError::Broken(format!("Secret {namespace}/{name}: {cause}")))?,
            None => inline.environment,
        };
        Ok(Sensitive { environment, cluster_passwords: inline.cluster_passwords })
    }

    /// The record as it is now, when there is one.
    async fn live_record(&self, namespace: &str, name: &str) -> Result<Option<ConfigMap>, StoreError> {
        let record: Option<ConfigMap> = self.calls.get(namespace, name).await?;
        Ok(record.filter(|record| belongs_to(&record.metadata, name)))
    }
}
