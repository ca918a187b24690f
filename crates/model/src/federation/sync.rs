//! Whether a replica is as its coordinator wants it.
//!
//! Compared is what expansion sets, and nothing that the member's manager adds by itself: its
//! token, its namespace, the keys of its store, the operation that wrote it last.

use crate::secret::Secret;
use crate::service::Definition;

use super::expand::OPERATION_ANNOTATION;

/// A definition reduced to what two managers must agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection(Definition);

/// Values of secrets are left out: a manager shows them blank. Their digest is compared apart.
pub fn project(definition: &Definition) -> Projection {
    let mut kept = definition.clone();
    kept.annotations.remove(OPERATION_ANNOTATION);
    // Each cluster forces its own store or the origin's; what counts are the paths.
    kept.storage_providers.retain(|reference, _| !reference.is_own_store());
    for provider in kept.storage_providers.values_mut() {
        *provider = provider.clone().redacted();
    }
    for value in kept.environment.secrets.values_mut() {
        *value = Secret::default();
    }
    for cluster in kept.clusters.values_mut() {
        cluster.auth_user.clear();
        cluster.auth_password = Secret::default();
    }
    // A manager fills in the group of the caller when none was given.
    kept.vo.clear();
    if let Some(federation) = &mut kept.federation {
        federation.members.sort_by(|a, b| a.target.cmp(&b.target));
    }
    Projection(kept)
}

pub fn in_sync(wanted: &Definition, found: &Definition) -> bool {
    project(wanted) == project(found)
}
