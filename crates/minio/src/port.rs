//! The store as the engine sees it.

use std::time::SystemTime;

use async_trait::async_trait;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{
    Bucket, Buckets, Grant, Keys, Move, Object, Page, Presign, STAGING_BUCKET, Subscription, Verb,
};
use oscar_model::identity::{Owner, Subject};
use oscar_model::service::Visibility;
use rusqlite::{OptionalExtension as _, params};
use rusty_s3::actions::{GetObject, PutObject, S3Action as _};
use rusty_s3::{Credentials, UrlStyle};

use crate::inbox;
use crate::owners::check_bucket;
use crate::s3::{check_key, listed_millis, time_of};
use crate::store::{Inner, MinioStore};
use crate::xml::decoded;

/// Pages are never longer, whatever is asked for.
const LONGEST_PAGE: usize = 1000;
const FOLDER_TYPE: &str = "application/x-directory";
/// How often a bucket is cleared that others write to meanwhile.
const CLEARINGS: usize = 5;

#[async_trait]
impl Buckets for MinioStore {
    async fn ensure(&self, bucket: &Bucket) -> Result<(), StoreError> {
        let inner = &self.inner;
        check_bucket(&bucket.name)?;
        if bucket.name == STAGING_BUCKET {
            return Err(StoreError::AlreadyExists);
        }
        let _turn = inner.turn.lock().await;
        let cut_off = inner.changing(&bucket.name).await?.as_deref() == Some(bucket.owner.as_str());
        if let Some(present) = inner.describe(&bucket.name).await? {
            if present.owner == bucket.owner && !cut_off {
                return Ok(());
            }
            // One without a name on it may be what a crash left of ours.
            if present.owner != bucket.owner && !(cut_off && present.owner == Owner::Admin) {
                return Err(StoreError::AlreadyExists);
            }
        } else {
            inner.check_new(bucket).await?;
            inner.change_begins(&bucket.name, &bucket.owner).await?;
            if !inner.wire.create_bucket(&bucket.name).await? {
                inner.change_over(&bucket.name).await?;
                return Err(StoreError::AlreadyExists);
            }
            inner.close_leftovers(&bucket.name).await?;
        }
        inner.write_tags(bucket).await?;
        inner.settle_rights(bucket).await?;
        inner.change_over(&bucket.name).await
    }

    async fn get(&self, name: &str) -> Result<Option<Bucket>, StoreError> {
        if check_bucket(name).is_err() {
            return Ok(None);
        }
        Ok(self.inner.describe(name).await?)
    }

    async fn list(&self, viewer: &Owner) -> Result<Vec<Bucket>, StoreError> {
        let may_use = |bucket: &Bucket| match (viewer, bucket.visibility) {
            (Owner::Admin, _) | (_, Visibility::Public) => true,
            (viewer, _) if *viewer == bucket.owner => true,
            (Owner::User(subject), Visibility::Restricted) => bucket.allowed_users.contains(subject),
            (Owner::User(_), Visibility::Private) => false,
        };
        Ok(self.inner.all().await?.into_values().filter(may_use).collect())
    }

    async fn set_visibility(
        &self,
        name: &str,
        visibility: Visibility,
        allowed_users: &[Subject],
    ) -> Result<(), StoreError> {
        let inner = &self.inner;
        refuse_staging(name)?;
        let _turn = inner.turn.lock().await;
        let bucket = self.get(name).await?.ok_or(StoreError::NotFound)?;
        let bucket = Bucket { visibility, allowed_users: allowed_users.to_vec(), ..bucket };
        inner.check_new(&bucket).await?;
        inner.change_begins(name, &bucket.owner).await?;
        inner.write_tags(&bucket).await?;
        inner.settle_rights(&bucket).await?;
        inner.change_over(name).await
    }

