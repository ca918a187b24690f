//! Creating a federation: every member or none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use oscar_model::federation::address::canonical;
use oscar_model::federation::edit::follow;
use oscar_model::federation::expand::{Audience, FEDERATION_ID_ANNOTATION, Origin, Unfit, Worker, expand, fit};
use oscar_model::federation::membership::{Membership, Place};
use oscar_model::federation::plan::{Found, Plan, Step, plan};
use oscar_model::federation::record::{Access, Contact, FederationRecord, Operation, Phase, Role, Seconds, Sent};
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::{Definition, Sensitive, Service};

use crate::bugs::{Bug, planted};
use crate::failure::Failure;
use crate::ports::StoreError;
use crate::ports::peers::{Call, Condition, MemberState, Sighting, Undone};
use crate::ports::services::{Revision, Stored};

use super::reconcile::{secrets_digest, wanted_digest};
use super::{Federator, Kind, MemberOutcome, Tended, contact, federation_of, hex, with_secrets};

/// What was sent to a foreign manager and got no answer is looked for once more after so long: it
/// does not refuse what arrives late.
pub(crate) const LATEST: Seconds = 30;

pub(crate) const MAY_ARRIVE: &str =
    "nothing of it is there, but what was sent got no answer: it is looked for once more";

/// What is needed to create a federation.
pub struct Create {
    /// The coordinator, complete but for the mark of its federation.
    pub service: Service,
    pub sensitive: Sensitive,
    pub access: Access,
    /// The state of an existing service that becomes a coordinator.
    pub replaces: Option<Revision>,
    /// Of the federation that is created: one that nobody else makes.
    pub federation_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateFailure {
    /// Nothing was touched anywhere.
    Obstacles(Vec<MemberOutcome>),
    /// Some members failed; what was done was taken back, except at those listed in `left`,
    /// where it is tried until it succeeds.
    RolledBack {
        failed: Vec<MemberOutcome>,
        left: Vec<MemberOutcome>,
    },
    Local(Failure),
}

impl CreateFailure {
    /// Whether nothing is left to do, and nothing that is not known.
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Obstacles(_) => true,
            Self::RolledBack { left, .. } => left.is_empty(),
            Self::Local(failure) => !matches!(failure, Failure::Store(StoreError::Unavailable(_))),
        }
    }
}

impl From<Failure> for CreateFailure {
    fn from(failure: Failure) -> Self {
        Self::Local(failure)
    }
}

/// A create as it stands before its first step.
pub struct Prepared {
    pub(crate) operation: Operation,
    pub(crate) create: Create,
}

impl Prepared {
    pub fn steps(&self) -> &[Step] {
        &self.operation.steps
    }
}

/// What was found when everybody was looked at, and what everybody should have.
pub(crate) struct Survey {
    pub(crate) wanted: Vec<Worker>,
    pub(crate) sightings: BTreeMap<MemberId, Sighting>,
    pub(crate) contacts: BTreeMap<MemberId, Contact>,
    /// Members that nobody can be sent to, with the reason.
    pub(crate) troubles: BTreeMap<MemberId, MemberOutcome>,
}

impl Survey {
    /// Whether nobody answered there.
    pub(crate) fn is_silent(&self, member: &MemberId) -> bool {
        self.sightings.get(member).is_some_and(|sighting| matches!(sighting.found, Found::Unreachable(_)))
    }

    pub(crate) fn plan(&self) -> Plan {
        let found = self.sightings.iter().map(|(id, sighting)| (id.clone(), sighting.found.clone())).collect();
        let wanted: Vec<_> =
            self.wanted.iter().filter(|worker| !self.troubles.contains_key(&worker.id)).cloned().collect();
        plan(&wanted, &found)
    }
}

impl Federator {
    pub async fn create(&self, create: Create) -> Result<Arc<Stored>, CreateFailure> {
        let prepared = self.prepare(create).await?;
        self.execute(prepared).await
    }

    /// Carries out what was prepared: everything, or nothing.
    pub async fn execute(&self, prepared: Prepared) -> Result<Arc<Stored>, CreateFailure> {
        let _begun = self.memory.running.begin(&prepared.operation.id);
        if !planted(Bug::OperationNotStored) {
            self.journal.put_operation(&prepared.operation).await.map_err(Failure::from)?;
        }
        self.go_forward(prepared).await
    }

