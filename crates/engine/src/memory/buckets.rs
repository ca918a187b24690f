use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use oscar_model::identity::{Owner, Subject};
use oscar_model::secret::Secret;
use oscar_model::service::Visibility;
use tokio::sync::Notify;

use super::faults::{Faults, When};
use crate::ports::StoreError;
use crate::ports::buckets::{
    Bucket, Buckets, Grant, JOB_METADATA, Keys, Move, Object, ObjectEvent, Page, Presign, STAGING_BUCKET, Subscription,
    Uploads, Verb,
};

/// Buckets and objects. Its clock stands still: a key expires when a test says so.
pub struct MemoryBuckets {
    state: Mutex<State>,
    arrivals: Notify,
    faults: Faults,
}

#[derive(Default)]
struct State {
    buckets: BTreeMap<String, Bucket>,
    objects: BTreeMap<(String, String), Stored>,
    /// What a scoped key opens; absent once it was revoked.
    scopes: BTreeMap<String, Vec<Grant>>,
    user_keys: BTreeMap<String, Keys>,
    subscriptions: Vec<Subscription>,
    events: BTreeMap<u64, ObjectEvent>,
    /// Every move that was made, in order.
    moved: Vec<Move>,
    last: u64,
}

#[derive(Clone)]
struct Stored {
    content: Vec<u8>,
    metadata: BTreeMap<String, String>,
}

impl State {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn put(&mut self, bucket: &str, key: &str, stored: Stored, principal: &str) {
        let version = self.number();
        let waiting = |one: &&Subscription| one.bucket == bucket && key.starts_with(&one.prefix);
        let services: Vec<_> = self.subscriptions.iter().filter(waiting).map(|one| one.service.clone()).collect();
        for service in services {
            let id = self.number();
            let event = ObjectEvent {
                id,
                service,
                bucket: bucket.to_owned(),
                key: key.to_owned(),
                bytes: stored.content.len() as u64,
                etag: version.to_string(),
                version: version.to_string(),
                content_type: String::new(),
                user_metadata: stored.metadata.clone(),
                principal: principal.to_owned(),
                source_ip: String::new(),
                time: UNIX_EPOCH,
                job: stored.metadata.get(JOB_METADATA).cloned(),
            };
            self.events.insert(id, event);
        }
        self.objects.insert((bucket.to_owned(), key.to_owned()), stored);
    }
}

impl Default for MemoryBuckets {
    fn default() -> Self {
        let staging = Bucket {
            name: STAGING_BUCKET.to_owned(),
            owner: Owner::Admin,
            visibility: Visibility::Private,
            allowed_users: vec![],
            from_service: None,
        };
        let state = State { buckets: [(STAGING_BUCKET.to_owned(), staging)].into(), ..State::default() };
        Self { state: Mutex::new(state), arrivals: Notify::new(), faults: Faults::default() }
    }
}

impl MemoryBuckets {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call of this name fails.
    pub fn plant(&self, call: &'static str, when: When) {
        self.faults.plant(call, when);
    }

    /// Calls of this name do not come back until they are let go.
    pub fn hang(&self, call: &'static str) {
        self.faults.hang(call);
    }

    pub fn let_go(&self) {
        self.faults.let_go();
    }

    /// An upload by a user.
    pub fn upload(&self, bucket: &str, key: &str, content: &[u8], user: &str) {
        let stored = Stored { content: content.to_vec(), metadata: BTreeMap::new() };
        self.state().put(bucket, key, stored, user);
        self.arrivals.notify_one();
    }

    /// A write with a scoped key.
    pub fn put(&self, access_key: &str, bucket: &str, key: &str, content: &[u8]) -> Result<(), StoreError> {
        if !self.opens(access_key, bucket, key, Verb::Write) {
            return Err(StoreError::Forbidden("the key does not open it".to_owned()));
        }
        let stored = Stored { content: content.to_vec(), metadata: BTreeMap::new() };
        self.state().put(bucket, key, stored, access_key);
        self.arrivals.notify_one();
        Ok(())
    }

    /// Whether a scoped key may do this.
    pub fn opens(&self, access_key: &str, bucket: &str, key: &str, verb: Verb) -> bool {
        let fits =
            |grant: &Grant| grant.bucket == bucket && key.starts_with(&grant.prefix) && grant.verbs.contains(&verb);
        self.state().scopes.get(access_key).is_some_and(|scope| scope.iter().any(fits))
    }

