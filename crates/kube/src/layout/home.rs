//! The namespace of a user, and what the manager may do in it.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject as RoleSubject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use oscar_model::identity::{Owner, Subject};
use oscar_model::namespace::owner_hash;

use super::{MANAGED_BY, OSCAR, annotation, label, texts};
use crate::options::Options;

const LIFECYCLE: &str = "oscar.grycap.upv.es/lifecycle";
const OWNER_HASH: &str = "oscar.grycap.upv.es/owner-hash";
const OWNER: &str = "oscar.grycap.upv.es/owner";
pub(crate) const ROLE: &str = "oscar-controller";
pub(crate) const BINDING: &str = "oscar-controller-binding";

/// Whose a namespace is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tenant {
    /// The user with this hash and, where it was written down, this id.
    User {
        hash: String,
        subject: Option<String>,
    },
    Nobody,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) tenant: Tenant,
    /// Nothing can be made in it any more.
    pub(crate) ending: bool,
}

impl Room {
    pub(crate) fn is_of(&self, owner: &Owner) -> bool {
        match (owner, &self.tenant) {
            (Owner::Admin, _) => true,
            (Owner::User(user), Tenant::User { hash, subject }) => {
                *hash == owner_hash(user) && subject.as_deref().is_none_or(|subject| subject == user.as_str())
            }
            (Owner::User(_), Tenant::Nobody) => false,
        }
    }
}

pub(crate) fn read_room(meta: &ObjectMeta) -> Room {
    let tenant = match label(meta, OWNER_HASH) {
        Some(hash) => Tenant::User { hash: hash.to_owned(), subject: annotation(meta, OWNER).map(str::to_owned) },
        None => Tenant::Nobody,
    };
    Room { tenant, ending: meta.deletion_timestamp.is_some() }
}

pub(crate) fn build_namespace(name: &str, owner: &Owner) -> Namespace {
    let (labels, annotations) = match owner {
        Owner::Admin => (texts([(MANAGED_BY, OSCAR)]), None),
        Owner::User(subject) => (user_labels(subject), Some(texts([(OWNER, subject.as_str())]))),
    };
    Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            annotations,
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

fn user_labels(subject: &Subject) -> std::collections::BTreeMap<String, String> {
    texts([(MANAGED_BY, OSCAR), (LIFECYCLE, "active"), (OWNER_HASH, &owner_hash(subject))])
}

/// What a manager does with the objects of services. Kubernetes lets it grant only what it
/// has itself, so `deploy/rbac.yaml` holds at least this.
pub(crate) fn build_role(namespace: &str) -> Role {
    let rule = |resources: &[&str], verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(resources.iter().map(|&name| name.to_owned()).collect()),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    };
    Role {
        metadata: named(namespace, ROLE),
        rules: Some(vec![
            rule(&["configmaps"], &["get", "list", "watch", "create", "update", "delete"]),
            rule(&["secrets", "podtemplates"], &["get", "create", "update", "delete"]),
        ]),
    }
}

pub(crate) fn build_binding(namespace: &str, options: &Options) -> RoleBinding {
    RoleBinding {
        metadata: named(namespace, BINDING),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "Role".to_owned(),
            name: ROLE.to_owned(),
        },
        subjects: Some(vec![RoleSubject {
            kind: "ServiceAccount".to_owned(),
            name: options.controller_service_account.clone(),
            namespace: Some(options.namespace.clone()),
            ..RoleSubject::default()
        }]),
    }
}

fn named(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        labels: Some(texts([(MANAGED_BY, OSCAR)])),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscar_engine::testing::make::mk_owner;

    #[test]
    fn a_user_namespace_says_whose_it_is() {
        let alice = mk_owner("alice@egi.eu");
        let built = build_namespace("oscar-svc-alice", &alice);
        let mut shown = serde_json::to_value(&built).expect("objects are JSON");
        let hash = shown["metadata"]["labels"]["oscar.grycap.upv.es/owner-hash"].take();
        assert_eq!(hash.as_str().map(str::len), Some(40));
        assert_eq!(
            shown["metadata"],
            serde_json::json!({
                "name": "oscar-svc-alice",
                "labels": {
                    "app.kubernetes.io/managed-by": "oscar", "oscar.grycap.upv.es/lifecycle": "active",
                    "oscar.grycap.upv.es/owner-hash": null,
                },
                "annotations": {"oscar.grycap.upv.es/owner": "alice@egi.eu"},
            })
        );
        let room = read_room(&built.metadata);
        assert!(room.is_of(&alice) && !room.is_of(&mk_owner("bob")) && !room.ending);
    }

    #[test]
    fn an_unmarked_namespace_is_no_users() {
        assert!(!read_room(&ObjectMeta::default()).is_of(&mk_owner("alice")));
    }

    #[test]
    fn the_controller_account_is_bound_to_the_role() {
        let built = build_binding("oscar-svc-alice", &Options::default());
        let shown = serde_json::to_value(&built).expect("objects are JSON");
        assert_eq!(shown["metadata"]["name"], "oscar-controller-binding");
        assert_eq!(
            shown["subjects"],
            serde_json::json!([{"kind": "ServiceAccount", "name": "oscar-sa", "namespace": "oscar"}])
        );
        assert_eq!(shown["roleRef"]["name"], serde_json::to_value(build_role("n")).expect("JSON")["metadata"]["name"]);
    }
}
