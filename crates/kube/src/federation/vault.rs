//! Refresh tokens: one Secret for each, in the namespace of its owner, that no pod refers to.
//!
//! Secrets of other namespaces cannot be listed, so a ConfigMap in the manager's namespace says
//! where each one is. It is made before the Secret and removed after it: what a crash leaves is
//! at most a pointer to nothing.

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use oscar_api::federation::Kept as _;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::vault::{Claim, Vault};
use oscar_model::federation::record::Grant;

use super::claim::Claims;
use super::{TRIES, crowded, fitting};
use crate::calls::Calls;
use crate::layout::federation::{
    GRANT_SELECTOR, Pointer, build_grant, build_pointer, grant_name, pointer_name, read_pointer, read_record,
};
use crate::mirror::stamp_of;
use crate::options::Options;

/// How many are read at once.
const AT_ONCE: usize = 8;

pub(crate) struct KubeVault {
    calls: Calls,
    namespace: String,
    /// Writes of this manager take turns: they would only meet at the apiserver.
    turn: tokio::sync::Mutex<()>,
    claims: Claims,
}

impl KubeVault {
    pub(crate) fn new(calls: &Calls, options: &Options) -> Self {
        let namespace = options.namespace.clone();
        let claims = Claims::new(calls, &namespace, options.patience * 2);
        Self { calls: calls.clone(), namespace, turn: tokio::sync::Mutex::default(), claims }
    }

    async fn pointer(&self, id: &str) -> Result<Option<(ConfigMap, Pointer)>, StoreError> {
        let found: Option<ConfigMap> = self.calls.get(&self.namespace, &pointer_name(id)).await?;
        let Some(found) = found else { return Ok(None) };
        let broken = || StoreError::Broken(format!("ConfigMap {} does not say where a token is", pointer_name(id)));
        let pointer = read_pointer(&found).ok_or_else(broken)?;
        if pointer.id == id { Ok(Some((found, pointer))) } else { Err(broken()) }
    }

    /// Makes the pointer say where the grant will be. Where it was before, if elsewhere.
    async fn point(&self, wanted: &Pointer) -> Result<Option<Pointer>, StoreError> {
        for _ in 0..TRIES {
            let mut object = build_pointer(&self.namespace, wanted);
            let (former, written) = match self.pointer(&wanted.id).await? {
                Some((_, found)) if found == *wanted => return Ok(None),
                Some((found, former)) => {
                    object.metadata.uid = found.metadata.uid;
                    object.metadata.resource_version = found.metadata.resource_version;
                    (Some(former), self.calls.replace(&object).await)
                }
                None => (None, self.calls.create(&object).await),
            };
            match written {
                Ok(_) => return Ok(former),
                Err(StoreError::Conflict | StoreError::AlreadyExists) => {}
                Err(StoreError::NotFound) => {
                    return Err(StoreError::Unavailable(format!("the namespace '{}' does not exist", self.namespace)));
                }
                Err(error) => return Err(error),
            }
        }
        Err(crowded(&format!("ConfigMap {}/{}", self.namespace, pointer_name(&wanted.id))))
    }

    async fn write(&self, mut secret: Secret, id: &str) -> Result<(), StoreError> {
        let namespace = secret.metadata.namespace.clone().unwrap_or_default();
        for _ in 0..TRIES {
            let found: Option<Secret> = self.calls.get(&namespace, &grant_name(id)).await?;
            secret.metadata.uid = found.as_ref().and_then(|found| found.metadata.uid.clone());
            secret.metadata.resource_version = found.as_ref().and_then(|found| found.metadata.resource_version.clone());
            let written =
                if found.is_some() { self.calls.replace(&secret).await } else { self.calls.create(&secret).await };
            match written {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict | StoreError::AlreadyExists) => {}
                Err(StoreError::NotFound) if found.is_some() => {}
                Err(StoreError::NotFound) => {
                    return Err(StoreError::Unavailable(format!("the namespace '{namespace}' does not exist")));
                }
                Err(error) => return Err(error),
            }
        }
        Err(crowded(&format!("Secret {namespace}/{}", grant_name(id))))
    }

    async fn erase(&self, pointer: &Pointer) -> Result<(), StoreError> {
        let name = grant_name(&pointer.id);
        let found = self.calls.get_metadata::<Secret>(&pointer.namespace, &name).await?;
        let Some(found) = found else { return Ok(()) };
        let mut stamp = stamp_of(&found.metadata);
        // Whatever its state: it has to go.
        stamp.version.clear();
        match self.calls.delete::<Secret>(&pointer.namespace, &name, &stamp).await {
            Ok(()) | Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn read(&self, pointer: &Pointer) -> Result<Option<Grant>, StoreError> {
        let name = grant_name(&pointer.id);
        let found: Option<Secret> = self.calls.get(&pointer.namespace, &name).await?;
        let Some(found) = found else { return Ok(None) };
        let broken = |cause: &str| StoreError::Broken(format!("Secret {}/{name}: {cause}", pointer.namespace));
        let bytes = read_record(&found).ok_or_else(|| broken("it has no record"))?;
        let grant = Grant::from_bytes(bytes).map_err(|cause| broken(&cause))?;
        // Somebody with rights in that namespace could have put another one in its place.
        if grant.id == pointer.id && grant.namespace == pointer.namespace {
            Ok(Some(grant))
        } else {
            Err(broken("it is the token of another grant"))
        }
    }
}

#[async_trait]
impl Vault for KubeVault {
    async fn put_grant(&self, grant: &Grant) -> Result<(), StoreError> {
        let what = format!("the refresh token of '{}'", grant.owner);
        let secret = build_grant(grant, fitting(&what, grant.to_bytes())?);
        let _turn = self.turn.lock().await;
        let former = self.point(&Pointer { id: grant.id.clone(), namespace: grant.namespace.clone() }).await?;
        self.write(secret, &grant.id).await?;
        match former {
            Some(former) => self.erase(&former).await,
            None => Ok(()),
        }
    }

    async fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        match self.pointer(id).await? {
            Some((_, pointer)) => self.read(&pointer).await,
            None => Ok(None),
        }
    }

    async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        let found: Vec<ConfigMap> = self.calls.list(&self.namespace, GRANT_SELECTOR).await?;
        let pointers: Vec<_> = found.iter().filter_map(read_pointer).collect();
        let read = stream::iter(pointers.iter().cloned()).map(|pointer| async move { self.read(&pointer).await });
        let read: Vec<_> = read.buffered(AT_ONCE).collect().await;
        let mut grants = Vec::new();
        for (pointer, grant) in pointers.iter().zip(read) {
            match grant {
                Ok(grant) => grants.extend(grant),
                // One that is broken takes no other along.
                Err(error @ StoreError::Broken(_)) => {
                    tracing::error!(namespace = pointer.namespace, %error, "a refresh token cannot be read");
                }
                Err(error) => return Err(error),
            }
        }
        grants.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(grants)
    }

    async fn claim(&self, id: &str) -> Result<Claim, StoreError> {
        self.claims.take(id).await
    }

    async fn remove_grant(&self, id: &str) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        let Some((found, pointer)) = self.pointer(id).await? else { return Ok(()) };
        self.erase(&pointer).await?;
        match self.calls.delete::<ConfigMap>(&self.namespace, &pointer_name(id), &stamp_of(&found.metadata)).await {
            Ok(()) | Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