    /// Whether a scoped key opens anything.
    pub fn is_open(&self, access_key: &str) -> bool {
        self.state().scopes.contains_key(access_key)
    }

    pub fn content(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        let place = (bucket.to_owned(), key.to_owned());
        self.state().objects.get(&place).map(|stored| stored.content.clone())
    }

    pub fn moved(&self) -> Vec<Move> {
        self.state().moved.clone()
    }

    fn strike(&self, call: &'static str, when: When) -> Result<(), StoreError> {
        if self.faults.strike(call, when) {
            return Err(StoreError::Unavailable(format!("planted in {call}")));
        }
        Ok(())
    }
}

#[async_trait]
impl Buckets for MemoryBuckets {
    async fn ensure(&self, bucket: &Bucket) -> Result<(), StoreError> {
        self.strike("ensure", When::Before)?;
        {
            let mut state = self.state();
            let there = state.buckets.entry(bucket.name.clone()).or_insert_with(|| bucket.clone());
            if there.owner != bucket.owner {
                return Err(StoreError::AlreadyExists);
            }
        }
        self.strike("ensure", When::After)
    }

    async fn get(&self, name: &str) -> Result<Option<Bucket>, StoreError> {
        self.strike("get", When::Before)?;
        Ok(self.state().buckets.get(name).cloned())
    }

    async fn list(&self, viewer: &Owner) -> Result<Vec<Bucket>, StoreError> {
        self.strike("list", When::Before)?;
        let may_use = |bucket: &&Bucket| match (viewer, bucket.visibility) {
            (Owner::Admin, _) | (_, Visibility::Public) => true,
            (viewer, _) if *viewer == bucket.owner => true,
            (Owner::User(subject), Visibility::Restricted) => bucket.allowed_users.contains(subject),
            (Owner::User(_), Visibility::Private) => false,
        };
        Ok(self.state().buckets.values().filter(may_use).cloned().collect())
    }

    async fn set_visibility(
        &self,
        name: &str,
        visibility: Visibility,
        allowed_users: &[Subject],
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let bucket = state.buckets.get_mut(name).ok_or(StoreError::NotFound)?;
        bucket.visibility = visibility;
        bucket.allowed_users = allowed_users.to_vec();
        Ok(())
    }

    async fn release(&self, name: &str) -> Result<(), StoreError> {
        let mut state = self.state();
        state.buckets.get_mut(name).ok_or(StoreError::NotFound)?.from_service = None;
        Ok(())
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.strike("remove", When::Before)?;
        let mut state = self.state();
        state.buckets.remove(name).ok_or(StoreError::NotFound)?;
        state.objects.retain(|(bucket, _), _| bucket != name);
        Ok(())
    }

    async fn ensure_folder(&self, bucket: &str, folder: &str) -> Result<(), StoreError> {
        let mut state = self.state();
        if !state.buckets.contains_key(bucket) {
            return Err(StoreError::NotFound);
        }
        let place = (bucket.to_owned(), format!("{}/", folder.trim_matches('/')));
        state.objects.entry(place).or_insert_with(|| Stored { content: Vec::new(), metadata: BTreeMap::new() });
        Ok(())
    }

    async fn objects(&self, bucket: &str, page: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        let state = self.state();
        if !state.buckets.contains_key(bucket) {
            return Err(StoreError::NotFound);
        }
        let begin = match page {
            Some(page) => Bound::Excluded((bucket.to_owned(), page.to_owned())),
            None => Bound::Included((bucket.to_owned(), String::new())),
        };
        let mut rest = state.objects.range((begin, Bound::Unbounded)).take_while(|((of, _), _)| of == bucket);
        let shown = |((_, key), stored): (&(String, String), &Stored)| Object {
            key: key.clone(),
            bytes: stored.content.len() as u64,
            modified: UNIX_EPOCH,
        };
        let objects: Vec<_> = rest.by_ref().take(limit.max(1)).map(shown).collect();
        let next = rest.next().and_then(|_| objects.last()).map(|object| object.key.clone());
        Ok(Page { objects, next })
    }

    async fn user_keys(&self, owner: &Owner) -> Result<Keys, StoreError> {
        let mut state = self.state();
        let number = state.number();
        let fresh =
            || Keys { access_key: owner.as_str().to_owned(), secret_key: Secret::new(format!("of-user-{number}")) };
        Ok(state.user_keys.entry(owner.as_str().to_owned()).or_insert_with(fresh).clone())
    }

