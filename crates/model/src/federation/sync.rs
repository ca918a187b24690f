//! Whether a replica is as its coordinator wants it.
//!
//! Compared is what expansion sets, and nothing that the member's manager adds by itself: its
//! token, its namespace, the keys of its store, the operation that wrote it last.

use crate::secret::Secret;
use crate::service::{Definition, ORIGIN_CLUSTER_ANNOTATION, ORIGIN_SERVICE_ANNOTATION, WORKER_ANNOTATION};

use super::expand::{FEDERATION_ID_ANNOTATION, OPERATION_ANNOTATION};

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

/// Whether `found` can be what a manager made of `wanted`. A foreign one drops fields that it
/// does not know, fills in others and spells some its own way, but every version keeps these as
/// they were sent: where they differ, somebody else has written since.
pub fn is_echo(wanted: &Definition, found: &Definition) -> bool {
    let marks = [WORKER_ANNOTATION, ORIGIN_CLUSTER_ANNOTATION, ORIGIN_SERVICE_ANNOTATION, FEDERATION_ID_ANNOTATION];
    let marked = marks.iter().all(|mark| wanted.annotations.get(*mark) == found.annotations.get(*mark));
    marked && wanted.image == found.image && wanted.script == found.script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::Federation;
    use crate::name::ServiceName;

    fn mk_definition() -> Definition {
        let mut definition = Definition::new(ServiceName::parse("plants").expect("valid"), "image", "script");
        definition.federation = Some(Federation::blank("plants"));
        definition.annotations.insert(ORIGIN_SERVICE_ANNOTATION.to_owned(), "plants".to_owned());
        definition.annotations.insert(OPERATION_ANNOTATION.to_owned(), "one".to_owned());
        definition
    }

    #[test]
    fn an_echo_may_lack_fields_but_what_every_manager_keeps_is_as_it_was_sent() {
        let wanted = mk_definition();
        let mut dropped = Definition { federation: None, ..wanted.clone() };
        dropped.annotations.insert("added".to_owned(), "by its manager".to_owned());
        dropped.annotations.insert(OPERATION_ANNOTATION.to_owned(), "another".to_owned());
        assert!(is_echo(&wanted, &dropped) && !in_sync(&wanted, &dropped));

        let mut rooted = wanted.clone();
        rooted.annotations.insert(ORIGIN_SERVICE_ANNOTATION.to_owned(), "another".to_owned());
        let edited = Definition { script: "another".to_owned(), ..wanted.clone() };
        for other in [rooted, edited, Definition { image: "another".to_owned(), ..wanted.clone() }] {
            assert!(!is_echo(&wanted, &other), "{other:?}");
        }
    }
}
