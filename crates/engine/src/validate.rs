//! What is wrong with a definition in *this* cluster: what the operator allows and knows.

use oscar_model::fault::{Faults, quoted};
use oscar_model::federation::check;
use oscar_model::identity::Principal;
use oscar_model::image::is_allowed;
use oscar_model::service::storage::{Provider, ProviderRef, StorageIo};
use oscar_model::service::{Definition, Isolation};

use crate::manager::Policy;

/// Checks a definition against the operator's policy; paths are relative to the definition.
pub(crate) fn validate(definition: &Definition, policy: &Policy, repositories: &[String], keeps: bool) -> Faults {
    let mut faults = check::check(definition, &|id| policy.registry.contains_key(id), keeps);
    if !is_allowed(&definition.image, repositories) {
        faults.push("image", quoted(&definition.image), format!("an image from {}", repositories.join(" or ")));
    }
    let places = [("input", &definition.input), ("output", &definition.output)];
    for (place, list) in places {
        for (index, io) in list.iter().enumerate() {
            check_provider(&format!("{place}[{index}]"), io, definition, policy, &mut faults);
        }
    }
    for (index, io) in definition.input.iter().enumerate() {
        check_trigger(&format!("input[{index}]"), io, definition, policy, &mut faults);
    }
    if let Some(mount) = &definition.mount {
        check_provider("mount", mount, definition, policy, &mut faults);
    }
    if definition.isolation == Isolation::User && definition.allowed_users.is_empty() {
        faults.push("allowed_users", "nobody", "at least one user when isolation_level is USER");
    }
    faults
}

fn check_provider(path: &str, io: &StorageIo, definition: &Definition, policy: &Policy, faults: &mut Faults) {
    let known = io.provider.is_own_store()
        || definition.storage_providers.contains_key(&io.provider)
        || policy.providers.contains_key(&io.provider);
    if !known {
        faults.push(
            format!("{path}.storage_provider"),
            quoted(&io.provider.to_string()),
            "a provider that `storage_providers` of the definition or the operator's configuration knows",
        );
    }
}

/// Uploads are noticed in the cluster's own store only, under whatever id it is named.
fn check_trigger(path: &str, io: &StorageIo, definition: &Definition, policy: &Policy, faults: &mut Faults) {
    let provider = definition.storage_providers.get(&io.provider).or_else(|| policy.providers.get(&io.provider));
    if let (false, Some(Provider::Minio { endpoint, .. })) = (io.provider.is_own_store(), provider)
        && *endpoint != policy.own_store.endpoint
    {
        faults.push(
            format!("{path}.storage_provider"),
            quoted(&io.provider.to_string()),
            "`minio.default`: another object store does not tell this cluster of uploads",
        );
    }
}

/// The group that a service belongs to: given and the caller's own, or the first accepted one
/// that the caller has.
pub(crate) fn choose_vo(given: &str, principal: &Principal, accepted: &[String]) -> Result<String, Faults> {
    let Principal::User(user) = principal else { return Ok(given.to_owned()) };
    let accepted: Vec<_> = accepted.iter().filter(|group| !group.is_empty()).collect();
    if given.is_empty() {
        let first = accepted.into_iter().find(|group| user.groups.contains(group));
        return Ok(first.cloned().unwrap_or_default());
    }
    // Where the operator named no groups, a group is only a label.
    if accepted.is_empty() || user.groups.iter().any(|group| group == given) {
        return Ok(given.to_owned());
    }
    let mut faults = Faults::default();
    let own = if user.groups.is_empty() { "none".to_owned() } else { user.groups.join(", ") };
    faults.push("vo", quoted(given), format!("a group that you are a member of ({own}), or nothing"));
    Err(faults)
}

/// The cluster's own store as every definition shows it: reachable, its keys hidden.
pub(crate) fn own_store_provider(policy: &Policy) -> (ProviderRef, Provider) {
    let reference = ProviderRef {
        kind: oscar_model::service::storage::ProviderKind::Minio,
        id: ProviderRef::DEFAULT_ID.to_owned(),
    };
    let store = &policy.own_store;
    let provider = Provider::Minio {
        endpoint: store.endpoint.clone(),
        verify: store.verify,
        access_key: "hidden".to_owned(),
        secret_key: "hidden".into(),
        region: store.region.clone(),
    };
    (reference, provider)
}
