//! One suite per port: what its contract promises, asked of any adapter.
//!
//! A suite may run on a store that is not empty (a shared apiserver), so every name it makes
//! begins with the given `prefix`, and it looks only at those.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::service::{Sensitive, Visibility};

use super::make::{mk_owner, mk_secretive, mk_service, mk_subject};
use crate::ports::StoreError;
use crate::ports::services::{Entry, Scope, Services};
use crate::ports::settings::Settings;
use crate::ports::users::Users;

fn name_of(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("test names are valid")
}

async fn names(store: &dyn Services, scope: &Scope, prefix: &str) -> Vec<String> {
    let entries = store.list(scope).await.expect("listing works");
    entries.iter().map(|entry| entry.name().to_owned()).filter(|name| name.starts_with(prefix)).collect()
}

/// Everything the contract of [`Services`] says. `home_of` gives the namespace where services
/// of an owner live, made by the adapter's [`Users`].
pub async fn services(store: Arc<dyn Services>, users: &dyn Users, prefix: &str) {
    let admin = Owner::Admin;
    let namespace = users.ensure(&admin, "").await.expect("the administrator has a home").namespace;
    let mk = |suffix: &str| {
        let mut service = mk_service(&format!("{prefix}{suffix}"), &admin);
        service.namespace.clone_from(&namespace);
        service
    };

    what_is_created_is_read_back(&*store, users, prefix).await;
    revisions_guard_changes(&*store, &mk("rev")).await;
    one_of_many_creates_wins(&store, &mk("race")).await;
    one_of_many_replaces_wins(&store, &mk("replace")).await;
    secrets_come_back_only_when_asked(&*store, users, prefix).await;
    visibility_decides_lists(&*store, users, prefix).await;

    for name in names(&*store, &Scope::All, prefix).await {
        store.remove(&name_of(&name), None).await.expect("what is listed can be removed");
    }
    assert_eq!(names(&*store, &Scope::All, prefix).await, Vec::<String>::new(), "removed services are gone");
}

async fn what_is_created_is_read_back(store: &dyn Services, users: &dyn Users, prefix: &str) {
    let owner = mk_owner("reader-62bb11b4@egi.eu");
    let mut service = mk_service(&format!("{prefix}read"), &owner);
    service.namespace = users.ensure(&owner, "Reader").await.expect("a user gets a home").namespace;
    service.definition.script = "#!/bin/sh\n\techo 'ünïcode' \\ \"quoted\" # : yes\n".to_owned();
    service.definition.environment.variables.insert("ON".to_owned(), "yes".to_owned());
    service.definition.environment.variables.insert("VERSION".to_owned(), "1.0".to_owned());
    service.definition.annotations.insert("note".to_owned(), "line one\nline: two ".to_owned());
    let name = service.name().clone();

    assert_eq!(store.get(&name).await.expect("reading works"), None, "nothing is there yet");
    assert_eq!(store.remove(&name, None).await, Err(StoreError::NotFound));
    assert_eq!(store.reveal(&name).await, Err(StoreError::NotFound));
    let created = store.create(service.clone(), Sensitive::default()).await.expect("created");
    assert_eq!(created.service, service);
    let read = store.get(&name).await.expect("reading works").expect("it is there at once");
    assert_eq!(read, created, "what was created is what is read");
    assert_eq!(
        store.create(service.clone(), Sensitive::default()).await,
        Err(StoreError::AlreadyExists),
        "a name is taken once"
    );
    assert_eq!(store.get(&name).await.expect("reading works"), Some(created), "a refused create changes nothing");
}

