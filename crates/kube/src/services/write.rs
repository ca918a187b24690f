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
use super::journal::{Held, Release, too_slow};
use crate::index::{Found, Writing};
use crate::layout::pod_template::build_pod_template;
use crate::layout::record::{Keeping, Row, build_record, read_service, revision};
use crate::layout::secrets::{build_credentials, build_environment, credentials_name, is_foreign, is_somebody_elses};
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
        let made = self.limited(&held, Box::pin(work)).await;
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
        self.settle_unsettled(held).await.map_err(Failed::InDoubt)?;
        let selector = format!("{SERVICE_LABEL}={name}");
        let taken = self.calls.list::<ConfigMap>("", &selector).await.map_err(Failed::Untouched)?;
        if !taken.is_empty() {
            return Err(Failed::Untouched(StoreError::AlreadyExists));
        }
        self.check_vacant(namespace, name, sensitive, &Keeping::Nothing(String::new()))
            .await
            .map_err(Failed::Untouched)?;
        if let Keeping::Kept(_) = Keeping::read(&record.metadata) {
            self.put_secret(held, build_credentials(namespace, name, change, sensitive, BTreeMap::new())).await?;
        }
        if let Some(copy) = build_environment(namespace, name, change, sensitive) {
            self.put_secret(held, copy).await?;
        }
        self.put_template(build_pod_template(service, change)).await.map_err(|error| match error {
            StoreError::NotFound => StoreError::Unavailable(format!("the namespace '{namespace}' does not exist")),
            other => other,
        })?;
        held.check()?;
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
        let held = self.journal.acquire(&name, &key.namespace).await?;
        let writing = self.index.writing();
        let made = self.limited(&held, Box::pin(self.replace_held(&held, &service, &sensitive, expected))).await;
        let stored = match &made {
            Ok(record) => Some(shown(writing, record)),
            Err(_) => None,
        };
        let made = self.conclude(held, &key.namespace, made).await?;
        stored.unwrap_or_else(|| shown(self.index.writing(), &made))
    }

    /// What is replaced is read while the name is ours: whoever held it before may have moved the
    /// record on, and the values of his change are not ours to drop.
    async fn replace_held(
        &self,
        held: &Held,
        service: &Service,
        sensitive: &Sensitive,
        expected: &Revision,
    ) -> Result<ConfigMap, Failed> {
        let (namespace, name) = (service.namespace.as_str(), service.name().as_str());
        self.settle_unsettled(held).await.map_err(Failed::InDoubt)?;
        let live = self.expected_record(namespace, name, |live| revision(&live.metadata) == *expected).await?;
        let change = Uuid::new_v4().to_string();
        let keeping = Keeping::of(&change, sensitive);
        let mut record = build_record(service, &keeping);
        read_service(&record).map_err(|cause| Failed::Untouched(StoreError::Broken(cause)))?;
        carry_over(&mut record, live.metadata.clone());
        let before = Keeping::read(&live.metadata);
        self.check_vacant(namespace, name, sensitive, &before).await.map_err(Failed::Untouched)?;
        if before == Keeping::Upstream {
            self.adopt_secret(namespace, name).await?;
        }
        if let Keeping::Kept(_) = keeping {
            self.add_values(held, service, sensitive, &change).await?;
        }
        held.check()?;
        let written = self.calls.replace(&record).await;
        self.made_sure(written, namespace, name, &change).await
    }

    /// The record as it is now, if it is the one that is meant. If it is not, the next read of this
    /// manager shows what it is: whoever is told of a conflict reads again, and the watch may be
    /// behind.
    async fn expected_record(
        &self,
        namespace: &str,
        name: &str,
        is_meant: impl FnOnce(&ConfigMap) -> bool,
    ) -> Result<ConfigMap, Failed> {
        let seen = self.index.writing();
        let live = self.live_record(namespace, name).await.map_err(Failed::Untouched)?;
        let live = live.ok_or(Failed::Untouched(StoreError::NotFound))?;
        if is_meant(&live) {
            return Ok(live);
        }
        seen.wrote(&live);
        Err(Failed::Untouched(StoreError::Conflict))
    }

    /// Refuses before anything is written when a Secret that the change needs is somebody else's.
    async fn check_vacant(
        &self,
        namespace: &str,
        name: &str,
        sensitive: &Sensitive,
        before: &Keeping,
    ) -> Result<(), StoreError> {
        let Sensitive { environment, cluster_passwords } = sensitive;
        let mut needed = Vec::new();
        if !environment.is_empty() {
            needed.push(name.to_owned());
        }
        if !environment.is_empty() || !cluster_passwords.is_empty() {
            needed.push(credentials_name(name));
        }
        for secret in needed {
            let found: Option<KubeSecret> = self.calls.get(namespace, &secret).await?;
            // Go OSCAR puts no label on the Secret of a service.
            let goes_with_upstream = |found: &KubeSecret| *before == Keeping::Upstream && !is_foreign(found);
            if found.is_some_and(|found| is_somebody_elses(&found, name) && !goes_with_upstream(&found)) {
                return Err(occupied(namespace, &secret, name));
            }
        }
        Ok(())
    }

    /// Puts the values of a change beside all that are there: which of them are of the past is
    /// decided when the record has moved.
    async fn add_values(
        &self,
        held: &Held,
        service: &Service,
        sensitive: &Sensitive,
        change: &str,
    ) -> Result<(), StoreError> {
        let (namespace, name) = (service.namespace.as_str(), service.name().as_str());
        for _ in 0..4 {
            let found: Option<KubeSecret> = self.calls.get(namespace, &credentials_name(name)).await?;
            let (values, version) = match found {
                Some(found) if is_somebody_elses(&found, name) => {
                    return Err(occupied(namespace, &credentials_name(name), name));
                }
                Some(found) => (found.data.unwrap_or_default(), found.metadata.resource_version),
                None => (BTreeMap::new(), None),
            };
            held.check()?;
            let mut secret = build_credentials(namespace, name, change, sensitive, values);
            secret.metadata.resource_version.clone_from(&version);
            let written =
                if version.is_some() { self.calls.replace(&secret).await } else { self.calls.create(&secret).await };
            match written {
                // It came, went or changed in between; or an answer of ours was lost.
                Err(StoreError::Conflict | StoreError::AlreadyExists | StoreError::NotFound) => {}
                other => return other.map(drop),
            }
        }
        Err(StoreError::Unavailable(format!("Secret {namespace}/{} keeps changing", credentials_name(name))))
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
        let held = self.journal.acquire(name, &key.namespace).await?;
        let made = self.limited(&held, Box::pin(self.remove_held(&held, &key, expected))).await;
        self.conclude(held, &key.namespace, made).await
    }

    async fn remove_held(&self, held: &Held, key: &Key, expected: Option<&Revision>) -> Result<(), Failed> {
        let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
        self.settle_unsettled(held).await.map_err(Failed::InDoubt)?;
        // What cannot be read has no revision that anybody could have been told.
        let is_meant = |live: &ConfigMap| {
            expected.is_none_or(|expected| read_service(live).is_err() || revision(&live.metadata) == *expected)
        };
        let live = self.expected_record(namespace, name, is_meant).await?;
        let exactly = expected.is_some() && read_service(&live).is_ok();
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
            Ok(value) => (Ok(value), self.settle(&held, namespace).await),
            Err(Failed::Halfway(error)) => (Err(error), self.settle(&held, namespace).await),
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

    async fn limited<T>(
        &self,
        held: &Held,
        work: Pin<Box<impl Future<Output = Result<T, Failed>>>>,
    ) -> Result<T, Failed> {
        let outcome = tokio::time::timeout_at(held.until(self.limit), work).await;
        outcome.unwrap_or_else(|_| Err(Failed::InDoubt(too_slow())))
    }
}

/// What stands where a Secret of the service would.
pub(super) fn occupied(namespace: &str, secret: &str, service: &str) -> StoreError {
    StoreError::Occupied(format!(
        "the Secret {namespace}/{secret} does not belong to service '{service}'; remove that Secret, or name the service \
         differently"
    ))
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
