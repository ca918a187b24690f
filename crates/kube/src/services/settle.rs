//! Makes what stands beside a record agree with it. One procedure undoes a create that failed,
//! ends a replacement, finishes a removal and cleans up after a crash; it only touches objects
//! that carry the service's label, and only its caller's Lease allows it to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join3;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplate, Secret as KubeSecret};
use oscar_engine::ports::StoreError;

use super::Shared;
use super::journal::{Held, Release};
use super::write::occupied;
use crate::calls::Namespaced;
use crate::layout::pod_template::build_pod_template;
use crate::layout::record::{Keeping, read_service};
use crate::layout::secrets::{
    build_credentials, build_environment, credentials_name, is_somebody_elses, read_credentials,
};
use crate::layout::{CHANGE, annotation, belongs_to};
use crate::mirror::stamp_of;
use crate::watch::Sink;

/// Settles in the background for as long as the world lives.
pub(super) async fn run(shared: Arc<Shared>, pause: Duration) {
    shared.index.link().synced().await;
    loop {
        if let Err(cause) = shared.tick_settle().await {
            tracing::debug!(%cause, "abandoned changes are looked for later");
        }
        tokio::time::sleep(pause).await;
    }
}

impl Shared {
    /// One name that cannot be settled keeps no other from it; the first failure is told.
    pub(super) async fn tick_settle(&self) -> Result<usize, StoreError> {
        let mut outcomes = Vec::new();
        for lease in self.journal.abandoned().await? {
            outcomes.push(self.settle_lease(&lease).await);
        }
        for key in self.index.take_orphaned() {
            let outcome = self.settle_orphaned(&key.namespace, &key.name).await;
            if outcome.is_err() {
                self.index.note_orphaned(key);
            }
            outcomes.push(outcome);
        }
        outcomes.into_iter().try_fold(0, |settled, outcome| Ok(settled + usize::from(outcome?)))
    }

