//! Keeping a federation as it is wanted: look, compare, repair, again and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use oscar_model::federation::address;
use oscar_model::federation::edit::projected;
use oscar_model::federation::expand::{Audience, OPERATION_ANNOTATION};
use oscar_model::federation::membership::{Membership, Place};
use oscar_model::federation::plan::{Act, Found, Step, Undo, depart};
use oscar_model::federation::record::{Access, Against, Contact, Echo, FederationRecord, Leaving, Role, Sent};
use oscar_model::federation::sync::{in_sync, is_echo, project};
use oscar_model::federation::topology::MemberId;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Definition, Sensitive};
use sha2::{Digest as _, Sha256};

use crate::bugs::{Bug, planted};
use crate::failure::Failure;
use crate::ports::StoreError;
use crate::ports::peers::{Call, Condition, MemberState, Sighting};
use crate::ports::services::Stored;

use super::access::logins;
use super::create::{LATEST, MAY_ARRIVE, Survey};
use super::{Federator, Kind, MemberOutcome, federation_of, hex, with_secrets};

/// What one look and repair did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repair {
    /// Every member, and those that are leaving, with what became of it.
    pub outcomes: Vec<MemberOutcome>,
    /// How many members were written to.
    pub written: usize,
}

impl Repair {
    pub fn troubles(&self) -> Vec<MemberOutcome> {
        self.outcomes.iter().filter(|outcome| outcome.kind != Kind::Well).cloned().collect()
    }
}

impl Federator {
    /// One look at the federation of a service and one try at repairing it. An idle federation
    /// makes no write. Nothing happens for a worker: its coordinator does it.
    pub async fn reconcile(&self, service: &ServiceName, access: Option<Access>) -> Result<Repair, Failure> {
        let _one = self.memory.repairs.take(service).await;
        let Some((record, stored)) = self.coordinator_of(service).await? else {
            self.forget_unborn(service).await?;
            return Ok(Repair::default());
        };
        let sensitive = self.services.reveal(service).await.map_err(|error| Failure::of_service(error, service))?;
        let access = access_of(&record, &stored.service.definition, &sensitive, access);
        let whole = with_secrets(&self.with_registry(&stored.service.definition), &sensitive);
        let operation = self.new_id();
        let mk_round =
            || Round { record: &record, access: &access, operation: &operation, changes: Changes::default() };
        let (mut round, mut farewells) = (mk_round(), mk_round());
        // Side by side: whoever hangs costs those who stay and those who leave one time-out together.
        let staying = async {
            let survey = self.survey(&whole, &record.owner, &access, &operation, &record.sent).await;
            let repair = self.repair(&mut round, &survey, &stored.service.token).await;
            (survey, repair)
        };
        let ((survey, mut repair), departures) = futures::join!(staying, self.see_off(&mut farewells));
        repair.written += departures.written;
        repair.outcomes.extend(departures.outcomes);
        let changes = Changes { sent: round.changes.sent, ..farewells.changes };
        let record = self.keep_changes(&record, changes).await?;
        self.talk_to_all(record, &access, &survey).await?;
        Ok(repair)
    }

    /// What is known of the federation that a service coordinates, and the service's stored
    /// definition, brought to what the membership says.
    pub(crate) async fn coordinator_of(
        &self,
        name: &ServiceName,
    ) -> Result<Option<(FederationRecord, Arc<Stored>)>, Failure> {
        // Nobody edits the one while the other is brought to it.
        let _turn = self.memory.records.take(name).await;
        let record = self.known(name).await?;
        let Some(record) = record.filter(|record| record.role == Role::Coordinator) else { return Ok(None) };
        loop {
            let stored = self.services.get(name).await.map_err(|error| Failure::of_service(error, name))?;
            let ours = stored.filter(|stored| federation_of(&stored.service.definition) == record.federation_id);
            let Some(stored) = ours else { return Ok(None) };
            let followed = self.followed(&stored.service.definition, &record.membership);
            let Some(definition) = followed.filter(|_| !planted(Bug::NotProjected)) else {
                return Ok(Some((record, stored)));
            };
            let mut sensitive = self.services.reveal(name).await.map_err(|error| Failure::of_service(error, name))?;
            sensitive.cluster_passwords.retain(|id, _| definition.clusters.contains_key(id));
            let service = oscar_model::service::Service { definition, ..stored.service.clone() };
            match self.services.replace(service, sensitive, &stored.revision).await {
                Ok(stored) => return Ok(Some((record, stored))),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(Failure::of_service(error, name)),
            }
        }
    }