async fn revisions_guard_changes(store: &dyn Services, service: &oscar_model::service::Service) {
    let name = service.name().clone();
    let nothing = Sensitive::default;
    let first = store.create(service.clone(), nothing()).await.expect("created");
    let mut changed = service.clone();
    changed.definition.image = "changed".to_owned();
    let second = store.replace(changed.clone(), nothing(), &first.revision).await.expect("replaced");
    assert_ne!(first.revision, second.revision);
    assert_eq!(
        store.replace(service.clone(), nothing(), &first.revision).await,
        Err(StoreError::Conflict),
        "an old revision changes nothing"
    );
    assert_eq!(store.remove(&name, Some(&first.revision)).await, Err(StoreError::Conflict));
    let read = store.get(&name).await.expect("reading works").expect("there");
    assert_eq!(read.service, changed);
    store.remove(&name, Some(&second.revision)).await.expect("removed");
    assert_eq!(store.get(&name).await.expect("reading works"), None);
    assert_eq!(store.replace(changed, nothing(), &second.revision).await, Err(StoreError::NotFound));
    let again = store.create(service.clone(), nothing()).await.expect("the name is free again");
    assert!(again.revision != first.revision && again.revision != second.revision, "revisions are never used twice");
}

async fn one_of_many_creates_wins(store: &Arc<dyn Services>, service: &oscar_model::service::Service) {
    let tries = (0..8).map(|_| store.create(service.clone(), Sensitive::default()));
    let outcomes = join_all(tries).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(_) | Err(StoreError::AlreadyExists))), "{outcomes:?}");
}

async fn one_of_many_replaces_wins(store: &Arc<dyn Services>, service: &oscar_model::service::Service) {
    let first = store.create(service.clone(), Sensitive::default()).await.expect("created");
    let tries = (0..8).map(|index| {
        let mut changed = service.clone();
        changed.definition.image = format!("image-{index}");
        store.replace(changed, Sensitive::default(), &first.revision)
    });
    let outcomes = join_all(tries).await;
    let winners: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    let read = store.get(service.name()).await.expect("reading works").expect("there");
    assert_eq!(&read, winners[0], "the winner is what is read");
}

async fn secrets_come_back_only_when_asked(store: &dyn Services, users: &dyn Users, prefix: &str) {
    let owner = mk_owner("secretive");
    let (mut service, sensitive) = mk_secretive(&format!("{prefix}secret"), &owner);
    service.namespace = users.ensure(&owner, "").await.expect("a home").namespace;
    let name = service.name().clone();
    let stored = store.create(service.clone(), sensitive.clone()).await.expect("created");
    let shown = format!("{:?}", store.get(&name).await);
    assert!(!shown.contains("planted"), "{shown}");
    assert!(stored.service.definition.environment.secrets.values().all(oscar_model::secret::Secret::is_blank));
    assert_eq!(store.reveal(&name).await.expect("revealed"), sensitive);

    let mut fewer = sensitive.clone();
    fewer.cluster_passwords.clear();
    let replaced = store.replace(service.clone(), fewer.clone(), &stored.revision).await.expect("replaced");
    assert_eq!(store.reveal(&name).await.expect("revealed"), fewer, "secrets are replaced as a whole");

    store.remove(&name, Some(&replaced.revision)).await.expect("removed");
    assert_eq!(store.reveal(&name).await, Err(StoreError::NotFound), "secrets go with their service");
    service.definition.environment.secrets.clear();
    service.definition.clusters.clear();
    store.create(service, Sensitive::default()).await.expect("created again");
    assert_eq!(store.reveal(&name).await.expect("revealed"), Sensitive::default(), "nothing of the former is left");
}

