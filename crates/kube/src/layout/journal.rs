//! The Lease of a name: who is changing that service, and where.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{MANAGED_BY, OSCAR, annotation, texts};

const SERVICE: &str = "oscar.grycap/service";
const NAMESPACES: &str = "oscar.grycap/namespaces";
pub(crate) const JOURNAL: &str = "oscar.grycap/journal";
/// Which Leases are of this journal.
pub(crate) const SELECTOR: &str = "oscar.grycap/journal=service";

/// What a Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intent {
    pub(crate) service: String,
    /// Everywhere that something unfinished may be.
    pub(crate) namespaces: Vec<String>,
    pub(crate) holder: String,
}

pub(crate) fn lease_name(service: &str) -> String {
    format!("oscar-name.{service}")
}

pub(crate) fn build_lease(namespace: &str, intent: &Intent, patience: std::time::Duration) -> Lease {
    let Intent { service, namespaces, holder } = intent;
    Lease {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(lease_name(service)),
            labels: Some(texts([(MANAGED_BY, OSCAR), (JOURNAL, "service")])),
            annotations: Some(texts([(SERVICE, service), (NAMESPACES, &namespaces.join(","))])),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.clone()),
            lease_duration_seconds: Some(i32::try_from(patience.as_secs()).unwrap_or(i32::MAX).max(1)),
            ..LeaseSpec::default()
        }),
    }
}

pub(crate) fn read_lease(lease: &Lease) -> Intent {
    let name = lease.metadata.name.as_deref().unwrap_or_default();
    let service = annotation(&lease.metadata, SERVICE);
    let listed = annotation(&lease.metadata, NAMESPACES).unwrap_or_default();
    Intent {
        service: service.or(name.strip_prefix("oscar-name.")).unwrap_or(name).to_owned(),
        namespaces: listed.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        holder: lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_says_who_changes_what_and_where() {
        let intent = Intent {
            service: "grayify".to_owned(),
            namespaces: vec!["one".to_owned(), "two".to_owned()],
            holder: "me".to_owned(),
        };
        let built = build_lease("oscar", &intent, std::time::Duration::from_secs(15));
        assert_eq!(
            serde_json::to_value(&built).expect("objects are JSON"),
            serde_json::json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {
                    "namespace": "oscar", "name": "oscar-name.grayify",
                    "labels": {"app.kubernetes.io/managed-by": "oscar", "oscar.grycap/journal": "service"},
                    "annotations": {"oscar.grycap/service": "grayify", "oscar.grycap/namespaces": "one,two"},
                },
                "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15},
            })
        );
        assert_eq!(read_lease(&built), intent);
    }
}