    async fn release(&self, name: &str) -> Result<(), StoreError> {
        refuse_staging(name)?;
        let _turn = self.inner.turn.lock().await;
        let bucket = self.get(name).await?.ok_or(StoreError::NotFound)?;
        let bucket = Bucket { from_service: None, ..bucket };
        self.inner.write_tags(&bucket).await?;
        self.inner.known().insert(name.to_owned(), bucket);
        Ok(())
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        let inner = &self.inner;
        refuse_staging(name)?;
        {
            let _turn = inner.turn.lock().await;
            let bucket = self.get(name).await?.ok_or(StoreError::NotFound)?;
            // First of all, so that no right outlives the bucket and opens the next one of its name.
            inner.withdraw_rights(&bucket).await?;
        }
        let forgotten = name.to_owned();
        inner.ledger.change(move |sql| inbox::forget_bucket(sql, &forgotten)).await?;
        for turn in 1..=CLEARINGS {
            inner.wire.clear(name, "").await?;
            match inner.wire.delete_bucket(name).await {
                Ok(()) => break,
                Err(trouble) if trouble.is("BucketNotEmpty") && turn < CLEARINGS => {}
                Err(trouble) => return Err(trouble.into()),
            }
        }
        inner.known().remove(name);
        Ok(())
    }

    async fn ensure_folder(&self, bucket: &str, folder: &str) -> Result<(), StoreError> {
        let key = format!("{}/", folder.trim_matches('/'));
        check_bucket(bucket)?;
        check_key(&key)?;
        if self.inner.wire.head_object(bucket, &key).await?.is_none() {
            let headers = vec![("content-type".to_owned(), FOLDER_TYPE.to_owned())];
            self.inner.wire.put_object(bucket, &key, headers, Vec::new()).await?;
        }
        Ok(())
    }

    async fn objects(&self, bucket: &str, page: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        check_bucket(bucket)?;
        let listed = self.inner.wire.list(bucket, page.unwrap_or_default(), limit.clamp(1, LONGEST_PAGE)).await?;
        let objects: Vec<Object> = listed
            .contents
            .into_iter()
            .map(|one| Object {
                key: decoded(&one.key),
                bytes: one.size,
                modified: time_of(listed_millis(&one.last_modified)),
            })
            .collect();
        let last = objects.last().map(|object| object.key.clone());
        Ok(Page { objects, next: last.filter(|_| listed.is_truncated) })
    }

    async fn user_keys(&self, owner: &Owner) -> Result<Keys, StoreError> {
        let Owner::User(subject) = owner else { return Ok(self.inner.root.clone()) };
        if let Some(keys) = self.inner.made_user(subject).await? {
            return Ok(keys);
        }
        let _turn = self.inner.turn.lock().await;
        self.inner.ensure_user(subject).await
    }

    async fn scoped_key(&self, scope: &[Grant], expires: SystemTime) -> Result<Keys, StoreError> {
        self.inner.make_scoped_key(scope, expires).await
    }

    async fn revoke(&self, access_key: &str) -> Result<(), StoreError> {
        self.inner.revoke_key(access_key).await
    }

    async fn presign(&self, signer: &Owner, request: &Presign) -> Result<String, StoreError> {
        check_bucket(&request.bucket)?;
        check_key(&request.key)?;
        let Inner { wire, region, .. } = &*self.inner;
        // MinIO also listens to headers that were not signed, and one of them turns an upload into a
        // copy of whatever the signer may read: the key must open nothing else.
        let keys = match signer {
            user @ Owner::User(subject) if !subject.as_str().contains('/') => self.user_keys(user).await?,
            // In the protocol an access key ends at its first slash.
            Owner::User(_) | Owner::Admin => {
                let verbs = vec![if request.upload { Verb::Write } else { Verb::Read }];
                let grant = Grant { bucket: request.bucket.clone(), prefix: request.key.clone(), verbs };
                self.scoped_key(&[grant], self.inner.clock.now() + request.valid_for).await?
            }
        };
        let bucket =
            rusty_s3::Bucket::new(wire.endpoint().clone(), UrlStyle::Path, request.bucket.clone(), region.clone());
        let bucket = bucket.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let credentials = Credentials::new(&keys.access_key, keys.secret_key.expose());
        let content_type = request.content_type.as_deref().filter(|text| !text.is_empty());
        let url = if request.upload {
            let mut put = PutObject::new(&bucket, Some(&credentials), &request.key);
            if let Some(content_type) = content_type {
                put.headers_mut().insert("content-type", content_type);
            }
            for (name, value) in &request.headers {
                put.headers_mut().insert(name.as_str(), value.as_str());
            }
            put.sign(request.valid_for)
        } else {
            let mut get = GetObject::new(&bucket, Some(&credentials), &request.key);
            if let Some(content_type) = content_type {
                get.query_mut().insert("response-content-type", content_type);
            }
            for (name, value) in &request.headers {
                get.headers_mut().insert(name.as_str(), value.as_str());
            }
            get.sign(request.valid_for)
        };
        Ok(url.into())
    }

