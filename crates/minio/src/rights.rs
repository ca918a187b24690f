//! Who may use which bucket: users, groups and policies of the store made to agree with what the
//! buckets say.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Bucket, STAGING_BUCKET};
use oscar_model::identity::{Owner, Subject};
use oscar_model::service::Visibility;
use serde_json::Value;

use crate::error::Trouble;
use crate::owners::{FROM_SERVICE, OWNER, VISIBILITY, from_owner_tag, to_owner_tag, visibility_in};
use crate::policy::{self, EVERYBODY};
use crate::store::Inner;

/// Buckets that are described at the same time.
const AT_ONCE: usize = 16;

impl Inner {
    /// A bucket as it is now.
    pub(crate) async fn describe(&self, name: &str) -> Result<Option<Bucket>, Trouble> {
        let Some(tags) = self.wire.bucket_tags(name).await? else { return Ok(None) };
        let visibility = match visibility_in(&tags) {
            Some(visibility) => visibility,
            None => self.infer_visibility(name).await?,
        };
        let allowed_users = match visibility {
            Visibility::Restricted => {
                let members = self.admin.group(name).await?.unwrap_or_default().members;
                let mut users: Vec<Subject> = members.iter().filter_map(|member| Subject::parse(member)).collect();
                users.sort();
                users
            }
            Visibility::Private | Visibility::Public => Vec::new(),
        };
        let bucket = Bucket {
            name: name.to_owned(),
            owner: from_owner_tag(&tags),
            visibility,
            allowed_users,
            from_service: tags.get(FROM_SERVICE).filter(|service| !service.is_empty()).cloned(),
        };
        Ok(Some(bucket))
    }

    /// Go OSCAR writes no visibility; its policies show it.
    async fn infer_visibility(&self, name: &str) -> Result<Visibility, Trouble> {
        let policies = self.admin.policies().await?;
        let opens = |policy: &str| policies.get(policy).is_some_and(|policy| policy::opens(policy, name));
        Ok(if opens(EVERYBODY) {
            Visibility::Public
        } else if opens(name) {
            Visibility::Restricted
        } else {
            Visibility::Private
        })
    }

    /// Every bucket but that of staged outputs. Those that were looked at before are not looked at
    /// again: [`Inner::forget_known`] makes that happen.
    pub(crate) async fn all(&self) -> Result<BTreeMap<String, Bucket>, Trouble> {
        let names: BTreeSet<String> = self.wire.bucket_names().await?.into_iter().collect();
        let unknown: Vec<String> = {
            let mut known = self.known();
            known.retain(|name, _| names.contains(name));
            names.iter().filter(|name| *name != STAGING_BUCKET && !known.contains_key(*name)).cloned().collect()
        };
        let described =
            futures::stream::iter(unknown.into_iter().map(|name| async move { self.describe(&name).await }));
        let found: Vec<Option<Bucket>> = described.buffer_unordered(AT_ONCE).try_collect().await?;
        let mut known = self.known();
        for bucket in found.into_iter().flatten() {
            known.insert(bucket.name.clone(), bucket);
        }
        Ok(known.clone())
    }

    pub(crate) fn forget_known(&self) {
        self.known().clear();
    }

    /// What a bucket says of itself; other tags stay.
    pub(crate) async fn write_tags(&self, bucket: &Bucket) -> Result<(), StoreError> {
        let mut tags = self.wire.bucket_tags(&bucket.name).await?.ok_or(StoreError::NotFound)?;
        tags.insert(OWNER.to_owned(), to_owner_tag(&bucket.owner)?);
        tags.insert(VISIBILITY.to_owned(), bucket.visibility.as_str().to_owned());
        match &bucket.from_service {
            Some(service) => tags.insert(FROM_SERVICE.to_owned(), service.clone()),
            None => tags.remove(FROM_SERVICE),
        };
        Ok(self.wire.set_bucket_tags(&bucket.name, &tags).await?)
    }

    /// Makes the rights to a bucket exactly what it says. With the turn taken.
    pub(crate) async fn settle_rights(&self, bucket: &Bucket) -> Result<(), StoreError> {
        let mut all = self.all().await?;
        all.insert(bucket.name.clone(), bucket.clone());
        self.known().insert(bucket.name.clone(), bucket.clone());
        if bucket.visibility != Visibility::Restricted {
            self.dissolve_group(&bucket.name).await?;
        }
        self.open_public(&all).await?;
        if let Owner::User(subject) = &bucket.owner {
            self.ensure_user(subject).await?;
            self.settle_owner(subject, &all).await?;
        }
        if bucket.visibility == Visibility::Restricted {
            self.form_group(bucket).await?;
        }
        Ok(())
    }