    async fn settle_lease(&self, lease: &Lease) -> Result<bool, StoreError> {
        match self.journal.acquire_abandoned(lease).await? {
            Some(held) => self.settle_abandoned(held).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// A manager that knows no credentials Secret removed the record.
    async fn settle_orphaned(&self, namespace: &str, name: &str) -> Result<bool, StoreError> {
        let left = self.calls.get_metadata::<KubeSecret>(namespace, &credentials_name(name)).await?;
        if left.is_none() {
            return Ok(false);
        }
        let held = self.journal.acquire(name, namespace).await?;
        self.settle(&held, namespace).await?;
        self.settle_abandoned(held).await?;
        Ok(true)
    }

    async fn settle_abandoned(&self, held: Held) -> Result<(), StoreError> {
        self.settle_unsettled(&held).await?;
        match self.journal.release(held).await {
            Release::Done | Release::Lost => Ok(()),
            Release::Unknown(error) => Err(error),
        }
    }

    pub(super) async fn settle_unsettled(&self, held: &Held) -> Result<(), StoreError> {
        for namespace in &held.unsettled {
            self.settle(held, namespace).await?;
        }
        Ok(())
    }

    pub(super) async fn settle(&self, held: &Held, namespace: &str) -> Result<(), StoreError> {
        Box::pin(self.settle_now(held, namespace)).await
    }

    async fn settle_now(&self, held: &Held, namespace: &str) -> Result<(), StoreError> {
        let name = held.service.as_str();
        let Some(record) = self.live_record(namespace, name).await? else {
            try_join3(
                self.drop_companion::<PodTemplate>(held, namespace, name),
                self.drop_companion::<KubeSecret>(held, namespace, name),
                self.drop_companion::<KubeSecret>(held, namespace, &credentials_name(name)),
            )
            .await?;
            return Ok(());
        };
        match Keeping::read(&record.metadata) {
            // Go OSCAR wrote last: its Secret is its own, ours is of the past.
            Keeping::Upstream => self.drop_companion::<KubeSecret>(held, namespace, &credentials_name(name)).await,
            Keeping::Nothing(change) => {
                try_join3(
                    self.keep_template(&record, &change),
                    self.drop_companion::<KubeSecret>(held, namespace, name),
                    self.drop_companion::<KubeSecret>(held, namespace, &credentials_name(name)),
                )
                .await?;
                Ok(())
            }
            Keeping::Kept(change) => {
                self.keep_template(&record, &change).await?;
                self.keep_secrets(held, namespace, &change).await
            }
        }
    }

    /// The copy for pods follows what counts, and what counts loses what is of the past.
    async fn keep_secrets(&self, held: &Held, namespace: &str, change: &str) -> Result<(), StoreError> {
        let name = held.service.as_str();
        let credentials: Option<KubeSecret> = self.calls.get(namespace, &credentials_name(name)).await?;
        let Some(credentials) = credentials else { return Ok(()) };
        // Whatever is there besides was there before anybody else could begin to add to it.
        held.check()?;
        let Some(sensitive) = read_credentials(&credentials, change).map_err(StoreError::Broken)? else {
            return Ok(());
        };
        match build_environment(namespace, name, change, &sensitive) {
            None => self.drop_companion::<KubeSecret>(held, namespace, name).await?,
            Some(copy) => {
                let known = self.calls.get_metadata::<KubeSecret>(namespace, name).await?;
                if known.is_none_or(|known| annotation(&known.metadata, CHANGE) != Some(change)) {
                    self.put_unless_occupied(held, copy).await?;
                }
            }
        }
        if credentials.data.is_some_and(|data| data.len() > 1) {
            let mut only = build_credentials(namespace, name, change, &sensitive, BTreeMap::default());
            only.metadata.resource_version = credentials.metadata.resource_version;
            return match self.calls.replace(&only).await {
                // An answer of ours that was lost, or a manager that came after us: it tidies up.
                Err(StoreError::Conflict | StoreError::NotFound) => Ok(()),
                other => other.map(drop),
            };
        }
        Ok(())
    }

    /// Somebody put a Secret of his own where the copy for pods was: it is his, and no reason why
    /// the service could not be changed or removed any more.
    async fn put_unless_occupied(&self, held: &Held, copy: KubeSecret) -> Result<(), StoreError> {
        match self.put_secret(held, copy).await {
            Err(StoreError::Occupied(cause)) => {
                tracing::warn!(service = held.service, %cause, "pods of a service do not get its secrets");
                Ok(())
            }
            other => other,
        }
    }

    async fn keep_template(&self, record: &ConfigMap, change: &str) -> Result<(), StoreError> {
        // A record that cannot be read describes no pod.
        let Ok((service, _)) = read_service(record) else { return Ok(()) };
        let known = self.calls.get_metadata::<PodTemplate>(&service.namespace, service.name().as_str()).await?;
        if known.is_some_and(|known| annotation(&known.metadata, CHANGE) == Some(change)) {
            return Ok(());
        }
        self.put_template(build_pod_template(&service, change)).await
    }

    /// Deletes an object beside the record, if it is there and is the service's.
    async fn drop_companion<K: Namespaced>(&self, held: &Held, namespace: &str, name: &str) -> Result<(), StoreError> {
        for _ in 0..4 {
            let found = self.calls.get_metadata::<K>(namespace, name).await?;
            let Some(found) = found.filter(|found| belongs_to(&found.metadata, &held.service)) else { return Ok(()) };
            held.check()?;
            match self.calls.delete::<K>(namespace, name, &stamp_of(&found.metadata)).await {
                Err(StoreError::Conflict) => {}
                Ok(()) | Err(StoreError::NotFound) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Unavailable(format!("{namespace}/{name} keeps changing")))
    }

    /// Creates the Secret or takes over what a former life of the service left.
    pub(super) async fn put_secret(&self, held: &Held, mut secret: KubeSecret) -> Result<(), StoreError> {
        let (namespace, name) = place(&secret.metadata);
        for _ in 0..4 {
            held.check()?;
            secret.metadata.resource_version = None;
            match self.calls.create(&secret).await {
                Err(StoreError::AlreadyExists) => {}
                other => return other.map(drop),
            }
            let found: Option<KubeSecret> = self.calls.get(&namespace, &name).await?;
            let Some(found) = found else { continue };
            if is_somebody_elses(&found, &held.service) {
                return Err(occupied(&namespace, &name, &held.service));
            }
            held.check()?;
            secret.metadata.resource_version = found.metadata.resource_version;
            match self.calls.replace(&secret).await {
                Err(StoreError::Conflict | StoreError::NotFound) => {}
                other => return other.map(drop),
            }
        }
        Err(StoreError::Unavailable(format!("Secret {namespace}/{name} keeps changing")))
    }

    pub(super) async fn put_template(&self, mut template: PodTemplate) -> Result<(), StoreError> {
        let (namespace, name) = place(&template.metadata);
        for _ in 0..4 {
            template.metadata.resource_version = None;
            match self.calls.create(&template).await {
                Err(StoreError::AlreadyExists) => {}
                other => return other.map(drop),
            }
            let found = self.calls.get_metadata::<PodTemplate>(&namespace, &name).await?;
            let Some(found) = found else { continue };
            template.metadata.resource_version = found.metadata.resource_version;
            match self.calls.replace(&template).await {
                Err(StoreError::Conflict | StoreError::NotFound) => {}
                other => return other.map(drop),
            }
        }
        Err(StoreError::Unavailable(format!("PodTemplate {namespace}/{name} keeps changing")))
    }
}

fn place(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> (String, String) {
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}