async fn visibility_decides_lists(store: &dyn Services, users: &dyn Users, prefix: &str) {
    let owner = mk_owner("lister-owner");
    let namespace = users.ensure(&owner, "").await.expect("a home").namespace;
    let kinds = [("lpriv", Visibility::Private), ("lres", Visibility::Restricted), ("lpub", Visibility::Public)];
    for (suffix, visibility) in kinds {
        let mut service = mk_service(&format!("{prefix}{suffix}"), &owner);
        service.namespace.clone_from(&namespace);
        service.definition.visibility = visibility;
        service.definition.allowed_users = vec!["lister-friend".to_owned()];
        store.create(service, Sensitive::default()).await.expect("created");
    }
    let full = |suffixes: &[&str]| -> Vec<String> { suffixes.iter().map(|s| format!("{prefix}{s}")).collect() };
    let seen = async |subject: &str| names(store, &Scope::VisibleTo(mk_subject(subject)), &format!("{prefix}l")).await;
    assert_eq!(seen("lister-owner").await, full(&["lpriv", "lpub", "lres"]));
    assert_eq!(seen("lister-friend").await, full(&["lpub", "lres"]));
    assert_eq!(seen("lister-stranger").await, full(&["lpub"]));

    let name = name_of(&format!("{prefix}lres"));
    let stored = store.get(&name).await.expect("reading works").expect("there");
    let mut closed = stored.service.clone();
    closed.definition.allowed_users.clear();
    store.replace(closed, Sensitive::default(), &stored.revision).await.expect("replaced");
    assert_eq!(seen("lister-friend").await, full(&["lpub"]), "lists follow changes at once");

    let listed = store.list(&Scope::All).await.expect("listing works");
    let sorted: BTreeSet<_> = listed.iter().map(Entry::name).collect();
    assert!(listed.iter().map(Entry::name).eq(sorted), "lists are sorted by name");
}

/// Everything the contract of [`Users`] says.
pub async fn users(store: Arc<dyn Users>) {
    let admin = store.ensure(&Owner::Admin, "").await.expect("the administrator has a home");
    // These two share the eight characters that upstream keeps.
    let (one, two) = (mk_owner("same-begin-one@x"), mk_owner("same-begin-two@x"));
    let calls = (0..8).flat_map(|_| [store.ensure(&one, "One"), store.ensure(&two, "Two")]);
    let homes: Vec<_> = join_all(calls).await.into_iter().map(|home| home.expect("a home")).collect();
    let first: BTreeSet<_> = homes.iter().step_by(2).map(|home| home.namespace.clone()).collect();
    let second: BTreeSet<_> = homes.iter().skip(1).step_by(2).map(|home| home.namespace.clone()).collect();
    assert_eq!((first.len(), second.len()), (1, 1), "each owner has one home");
    assert_ne!(first, second, "two owners never share one");
    assert!(!first.contains(&admin.namespace) && !second.contains(&admin.namespace));
    assert_eq!(store.ensure(&one, "One").await.expect("a home").namespace, homes[0].namespace, "it stays the same");
    assert_eq!(store.look(&two).await.expect("a home"), homes[1], "looking tells what there is");
    // Whoever looks takes nothing: these two share the first candidate, and each is told that it is free.
    let (three, four) = (mk_owner("looks-at-one@x"), mk_owner("looks-at-two@x"));
    let told = store.look(&three).await.expect("a place");
    assert_eq!(store.look(&four).await.expect("a place"), told);
    assert_eq!(store.ensure(&four, "Four").await.expect("a home"), told);
    assert_ne!(store.look(&three).await.expect("a place"), told, "it is somebody else's now");
}

/// Everything the contract of [`Settings`] says. Leaves them blank.
pub async fn settings(store: Arc<dyn Settings>) {
    let listed = vec!["ghcr.io/grycap".to_owned(), "docker.io".to_owned()];
    store.set_image_repositories(listed.clone()).await.expect("stored");
    assert_eq!(store.image_repositories().await.expect("read"), listed);
    store.set_image_repositories(vec![]).await.expect("stored");
    assert_eq!(store.image_repositories().await.expect("read"), Vec::<String>::new());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryServices, MemorySettings, MemoryUsers};

    #[tokio::test]
    async fn memory_conforms() {
        let homes = MemoryUsers::new("oscar-svc");
        services(Arc::new(MemoryServices::default()), &homes, "c-").await;
        users(Arc::new(MemoryUsers::new("oscar-svc"))).await;
        settings(Arc::new(MemorySettings::default())).await;
    }
}