    /// The definition of a coordinator as the membership has it; `None` when it says so already.
    pub(super) fn followed(&self, definition: &Definition, membership: &Membership) -> Option<Definition> {
        let registry = |id: &str| self.place(&Definition::new(definition.name.clone(), "", ""), id);
        projected(definition, membership, &registry)
    }

    /// Whether others have changed who is in a federation and the definition does not say so yet:
    /// nobody can have read it.
    pub(crate) fn is_behind(&self, definition: &Definition, membership: &Membership) -> bool {
        self.followed(definition, membership).is_some()
    }

    /// A crash came between writing down who is to be in a federation and the definition that
    /// begins it: nobody was told that it had begun, and nothing was sent to anybody.
    async fn forget_unborn(&self, name: &ServiceName) -> Result<(), Failure> {
        let _turn = self.memory.records.take(name).await;
        let Some(record) = self.journal.federation(name).await? else { return Ok(()) };
        let creates = self.journal.operations().await?;
        let begins = creates.iter().any(|operation| operation.federation_id == record.federation_id);
        let born = self.known(name).await?.is_some_and(|known| known.federation_id == record.federation_id);
        if record.role == Role::Coordinator && record.sent.is_empty() && !begins && !born {
            self.journal.remove_federation(&record.federation_id, name).await?;
        }
        Ok(())
    }

    async fn repair(&self, round: &mut Round<'_>, survey: &Survey, token: &Secret) -> Repair {
        let mut repair = Repair::default();
        let planned = survey.plan();
        let mut steps = Vec::new();
        for worker in &survey.wanted {
            let id = &worker.id;
            let sighting = survey.sightings.get(id);
            let sent = round.record.sent.get(id);
            if let Some(trouble) = survey.troubles.get(id) {
                self.observe(round.record, trouble, sighting);
                repair.outcomes.push(trouble.clone());
            } else if let Some(obstacle) = planned.obstacles.get(id) {
                let outcome = MemberOutcome::of_obstacle(id, obstacle);
                self.observe(round.record, &outcome, sighting);
                repair.outcomes.push(outcome);
            } else {
                let digest = secrets_digest(&round.record.federation_id, &worker.definition);
                let planned = planned.steps.iter().find(|step| step.member == *id);
                if let Some(step) = correct(planned, sighting, sent, &worker.definition, &digest) {
                    steps.push((step, digest));
                } else {
                    self.observe(round.record, &MemberOutcome::well(id), sighting);
                    repair.outcomes.push(MemberOutcome::well(id));
                    round.note_echo(id, sighting, sent, &worker.definition, digest);
                }
            }
        }
        let (record, access, operation) = (round.record, round.access, round.operation);
        for (step, digest) in &steps {
            self.notice(record, step, digest, survey.sightings.get(&step.member));
        }
        let runs = steps.iter().map(|(step, digest)| async move {
            let outcome = self.repair_one(record, access, operation, survey, step, token).await;
            (step, digest, outcome)
        });
        for (step, digest, outcome) in join_all(runs).await {
            if outcome.kind == Kind::Well {
                repair.written += 1;
                round.note_sent(step, survey.contacts.get(&step.member), digest);
            }
            self.observe(round.record, &outcome, survey.sightings.get(&step.member));
            if outcome.kind == Kind::Refused && has_drifted(round.record, step, digest) {
                self.set_condition(round.record, &step.member, Condition::Drifted);
            }
            repair.outcomes.push(outcome);
        }
        repair
    }

