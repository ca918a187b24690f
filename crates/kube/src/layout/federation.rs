//! What federations leave in a cluster: entries of the journal, refresh tokens and where they
//! are, the audit, and the Lease of the manager that looks after them.
//!
//! Every name has a dot, so none can be that of a service. The Secrets have types of their own:
//! nobody takes one for the secrets of a service, and no kubelet pulls an image with it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use oscar_model::federation::record::Grant;
use sha2::{Digest as _, Sha256};

use super::journal::JOURNAL;
use super::{MANAGED_BY, OSCAR, annotation, texts};

const SERVICE: &str = "oscar.grycap/service";
/// Which holder of the Lease wrote an entry last.
const EPOCH: &str = "oscar.grycap/epoch";
const RECORD: &str = "record";
const GRANT: &str = "oscar.grycap/grant";
const HOLDERS: &str = "oscar.grycap/holders";
/// Which ConfigMaps say where a refresh token is.
pub(crate) const GRANT_SELECTOR: &str = GRANT;

/// Values beyond this are refused: a Secret holds 1 MiB, and the request around it no more.
pub(crate) const MOST_BYTES: usize = 900 * 1024;

/// What an entry of the journal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Operation,
    Federation,
    Former,
    Fence,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Operation => "operation",
            Self::Federation => "federation",
            Self::Former => "former",
            Self::Fence => "fence",
        }
    }

    /// Which Secrets are entries of this kind, of one service or of all.
    pub(crate) fn selector(self, service: Option<&str>) -> String {
        match service {
            Some(service) => format!("{JOURNAL}={},{SERVICE}={service}", self.as_str()),
            None => format!("{JOURNAL}={}", self.as_str()),
        }
    }
}

/// Every entry, of whatever kind.
pub(crate) const ENTRIES: &str = "oscar.grycap/journal in (operation,federation,former,fence)";

/// 32 hexadecimal digits of a hash of the parts, each with its length.
fn hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(format!("{}:{part}", part.len()));
    }
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The name of an entry with that key.
pub(crate) fn entry_name(kind: Kind, key: &[&str]) -> String {
    format!("{}{}", entry_prefix(kind), hash(key))
}

/// How the names of all entries of a kind begin.
pub(crate) fn entry_prefix(kind: Kind) -> String {
    format!("journal.{}.", kind.as_str())
}

pub(crate) fn build_entry(
    namespace: &str,
    kind: Kind,
    key: &[&str],
    service: &str,
    epoch: u64,
    record: Vec<u8>,
) -> Secret {
    Secret {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(entry_name(kind, key)),
            labels: Some(texts([(MANAGED_BY, OSCAR), (JOURNAL, kind.as_str()), (SERVICE, service)])),
            annotations: Some(texts([(EPOCH, &epoch.to_string())])),
            ..ObjectMeta::default()
        },
        type_: Some("oscar.grycap/journal".to_owned()),
        data: Some(BTreeMap::from([(RECORD.to_owned(), ByteString(record))])),
        ..Secret::default()
    }
}

/// The holder that wrote it; zero when nobody held the Lease.
pub(crate) fn read_epoch(meta: &ObjectMeta) -> u64 {
    annotation(meta, EPOCH).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The stored bytes of an entry or a grant.
pub(crate) fn read_record(secret: &Secret) -> Option<&[u8]> {
    secret.data.as_ref()?.get(RECORD).map(|bytes| bytes.0.as_slice())
}

/// The part of a grant's id that stands in names.
fn grant_label(id: &str) -> String {
    match id.get(..32) {
        Some(head) if head.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f')) => head.to_owned(),
        _ => hash(&[id]),
    }
}

pub(crate) fn grant_name(id: &str) -> String {
    format!("{}.refresh-token", grant_label(id))
}

/// The Lease of whoever works with a grant.
pub(crate) fn claim_name(id: &str) -> String {
    format!("grant.{}", grant_label(id))
}

pub(crate) fn pointer_name(id: &str) -> String {
    format!("grant.{}", grant_label(id))
}

/// The refresh token itself, where its owner's things live.
pub(crate) fn build_grant(grant: &Grant, record: Vec<u8>) -> Secret {
    let holders: Vec<_> = grant.holders.iter().map(ToString::to_string).collect();
    Secret {
        metadata: ObjectMeta {
            namespace: Some(grant.namespace.clone()),
            name: Some(grant_name(&grant.id)),
            labels: Some(texts([(MANAGED_BY, OSCAR), (GRANT, &grant_label(&grant.id))])),
            annotations: Some(texts([(HOLDERS, &holders.join(","))])),
            ..ObjectMeta::default()
        },
        type_: Some("oscar.grycap/refresh-token".to_owned()),
        data: Some(BTreeMap::from([(RECORD.to_owned(), ByteString(record))])),
        ..Secret::default()
    }
}

/// Where a refresh token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) id: String,
    pub(crate) namespace: String,
}

