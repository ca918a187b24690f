//! What a service needs of the cluster's own object store; pure.

use std::collections::{BTreeMap, BTreeSet};

use oscar_model::identity::Subject;
use oscar_model::service::Definition;

use super::per_user::{UserBucket, user_buckets};
use crate::jobs::place_of;
use crate::ports::buckets::Subscription;

/// Buckets with their folders, and what starts the service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) buckets: BTreeMap<String, BTreeSet<String>>,
    pub(crate) subscriptions: Vec<Subscription>,
    /// Buckets that are for one user alone.
    pub(crate) of_users: BTreeMap<String, Subject>,
}

impl Wanted {
    /// A replica reads and writes its origin's store: an upload starts exactly one service.
    pub(crate) fn of(definition: &Definition) -> Self {
        let mut wanted = Self::default();
        if definition.is_worker() {
            return wanted;
        }
        for io in definition.input.iter().filter(|io| io.provider.is_own_store()) {
            if let Some((bucket, prefix)) = place_of(&io.path) {
                wanted.watch(definition, bucket, prefix);
            }
        }
        for UserBucket { name, user, prefix } in user_buckets(definition) {
            wanted.of_users.insert(name.clone(), user);
            wanted.watch(definition, name, prefix);
        }
        let others = definition.output.iter().chain(&definition.mount);
        for io in others.filter(|io| io.provider.is_own_store()) {
            if let Some((bucket, prefix)) = place_of(&io.path) {
                wanted.add(&bucket, &prefix);
            }
        }
        wanted
    }

    /// What arrives there starts the service.
    fn watch(&mut self, definition: &Definition, bucket: String, prefix: String) {
        self.add(&bucket, &prefix);
        let subscription = Subscription { bucket, prefix, service: definition.name.as_str().to_owned() };
        if !self.subscriptions.contains(&subscription) {
            self.subscriptions.push(subscription);
        }
    }

    fn add(&mut self, bucket: &str, prefix: &str) {
        let folders = self.buckets.entry(bucket.to_owned()).or_default();
        if !prefix.is_empty() {
            folders.insert(prefix.trim_end_matches('/').to_owned());
        }
    }
}
