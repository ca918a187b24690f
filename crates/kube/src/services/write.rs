//! The three changes: what is written in which order, and what happens when a step fails.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret as KubeSecret};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Revision, Stored};
use oscar_model::name::ServiceName;
use oscar_model::service::{Sensitive, Service};
use uuid::Uuid;

use super::Shared;
use super::journal::{Held, Release};
use crate::index::{Found, Writing};
use crate::layout::pod_template::build_pod_template;
use crate::layout::record::{Keeping, Row, build_record, read_service, revision};
use crate::layout::secrets::{build_credentials, build_environment, credentials_name, is_foreign};
use crate::layout::{SERVICE_LABEL, texts};
use crate::mirror::{key_of, stamp_of};
use crate::shelf::Key;

/// A step that failed, by what it leaves.
enum Failed {
    /// Nothing was written.
    Untouched(StoreError),
    /// Something may stand beside the record, which itself was not written.
    Halfway(StoreError),
    /// The record may have been written all the same, or may still be: nothing beside it is
    /// taken back, and the Lease stays for whoever looks later.
    InDoubt(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Halfway(error)
    }
}

impl Shared {
    pub(super) async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError> {
        let change = Uuid::new_v4().to_string();
        let keeping = Keeping::of(&change, &sensitive);
        let record = build_record(&service, &keeping);
        read_service(&record).map_err(StoreError::Broken)?;
        let name = service.name().as_str();
        let _turn = self.names.turn(name).await;
        if !matches!(self.index.find(name)?, Found::Nowhere) {
            return Err(StoreError::AlreadyExists);
        }
        let held = self.journal.acquire(name, &service.namespace).await?;
        let writing = self.index.writing();
        let work = self.create_held(&held, &service, &sensitive, &change, &record);
        let made = self.limited(Box::pin(work)).await;
        let made = self.conclude_create(held, &service.namespace, made).await?;
        shown(writing, &made)
    }

    async fn create_held(
        &self,
        held: &Held,
        service: &Service,
        sensitive: &Sensitive,
        change: &str,
        record: &ConfigMap,
    ) -> Result<ConfigMap, Failed> {
        let (namespace, name) = (service.namespace.as_str(), service.name().as_str());
        self.settle_unsettled(held).await?;
        let selector = format!("{SERVICE_LABEL}={name}");
        if !self.calls.list::<ConfigMap>("", &selector).await?.is_empty() {
            return Err(Failed::Untouched(StoreError::AlreadyExists));
        }
        if let Keeping::Kept(_) = Keeping::read(&record.metadata) {
            self.put_secret(build_credentials(namespace, name, change, sensitive, BTreeMap::new())).await?;
        }
        if let Some(copy) = build_environment(namespace, name, change, sensitive) {
            self.put_secret(copy).await?;
        }
        self.put_template(build_pod_template(service, change)).await.map_err(|error| match error {
            StoreError::NotFound => StoreError::Unavailable(format!("the namespace '{namespace}' does not exist")),
            other => other,
        })?;
        if held.is_overdue() {
            return Err(StoreError::Unavailable("the apiserver was too slow".to_owned()).into());
        }
        let written = self.calls.create(record).await;
        self.made_sure(written, namespace, name, change).await
    }

    /// The record that a write left, also when its answer was lost or came from its own
    /// repetition.
    async fn made_sure(
        &self,
        written: Result<ConfigMap, StoreError>,
        namespace: &str,
        name: &str,
        change: &str,
    ) -> Result<ConfigMap, Failed> {
        let error = match written {
            Ok(record) => return Ok(record),
            Err(error) => error,
        };
        let in_doubt = matches!(error, StoreError::Unavailable(_));
        if !in_doubt && !matches!(error, StoreError::AlreadyExists | StoreError::Conflict) {
            return Err(error.into());
        }
        match self.live_record(namespace, name).await {
            Ok(Some(record)) if Keeping::read(&record.metadata).change() == Some(change) => Ok(record),
            Ok(_) if !in_doubt => Err(error.into()),
            Ok(_) | Err(_) => Err(Failed::InDoubt(error)),
        }
    }

    async fn conclude_create(
        &self,
        held: Held,
        namespace: &str,
        made: Result<ConfigMap, Failed>,
    ) -> Result<ConfigMap, StoreError> {
        let record = match made {
            Ok(record) => record,
            Err(failed) => return self.conclude(held, namespace, Err(failed)).await,
        };
        let (name, overdue) = (held.service.clone(), held.is_overdue());
        match self.journal.release(held).await {
            Release::Done => Ok(record),
            Release::Unknown(cause) if !overdue => {
                tracing::warn!(service = name, %cause, "a Lease was not given back");
                Ok(record)
            }
            Release::Lost | Release::Unknown(_) => Err(self.retract(namespace, &name, &record).await),
        }
    }