/// Says in the manager's namespace where a grant is: Secrets of other namespaces cannot be
/// listed. It holds no credential.
pub(crate) fn build_pointer(namespace: &str, pointer: &Pointer) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(pointer_name(&pointer.id)),
            labels: Some(texts([(MANAGED_BY, OSCAR), (GRANT, &grant_label(&pointer.id))])),
            ..ObjectMeta::default()
        },
        data: Some(texts([("id", &pointer.id), ("namespace", &pointer.namespace)])),
        ..ConfigMap::default()
    }
}

pub(crate) fn read_pointer(found: &ConfigMap) -> Option<Pointer> {
    let data = found.data.as_ref()?;
    Some(Pointer { id: data.get("id")?.clone(), namespace: data.get("namespace")?.clone() })
}

/// The Lease of the one manager that finishes and repairs.
pub(crate) fn build_election(namespace: &str, name: &str, holder: &str, epoch: u64, duration: Duration) -> Lease {
    Lease {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            labels: Some(texts([(MANAGED_BY, OSCAR)])),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX).max(1)),
            lease_transitions: Some(i32::try_from(epoch).unwrap_or(i32::MAX)),
            // For people, and so that every renewal changes something. Nobody compares it with
            // a clock.
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        }),
    }
}

pub(crate) fn read_election(lease: &Lease) -> (&str, u64) {
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    let epoch = spec.and_then(|spec| spec.lease_transitions).and_then(|number| u64::try_from(number).ok());
    (holder, epoch.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscar_engine::testing::conformance_federation::{mk_grant, mk_grant_id};
    use oscar_engine::testing::make::mk_owner;

    #[test]
    fn an_entry_says_of_what_it_is_and_who_wrote_it() {
        let built = build_entry("oscar", Kind::Former, &["grayify", "op"], "grayify", 7, b"x".to_vec());
        let mut shown = serde_json::to_value(&built).expect("objects are JSON");
        let name = shown["metadata"]["name"].take();
        assert!(name.as_str().is_some_and(|name| name.starts_with("journal.former.") && name.len() == 47), "{name}");
        assert_eq!(
            shown,
            serde_json::json!({
                "apiVersion": "v1", "kind": "Secret", "type": "oscar.grycap/journal",
                "metadata": {
                    "namespace": "oscar", "name": null,
                    "labels": {
                        "app.kubernetes.io/managed-by": "oscar", "oscar.grycap/journal": "former",
                        "oscar.grycap/service": "grayify",
                    },
                    "annotations": {"oscar.grycap/epoch": "7"},
                },
                "data": {"record": "eA=="},
            })
        );
        assert_eq!((read_epoch(&built.metadata), read_record(&built)), (7, Some(&b"x"[..])));
        assert_ne!(entry_name(Kind::Former, &["a", "bc"]), entry_name(Kind::Former, &["ab", "c"]));
    }

    #[test]
    fn a_refresh_token_is_named_by_its_id_and_names_its_holders() {
        let id = mk_grant_id("some grant of somebody");
        let grant = mk_grant(&id, &mk_owner("alice"), "oscar-svc-alice");
        let built = build_grant(&grant, b"x".to_vec());
        let meta = &built.metadata;
        assert_eq!(meta.name.as_deref(), Some(format!("{}.refresh-token", &id[..32]).as_str()));
        assert_eq!(annotation(meta, HOLDERS), Some("one,two"));
        let pointer = Pointer { id, namespace: grant.namespace };
        assert_eq!(read_pointer(&build_pointer("oscar", &pointer)), Some(pointer));
        assert!(grant_name("Not Hex").ends_with(".refresh-token") && grant_name("Not Hex").len() == 46);
    }
}