    /// A member is not as it should be: shown until it is repaired.
    fn notice(&self, record: &FederationRecord, step: &Step, digest: &str, sighting: Option<&Sighting>) {
        let drifted = has_drifted(record, step, digest);
        let trouble = if drifted { "somebody changed it there" } else { "" };
        self.observe(record, &MemberOutcome::new(&step.member, Kind::Well, trouble), sighting);
        let condition = if drifted { Condition::Drifted } else { Condition::Pending };
        self.set_condition(record, &step.member, condition);
    }

    fn set_condition(&self, record: &FederationRecord, member: &MemberId, condition: Condition) {
        if let Some(state) = self.memory.states.of(&record.federation_id).remove(member) {
            self.memory.states.set(&record.federation_id, member, MemberState { condition, ..state });
        }
    }

    async fn repair_one(
        &self,
        record: &FederationRecord,
        access: &Access,
        operation: &str,
        survey: &Survey,
        step: &Step,
        token: &Secret,
    ) -> MemberOutcome {
        let Some(contact) = survey.contacts.get(&step.member) else {
            return MemberOutcome::new(&step.member, Kind::Unreachable, "its cluster is not known");
        };
        let outcome = self.act(record, access, contact, step, operation, token).await;
        let act = if step.act == Act::Create { "replica-deployed" } else { "replica-updated" };
        let who = (access.actor.as_str(), &record.owner);
        self.note(who, act, &record.own.service_name, &step.member.to_string(), &outcome.trouble).await;
        outcome
    }

    /// Carries one step out.
    pub(crate) async fn act(
        &self,
        record: &FederationRecord,
        access: &Access,
        contact: &Contact,
        step: &Step,
        operation: &str,
        token: &Secret,
    ) -> MemberOutcome {
        let member = &step.member;
        let credential = match self.credential(access, &record.owner, &member.cluster_id, contact).await {
            Ok(credential) => credential,
            Err(cause) => return MemberOutcome::new(member, Kind::Credentials, cause),
        };
        let call = Call { member, contact, owner: &record.owner, credential: &credential, time: time_of(record) };
        let done = match &step.definition {
            Some(_) => self.peers.deploy(&call, step, token).await,
            None => self.peers.withdraw(&call, step, &record.federation_id, operation).await,
        };
        match done {
            Ok(()) => MemberOutcome::well(member),
            Err(error) => MemberOutcome::of_error(member, &error),
        }
    }

    /// Tries to remove what is leaving.
    pub(crate) async fn see_off(&self, round: &mut Round<'_>) -> Repair {
        let record = round.record;
        let (access, operation) = (round.access, round.operation);
        let leavings = record.leaving.iter().map(|(id, leaving)| async move {
            let outcome = self.see_off_one(record, access, operation, id, leaving).await;
            if outcome.as_ref().is_none_or(|outcome| outcome.kind == Kind::Well) {
                let word = outcome.as_ref().map_or("nothing was there", |_| "");
                let who = (access.actor.as_str(), &record.owner);
                self.note(who, "replica-removed", &record.own.service_name, &id.to_string(), word).await;
            }
            (id.clone(), outcome)
        });
        let mut repair = Repair::default();
        for (id, outcome) in join_all(leavings).await {
            let gone = outcome.as_ref().is_none_or(|outcome| outcome.kind == Kind::Well);
            if outcome.as_ref().is_some_and(|outcome| outcome.kind == Kind::Awaited) {
                round.changes.absent.push(id.clone());
            }
            if gone || planted(Bug::LeavingForgotten) {
                repair.written += usize::from(outcome.is_some());
                round.changes.departed.push(id.clone());
            }
            repair.outcomes.push(outcome.unwrap_or_else(|| MemberOutcome::well(&id)));
        }
        repair
    }

