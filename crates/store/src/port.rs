//! The store as the engine sees it.

use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{
    Bucket, Buckets, Grant, Keys, Move, Object, ObjectEvent, Page, Presign, STAGING_BUCKET, Subscription, Uploads,
};
use oscar_model::identity::{Owner, Subject};
use oscar_model::service::Visibility;

use crate::access::{Act, Kind};
use crate::error::Refusal;
use crate::events::{self, Origin};
use crate::listing::{self, Query};
use crate::object_changes::{Conditions, NewObject, Tag, put_silently};
use crate::record::{About, from_millis};
use crate::store::Store;
use crate::{bucket_changes, key_changes, moves, names, presign};

/// Pages are never longer, whatever is asked for.
const LONGEST_PAGE: usize = 1000;
const FOLDER_TYPE: &str = "application/x-directory";

#[async_trait]
impl Buckets for Store {
    async fn ensure(&self, bucket: &Bucket) -> Result<(), StoreError> {
        let bucket = bucket.clone();
        self.change(move |batch| bucket_changes::ensure(batch, &bucket)).await
    }

    async fn get(&self, name: &str) -> Result<Option<Bucket>, StoreError> {
        Ok(self.bucket(name).map(|entry| entry.to_port()))
    }

    async fn list(&self, viewer: &Owner) -> Result<Vec<Bucket>, StoreError> {
        let kind = match viewer {
            Owner::Admin => Kind::Root,
            Owner::User(subject) => Kind::User(subject.clone()),
        };
        let directory = self.directory();
        let visible = directory.buckets.values().filter(|entry| kind.may(&entry.door, Act::Look));
        let mut buckets: Vec<Bucket> = visible.map(|entry| entry.to_port()).collect();
        drop(directory);
        buckets.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(buckets)
    }

    async fn set_visibility(
        &self,
        name: &str,
        visibility: Visibility,
        allowed_users: &[Subject],
    ) -> Result<(), StoreError> {
        let (name, allowed) = (name.to_owned(), allowed_users.to_vec());
        self.change(move |batch| bucket_changes::set_visibility(batch, &name, visibility, &allowed)).await
    }

