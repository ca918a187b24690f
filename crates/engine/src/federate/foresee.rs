//! What an edit would do at each member, from what is there now. Nothing is changed.

use std::collections::BTreeSet;

use futures::future::join_all;
use oscar_model::federation::edit::{Edit, attributes};
use oscar_model::federation::expand::FEDERATION_ID_ANNOTATION;
use oscar_model::federation::membership::Place;
use oscar_model::federation::plan::{Act, depart};
use oscar_model::federation::record::{Access, FederationRecord, Role};
use oscar_model::federation::topology::MemberId;
use oscar_model::federation::{Federation, Topology};
use oscar_model::name::ServiceName;
use oscar_model::service::Service;

use crate::failure::Failure;
use crate::ports::StoreError;
use crate::ports::peers::Call;

use super::create::Survey;
use super::reconcile::{access_of, correct, has_drifted, secrets_digest, time_of};
use super::remove::leaving;
use super::{Federator, MemberOutcome, with_secrets};

/// What would be done at one member, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreseen {
    pub member: MemberId,
    pub foresight: Foresight,
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foresight {
    Act(Act),
    Nothing,
    /// It cannot be done now, and would be tried until it can.
    Later,
}

impl Foreseen {
    fn act(member: &MemberId, act: Act, why: &str) -> Self {
        Self { member: member.clone(), foresight: Foresight::Act(act), why: why.to_owned() }
    }

    fn nothing(member: &MemberId, why: &str) -> Self {
        Self { member: member.clone(), foresight: Foresight::Nothing, why: why.to_owned() }
    }

    fn later(trouble: MemberOutcome) -> Self {
        Self { member: trouble.member, foresight: Foresight::Later, why: trouble.trouble }
    }
}

impl Federator {
    pub async fn foresee(&self, service: &ServiceName, edit: &Edit, access: Access) -> Result<Vec<Foreseen>, Failure> {
        match self.known(service).await? {
            Some(record) if matches!(record.role, Role::Worker { .. }) => {
                let (_, after) = self.judge_at_worker(&record, edit).await?;
                Ok(at_worker(&record, &after, edit.delete))
            }
            known => self.foresee_at_coordinator(service, known, edit, access).await,
        }
    }

    async fn foresee_at_coordinator(
        &self,
        name: &ServiceName,
        known: Option<FederationRecord>,
        edit: &Edit,
        access: Access,
    ) -> Result<Vec<Foreseen>, Failure> {
        let fail = |error: StoreError| Failure::of_service(error, name);
        let stored = self.services.get(name).await.map_err(fail)?.ok_or_else(|| Failure::NotFound(name.clone()))?;
        let definition = &stored.service.definition;
        if definition.is_worker() {
            let coordinator = crate::federation::coordinator_named_in(definition);
            return Err(Failure::Replica { service: name.clone(), coordinator });
        }
        let followed = known.as_ref().and_then(|record| self.followed(definition, &record.membership));
        let mut next = self.rehearse(followed.as_ref().unwrap_or(definition), edit)?;
        let record = match known {
            Some(record) => record,
            None => self.blank_record(&Service { definition: next.clone(), ..stored.service.clone() }).await?,
        };
        next.annotations.insert(FEDERATION_ID_ANNOTATION.to_owned(), record.federation_id.clone());
        let mut sensitive = self.services.reveal(name).await.map_err(fail)?;
        for (id, cluster) in edit.clusters.iter().filter(|(_, cluster)| !cluster.auth_password.is_blank()) {
            sensitive.cluster_passwords.insert(id.clone(), cluster.auth_password.clone());
        }
        let access = access_of(&record, &next, &sensitive, Some(access));
        let whole = with_secrets(&self.with_registry(&next), &sensitive);
        let operation = self.new_id();
        let listed = next.federation.as_ref().filter(|federation| federation.topology != Topology::None);
        let staying: BTreeSet<_> =
            listed.iter().flat_map(|federation| &federation.members).filter_map(MemberId::of).collect();
        let places: Vec<_> = staying
            .iter()
            .map(|id| (id.service_name.clone(), self.place(&whole, &id.cluster_id).unwrap_or_default()))
            .collect();
        let gone = record.membership.members().filter(|(id, _)| !staying.contains(id));
        let departures = gone.map(|(id, known)| {
            self.foresee_departure(&record, &access, (id, &known.endpoint.value), edit.delete, &places)
        });
        let survey = self.survey(&whole, &record.owner, &access, &operation, &record.sent);
        let (survey, departures) = futures::join!(survey, join_all(departures));
        let mut foreseen = arrivals(&record, &survey);
        foreseen.extend(departures);
        if listed.is_none() {
            let members = next.federation.iter().flat_map(|federation| &federation.members);
            let why = "with the topology `none` nothing is deployed";
            foreseen.extend(members.filter_map(MemberId::of).map(|id| Foreseen::nothing(&id, why)));
        }
        Ok(foreseen)
    }