    /// Looks at every member and plans; changes nothing.
    pub async fn prepare(&self, mut create: Create) -> Result<Prepared, CreateFailure> {
        let federation_id = create.federation_id.clone();
        let operation_id = self.new_id();
        let definition = &mut create.service.definition;
        definition.annotations.insert(FEDERATION_ID_ANNOTATION.to_owned(), federation_id.clone());
        let doubles = self.doubles(definition);
        if !doubles.is_empty() {
            return Err(CreateFailure::Obstacles(doubles));
        }
        let whole = with_secrets(&self.with_registry(definition), &create.sensitive);
        let survey = self.survey(&whole, &create.service.owner, &create.access, &operation_id, &BTreeMap::new()).await;
        let planned = survey.plan();
        let mut obstacles: Vec<_> = survey.troubles.values().cloned().collect();
        let in_the_way = planned.obstacles.iter().filter(|(id, _)| !survey.troubles.contains_key(id));
        obstacles.extend(in_the_way.map(|(id, obstacle)| MemberOutcome::of_obstacle(id, obstacle)));
        if !obstacles.is_empty() {
            obstacles.sort_by(|a, b| a.member.cmp(&b.member));
            return Err(CreateFailure::Obstacles(obstacles));
        }
        let operation = Operation {
            id: operation_id,
            federation_id,
            coordinator: create.service.name().clone(),
            owner: create.service.owner.clone(),
            phase: Phase::Forward,
            steps: planned.steps,
            contacts: survey.contacts,
            access: create.access.clone(),
            begun: self.now(),
            absent: BTreeMap::new(),
        };
        Ok(Prepared { operation, create })
    }

    /// Members that are one and the same service under two names, or the coordinator itself.
    pub(crate) fn doubles(&self, definition: &Definition) -> Vec<MemberOutcome> {
        let mut seen = BTreeSet::from([(String::from("here"), definition.name.clone())]);
        let members = definition.federation.iter().flat_map(|federation| &federation.members);
        let mut doubles = Vec::new();
        for id in members.filter_map(MemberId::of) {
            let Some(place) = self.place(definition, &id.cluster_id) else { continue };
            let place = if self.is_own(&place.url) { "here".to_owned() } else { canonical(&place.url) };
            if !seen.insert((place, id.service_name.clone())) {
                let trouble = "another member, or the service itself, is the same service of the same manager";
                doubles.push(MemberOutcome::new(&id, Kind::Taken, trouble));
            }
        }
        doubles
    }

    /// Looks at every member at once, and fits to each what it should have. `whole` has its
    /// secrets and every cluster.
    pub(crate) async fn survey(
        &self,
        whole: &Definition,
        owner: &Owner,
        access: &Access,
        operation: &str,
        sent: &BTreeMap<MemberId, Sent>,
    ) -> Survey {
        let origin = Origin {
            endpoint: self.own.public_url.clone(),
            federation_id: federation_of(whole).to_owned(),
            operation: operation.to_owned(),
        };
        let workers = expand(whole, &origin);
        let places: BTreeMap<_, _> = workers
            .iter()
            .map(|worker| (worker.id.clone(), self.place(whole, &worker.id.cluster_id).unwrap_or_default()))
            .collect();
        let (sightings, mut troubles) = self.look_all(&places, owner, access, &origin.federation_id, sent).await;
        // Two edits at places that did not hear each other can name one service twice.
        let doubles: BTreeMap<_, _> =
            self.doubles(whole).into_iter().map(|outcome| (outcome.member.clone(), outcome)).collect();
        let contacts: BTreeMap<_, _> = places
            .iter()
            .filter(|(id, _)| !doubles.contains_key(id))
            .map(|(id, place)| {
                let known = sent.get(id).map(|sent| sent.audience);
                let audience = sightings.get(id).and_then(|sighting| sighting.audience).or(known);
                (id.clone(), contact(place, audience))
            })
            .collect();
        troubles.extend(doubles);
        let refresh_token = self.shared_refresh_token(whole, access, &contacts).await;
        let mut wanted = Vec::new();
        for worker in workers {
            let audience = contacts.get(&worker.id).map_or(Audience::Ours, |contact| contact.audience);
            let fitted = whole.federation.as_ref().map(|_| fit(&worker, audience, whole, &refresh_token));
            match fitted {
                Some(Ok(fitted)) => {
                    if let Some(trouble) = unrestorable(&fitted, audience, sightings.get(&worker.id)) {
                        troubles.insert(worker.id.clone(), trouble);
                    }
                    wanted.push(fitted);
                }
                Some(Err(unfit)) => {
                    troubles.insert(worker.id.clone(), MemberOutcome::new(&worker.id, Kind::Unfit, sentence(&unfit)));
                    wanted.push(worker);
                }
                None => {}
            }
        }
        Survey { wanted, sightings, contacts, troubles }
    }