    /// `None` when nothing of ours was there.
    async fn see_off_one(
        &self,
        record: &FederationRecord,
        access: &Access,
        operation: &str,
        id: &MemberId,
        leaving: &Leaving,
    ) -> Option<MemberOutcome> {
        let contact = &leaving.contact;
        let is_same = |other: &MemberId, place: &Place| {
            other.service_name == id.service_name && address::is_same(&place.url, &contact.endpoint)
        };
        let mut staying = record.membership.members().filter(|_| record.deleted.is_none());
        if staying.any(|(other, known)| is_same(other, &known.endpoint.value)) {
            // The service stays, under another name of its cluster.
            return None;
        }
        let credential = match self.credential(access, &record.owner, &id.cluster_id, contact).await {
            Ok(credential) => credential,
            Err(cause) => return Some(MemberOutcome::new(id, Kind::Credentials, cause)),
        };
        let call = Call { member: id, contact, owner: &record.owner, credential: &credential, time: time_of(record) };
        let mut sighting = self.peers.look(&call, &record.federation_id).await;
        let sent = record.sent.get(id);
        super::create::correct(&mut sighting, sent);
        let contact = Contact { audience: sighting.audience.unwrap_or(contact.audience), ..contact.clone() };
        match depart(id, &sighting.found, leaving.delete) {
            Err(obstacle) => Some(MemberOutcome::of_obstacle(id, &obstacle)),
            Ok(None) if contact.audience == Audience::Ours && sighting.found != Found::SomebodyElses => {
                // What was sent may not have arrived yet: it must not when it was let go.
                let step = farewell(id);
                let outcome = self.act(record, access, &contact, &step, operation, &Secret::default()).await;
                Some(outcome).filter(|outcome| outcome.kind != Kind::Well)
            }
            // It was ours: for whom we call now it is not, or it was taken from us.
            Ok(None) if sent.is_some() && sighting.found == Found::SomebodyElses => {
                Some(MemberOutcome::new(id, Kind::Credentials, NOT_OURS))
            }
            // What was sent there and got no answer may still arrive.
            Ok(None) if sent.is_none() && sighting.found == Found::Nothing && self.is_recent(leaving) => {
                Some(MemberOutcome::new(id, Kind::Awaited, MAY_ARRIVE))
            }
            Ok(None) => None,
            Ok(Some(mut step)) => {
                if contact.audience == Audience::Foreign {
                    // What it had before we came, if it had something.
                    step.former = sent.and_then(|sent| sent.former.clone());
                }
                Some(self.act(record, access, &contact, &step, operation, &Secret::default()).await)
            }
        }
    }

    /// Whether nothing was found for too short a time to be sure of it.
    fn is_recent(&self, leaving: &Leaving) -> bool {
        leaving.absent.is_none_or(|since| self.now() < since + LATEST)
    }

    fn observe(&self, record: &FederationRecord, outcome: &MemberOutcome, sighting: Option<&Sighting>) {
        let before = self.memory.states.of(&record.federation_id).remove(&outcome.member);
        let answered = sighting.is_some_and(|sighting| sighting.audience.is_some());
        let condition = match outcome.kind {
            Kind::Well => Condition::InSync,
            Kind::Unreachable => Condition::Unreachable,
            Kind::Awaited => Condition::Pending,
            Kind::Refused | Kind::Taken | Kind::Unfit => Condition::Refused,
            Kind::Credentials => Condition::Blocked,
        };
        let state = MemberState {
            condition,
            trouble: outcome.trouble.clone(),
            seen: if answered { Some(self.now()) } else { before.as_ref().and_then(|state| state.seen) },
            instance: before.map(|state| state.instance).unwrap_or_default(),
        };
        self.memory.states.set(&record.federation_id, &outcome.member, state);
    }