    async fn release(&self, name: &str) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.change(move |batch| bucket_changes::release(batch, &name)).await
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        let name = name.to_owned();
        let id = self.change(move |batch| bucket_changes::bury(batch, &name)).await?;
        self.clear_grave(id).await.map_err(Refusal::into_store_error)
    }

    async fn ensure_folder(&self, bucket: &str, folder: &str) -> Result<(), StoreError> {
        let key = format!("{}/", folder.trim_matches('/'));
        names::check_key(&key).map_err(Refusal::into_store_error)?;
        let origin = Origin { caller: self.manager(), source_ip: String::new() };
        let about = About { content_type: Some(FOLDER_TYPE.to_owned()), ..About::default() };
        let new = NewObject {
            bucket: bucket.to_owned(),
            key,
            body: crate::intake::Body::Inline(Bytes::new()),
            bytes: 0,
            etag: EMPTY_MD5.to_owned(),
            about,
            conditions: Conditions { if_none_match: Some(Tag::Any), if_match: None },
            origin,
        };
        match self.change(move |batch| put_silently(batch, &new)).await {
            Ok(()) | Err(StoreError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn objects(&self, bucket: &str, page: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        let id = self.bucket(bucket).ok_or(StoreError::NotFound)?.id;
        let query =
            Query { after: page.unwrap_or_default().to_owned(), limit: limit.min(LONGEST_PAGE), ..Query::default() };
        let listed = self.read(move |connection| listing::list(connection, id, &query)).await?;
        let to_object =
            |line: listing::Line| Object { key: line.key, bytes: line.bytes, modified: from_millis(line.modified) };
        Ok(Page { objects: listed.objects.into_iter().map(to_object).collect(), next: listed.next })
    }

    async fn user_keys(&self, owner: &Owner) -> Result<Keys, StoreError> {
        let Owner::User(subject) = owner else { return Ok(self.inner.root.clone()) };
        let name = subject.as_str();
        let is_taken = name == self.inner.root.access_key || name == crate::store::MANAGER_KEY;
        if is_taken {
            return Err(StoreError::Forbidden(format!("'{name}' is the name of a key of the manager itself")));
        }
        loop {
            if let Some(key) = self.directory().keys.get(name) {
                if key.kind != Kind::User(subject.clone()) {
                    return Err(StoreError::Forbidden(format!("'{name}' is the name of another key")));
                }
                if let Some(secret_key) = key.secret.clone() {
                    return Ok(Keys { access_key: name.to_owned(), secret_key });
                }
            }
            if self.directory().keys.contains_key(name) {
                // Sealed with a key that the operator gave up: nobody can use it any more.
                let lost = name.to_owned();
                self.change(move |batch| key_changes::remove(batch, &lost)).await?;
            }
            match self.add_key(name.to_owned(), self.new_secret(), Kind::User(subject.clone()), None).await {
                // Somebody else was faster: his is the one.
                Err(Refusal::Store(StoreError::AlreadyExists)) => {}
                made => return made.map_err(Refusal::into_store_error),
            }
        }
    }

    async fn scoped_key(&self, scope: &[Grant], expires: SystemTime) -> Result<Keys, StoreError> {
        loop {
            let name = format!("OSCAR{}", self.random_text(15).replace(['-', '_'], "x"));
            let kind = Kind::Scoped(scope.into());
            match self.add_key(name, self.new_secret(), kind, Some(expires)).await {
                Err(Refusal::Store(StoreError::AlreadyExists)) => {}
                made => return made.map_err(Refusal::into_store_error),
            }
        }
    }

    async fn revoke(&self, access_key: &str) -> Result<(), StoreError> {
        let access_key = access_key.to_owned();
        self.change(move |batch| key_changes::revoke(batch, &access_key)).await
    }

    async fn presign(&self, signer: &Owner, request: &Presign) -> Result<String, StoreError> {
        names::check_key(&request.key).map_err(Refusal::into_store_error)?;
        let keys = match signer {
            user @ Owner::User(subject) if !subject.as_str().contains('/') => self.user_keys(user).await?,
            // In the protocol an access key ends at its first slash.
            Owner::User(_) | Owner::Admin => {
                let key = self.directory().keys.get(crate::store::MANAGER_KEY).cloned();
                let secret_key = key.and_then(|key| key.secret.clone()).ok_or(StoreError::NotFound)?;
                Keys { access_key: crate::store::MANAGER_KEY.to_owned(), secret_key }
            }
        };
        presign::address(&self.inner.endpoint, &self.inner.region, &keys, request)
    }

    async fn subscribe(&self, subscription: &Subscription) -> Result<(), StoreError> {
        let Subscription { bucket, prefix, service } = subscription.clone();
        self.change(move |batch| {
            crate::object_changes::bucket_named(batch, &bucket)?.ok_or(Refusal::NoSuchBucket)?;
            events::subscribe(batch, &bucket, &prefix, &service)
        })
        .await
    }

    async fn unsubscribe(&self, subscription: &Subscription) -> Result<(), StoreError> {
        let Subscription { bucket, prefix, service } = subscription.clone();
        self.change(move |batch| events::unsubscribe(batch, &bucket, &prefix, &service)).await
    }

    async fn commit(&self, moves: &[Move]) -> Result<(), StoreError> {
        for one in moves {
            names::check_key(&one.to_key).map_err(Refusal::into_store_error)?;
        }
        let (moves, root) = (moves.to_vec(), self.inner.root.access_key.clone());
        self.change(move |batch| moves::commit(batch, &moves, &root)).await
    }

    async fn count_objects(&self) -> Result<Option<u64>, StoreError> {
        let count = self.read(|connection| bucket_changes::count_objects(connection, STAGING_BUCKET)).await?;
        Ok(Some(count))
    }

    async fn discard(&self, bucket: &str, prefix: &str) -> Result<(), StoreError> {
        let Some(entry) = self.bucket(bucket) else { return Ok(()) };
        let (id, prefix) = (entry.id, prefix.to_owned());
        loop {
            let prefix = prefix.clone();
            if self.change(move |batch| bucket_changes::clear_some(batch, id, &prefix)).await? {
                return Ok(());
            }
        }
    }
}

const EMPTY_MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

#[async_trait]
impl Uploads for Store {
    async fn next(&self, limit: usize) -> Result<Vec<ObjectEvent>, StoreError> {
        self.read(move |connection| events::oldest(connection, limit)).await
    }

    async fn settle(&self, ids: &[u64]) -> Result<(), StoreError> {
        let ids = ids.to_vec();
        self.change(move |batch| events::settle(batch, &ids)).await
    }

    async fn arrival(&self) {
        self.inner.arrivals.notified().await;
    }
}