    /// Only a mesh with a foreign member needs it, and only when its owner chose so.
    async fn shared_refresh_token(
        &self,
        whole: &Definition,
        access: &Access,
        contacts: &BTreeMap<MemberId, Contact>,
    ) -> Secret {
        let shares = whole.federation.as_ref().is_some_and(|federation| federation.share_refresh_token);
        let foreign = contacts.values().any(|contact| contact.audience == Audience::Foreign);
        match &access.grant {
            Some(grant) if shares && foreign => self.mint.reveal(grant).await.unwrap_or_default(),
            _ => Secret::default(),
        }
    }

    async fn look_all(
        &self,
        places: &BTreeMap<MemberId, Place>,
        owner: &Owner,
        access: &Access,
        federation_id: &str,
        sent: &BTreeMap<MemberId, Sent>,
    ) -> (BTreeMap<MemberId, Sighting>, BTreeMap<MemberId, MemberOutcome>) {
        let looks = places.iter().map(|(member, place)| async move {
            let contact = contact(place, sent.get(member).map(|sent| sent.audience));
            let looked = match self.credential(access, owner, &member.cluster_id, &contact).await {
                Ok(credential) => {
                    let call = Call { member, contact: &contact, owner, credential: &credential, time: 0 };
                    Ok(self.peers.look(&call, federation_id).await)
                }
                Err(cause) => Err(MemberOutcome::new(member, Kind::Credentials, cause)),
            };
            (member.clone(), looked)
        });
        let (mut sightings, mut troubles) = (BTreeMap::new(), BTreeMap::new());
        for (member, looked) in join_all(looks).await {
            match looked {
                Ok(mut sighting) => {
                    correct(&mut sighting, sent.get(&member));
                    sightings.insert(member, sighting);
                }
                Err(trouble) => drop(troubles.insert(member, trouble)),
            }
        }
        (sightings, troubles)
    }

    async fn go_forward(&self, prepared: Prepared) -> Result<Arc<Stored>, CreateFailure> {
        let Prepared { operation, create } = prepared;
        let token = create.service.token.clone();
        let steps = operation.steps.iter().map(|step| async {
            let outcome = self.run(&operation, step, &token).await;
            self.note_step(&operation, step, "replica-deployed", &outcome).await;
            outcome.err()
        });
        let failed: Vec<_> = join_all(steps).await.into_iter().flatten().collect();
        if !failed.is_empty() {
            let unknown = failed.iter().filter(|outcome| outcome.kind == Kind::Unreachable);
            let unknown: BTreeSet<_> = unknown.map(|outcome| outcome.member.clone()).collect();
            let left = self.go_back(operation, &unknown).await?;
            return Err(CreateFailure::RolledBack { failed, left });
        }
        let record = self.first_record(&create, &operation);
        self.journal.put_federation(&record).await.map_err(Failure::from)?;
        let name = create.service.name().clone();
        let stored = match &create.replaces {
            None => self.services.create(create.service, create.sensitive).await,
            Some(revision) => self.services.replace(create.service, create.sensitive, revision).await,
        };
        match stored {
            Ok(stored) => {
                // The promise is kept from here on; a journal entry that stays is tidied later.
                let _ = self.journal.remove_operation(&operation.id).await;
                self.states_after(&record, &operation);
                self.join_all(&record, &operation.access, &operation.contacts).await;
                Ok(stored)
            }
            // Whether it is there is not known; who looks later decides by what is found.
            Err(error @ StoreError::Unavailable(_)) => Err(CreateFailure::Local(Failure::of_service(error, &name))),
            Err(error) => {
                self.go_back(operation, &BTreeSet::new()).await?;
                Err(CreateFailure::Local(Failure::of_service(error, &name)))
            }
        }
    }

    async fn run(&self, operation: &Operation, step: &Step, token: &Secret) -> Result<(), MemberOutcome> {
        let contact = step_contact(operation, step)?;
        let credential = self.credential(&operation.access, &operation.owner, &step.member.cluster_id, contact).await;
        let credential = credential.map_err(|cause| MemberOutcome::new(&step.member, Kind::Credentials, cause))?;
        // Whatever is known later of who is in it is known with a later time.
        let call = Call { member: &step.member, contact, owner: &operation.owner, credential: &credential, time: 0 };
        let done = match &step.definition {
            Some(_) => self.peers.deploy(&call, step, token).await,
            None => self.peers.withdraw(&call, step, &operation.federation_id, &operation.id).await,
        };
        done.map_err(|error| MemberOutcome::of_error(&step.member, &error))
    }

