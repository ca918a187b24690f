//! Keeping a federation as it is wanted: look, compare, repair, again and again.

use std::collections::BTreeMap;

use futures::future::join_all;
use oscar_model::federation::expand::{OPERATION_ANNOTATION, Origin, Worker, expand};
use oscar_model::federation::plan::{Step, plan};
use oscar_model::federation::topology::MemberId;
use oscar_model::name::ServiceName;

use crate::failure::Failure;
use crate::ports::journal::FederationRecord;
use crate::ports::peers::Call;

use super::create::with_secrets;
use super::{Federator, MemberOutcome, describe};

impl Federator {
    /// One look at a federation and one try at repairing it. Returns the members that are not
    /// as they should be yet. An idle federation makes no write.
    pub async fn tick_reconcile(
        &self,
        coordinator: &ServiceName,
        public_url: &str,
        operation: &str,
    ) -> Result<Vec<MemberOutcome>, Failure> {
        let Some(record) = self.journal.federation(coordinator).await? else { return Ok(Vec::new()) };
        let stored = self.services.get(coordinator).await;
        let stored = stored.map_err(|error| Failure::of_service(error, coordinator))?;
        let Some(stored) = stored else { return Ok(Vec::new()) };
        let sensitive = self.services.reveal(coordinator).await;
        let sensitive = sensitive.map_err(|error| Failure::of_service(error, coordinator))?;
        let origin = Origin {
            endpoint: public_url.to_owned(),
            federation_id: record.federation_id.clone(),
            operation: operation.to_owned(),
        };
        let wanted = expand(&with_secrets(&stored.service.definition, &sensitive), &origin);
        let outcomes = self.repair(&record, &wanted, &stored.service.token, operation).await;
        self.note_departures(record, &outcomes).await?;
        Ok(outcomes)
    }

    /// Removes what is left of federations whose coordinator is gone. Returns how many are not
    /// done yet.
    pub async fn tick_deleted(&self, operation: &str) -> Result<usize, Failure> {
        let mut open = 0;
        for record in self.journal.federations().await?.into_iter().filter(|record| record.deleted) {
            let outcomes = self.repair(&record, &[], &oscar_model::secret::Secret::default(), operation).await;
            if outcomes.is_empty() {
                self.journal.remove_federation(&record.federation_id).await?;
            } else {
                open += 1;
            }
        }
        Ok(open)
    }

    /// Deletes a federation: the coordinator at once, its members as they can be reached.
    pub async fn delete(&self, coordinator: &ServiceName) -> Result<(), Failure> {
        if let Some(mut record) = self.journal.federation(coordinator).await? {
            record.leaving = members(&record);
            record.deleted = true;
            self.journal.put_federation(&record).await?;
        }
        self.services.remove(coordinator, None).await.map_err(|error| Failure::of_service(error, coordinator))
    }

    async fn repair(
        &self,
        record: &FederationRecord,
        wanted: &[Worker],
        token: &oscar_model::secret::Secret,
        operation: &str,
    ) -> Vec<MemberOutcome> {
        let mut endpoints = record.leaving.clone();
        if !record.deleted {
            endpoints.extend(members(record));
        }
        let found = self.look_all(&endpoints, &record.owner, &record.federation_id).await;
        let planned = plan(wanted, &found);
        let mut outcomes: Vec<_> = planned
            .obstacles
            .keys()
            .map(|member| MemberOutcome {
                member: member.clone(),
                trouble: found.get(member).map_or_else(|| "nobody looked there".to_owned(), describe),
            })
            .collect();
        let steps = planned.steps.iter().map(|step| async {
            let endpoint = endpoints.get(&step.member).map_or("", String::as_str);
            let call = Call { member: &step.member, endpoint, owner: &record.owner };
            let done = self.apply(&call, step, record, token, operation).await;
            done.err().map(|error| MemberOutcome { member: step.member.clone(), trouble: error.to_string() })
        });
        outcomes.extend(join_all(steps).await.into_iter().flatten());
        outcomes
    }

    async fn apply(
        &self,
        call: &Call<'_>,
        step: &Step,
        record: &FederationRecord,
        token: &oscar_model::secret::Secret,
        operation: &str,
    ) -> Result<(), crate::ports::peers::PeerError> {
        match &step.definition {
            Some(definition) => {
                let mut definition = (**definition).clone();
                definition.annotations.insert(OPERATION_ANNOTATION.to_owned(), operation.to_owned());
                self.peers.deploy(call, &definition, token).await
            }
            None => self.peers.withdraw(call, &record.federation_id, operation).await,
        }
    }

    /// Members that have left are forgotten once nothing of them is left to remove.
    async fn note_departures(&self, mut record: FederationRecord, outcomes: &[MemberOutcome]) -> Result<(), Failure> {
        let before = record.leaving.len();
        record.leaving.retain(|member, _| outcomes.iter().any(|outcome| outcome.member == *member));
        if record.leaving.len() != before {
            self.journal.put_federation(&record).await?;
        }
        Ok(())
    }
}

fn members(record: &FederationRecord) -> BTreeMap<MemberId, String> {
    record.membership.members().map(|(id, known)| (id.clone(), known.endpoint.value.clone())).collect()
}
