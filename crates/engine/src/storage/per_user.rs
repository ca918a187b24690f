//! `isolation_level: USER`: each user of a service has a bucket of his own beside each input; pure.

use std::collections::BTreeMap;

use oscar_model::identity::{Owner, Subject};
use oscar_model::service::{Definition, Isolation};

use crate::jobs::place_of;

/// How much of a user's id is in the name of his bucket.
const HEAD: usize = 10;

/// A bucket of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserBucket {
    pub(crate) name: String,
    pub(crate) user: Subject,
    /// What keys of inputs begin with.
    pub(crate) prefix: String,
}

/// The owner is one of the users of such a service.
pub(crate) fn add_owner(definition: &mut Definition, owner: &Owner) {
    if let (Isolation::User, Owner::User(subject)) = (definition.isolation, owner)
        && !definition.allowed_users.is_empty()
        && !definition.allowed_users.iter().any(|user| user == subject.as_str())
    {
        definition.allowed_users.push(subject.as_str().to_owned());
    }
}

/// One for each user and each input in the cluster's own store.
pub(crate) fn user_buckets(definition: &Definition) -> Vec<UserBucket> {
    if definition.isolation != Isolation::User || definition.is_worker() {
        return Vec::new();
    }
    let inputs = definition.input.iter().filter(|io| io.provider.is_own_store());
    let places: Vec<_> = inputs.filter_map(|io| place_of(&io.path)).collect();
    let users = definition.allowed_users.iter().filter_map(|user| Subject::parse(user));
    let each = |user: Subject| {
        let bucket = |(bucket, prefix): &(String, String)| UserBucket {
            name: format!("{bucket}-{}", head(&user)),
            user: user.clone(),
            prefix: prefix.clone(),
        };
        places.iter().map(bucket).collect::<Vec<_>>()
    };
    users.flat_map(each).collect()
}

/// The names that a service is shown with.
pub(crate) fn names(definition: &Definition) -> Vec<String> {
    let mut names: Vec<_> = user_buckets(definition).into_iter().map(|bucket| bucket.name).collect();
    names.sort();
    names.dedup();
    names
}

/// Users whose buckets would have the same name: nobody may find himself in another's.
pub(crate) fn confused(definition: &Definition) -> Option<(Subject, Subject)> {
    let mut owners: BTreeMap<String, Subject> = BTreeMap::new();
    user_buckets(definition).into_iter().find_map(|UserBucket { name, user, .. }| {
        let first = owners.entry(name).or_insert_with(|| user.clone());
        (*first != user).then(|| (first.clone(), user))
    })
}

/// The beginning of a user's id, as far as a bucket can be called that.
fn head(user: &Subject) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let head: String = user.as_str().chars().take(HEAD).map(plain).collect();
    head.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use oscar_model::service::storage::{ProviderRef, StorageIo};

    use super::*;
    use crate::testing::make::{mk_owner, mk_service};

    fn mk_definition(users: &[&str]) -> Definition {
        let mut definition = mk_service("plants", &mk_owner("owner-of-it@x")).definition;
        definition.isolation = Isolation::User;
        definition.allowed_users = users.iter().map(|&user| user.to_owned()).collect();
        definition.input = vec![StorageIo {
            provider_text: "minio.default".to_owned(),
            provider: ProviderRef::parse("minio.default").expect("valid"),
            path: "plants/in".to_owned(),
            suffix: vec![],
            prefix: vec![],
            options: String::new(),
        }];
        definition
    }

    #[test]
    fn each_user_has_a_bucket_that_is_called_after_him() {
        let mut definition = mk_definition(&["0123456789abcdef@egi.eu", "Bob@x"]);
        add_owner(&mut definition, &mk_owner("owner-of-it@x"));
        add_owner(&mut definition, &mk_owner("owner-of-it@x"));
        assert_eq!(names(&definition), ["plants-0123456789", "plants-bob-x", "plants-owner-of-i"]);
        assert_eq!(confused(&definition), None);
        definition.isolation = Isolation::Unset;
        assert!(user_buckets(&definition).is_empty());
    }

    #[test]
    fn users_with_the_same_beginning_are_not_taken_for_each_other() {
        let definition = mk_definition(&["0123456789a", "0123456789b"]);
        assert!(confused(&definition).is_some());
    }
}