    /// Writes what a round found out into the record as it is now: somebody may have edited it
    /// meanwhile.
    pub(crate) async fn keep_changes(
        &self,
        seen: &FederationRecord,
        changes: Changes,
    ) -> Result<FederationRecord, Failure> {
        if changes.is_empty() {
            return Ok(seen.clone());
        }
        let service = &seen.own.service_name;
        let _turn = self.memory.records.take(service).await;
        let found = self.journal.federations().await?;
        let found =
            found.into_iter().find(|record| record.federation_id == seen.federation_id && record.own == seen.own);
        let Some(mut record) = found else { return Ok(seen.clone()) };
        if planted(Bug::StaleRecordWritten) {
            record = seen.clone();
        }
        for (id, sent) in changes.sent {
            if sent.audience == Audience::Ours && !record.keys.contains_key(&id) {
                record.keys.insert(id.clone(), self.new_key());
            }
            record.sent.insert(id, sent);
        }
        let now = self.now();
        for id in changes.absent {
            if let Some(leaving) = record.leaving.get_mut(&id) {
                leaving.absent.get_or_insert(now);
            }
        }
        for id in &changes.departed {
            // Unless it was wanted again, or differently, in the meantime.
            if record.leaving.get(id) == seen.leaving.get(id) {
                record.leaving.remove(id);
                if !record.membership.is_member(id) {
                    record.sent.remove(id);
                    record.keys.remove(id);
                }
            }
        }
        if record.deleted.is_none() && !changes.departed.is_empty() {
            let leaving = &record.leaving;
            record.access.logins.retain(|cluster, _| leaving.keys().any(|id| id.cluster_id == *cluster));
        }
        self.journal.put_federation(&record).await?;
        Ok(record)
    }
}

/// How much is known of a federation. Of one that has ended nothing more will be.
pub(super) fn time_of(record: &FederationRecord) -> u64 {
    if record.deleted.is_some() { Against::ENDED } else { record.membership.time() }
}

const NOT_OURS: &str = "the service that was made there is hidden from whom this manager calls as now, or somebody else \
     has its name: give the login of that cluster again, or remove it there";

/// Lets a member go that has nothing of ours.
fn farewell(member: &MemberId) -> Step {
    Step { member: member.clone(), act: Act::Release, undo: Undo::RestoreFormer, definition: None, former: None }
}

/// What the members are called with: of this call, and what is kept.
pub(super) fn access_of(
    record: &FederationRecord,
    definition: &Definition,
    sensitive: &Sensitive,
    given: Option<Access>,
) -> Access {
    let mut access = given.unwrap_or_default();
    access.logins = logins(definition, sensitive);
    // Who leaves may be called with what the definition does not say any more.
    for id in record.leaving.keys() {
        if let Some(kept) = record.access.logins.get(&id.cluster_id) {
            access.logins.entry(id.cluster_id.clone()).or_insert_with(|| kept.clone());
        }
    }
    access.grant = record.access.grant.clone().or(access.grant);
    access
}

/// One look and repair, and what it found out.
pub(crate) struct Round<'a> {
    pub(crate) record: &'a FederationRecord,
    pub(crate) access: &'a Access,
    pub(crate) operation: &'a str,
    pub(crate) changes: Changes,
}

#[derive(Default)]
pub(crate) struct Changes {
    sent: BTreeMap<MemberId, Sent>,
    pub(crate) departed: Vec<MemberId>,
    /// Nothing of them was found, where something may still arrive.
    absent: Vec<MemberId>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.departed.is_empty() && self.absent.is_empty()
    }
}

