//! Buckets as their owners manage them.

use std::time::Duration;

use oscar_model::fault::{Faults, quoted};
use oscar_model::identity::{Owner, Principal, Subject};
use oscar_model::service::Visibility;
use oscar_model::service::storage::{BUCKET_RULE, is_bucket_name};

use super::signed_headers;
use super::wanted::Wanted;
use crate::deploy::owner_of;
use crate::failure::Failure;
use crate::manager::Manager;
use crate::ports::StoreError;
use crate::ports::buckets::{Bucket, Buckets, Keys, Page, Presign, STAGING_BUCKET};
use crate::ports::services::{Entry, Scope};

/// What somebody wants a bucket to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketWish {
    pub name: String,
    pub folder: Option<String>,
    pub visibility: Visibility,
    pub allowed_users: Vec<Subject>,
}

/// The longest that a presigned address may last, as S3 has it.
const LONGEST_PRESIGNED: Duration = Duration::from_hours(7 * 24);

impl Manager {
    pub async fn create_bucket(&self, principal: &Principal, wish: BucketWish) -> Result<(), Failure> {
        let store = self.store()?;
        check_name(&wish.name)?;
        if store.get(&wish.name).await?.is_some() {
            return Err(Failure::BucketExists(wish.name));
        }
        let (owner, _) = owner_of(principal);
        let BucketWish { name, folder, visibility, allowed_users } = wish;
        let bucket = Bucket { name, owner, visibility, allowed_users, from_service: None };
        store.ensure(&bucket).await.map_err(|error| of_bucket(error, &bucket.name))?;
        if let Some(folder) = folder {
            store.ensure_folder(&bucket.name, &folder).await?;
        }
        Ok(())
    }

    pub async fn buckets(&self, principal: &Principal) -> Result<Vec<Bucket>, Failure> {
        let (viewer, _) = owner_of(principal);
        let mut buckets = self.store()?.list(&viewer).await?;
        buckets.retain(|bucket| bucket.name != STAGING_BUCKET);
        Ok(buckets)
    }

    /// A bucket and a page of what is in it.
    pub async fn bucket(
        &self,
        principal: &Principal,
        name: &str,
        page: Option<&str>,
        limit: usize,
    ) -> Result<(Bucket, Page), Failure> {
        let bucket = self.usable_bucket(principal, name).await?;
        let objects = self.store()?.objects(name, page, limit).await.map_err(|error| of_bucket(error, name))?;
        Ok((bucket, objects))
    }

    /// Who may use it from now on.
    pub async fn change_bucket(&self, principal: &Principal, wish: &BucketWish) -> Result<(), Failure> {
        self.own_bucket(principal, &wish.name).await?;
        let changed = self.store()?.set_visibility(&wish.name, wish.visibility, &wish.allowed_users).await;
        changed.map_err(|error| of_bucket(error, &wish.name))
    }

    /// Removes it with everything in it, unless a service needs it.
    pub async fn remove_bucket(&self, principal: &Principal, name: &str) -> Result<(), Failure> {
        self.own_bucket(principal, name).await?;
        for entry in self.ports.services.list(&Scope::All).await? {
            if let Entry::Good(stored) = entry
                && Wanted::of(&stored.service.definition).buckets.contains_key(name)
            {
                return Err(Failure::BucketInUse { bucket: name.to_owned(), service: stored.service.name().clone() });
            }
        }
        self.store()?.remove(name).await.map_err(|error| of_bucket(error, name))
    }

    pub async fn presign(&self, principal: &Principal, request: &Presign) -> Result<String, Failure> {
        let mut faults = Faults::default();
        if request.key.is_empty() || request.key.len() > 1024 {
            faults.push("object_key", quoted(&request.key), "1 to 1024 bytes");
        }
        if request.valid_for.is_zero() || request.valid_for > LONGEST_PRESIGNED {
            faults.push("expires_in", request.valid_for.as_secs().to_string(), "1 to 604800 seconds");
        }
        signed_headers::check(request.upload, &request.headers, &mut faults);
        if !faults.is_empty() {
            return Err(Failure::Invalid(faults));
        }
        let bucket = self.usable_bucket(principal, &request.bucket).await?;
        let signer = match principal {
            Principal::Admin => Owner::Admin,
            Principal::User(user) => Owner::User(user.subject.clone()),
            Principal::ServiceToken(_) => bucket.owner,
        };
        Ok(self.store()?.presign(&signer, request).await?)
    }

    /// The caller's own keys of the cluster's store.
    pub async fn user_keys(&self, principal: &Principal) -> Result<Option<Keys>, Failure> {
        match (principal, &self.jobs) {
            (Principal::User(user), Some(jobs)) => {
                Ok(Some(jobs.buckets().user_keys(&Owner::User(user.subject.clone())).await?))
            }
            _ => Ok(None),
        }
    }

    fn store(&self) -> Result<&dyn Buckets, Failure> {
        Ok(self.jobs()?.buckets().as_ref())
    }

    /// What is not visible is not told from what is not there.
    async fn usable_bucket(&self, principal: &Principal, name: &str) -> Result<Bucket, Failure> {
        let missing = || Failure::NoBucket(name.to_owned());
        let bucket = self.store()?.get(name).await?.filter(|bucket| bucket.name != STAGING_BUCKET);
        bucket.filter(|bucket| may_use(principal, bucket)).ok_or_else(missing)
    }

    async fn own_bucket(&self, principal: &Principal, name: &str) -> Result<Bucket, Failure> {
        let bucket = self.usable_bucket(principal, name).await?;
        if principal.acts_for(&bucket.owner) { Ok(bucket) } else { Err(Failure::NotBucketOwner(name.to_owned())) }
    }
}

fn may_use(principal: &Principal, bucket: &Bucket) -> bool {
    principal.acts_for(&bucket.owner)
        || match (principal, bucket.visibility) {
            (Principal::User(_), Visibility::Public) => true,
            (Principal::User(user), Visibility::Restricted) => bucket.allowed_users.contains(&user.subject),
            _ => false,
        }
}

fn check_name(name: &str) -> Result<(), Failure> {
    if is_bucket_name(name) && name != STAGING_BUCKET {
        return Ok(());
    }
    let mut faults = Faults::default();
    faults.push("bucket_name", quoted(name), BUCKET_RULE);
    Err(Failure::Invalid(faults))
}

fn of_bucket(error: StoreError, name: &str) -> Failure {
    match error {
        StoreError::NotFound => Failure::NoBucket(name.to_owned()),
        StoreError::AlreadyExists => Failure::BucketExists(name.to_owned()),
        other => Failure::Store(other),
    }
}
