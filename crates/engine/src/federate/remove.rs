//! The end of a federation: the coordinator at once, its members as they can be reached.

use std::collections::BTreeMap;

use futures::future::join_all;
use oscar_model::federation::expand::Audience;
use oscar_model::federation::record::{Access, FederationRecord, Holder, Leaving, Role};
use oscar_model::federation::topology::MemberId;
use oscar_model::name::ServiceName;

use crate::failure::Failure;
use crate::ports::StoreError;
use crate::ports::services::Revision;

use super::access::logins;
use super::reconcile::{Changes, Repair, Round};
use super::{Federator, Tended, contact, federation_of};

/// How long the removal of members is tried.
const PATIENCE: u64 = 7 * 24 * 3600;

impl Federator {
    /// Deletes a coordinator: when this returns, the local part is gone and its name is free.
    /// What is left to do elsewhere is remembered.
    pub async fn delete(
        &self,
        service: &ServiceName,
        expected: Option<&Revision>,
        access: Access,
    ) -> Result<(), Failure> {
        let fail = |error: StoreError| Failure::of_service(error, service);
        // Until the service is gone nobody edits what has ended.
        let _turn = self.memory.records.take(service).await;
        let mut marked = false;
        let (stored, record) = match self.services.get(service).await {
            // Its members are known all the same.
            Err(StoreError::Broken(_)) => {
                let record = self.journal.federation(service).await?;
                (None, record.filter(|record| record.role == Role::Coordinator))
            }
            other => (other.map_err(fail)?, self.known(service).await?),
        };
        if let Some(mut record) = record {
            if let (Some(stored), Some(expected)) = (&stored, expected)
                && stored.revision != *expected
            {
                return Err(Failure::of_service(StoreError::Conflict, service));
            }
            let mut known = std::mem::take(&mut record.access.logins);
            if let Some(stored) = stored {
                let sensitive = self.services.reveal(service).await.map_err(fail)?;
                known.extend(logins(&stored.service.definition, &sensitive));
            }
            let grant = record.access.grant.take().or(access.grant);
            record.access = Access { grant, logins: known, ..access };
            record.leaving.extend(present(&record));
            record.deleted = Some(self.now());
            self.journal.put_federation(&record).await?;
            marked = true;
        }
        match self.services.remove(service, expected).await {
            // Whoever goes on with what is left was the first to remove it.
            Err(StoreError::NotFound) if marked => {}
            removed => removed.map_err(fail)?,
        }
        self.memory.nudge.notify_one();
        Ok(())
    }

    /// Goes on with removing what is left of deleted federations, and ends the grants that they
    /// had. Returns how many are not done yet; one that fails is one of them, and keeps no other
    /// from going on.
    pub async fn finish_deleted(&self) -> Result<Tended, Failure> {
        let records = self.journal.federations().await?;
        // Side by side: a member that hangs keeps nobody else's removal waiting.
        let ends = records
            .iter()
            .filter(|record| record.deleted.is_some())
            .map(|record| async { (record.own.service_name.clone(), self.finish_one(record).await) });
        Ok(Tended::of(join_all(ends).await))
    }

    /// One if something is left to do.
    async fn finish_one(&self, seen: &FederationRecord) -> Result<usize, Failure> {
        let name = &seen.own.service_name;
        // A look that was begun before the deletion must not bring a member back after it.
        let _one = self.memory.repairs.take(name).await;
        let Some(record) = self.deleted_record(seen).await? else { return Ok(0) };
        let Some(since) = record.deleted else { return Ok(0) };
        let given_up = self.now().saturating_sub(since) > PATIENCE;
        if record.role != Role::Coordinator {
            if given_up {
                self.journal.remove_federation(&record.federation_id, name).await?;
            }
            let told = given_up || self.say_farewell(&record).await?;
            return Ok(usize::from(!told));
        }
        self.finish_local_part(&record).await?;
        if !self.remove_members(&record).await?.troubles().is_empty() && !given_up {
            return Ok(1);
        }
        if given_up {
            let who = ("", &record.owner);
            self.note(who, "removal-given-up", name, &record.federation_id, "").await;
        }
        // While it is written down who has it: after a crash it is said again.
        if let Some(grant) = &record.access.grant {
            let holder = Holder::new(name, &record.federation_id);
            self.mint.release(grant, &holder, &record.access.actor).await;
        }
        self.journal.remove_federation(&record.federation_id, name).await?;
        self.memory.states.forget(&record.federation_id);
        Ok(0)
    }

    /// The record as it is now.
    async fn deleted_record(&self, seen: &FederationRecord) -> Result<Option<FederationRecord>, Failure> {
        let mut records = self.journal.federations().await?.into_iter();
        Ok(records.find(|record| record.federation_id == seen.federation_id && record.own == seen.own))
    }

    /// A crash may have come between the tombstone and the removal of the service.
    async fn finish_local_part(&self, record: &FederationRecord) -> Result<(), Failure> {
        let name = &record.own.service_name;
        let stored = self.services.get(name).await.map_err(|error| Failure::of_service(error, name))?;
        match stored {
            Some(stored) if federation_of(&stored.service.definition) == record.federation_id => {
                match self.services.remove(name, Some(&stored.revision)).await {
                    Ok(()) | Err(StoreError::NotFound | StoreError::Conflict) => Ok(()),
                    Err(error) => Err(Failure::of_service(error, name)),
                }
            }
            _ => Ok(()),
        }
    }

    async fn remove_members(&self, record: &FederationRecord) -> Result<Repair, Failure> {
        let operation = self.new_id();
        let mut round = Round { record, access: &record.access, operation: &operation, changes: Changes::default() };
        let repair = self.see_off(&mut round).await;
        let changes = round.changes;
        self.keep_changes(record, changes).await?;
        Ok(repair)
    }
}

/// Every member that is there, on its way out.
pub(crate) fn present(record: &FederationRecord) -> BTreeMap<MemberId, Leaving> {
    let members = record.membership.members().filter(|_| record.role == Role::Coordinator);
    members.map(|(id, known)| (id.clone(), leaving(record, id, &known.endpoint.value, true))).collect()
}

pub(crate) fn leaving(
    record: &FederationRecord,
    id: &MemberId,
    place: &oscar_model::federation::membership::Place,
    delete: bool,
) -> Leaving {
    let audience = record.sent.get(id).map_or(Audience::Ours, |sent| sent.audience);
    Leaving { contact: contact(place, Some(audience)), delete, absent: None }
}