    /// We were taken for dead and somebody may have used the name since: our record goes.
    async fn retract(&self, namespace: &str, name: &str, record: &ConfigMap) -> StoreError {
        let deleted = self.calls.delete::<ConfigMap>(namespace, name, &stamp_of(&record.metadata)).await;
        tracing::warn!(service = name, ?deleted, "a create took too long and was taken back");
        self.index.note_orphaned(Key::new(namespace, name));
        StoreError::Unavailable("the apiserver was too slow; the service was not created".to_owned())
    }

    pub(super) async fn replace(
        &self,
        mut service: Service,
        sensitive: Sensitive,
        expected: &Revision,
    ) -> Result<Arc<Stored>, StoreError> {
        let name = service.name().to_string();
        let _turn = self.names.turn(&name).await;
        let (key, row) = self.locate(&name).await?;
        if let Entry::Broken { cause, .. } = row.entry {
            return Err(StoreError::Broken(cause));
        }
        service.namespace.clone_from(&key.namespace);
        let live = self.live_record(&key.namespace, &name).await?.ok_or(StoreError::NotFound)?;
        if revision(&live.metadata) != *expected {
            return Err(StoreError::Conflict);
        }
        let held = self.journal.acquire(&name, &key.namespace).await?;
        let writing = self.index.writing();
        let made = self.limited(Box::pin(self.replace_held(&held, &service, &sensitive, live))).await;
        let stored = match &made {
            Ok(record) => Some(shown(writing, record)),
            Err(_) => None,
        };
        let made = self.conclude(held, &key.namespace, made).await?;
        stored.unwrap_or_else(|| shown(self.index.writing(), &made))
    }

    async fn replace_held(
        &self,
        held: &Held,
        service: &Service,
        sensitive: &Sensitive,
        live: ConfigMap,
    ) -> Result<ConfigMap, Failed> {
        let (namespace, name) = (service.namespace.as_str(), service.name().as_str());
        self.settle_unsettled(held).await?;
        let change = Uuid::new_v4().to_string();
        let keeping = Keeping::of(&change, sensitive);
        let mut record = build_record(service, &keeping);
        read_service(&record).map_err(StoreError::Broken)?;
        carry_over(&mut record, live.metadata.clone());
        let before = Keeping::read(&live.metadata);
        if before == Keeping::Upstream {
            self.adopt_secret(namespace, name).await?;
        }
        if let Keeping::Kept(_) = keeping {
            let others = self.kept_values(namespace, name, &before).await?;
            self.put_secret(build_credentials(namespace, name, &change, sensitive, others)).await?;
        }
        let written = self.calls.replace(&record).await;
        self.made_sure(written, namespace, name, &change).await
    }

    /// The values of the change that the record still points at.
    async fn kept_values(
        &self,
        namespace: &str,
        name: &str,
        before: &Keeping,
    ) -> Result<BTreeMap<String, k8s_openapi::ByteString>, StoreError> {
        let Keeping::Kept(change) = before else { return Ok(BTreeMap::new()) };
        let secret: Option<KubeSecret> = self.calls.get(namespace, &credentials_name(name)).await?;
        let kept = secret.and_then(|secret| secret.data).and_then(|mut data| data.remove(change));
        Ok(kept.map(|value| (change.clone(), value)).into_iter().collect())
    }

    /// Marks the Secret of a service that Go OSCAR made as the service's, so that whatever
    /// happens next finds it by its label.
    async fn adopt_secret(&self, namespace: &str, name: &str) -> Result<(), StoreError> {
        for _ in 0..4 {
            let found: Option<KubeSecret> = self.calls.get(namespace, name).await?;
            let Some(mut found) = found.filter(|found| !is_foreign(found)) else { return Ok(()) };
            found.metadata.labels.get_or_insert_default().extend(texts([(SERVICE_LABEL, name)]));
            found.metadata.managed_fields = None;
            match self.calls.replace(&found).await {
                Err(StoreError::Conflict) => {}
                other => return other.map(drop),
            }
        }
        Err(StoreError::Conflict)
    }