    async fn subscribe(&self, subscription: &Subscription) -> Result<(), StoreError> {
        let inner = &self.inner;
        check_bucket(&subscription.bucket)?;
        let _turn = inner.turn.lock().await;
        let since = inner.wire.bucket_time(&subscription.bucket).await?;
        let one = subscription.clone();
        inner.ledger.change(move |sql| inbox::subscribe(sql, &one, since)).await?;
        inner.settle_notices(&subscription.bucket).await
    }

    async fn unsubscribe(&self, subscription: &Subscription) -> Result<(), StoreError> {
        let inner = &self.inner;
        check_bucket(&subscription.bucket)?;
        let _turn = inner.turn.lock().await;
        let one = subscription.clone();
        inner.ledger.change(move |sql| inbox::unsubscribe(sql, &one)).await?;
        match inner.settle_notices(&subscription.bucket).await {
            // A bucket that is gone tells nothing.
            Err(StoreError::NotFound) => Ok(()),
            other => other,
        }
    }

    async fn commit(&self, moves: &[Move]) -> Result<(), StoreError> {
        self.inner.commit_moves(moves).await
    }

    async fn discard(&self, bucket: &str, prefix: &str) -> Result<(), StoreError> {
        check_bucket(bucket)?;
        match self.inner.wire.clear(bucket, prefix).await {
            Err(trouble) if trouble.is_missing() => Ok(()),
            other => Ok(other?),
        }
    }
}

fn refuse_staging(name: &str) -> Result<(), StoreError> {
    check_bucket(name).map_err(|_| StoreError::NotFound)?;
    if name == STAGING_BUCKET {
        return Err(StoreError::Forbidden("the bucket of staged outputs is the manager's own".to_owned()));
    }
    Ok(())
}

impl Inner {
    /// What can be refused before anything is changed.
    async fn check_new(&self, bucket: &Bucket) -> Result<(), StoreError> {
        crate::owners::to_owner_tag(&bucket.owner)?;
        if bucket.visibility == Visibility::Restricted {
            self.check_group(&bucket.name).await?;
            for user in &bucket.allowed_users {
                self.check_user(user.as_str())?;
            }
        }
        match &bucket.owner {
            Owner::User(subject) => self.check_user(subject.as_str()),
            Owner::Admin => Ok(()),
        }
    }

    /// The owner for whom a bucket was being made or changed when it was cut off.
    async fn changing(&self, name: &str) -> Result<Option<String>, StoreError> {
        let name = name.to_owned();
        let find = "SELECT owner FROM changing WHERE bucket = ?1";
        self.ledger.change(move |sql| sql.query_row(find, [name], |row| row.get(0)).optional()).await
    }

    async fn change_begins(&self, name: &str, owner: &Owner) -> Result<(), StoreError> {
        let (name, owner) = (name.to_owned(), owner.as_str().to_owned());
        let insert = "INSERT OR REPLACE INTO changing (bucket, owner) VALUES (?1, ?2)";
        self.ledger.change(move |sql| sql.execute(insert, params![name, owner])).await.map(drop)
    }

    pub(crate) async fn change_over(&self, name: &str) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.ledger.change(move |sql| sql.execute("DELETE FROM changing WHERE bucket = ?1", [name])).await.map(drop)
    }
}