    async fn scoped_key(&self, scope: &[Grant], _expires: SystemTime) -> Result<Keys, StoreError> {
        self.strike("scoped_key", When::Before)?;
        let keys = {
            let mut state = self.state();
            let access_key = format!("scoped-{}", state.number());
            state.scopes.insert(access_key.clone(), scope.to_vec());
            Keys { secret_key: Secret::new(format!("of-{access_key}")), access_key }
        };
        self.strike("scoped_key", When::After)?;
        Ok(keys)
    }

    async fn revoke(&self, access_key: &str) -> Result<(), StoreError> {
        self.strike("revoke", When::Before)?;
        self.state().scopes.remove(access_key);
        self.strike("revoke", When::After)
    }

    async fn presign(&self, _signer: &Owner, request: &Presign) -> Result<String, StoreError> {
        let headers: Vec<_> = request.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let signed = if headers.is_empty() { String::new() } else { format!("?{}", headers.join("&")) };
        Ok(format!("memory://{}/{}{signed}", request.bucket, request.key))
    }

    async fn subscribe(&self, subscription: &Subscription) -> Result<(), StoreError> {
        let mut state = self.state();
        if !state.subscriptions.contains(subscription) {
            state.subscriptions.push(subscription.clone());
        }
        Ok(())
    }

    async fn unsubscribe(&self, subscription: &Subscription) -> Result<(), StoreError> {
        self.strike("unsubscribe", When::Before)?;
        let mut state = self.state();
        state.subscriptions.retain(|one| one != subscription);
        let is_of = |event: &ObjectEvent| {
            event.service == subscription.service
                && event.bucket == subscription.bucket
                && event.key.starts_with(&subscription.prefix)
        };
        state.events.retain(|_, event| !is_of(event));
        Ok(())
    }

    async fn commit(&self, moves: &[Move]) -> Result<(), StoreError> {
        self.faults.wait("commit").await;
        self.strike("commit", When::Before)?;
        {
            let mut state = self.state();
            let done: BTreeSet<_> =
                state.moved.iter().map(|one| (one.job.clone(), one.to_bucket.clone(), one.to_key.clone())).collect();
            let is_left = |one: &&Move| !done.contains(&(one.job.clone(), one.to_bucket.clone(), one.to_key.clone()));
            let left: Vec<_> = moves.iter().filter(is_left).cloned().collect();
            let source = |one: &Move| (one.from_bucket.clone(), one.from_key.clone());
            if left
                .iter()
                .any(|one| !state.objects.contains_key(&source(one)) || !state.buckets.contains_key(&one.to_bucket))
            {
                return Err(StoreError::NotFound);
            }
            for one in left {
                if let Some(mut stored) = state.objects.remove(&source(&one)) {
                    stored.metadata.insert(JOB_METADATA.to_owned(), one.job.clone());
                    state.put(&one.to_bucket, &one.to_key, stored, "");
                }
                state.moved.push(one);
            }
        }
        self.arrivals.notify_one();
        self.strike("commit", When::After)
    }

    async fn count_objects(&self) -> Result<Option<u64>, StoreError> {
        let count = self.state().objects.keys().filter(|(bucket, _)| bucket != STAGING_BUCKET).count();
        Ok(Some(count as u64))
    }

    async fn discard(&self, bucket: &str, prefix: &str) -> Result<(), StoreError> {
        self.strike("discard", When::Before)?;
        self.state().objects.retain(|(of, key), _| of != bucket || !key.starts_with(prefix));
        self.strike("discard", When::After)
    }
}

#[async_trait]
impl Uploads for MemoryBuckets {
    async fn next(&self, limit: usize) -> Result<Vec<ObjectEvent>, StoreError> {
        self.strike("next", When::Before)?;
        Ok(self.state().events.values().take(limit).cloned().collect())
    }

    async fn settle(&self, ids: &[u64]) -> Result<(), StoreError> {
        self.strike("settle", When::Before)?;
        self.state().events.retain(|id, _| !ids.contains(id));
        self.strike("settle", When::After)
    }

    async fn arrival(&self) {
        if self.state().events.is_empty() {
            self.arrivals.notified().await;
        }
    }
}