    /// Takes everything back that the operation may have done. What cannot be now stays in the
    /// journal for [`Federator::recover`]. Of members in `unknown` it is not known whether what was
    /// sent has arrived.
    async fn go_back(
        &self,
        mut operation: Operation,
        unknown: &BTreeSet<MemberId>,
    ) -> Result<Vec<MemberOutcome>, Failure> {
        operation.phase = Phase::Back;
        self.journal.put_operation(&operation).await?;
        // The name is free at once, whoever can be reached.
        self.journal.remove_federation(&operation.federation_id, &operation.coordinator).await?;
        let undone = operation.steps.iter().map(|step| async {
            let outcome = self.take_back(&operation, step).await;
            let since = operation.absent.get(&step.member).copied();
            let may_arrive = outcome == Ok(Undone::Absent) && unknown.contains(&step.member);
            if may_arrive && since.is_none_or(|since| self.now() < since + LATEST) {
                return Some(MemberOutcome::new(&step.member, Kind::Awaited, MAY_ARRIVE));
            }
            let outcome = outcome.map(drop);
            self.note_step(&operation, step, "replica-rolled-back", &outcome).await;
            outcome.err()
        });
        let left: Vec<_> = join_all(undone).await.into_iter().flatten().collect();
        if left.is_empty() {
            self.journal.remove_operation(&operation.id).await?;
            return Ok(Vec::new());
        }
        let before = operation.absent.clone();
        for outcome in left.iter().filter(|outcome| outcome.kind == Kind::Awaited) {
            operation.absent.entry(outcome.member.clone()).or_insert_with(|| self.now());
        }
        if operation.absent != before {
            self.journal.put_operation(&operation).await?;
        }
        Ok(left)
    }

    async fn take_back(&self, operation: &Operation, step: &Step) -> Result<Undone, MemberOutcome> {
        let contact = step_contact(operation, step)?;
        if planted(Bug::UndoSkipped) {
            return Ok(Undone::ForGood);
        }
        let credential = self.credential(&operation.access, &operation.owner, &step.member.cluster_id, contact).await;
        let credential = credential.map_err(|cause| MemberOutcome::new(&step.member, Kind::Credentials, cause))?;
        let call = Call { member: &step.member, contact, owner: &operation.owner, credential: &credential, time: 0 };
        let undone = self.peers.undo(&call, step, &operation.id).await;
        undone.map_err(|error| MemberOutcome::of_error(&step.member, &error))
    }

    async fn note_step(&self, operation: &Operation, step: &Step, act: &str, outcome: &Result<(), MemberOutcome>) {
        let trouble = outcome.as_ref().err().map_or("", |outcome| outcome.trouble.as_str());
        let who = (operation.access.actor.as_str(), &operation.owner);
        self.note(who, act, &operation.coordinator, &step.member.to_string(), trouble).await;
    }

    /// Ends what a crash or an unreachable member left open. An operation whose coordinator was
    /// stored had succeeded; every other one is taken back, because nobody was told that it had.
    /// Returns how many stay open; one that fails is one of them, and keeps no other from going on.
    pub async fn recover(&self) -> Result<Tended, Failure> {
        // Side by side: a member that hangs costs all of them one time-out, not one each.
        let ends = self.journal.operations().await?.into_iter().map(|operation| async {
            let service = operation.coordinator.clone();
            (service, self.end(operation).await)
        });
        Ok(Tended::of(join_all(ends).await))
    }

    /// One if it stays open.
    async fn end(&self, mut operation: Operation) -> Result<usize, Failure> {
        let running = self.memory.running.contains(&operation.id) && !planted(Bug::RunningTakenBack);
        let anothers = self.own.grace > 0 && operation.begun + self.own.grace > self.now();
        if running || anothers {
            return Ok(0);
        }
        if planted(Bug::OperationRenamed) {
            self.journal.remove_operation(&operation.id).await?;
            operation.id = self.new_id();
        }
        if operation.phase == Phase::Forward && self.had_succeeded(&operation).await? {
            self.journal.remove_operation(&operation.id).await?;
            return Ok(0);
        }
        // Nobody knows any more what was answered.
        let unknown = operation.steps.iter().map(|step| step.member.clone()).collect();
        Ok(usize::from(!self.go_back(operation, &unknown).await?.is_empty()))
    }

    /// Its coordinator is there, or was and has been deleted since.
    async fn had_succeeded(&self, operation: &Operation) -> Result<bool, Failure> {
        let records = self.journal.federations().await?;
        let of_it = |record: &FederationRecord| record.federation_id == operation.federation_id;
        if records.iter().any(|record| of_it(record) && record.deleted.is_some()) {
            return Ok(true);
        }
        let name = &operation.coordinator;
        let stored = self.services.get(name).await.map_err(|error| Failure::of_service(error, name))?;
        Ok(stored.is_some_and(|stored| federation_of(&stored.service.definition) == operation.federation_id))
    }