    /// Nobody may use it any more. With the turn taken.
    pub(crate) async fn withdraw_rights(&self, bucket: &Bucket) -> Result<(), StoreError> {
        let mut all = self.all().await?;
        all.remove(&bucket.name);
        self.dissolve_group(&bucket.name).await?;
        self.open_public(&all).await?;
        if let Owner::User(subject) = &bucket.owner {
            self.settle_owner(subject, &all).await?;
        }
        Ok(())
    }

    /// A bucket that is new opens to nobody by what an older one of that name left behind.
    pub(crate) async fn close_leftovers(&self, name: &str) -> Result<(), StoreError> {
        for (policy, mut document) in self.admin.policies().await? {
            if policy::opens(&document, name) {
                close(&mut document, name);
                self.admin.put_policy(&policy, &document).await?;
            }
        }
        Ok(())
    }

    /// The policy of one user, from the buckets that are his.
    pub(crate) async fn settle_owner(
        &self,
        subject: &Subject,
        all: &BTreeMap<String, Bucket>,
    ) -> Result<(), StoreError> {
        let owner = Owner::User(subject.clone());
        let own = all.values().filter(|bucket| bucket.owner == owner).map(|bucket| bucket.name.as_str());
        let name = subject.as_str();
        self.admin.put_policy(name, &policy::of_buckets(own)).await?;
        Ok(self.admin.attach(name, name, false).await?)
    }

    async fn open_public(&self, all: &BTreeMap<String, Bucket>) -> Result<(), StoreError> {
        let public = all.values().filter(|bucket| bucket.visibility == Visibility::Public);
        let document = policy::of_buckets(public.map(|bucket| bucket.name.as_str()));
        self.admin.change_group(EVERYBODY, &[], false).await?;
        self.admin.put_policy(EVERYBODY, &document).await?;
        Ok(self.admin.attach(EVERYBODY, EVERYBODY, true).await?)
    }

    /// The group of a restricted bucket has exactly the users that may use it.
    async fn form_group(&self, bucket: &Bucket) -> Result<(), StoreError> {
        let name = bucket.name.as_str();
        for user in &bucket.allowed_users {
            self.ensure_user(user).await?;
        }
        let wanted: BTreeSet<&str> = bucket.allowed_users.iter().map(Subject::as_str).collect();
        let present = self.admin.group(name).await?.unwrap_or_default().members;
        let excess: Vec<&str> = present.iter().map(String::as_str).filter(|user| !wanted.contains(user)).collect();
        if !excess.is_empty() {
            self.admin.change_group(name, &excess, true).await?;
        }
        let wanted: Vec<&str> = wanted.into_iter().collect();
        self.admin.change_group(name, &wanted, false).await?;
        self.admin.put_policy(name, &policy::of_buckets(std::iter::once(name))).await?;
        Ok(self.admin.attach(name, name, true).await?)
    }

    async fn dissolve_group(&self, name: &str) -> Result<(), StoreError> {
        let Some(group) = self.admin.group(name).await? else { return Ok(()) };
        self.admin.attach("", name, true).await?;
        let members: Vec<&str> = group.members.iter().map(String::as_str).collect();
        if !members.is_empty() {
            self.admin.change_group(name, &members, true).await?;
        }
        self.admin.change_group(name, &[], true).await?;
        Ok(self.admin.remove_policy(name).await?)
    }
}

/// Takes a bucket out of every statement of a document.
fn close(document: &mut Value, bucket: &str) {
    let arns = [format!("arn:aws:s3:::{bucket}/*"), format!("arn:aws:s3:::{bucket}")];
    let Some(statements) = document["Statement"].as_array_mut() else { return };
    for statement in statements.iter_mut() {
        if let Some(resources) = statement["Resource"].as_array_mut() {
            resources.retain(|resource| !arns.iter().any(|arn| resource == arn));
        }
    }
    statements.retain(|statement| statement["Resource"].as_array().is_none_or(|resources| !resources.is_empty()));
    if statements.is_empty() {
        *document = policy::of_buckets(std::iter::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_taken_out_and_others_stay() {
        let mut document = policy::of_buckets(["one", "two"].into_iter());
        close(&mut document, "one");
        assert!(!policy::opens(&document, "one") && policy::opens(&document, "two"));
        close(&mut document, "two");
        assert!(!policy::opens(&document, "two"));
        assert_eq!(document, policy::of_buckets(std::iter::empty()));
    }
}