    async fn foresee_departure(
        &self,
        record: &FederationRecord,
        access: &Access,
        (id, place): (&MemberId, &Place),
        delete: bool,
        staying: &[(ServiceName, Place)],
    ) -> Foreseen {
        let is_same = |(name, other): &(ServiceName, Place)| {
            *name == id.service_name && oscar_model::federation::address::is_same(&other.url, &place.url)
        };
        if staying.iter().any(is_same) {
            return Foreseen::nothing(id, "the service stays, under another name of its cluster");
        }
        let contact = leaving(record, id, place, delete).contact;
        let credential = match self.credential(access, &record.owner, &id.cluster_id, &contact).await {
            Ok(credential) => credential,
            Err(cause) => return Foreseen::later(MemberOutcome::new(id, super::Kind::Credentials, cause)),
        };
        let (owner, time) = (&record.owner, time_of(record));
        let call = Call { member: id, contact: &contact, owner, credential: &credential, time };
        let mut sighting = self.peers.look(&call, &record.federation_id).await;
        super::create::correct(&mut sighting, record.sent.get(id));
        match depart(id, &sighting.found, delete) {
            Err(obstacle) => Foreseen::later(MemberOutcome::of_obstacle(id, &obstacle)),
            Ok(None) => Foreseen::nothing(id, "nothing of this federation is there"),
            Ok(Some(step)) if step.act == Act::Delete => Foreseen::act(id, step.act, "this federation created it"),
            Ok(Some(step)) => Foreseen::act(id, step.act, "it stays, as a service of its own"),
        }
    }
}

/// At those that are wanted, as a repair would find them.
fn arrivals(record: &FederationRecord, survey: &Survey) -> Vec<Foreseen> {
    let planned = survey.plan();
    let of = |worker: &oscar_model::federation::expand::Worker| {
        let id = &worker.id;
        if let Some(trouble) = survey.troubles.get(id) {
            return Foreseen::later(trouble.clone());
        }
        if let Some(obstacle) = planned.obstacles.get(id) {
            return Foreseen::later(MemberOutcome::of_obstacle(id, obstacle));
        }
        let digest = secrets_digest(&record.federation_id, &worker.definition);
        let step = planned.steps.iter().find(|step| step.member == *id);
        let sighting = survey.sightings.get(id);
        match correct(step, sighting, record.sent.get(id), &worker.definition, &digest) {
            None => Foreseen::nothing(id, "it is as it should be"),
            Some(step) if step.act == Act::Update && has_drifted(record, &step, &digest) => {
                Foreseen::act(id, step.act, "somebody changed it there")
            }
            Some(step) => Foreseen::act(id, step.act, reason(step.act)),
        }
    };
    survey.wanted.iter().map(of).collect()
}

fn reason(act: Act) -> &'static str {
    match act {
        Act::Create => "nothing of that name is there",
        Act::Adopt => "a service of the owner is there",
        Act::Update => "it is not what is wanted now",
        Act::Delete => "this federation created it",
        Act::Release => "it stays, as a service of its own",
    }
}

/// A worker does not look at others: its coordinator does what follows.
fn at_worker(record: &FederationRecord, after: &Federation, delete: bool) -> Vec<Foreseen> {
    let by = "its coordinator sees to it";
    let wanted: Vec<_> = after.members.iter().filter_map(|member| Some((MemberId::of(member)?, member))).collect();
    let mut foreseen: Vec<_> = wanted
        .iter()
        .map(|(id, member)| match record.membership.get(id) {
            None => Foreseen::act(id, Act::Create, by),
            Some(known) if known.attributes.value != attributes(member) => Foreseen::act(id, Act::Update, by),
            Some(_) => Foreseen::nothing(id, "nothing is said of it"),
        })
        .collect();
    let gone = record.membership.members().filter(|(id, _)| !wanted.iter().any(|(other, _)| other == *id));
    let act = if delete { Act::Delete } else { Act::Release };
    foreseen.extend(gone.map(|(id, _)| Foreseen::act(id, act, by)));
    foreseen
}