    fn first_record(&self, create: &Create, operation: &Operation) -> FederationRecord {
        let definition = &create.service.definition;
        let whole = with_secrets(&self.with_registry(definition), &create.sensitive);
        let mut membership = Membership::default();
        let members = definition.federation.as_ref().map(|federation| federation.members.as_slice());
        let place = |id: &MemberId| self.place(&whole, &id.cluster_id).unwrap_or_default();
        follow(&mut membership, members.unwrap_or_default(), &place, true, &self.own.instance_id);
        let mut record = FederationRecord {
            federation_id: operation.federation_id.clone(),
            own: MemberId::own(definition),
            role: Role::Coordinator,
            owner: create.service.owner.clone(),
            membership,
            leaving: BTreeMap::new(),
            deleted: None,
            access: Access { grant: operation.access.grant.clone(), ..Access::default() },
            sent: BTreeMap::new(),
            keys: BTreeMap::new(),
        };
        for step in &operation.steps {
            let audience = operation.contacts.get(&step.member).map_or(Audience::Ours, |contact| contact.audience);
            let Some(sent) = step.definition.as_deref() else { continue };
            let foreign = audience == Audience::Foreign;
            let former = step.former.clone().filter(|_| foreign);
            let secrets = secrets_digest(&record.federation_id, sent);
            let wanted = wanted_digest(sent);
            let operation = operation.id.clone();
            record.sent.insert(step.member.clone(), Sent { audience, secrets, wanted, operation, echo: None, former });
            if !foreign {
                record.keys.insert(step.member.clone(), self.new_key());
            }
        }
        record
    }

    pub(crate) fn new_key(&self) -> Secret {
        let mut bytes = [0u8; 32];
        self.entropy.fill(&mut bytes);
        Secret::new(format!("omk_{}", hex(&bytes)))
    }

    fn states_after(&self, record: &FederationRecord, operation: &Operation) {
        for step in &operation.steps {
            let state = MemberState {
                condition: Condition::InSync,
                trouble: String::new(),
                seen: Some(self.now()),
                instance: String::new(),
            };
            self.memory.states.set(&record.federation_id, &step.member, state);
        }
    }
}

fn step_contact<'a>(operation: &'a Operation, step: &Step) -> Result<&'a Contact, MemberOutcome> {
    let contact = operation.contacts.get(&step.member);
    contact.ok_or_else(|| MemberOutcome::new(&step.member, Kind::Unreachable, "its cluster is not known"))
}

/// What was seen, with what the coordinator remembers. A foreign manager does not tell what it had
/// before; and where a manager of our kind was, "nothing" counts only from one of our kind: a
/// proxy in front of it says so too while it is away.
pub(crate) fn correct(sighting: &mut Sighting, sent: Option<&Sent>) {
    use oscar_model::federation::plan::Origination;
    let was_ours = sent.is_some_and(|sent| sent.audience == Audience::Ours);
    if was_ours && sighting.found == Found::Nothing && sighting.audience == Some(Audience::Foreign) {
        let cause = "what answers there is not the manager that was there, and knows of no such service";
        *sighting = Sighting { found: Found::Unreachable(cause.to_owned()), audience: None };
        return;
    }
    let adopted = sent.is_some_and(|sent| sent.former.is_some());
    if let (Found::Replica { origination, .. }, Some(Audience::Foreign)) = (&mut sighting.found, sighting.audience) {
        *origination = if adopted { Origination::Adopted } else { Origination::Created };
    }
}

/// A foreign manager does not show its secrets, so those of an adopted service could not be put
/// back.
fn unrestorable(worker: &Worker, audience: Audience, sighting: Option<&Sighting>) -> Option<MemberOutcome> {
    let Some(Sighting { found: Found::Plain(former), .. }) = sighting else { return None };
    let has_secrets = !former.environment.secrets.is_empty();
    (audience == Audience::Foreign && has_secrets).then(|| {
        let trouble = "it has a service of that name with secrets, which its manager could not put back";
        MemberOutcome::new(&worker.id, Kind::Taken, trouble)
    })
}

fn sentence(unfit: &Unfit) -> &'static str {
    match unfit {
        Unfit::MeshNeedsRefreshToken => {
            "its manager is not of our kind and takes part in a mesh only with the refresh token: set \
             `federation.share_refresh_token: true`, or choose another topology"
        }
        Unfit::ForeignInnerNode => "its manager is not of our kind and cannot hand jobs on in a tree",
    }
}
