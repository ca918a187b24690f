//! Usage of nodes, asked for now and then.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Client, ResourceExt};
use oscar_model::quantity::Quantity;

/// What each node used when it was asked last.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) nodes: HashMap<String, Used>,
    pub(crate) asked: Option<SystemTime>,
}

/// Millicores and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) cores: i64,
    pub(crate) bytes: i64,
}

/// Runs until it is dropped. A cluster without the metrics API is as good as one with it: the
/// usage is then what was promised.
pub(super) async fn poll(client: Client, usage: Arc<RwLock<Usage>>, version: Arc<RwLock<String>>, interval: Duration) {
    let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", "NodeMetrics");
    let resource = ApiResource::from_gvk_with_plural(&kind, "nodes");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    loop {
        match tokio::time::timeout(interval, api.list(&ListParams::default())).await {
            Ok(Ok(list)) => {
                let nodes = list.items.iter().filter_map(|item| Some((item.name_any(), read_usage(item)?))).collect();
                let mut usage = usage.write().unwrap_or_else(PoisonError::into_inner);
                *usage = Usage { nodes, asked: Some(SystemTime::now()) };
            }
            Ok(Err(error)) => tracing::debug!(%error, "no usage of nodes"),
            Err(_) => tracing::debug!("no usage of nodes: no answer"),
        }
        if let Ok(Ok(info)) = tokio::time::timeout(interval, client.apiserver_version()).await {
            *version.write().unwrap_or_else(PoisonError::into_inner) = info.git_version;
        }
        tokio::time::sleep(interval).await;
    }
}

fn read_usage(item: &DynamicObject) -> Option<Used> {
    let usage = item.data.get("usage")?;
    let read = |key: &str| usage.get(key)?.as_str().and_then(Quantity::parse);
    Some(Used { cores: read("cpu")?.millis(), bytes: read("memory")?.units() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_in_nanos_and_kibibytes() {
        let item: DynamicObject = serde_json::from_value(serde_json::json!({
            "apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": "n1"},
            "timestamp": "2026-01-01T00:00:00Z", "window": "10s",
            "usage": {"cpu": "157344915n", "memory": "1024Ki"},
        }))
        .expect("valid");
        assert_eq!(read_usage(&item), Some(Used { cores: 158, bytes: 1_048_576 }));
    }
}