impl Round<'_> {
    fn note_sent(&mut self, step: &Step, contact: Option<&Contact>, digest: &str) {
        let audience = contact.map_or(Audience::Ours, |contact| contact.audience);
        let known = self.record.sent.get(&step.member).and_then(|sent| sent.former.clone());
        let adopted = step.former.clone().filter(|_| step.act == Act::Adopt);
        let former = known.or(adopted).filter(|_| audience == Audience::Foreign);
        let wanted = step.definition.as_deref().map(wanted_digest).unwrap_or_default();
        let (secrets, operation) = (digest.to_owned(), self.operation.to_owned());
        let sent = Sent { audience, secrets, wanted, operation, echo: None, former };
        self.changes.sent.insert(step.member.clone(), sent);
    }

    /// What a foreign manager shows after it was written to is what "in sync" looks like there.
    fn note_echo(
        &mut self,
        id: &MemberId,
        sighting: Option<&Sighting>,
        sent: Option<&Sent>,
        wanted: &Definition,
        digest: String,
    ) {
        let Some(Sighting { found: Found::Replica { definition, .. }, audience: Some(audience) }) = sighting else {
            return;
        };
        let unknown = sent.is_none_or(|sent| sent.secrets != digest);
        let lacks_echo = *audience == Audience::Foreign && sent.is_none_or(|sent| sent.echo.is_none());
        if !unknown && !lacks_echo {
            return;
        }
        let echo = Echo { wanted: wanted.clone(), found: (**definition).clone() };
        let echo = (*audience == Audience::Foreign).then(|| Box::new(echo));
        let former = sent.and_then(|sent| sent.former.clone());
        let (wanted, operation) = (wanted_digest(wanted), operation_of(definition).to_owned());
        let sent = Sent { audience: *audience, secrets: digest, wanted, operation, echo, former };
        self.changes.sent.insert(id.clone(), sent);
    }
}

/// The plan's word on one member, corrected by what the coordinator remembers: secrets do not
/// show, and a foreign manager drops fields that it does not know.
pub(super) fn correct(
    planned: Option<&Step>,
    sighting: Option<&Sighting>,
    sent: Option<&Sent>,
    wanted: &Definition,
    digest: &str,
) -> Option<Step> {
    let replica = match sighting {
        Some(Sighting { found: Found::Replica { definition, .. }, audience }) => Some((definition, *audience)),
        _ => None,
    };
    // What is not known to have arrived may be older.
    let older = sent.is_none_or(|sent| sent.secrets != digest)
        || matches!((replica, sent), (Some((found, Some(Audience::Ours))), Some(sent)) if sent.is_overwritten(found));
    let other_secrets = older && !planted(Bug::SecretsIgnored);
    match (planned, replica) {
        (Some(step), Some((found, Some(Audience::Foreign)))) if step.act == Act::Update && !other_secrets => {
            let fresh = sent.is_some_and(|sent| sent.echo.is_none()) && is_echo(wanted, found);
            let echoed = sent
                .and_then(|sent| sent.echo.as_ref())
                .is_some_and(|echo| in_sync(&echo.wanted, wanted) && in_sync(&echo.found, found));
            (!fresh && !echoed).then(|| step.clone())
        }
        (Some(step), _) => Some(step.clone()),
        (None, Some((found, _))) if other_secrets => Some(Step {
            member: MemberId::own(wanted),
            act: Act::Update,
            undo: Undo::RestoreFormer,
            definition: Some(Box::new(wanted.clone())),
            former: Some(found.clone()),
        }),
        (None, _) => None,
    }
}

/// Whether a replica was already sent what it lacks now: somebody changed or removed it there.
pub(super) fn has_drifted(record: &FederationRecord, step: &Step, digest: &str) -> bool {
    let (Some(sent), Some(wanted)) = (record.sent.get(&step.member), step.definition.as_deref()) else { return false };
    sent.secrets == digest && sent.wanted == wanted_digest(wanted)
}

fn operation_of(definition: &Definition) -> &str {
    definition.annotations.get(OPERATION_ANNOTATION).map_or("", String::as_str)
}

/// Of what two managers must agree on.
pub(crate) fn wanted_digest(definition: &Definition) -> String {
    hex(&Sha256::digest(format!("{:?}", project(definition))))
}

/// Of everything secret that a definition carries, so that a change is noticed although no
/// manager shows it.
pub(crate) fn secrets_digest(federation_id: &str, definition: &Definition) -> String {
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    add(federation_id);
    for (name, value) in &definition.environment.secrets {
        add(name);
        add(value.expose());
    }
    for (reference, provider) in definition.storage_providers.iter().filter(|(id, _)| !id.is_own_store()) {
        add(&reference.to_string());
        add(provider.secret().expose());
    }
    hex(&hasher.finalize())
}
