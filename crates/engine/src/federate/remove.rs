//! The end of a federation: the coordinator at once, its members as they can be reached.

use std::collections::BTreeMap;

use futures::future::join_all;
use oscar_model::federation::expand::Audience;
use oscar_model::federation::record::{Access, FederationRecord, Leaving, Role};
use oscar_model::federation::topology::MemberId;
use oscar_model::name::ServiceName;

use crate::failure::Failure;
use crate::ports::StoreError;
use crate::ports::services::Revision;

use super::access::logins;
use super::reconcile::{Changes, Repair, Round};
use super::{Federator, contact, federation_of};

/// How long the removal of members is tried.
const PATIENCE: u64 = 7 * 24 * 3600;

/// A grant that nobody needs any more.
#[derive(Debug)]
pub struct Released {
    pub service: ServiceName,
    pub grant: String,
    /// Who deleted the federation.
    pub actor: String,
}

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
        if let Some(mut record) = self.known(service).await? {
            let stored = self.services.get(service).await.map_err(fail)?;
            if let (Some(stored), Some(expected)) = (&stored, expected)
                && stored.revision != *expected
            {
                return Err(Failure::of_service(StoreError::Conflict, service));
            }
            record.access = Access { grant: record.access.grant.take().or(access.grant), ..access };
            if let Some(stored) = stored {
                let sensitive = self.services.reveal(service).await.map_err(fail)?;
                record.access.logins = logins(&stored.service.definition, &sensitive);
            }
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

    /// Goes on with removing what is left of deleted federations. Returns how many are not done
    /// yet, and the grants that nobody needs any more.
    pub async fn finish_deleted(&self) -> Result<(usize, Vec<Released>), Failure> {
        let records = self.journal.federations().await?;
        // Side by side: a member that hangs keeps nobody else's removal waiting.
        let ends = records.iter().filter(|record| record.deleted.is_some()).map(|record| self.finish_one(record));
        let (mut open, mut released) = (0, Vec::new());
        for (left, grant) in join_all(ends).await.into_iter().collect::<Result<Vec<_>, Failure>>()? {
            open += left;
            released.extend(grant);
        }
        Ok((open, released))
    }

    /// One if something is left to do, and the grant that nobody needs any more.
    async fn finish_one(&self, seen: &FederationRecord) -> Result<(usize, Option<Released>), Failure> {
        let name = &seen.own.service_name;
        // A look that was begun before the deletion must not bring a member back after it.
        let _one = self.memory.repairs.take(name).await;
        let Some(record) = self.deleted_record(seen).await? else { return Ok((0, None)) };
        let Some(since) = record.deleted else { return Ok((0, None)) };
        let given_up = self.now().saturating_sub(since) > PATIENCE;
        if record.role != Role::Coordinator {
            if given_up {
                self.journal.remove_federation(&record.federation_id, name).await?;
            }
            let told = given_up || self.say_farewell(&record).await?;
            return Ok((usize::from(!told), None));
        }
        self.finish_local_part(&record).await?;
        if !self.remove_members(&record).await?.troubles().is_empty() && !given_up {
            return Ok((1, None));
        }
        if given_up {
            let who = ("", &record.owner);
            self.note(who, "removal-given-up", name, &record.federation_id, "").await;
        }
        self.journal.remove_federation(&record.federation_id, name).await?;
        self.memory.states.forget(&record.federation_id);
        let Access { grant, actor, .. } = record.access;
        Ok((0, grant.map(|grant| Released { service: name.clone(), grant, actor })))
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
    Leaving { contact: contact(place, Some(audience)), delete }
}
