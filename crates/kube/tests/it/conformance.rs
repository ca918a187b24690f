use std::sync::Arc;

use async_trait::async_trait;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Revision, Scope, Services, Stored};
use oscar_engine::testing::conformance;
use oscar_engine::testing::make::mk_service;
use oscar_kube::KubeWorld;
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::service::{Sensitive, Service};
use oscar_testkit::{Apiserver, require};

use crate::support::{options, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ports_keep_their_contracts() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "conf").await;
    let world = world(cluster, &options).await;
    keeps_its_contracts(&world, "conf-").await;
}

pub(crate) async fn keeps_its_contracts(world: &KubeWorld, prefix: &str) {
    let store = Arc::new(Named(world.services()));
    conformance::services(store, &*world.users(), prefix).await;
    conformance::users(world.users()).await;
    conformance::settings(world.settings()).await;
}

/// The record keeps no name of the administrator, who is an account and no person; the suite's
/// services may have one. Here it is put back.
struct Named(Arc<dyn Services>);

fn named(stored: Arc<Stored>) -> Arc<Stored> {
    if stored.service.owner != Owner::Admin {
        return stored;
    }
    let mut stored = Arc::unwrap_or_clone(stored);
    stored.service.owner_name = mk_service("any", &Owner::Admin).owner_name;
    Arc::new(stored)
}

#[async_trait]
impl Services for Named {
    async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError> {
        self.0.create(service, sensitive).await.map(named)
    }

    async fn replace(
        &self,
        service: Service,
        sensitive: Sensitive,
        expected: &Revision,
    ) -> Result<Arc<Stored>, StoreError> {
        self.0.replace(service, sensitive, expected).await.map(named)
    }

    async fn remove(&self, name: &ServiceName, expected: Option<&Revision>) -> Result<(), StoreError> {
        self.0.remove(name, expected).await
    }

    async fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError> {
        Ok(self.0.get(name).await?.map(named))
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<Entry>, StoreError> {
        self.0.list(scope).await
    }

    async fn reveal(&self, name: &ServiceName) -> Result<Sensitive, StoreError> {
        self.0.reveal(name).await
    }
}
