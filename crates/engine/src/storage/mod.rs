//! What services and users have in the cluster's own object store.

mod buckets;
mod furnished;
mod own_store;
pub(crate) mod per_user;
mod signed_headers;
mod wanted;

pub use buckets::BucketWish;
pub use furnished::Furnished;
pub(crate) use own_store::force_own_store;
pub(crate) use wanted::Wanted;

use oscar_model::fault::{Faults, quoted};
use oscar_model::identity::Owner;
use oscar_model::service::storage::is_bucket_name;
use oscar_model::service::{Definition, Service};

use crate::failure::Failure;
use crate::jobs::place_of;
use crate::manager::Manager;
use crate::ports::buckets::STAGING_BUCKET;

impl Manager {
    /// The buckets that were made for a service stay when it goes.
    pub(crate) async fn keep_buckets(&self, service: &Service) -> Result<(), Failure> {
        let Some(jobs) = &self.jobs else { return Ok(()) };
        for name in Wanted::of(&service.definition).buckets.keys() {
            let bucket = jobs.buckets().get(name).await?;
            if bucket.and_then(|bucket| bucket.from_service).as_deref() == Some(service.name().as_str()) {
                jobs.buckets().release(name).await?;
            }
        }
        Ok(())
    }

    /// Faults of paths that name buckets of somebody else.
    pub(crate) async fn judge_buckets(&self, definition: &Definition, owner: &Owner) -> Result<Faults, Failure> {
        let mut faults = Faults::default();
        let Some(jobs) = &self.jobs else { return Ok(faults) };
        if definition.is_worker() {
            return Ok(faults);
        }
        let inputs = definition.input.iter().enumerate().map(|(n, io)| (format!("input[{n}].path"), io));
        let outputs = definition.output.iter().enumerate().map(|(n, io)| (format!("output[{n}].path"), io));
        let mount = definition.mount.iter().map(|io| ("mount.path".to_owned(), io));
        for (path, io) in inputs.chain(outputs).chain(mount).filter(|(_, io)| io.provider.is_own_store()) {
            let Some((bucket, _)) = place_of(&io.path) else { continue };
            let taken = jobs.buckets().get(&bucket).await?.is_some_and(|known| known.owner != *owner);
            if taken || bucket == STAGING_BUCKET {
                faults.push(path, quoted(&io.path), "a bucket that is free or yours: this one is somebody else's");
            }
        }
        if let Some((one, other)) = per_user::confused(definition) {
            let found = format!("{} and {}", quoted(one.as_str()), quoted(other.as_str()));
            faults.push(
                "allowed_users",
                found,
                "users that differ in their first 10 characters: buckets are called so",
            );
        }
        for bucket in per_user::names(definition) {
            let taken = jobs.buckets().get(&bucket).await?.is_some_and(|known| known.owner != *owner);
            if taken || !is_bucket_name(&bucket) {
                let expected = "users whose buckets are free and can be called so";
                faults.push("allowed_users", format!("the bucket {}", quoted(&bucket)), expected);
            }
        }
        Ok(faults)
    }
}
