//! The cluster's own object store in definitions: `minio.default`.

use oscar_model::service::storage::{Provider, ProviderRef};
use oscar_model::service::{Definition, ORIGIN_CLUSTER_ANNOTATION};

use crate::failure::Failure;
use crate::manager::Manager;
use crate::ports::StoreError;
use crate::ports::services::{Entry, Scope};
use crate::validate::own_store_provider;

impl Manager {
    /// Definitions name the cluster's own store where it is now: its address may be another one
    /// than before. Those of federations say where their origin is, and are left alone. How many
    /// were changed, and what went wrong with others: one keeps nobody else from working.
    pub async fn tick_own_store(&self) -> Result<(usize, Vec<String>), Failure> {
        let (reference, own) = own_store_provider(&self.policy);
        let (mut changed, mut troubles) = (0, Vec::new());
        for entry in self.ports.services.list(&Scope::All).await? {
            let Entry::Good(stored) = entry else { continue };
            let known = stored.service.definition.storage_providers.get(&reference);
            if names_another_store(&stored.service.definition) || known == Some(&own) {
                continue;
            }
            let mut service = stored.service.clone();
            service.definition.storage_providers.insert(reference.clone(), own.clone());
            let name = service.name().clone();
            let replaced = match self.ports.services.reveal(&name).await {
                Ok(sensitive) => self.ports.services.replace(service, sensitive, &stored.revision).await.map(drop),
                Err(error) => Err(error),
            };
            match replaced {
                Ok(()) => changed += 1,
                // Somebody changed it meanwhile, and so it names the right one.
                Err(StoreError::Conflict | StoreError::NotFound) => {}
                Err(error) => troubles.push(format!("{name}: {error}")),
            }
        }
        Ok((changed, troubles))
    }
}

/// A federated service may name its origin's store.
fn names_another_store(definition: &Definition) -> bool {
    definition.federation.as_ref().is_some_and(|federation| !federation.members.is_empty())
        || definition.annotations.contains_key(ORIGIN_CLUSTER_ANNOTATION)
}

/// `minio.default` is always the cluster's own store, except for a federated service that
/// names its origin's.
pub(crate) fn force_own_store(definition: &mut Definition, (reference, own): (ProviderRef, Provider)) {
    if names_another_store(definition)
        && let Some(Provider::Minio { endpoint, access_key, secret_key, .. }) =
            definition.storage_providers.get_mut(&reference)
        && !endpoint.is_empty()
    {
        "hidden".clone_into(access_key);
        *secret_key = "hidden".into();
        return;
    }
    definition.storage_providers.insert(reference, own);
}