    pub(super) async fn remove(&self, name: &ServiceName, expected: Option<&Revision>) -> Result<(), StoreError> {
        let name = name.as_str();
        let _turn = self.names.turn(name).await;
        let (key, _) = self.locate(name).await?;
        let live = self.live_record(&key.namespace, name).await?.ok_or(StoreError::NotFound)?;
        // What cannot be read has no revision that anybody could have been told.
        let readable = read_service(&live).is_ok();
        let expected = expected.filter(|_| readable);
        if expected.is_some_and(|expected| revision(&live.metadata) != *expected) {
            return Err(StoreError::Conflict);
        }
        let held = self.journal.acquire(name, &key.namespace).await?;
        let made = self.limited(Box::pin(self.remove_held(&held, &key, live, expected.is_some()))).await;
        self.conclude(held, &key.namespace, made).await
    }

    async fn remove_held(&self, held: &Held, key: &Key, live: ConfigMap, exactly: bool) -> Result<(), Failed> {
        let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
        self.settle_unsettled(held).await?;
        if Keeping::read(&live.metadata) == Keeping::Upstream {
            self.adopt_secret(namespace, name).await?;
        }
        let known = stamp_of(&live.metadata);
        let (mut stamp, uid) = (known.clone(), &known.uid);
        if !exactly {
            stamp.version.clear();
        }
        let writing = self.index.writing();
        let deleted = match self.calls.delete::<ConfigMap>(namespace, name, &stamp).await {
            Ok(()) | Err(StoreError::NotFound) => Ok(()),
            Err(error @ StoreError::Unavailable(_)) => match self.live_record(namespace, name).await {
                Ok(record) if record.as_ref().and_then(|record| record.metadata.uid.as_ref()) != Some(uid) => Ok(()),
                _ => Err(Failed::InDoubt(error)),
            },
            Err(error) => Err(error.into()),
        };
        if deleted.is_ok() {
            writing.deleted(key, known);
        }
        deleted
    }

    /// Tidies up beside the record and gives the Lease back. The change itself is decided:
    /// what cannot be tidied now is left, with its Lease, to the background.
    async fn conclude<T>(&self, held: Held, namespace: &str, made: Result<T, Failed>) -> Result<T, StoreError> {
        let name = held.service.clone();
        let (outcome, settled) = match made {
            Ok(value) => (Ok(value), self.settle(namespace, &name).await),
            Err(Failed::Halfway(error)) => (Err(error), self.settle(namespace, &name).await),
            Err(Failed::Untouched(error)) => (Err(error), Ok(())),
            Err(Failed::InDoubt(error)) => return Err(error),
        };
        match settled {
            Ok(()) => drop(self.journal.release(held).await),
            Err(cause) => tracing::warn!(service = name, %cause, "a change is tidied up later"),
        }
        outcome
    }

    /// Where a service is. A name that the index does not know may be another manager's work
    /// of this instant, so the apiserver is asked before it is denied.
    async fn locate(&self, name: &str) -> Result<(Key, Row), StoreError> {
        match self.index.find(name)? {
            Found::At(key, row) => return Ok((key, row)),
            Found::Doubled(cause) => return Err(StoreError::Broken(cause)),
            Found::Nowhere => {}
        }
        let selector = format!("{SERVICE_LABEL}={name}");
        let records: Vec<ConfigMap> = self.calls.list("", &selector).await?;
        let record = records.into_iter().find(|record| record.metadata.name.as_deref() == Some(name));
        let record = record.ok_or(StoreError::NotFound)?;
        Ok((key_of(&record.metadata), crate::layout::record::read_record(&record)))
    }

    async fn limited<T>(&self, work: Pin<Box<impl Future<Output = Result<T, Failed>>>>) -> Result<T, Failed> {
        let too_slow = || StoreError::Unavailable("the apiserver was too slow".to_owned());
        let outcome = tokio::time::timeout(self.limit, work).await;
        outcome.unwrap_or_else(|_| Err(Failed::InDoubt(too_slow())))
    }
}

/// Puts what was stored where the next read finds it.
fn shown(writing: Writing<'_>, record: &ConfigMap) -> Result<Arc<Stored>, StoreError> {
    match writing.wrote(record).entry {
        Entry::Good(stored) => Ok(stored),
        Entry::Broken { cause, .. } => Err(StoreError::Broken(cause)),
    }
}

/// What others put on the record stays, and the write is of the version that was read.
fn carry_over(record: &mut ConfigMap, live: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) {
    let built = std::mem::replace(&mut record.metadata, live);
    record.metadata.managed_fields = None;
    record.metadata.labels.get_or_insert_default().extend(built.labels.unwrap_or_default());
    record.metadata.annotations.get_or_insert_default().extend(built.annotations.unwrap_or_default());
}
