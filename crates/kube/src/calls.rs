//! One call to the apiserver each, with a limit in time and an error that says what was tried.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource};
use oscar_engine::ports::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::explain;
use crate::shelf::Stamp;

/// A call that takes longer is given up; whether it had an effect is not known then.
const LIMIT: Duration = Duration::from_secs(8);

#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) client: Client,
}

/// What this module needs to know of an object in a namespace.
pub(crate) trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

impl Calls {
    pub(crate) async fn get<K: Namespaced>(&self, namespace: &str, name: &str) -> Result<Option<K>, StoreError> {
        let api: Api<K> = self.within(namespace);
        limited("get", &what::<K>(namespace, name), Box::pin(api.get_opt(name))).await
    }

    pub(crate) async fn get_metadata<K: Namespaced>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<PartialObjectMeta<K>>, StoreError> {
        let api: Api<K> = self.within(namespace);
        limited("get", &what::<K>(namespace, name), Box::pin(api.get_metadata_opt(name))).await
    }

    pub(crate) async fn create<K: Namespaced>(&self, object: &K) -> Result<K, StoreError> {
        let (namespace, name) = place(object);
        let api: Api<K> = self.within(namespace);
        limited("create", &what::<K>(namespace, name), Box::pin(api.create(&written_by_us(), object))).await
    }

    /// Replaces the version that `object` carries.
    pub(crate) async fn replace<K: Namespaced>(&self, object: &K) -> Result<K, StoreError> {
        let (namespace, name) = place(object);
        let api: Api<K> = self.within(namespace);
        limited("update", &what::<K>(namespace, name), Box::pin(api.replace(name, &written_by_us(), object))).await
    }

    /// Deletes that incarnation, and when a version is given, only in that state.
    pub(crate) async fn delete<K: Namespaced>(
        &self,
        namespace: &str,
        name: &str,
        stamp: &Stamp,
    ) -> Result<(), StoreError> {
        let api: Api<K> = self.within(namespace);
        let only = Preconditions {
            uid: Some(stamp.uid.clone()),
            resource_version: (!stamp.version.is_empty()).then(|| stamp.version.clone()),
        };
        let how = DeleteParams::background().preconditions(only);
        limited("delete", &what::<K>(namespace, name), Box::pin(api.delete(name, &how))).await.map(|_| ())
    }

    /// `namespace` blank means all.
    pub(crate) async fn list<K: Namespaced>(&self, namespace: &str, labels: &str) -> Result<Vec<K>, StoreError> {
        let api: Api<K> = if namespace.is_empty() { Api::all(self.client.clone()) } else { self.within(namespace) };
        let which = ListParams::default().labels(labels);
        limited("list", &what::<K>(namespace, ""), Box::pin(api.list(&which))).await.map(|list| list.items)
    }

    pub(crate) async fn create_cluster<K>(&self, object: &K) -> Result<K, StoreError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let name = object.meta().name.as_deref().unwrap_or_default();
        let api: Api<K> = Api::all(self.client.clone());
        limited("create", &what::<K>("", name), Box::pin(api.create(&written_by_us(), object))).await
    }

    pub(crate) async fn get_cluster<K>(&self, name: &str) -> Result<Option<K>, StoreError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        limited("get", &what::<K>("", name), Box::pin(api.get_opt(name))).await
    }

    fn within<K: Namespaced>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

async fn limited<T>(
    verb: &str,
    what: &str,
    // In a box: what a change waits for is made of many of these.
    call: Pin<Box<impl Future<Output = Result<T, kube::Error>>>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(LIMIT, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(explain(verb, what, &error)),
        Err(_) => Err(StoreError::Unavailable(format!("{verb} {what}: no answer in {} s", LIMIT.as_secs()))),
    }
}

fn what<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> String {
    let kind = K::kind(&());
    match (namespace, name) {
        ("", "") => format!("{kind} in all namespaces"),
        ("", name) => format!("{kind} {name}"),
        (namespace, "") => format!("{kind} in {namespace}"),
        (namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}

fn place<K: Resource>(object: &K) -> (&str, &str) {
    let meta = object.meta();
    (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

fn written_by_us() -> PostParams {
    PostParams { field_manager: Some("oscar".to_owned()), ..PostParams::default() }
}
