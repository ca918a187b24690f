//! Services that are in a federation, as the use cases meet them: as coordinators, and as
//! replicas that others deploy here.

use std::sync::Arc;

use oscar_model::access::{Action as Wish, decide};
use oscar_model::federation::Federation;
use oscar_model::federation::edit::Edit;
use oscar_model::federation::expand::{FEDERATION_ID_ANNOTATION, OPERATION_ANNOTATION};
use oscar_model::federation::plan::Act;
use oscar_model::federation::record::{Access, AuditRecord, FederationRecord, Holder, Operation, Role};
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::{Owner, Principal};
use oscar_model::name::ServiceName;
use oscar_model::service::{Definition, ORIGIN_CLUSTER_ANNOTATION, ORIGIN_SERVICE_ANNOTATION, Sensitive, Service};

use crate::deploy::{Action, Change, Consequences, Terms, done};
use crate::failure::{Failure, Undertaking};
use crate::federate::{Create, Edited, KeyHolder, Member, MemberOutcome, Tended, View};
use crate::manager::Manager;
use crate::ports::mint::GrantStatus;
use crate::ports::peers::Exchange;
use crate::ports::services::{Revision, Stored};

/// A federation with what is known of the owner's refresh token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub view: View,
    pub token: Option<GrantStatus>,
    /// Creates of the service that have not ended.
    pub operations: Vec<Operation>,
}

impl Manager {
    pub(crate) fn member(&self) -> Member {
        Member {
            services: self.ports.services.clone(),
            journal: self.federator.journal.clone(),
            now: self.federator.now(),
        }
    }

    /// Takes away what only a manager writes, gives the cluster a name if it has none, and tells
    /// whether the definition deploys replicas.
    pub(crate) fn mark_coordinator(&self, definition: &mut Definition) -> bool {
        if definition.is_worker() {
            return false;
        }
        definition.annotations.remove(FEDERATION_ID_ANNOTATION);
        definition.annotations.remove(OPERATION_ANNOTATION);
        let deploys = definition.federation.as_ref().is_some_and(Federation::deploys);
        if deploys && definition.cluster_id.is_empty() {
            definition.cluster_id.clone_from(&self.federator.own.cluster_id);
        }
        deploys
    }

    pub(crate) async fn is_coordinator(&self, name: &ServiceName) -> Result<bool, Failure> {
        let record = self.federator.known(name).await?;
        Ok(record.is_some_and(|record| record.role == Role::Coordinator))
    }

    pub(crate) async fn create_federation(
        &self,
        service: Service,
        mut sensitive: Sensitive,
        replaces: Option<Revision>,
        terms: Terms,
    ) -> Result<Change, Failure> {
        let action = if replaces.is_some() { Action::Update } else { Action::Create };
        let federation_id = self.federator.new_id();
        let holder = Holder::new(service.name(), &federation_id);
        let (access, warnings) = self.access(&service, &mut sensitive, None, (&holder, &terms)).await?;
        let grant = access.grant.clone();
        let create = Create { service: service.clone(), sensitive, access, replaces, federation_id };
        let prepared = self.federator.prepare(create).await;
        let created = match prepared {
            Ok(prepared) => {
                let steps = prepared.steps().iter().map(|step| (step.member.clone(), step.act)).collect();
                let consequences = Consequences { steps, troubles: Vec::new(), warnings };
                if terms.dry_run {
                    return Ok(Change { action, service, revision: None, federation: Some(consequences) });
                }
                self.federator.execute(prepared).await.map(|stored| (stored, consequences))
            }
            Err(failure) => Err(failure),
        };
        match created {
            Ok((stored, consequences)) => Ok(Change { federation: Some(consequences), ..done(action, &stored) }),
            Err(failure) => {
                // Who still has to take something back, or may have succeeded, needs it; when nobody
                // does any more it is found.
                if let Some(grant) = grant.filter(|_| failure.is_settled()) {
                    self.federator.mint.abandon(&grant, &holder).await;
                }
                Err(failure.into())
            }
        }
    }

    /// Members that appear for the first time are created all or nothing; later changes are
    /// stored and reach each member as it can be reached.
    pub(crate) async fn update_federation(
        &self,
        stored: &Stored,
        service: Service,
        mut sensitive: Sensitive,
        same: bool,
        terms: Terms,
    ) -> Result<Change, Failure> {
        let record = self.federator.known(service.name()).await?;
        let Some(record) = record else {
            let create = self.create_federation(service, sensitive, Some(stored.revision.clone()), terms);
            return Box::pin(create).await;
        };
        let doubles = self.federator.doubles(&service.definition);
        if !doubles.is_empty() {
            return Err(Failure::Obstacles { undertaking: Undertaking::Change, outcomes: doubles });
        }
        if terms.dry_run {
            let action = if same { Action::Nothing } else { Action::Update };
            let federation = Some(foresee(&record, &service));
            return Ok(Change { action, service, revision: None, federation });
        }
        let holder = Holder::new(service.name(), &record.federation_id);
        let (access, warnings) = self.access(&service, &mut sensitive, Some(&record), (&holder, &terms)).await?;
        let replaced = record.access.grant.filter(|former| Some(former) != access.grant.as_ref());
        let (stored, Edited { troubles, .. }) = self.federator.update(stored, service, sensitive, access).await?;
        if let Some(former) = replaced {
            self.federator.mint.release(&former, &holder, &terms.actor).await;
        }
        let consequences = Consequences { steps: Vec::new(), troubles, warnings };
        Ok(Change { federation: Some(consequences), ..done(Action::Update, &stored) })
    }

    pub(crate) async fn consequences_of_removal(&self, name: &ServiceName) -> Result<Option<Consequences>, Failure> {
        let record = self.federator.known(name).await?;
        Ok(record.filter(|record| record.role == Role::Coordinator).map(|record| {
            let steps = record.membership.members().map(|(id, _)| (id.clone(), Act::Delete)).collect();
            Consequences { steps, ..Consequences::default() }
        }))
    }

    pub(crate) async fn remove_stored(&self, stored: &Stored, terms: &Terms) -> Result<(), Failure> {
        let name = stored.service.name();
        if self.is_coordinator(name).await? {
            let access = access_by(terms);
            return self.federator.delete(name, Some(&stored.revision), access).await;
        }
        let removed = self.ports.services.remove(name, Some(&stored.revision)).await;
        removed.map_err(|error| Failure::of_service(error, name))?;
        self.federator.mint.discard(&stored.service.owner, name).await;
        Ok(())
    }

    pub async fn key_holder(&self, name: &ServiceName, key: &str) -> Option<KeyHolder> {
        self.federator.key_holder(name, key).await
    }

    pub async fn sync(&self, holder: &KeyHolder, name: &ServiceName, exchange: &Exchange) -> Result<Exchange, Failure> {
        self.federator.answer(holder, name, exchange).await
    }

    /// The federation of a service, for its owner, the administrator or whoever holds its token.
    pub async fn federation(&self, principal: &Principal, name: &ServiceName) -> Result<Shown, Failure> {
        let stored = self.in_charge(principal, name).await?;
        let view = self.federator.view(name, &stored.service.definition).await?;
        let record = self.federator.known(name).await?;
        let token = match record.and_then(|record| record.access.grant) {
            Some(grant) => self.federator.mint.status(&grant).await,
            None => None,
        };
        let mut operations = self.operations_for(&stored.service.owner).await?;
        operations.retain(|operation| operation.coordinator == *name);
        Ok(Shown { view, token, operations })
    }

    async fn operations_for(&self, owner: &Owner) -> Result<Vec<Operation>, Failure> {
        let mut operations = self.federator.journal.operations().await?;
        operations.retain(|operation| operation.owner == *owner);
        Ok(operations)
    }

    /// Every create of the caller's that has not ended: under way, or being taken back; the
    /// administrator sees all.
    pub async fn operations(&self, principal: &Principal) -> Result<Vec<Operation>, Failure> {
        let mut operations = self.federator.journal.operations().await?;
        operations.retain(|operation| principal.acts_for(&operation.owner));
        Ok(operations)
    }

    /// The service, if the caller may act for its owner or holds its token.
    pub(crate) async fn in_charge(&self, principal: &Principal, name: &ServiceName) -> Result<Arc<Stored>, Failure> {
        let stored = self.stored_for(principal, name).await?;
        let token = matches!(principal, Principal::ServiceToken(of) if of == name);
        if token || principal.acts_for(&stored.service.owner) {
            return Ok(stored);
        }
        let visible = decide(principal, Wish::See, &stored.service);
        Err(if visible { Failure::NotOwner(name.clone()) } else { Failure::NotVisible(name.clone()) })
    }

    /// Changes who is in the federation of a service. In a dry run only says what would be done at
    /// which member.
    pub async fn edit_federation(
        &self,
        principal: &Principal,
        name: &ServiceName,
        edit: &Edit,
        terms: Terms,
    ) -> Result<Edited, Failure> {
        self.in_charge(principal, name).await?;
        if matches!(principal, Principal::ServiceToken(_)) {
            let stranger = edit
                .clusters_touched()
                .find(|id| !self.federator.registry.contains_key(*id) || edit.clusters.contains_key(*id));
            if let Some(stranger) = stranger {
                return Err(Failure::NotInRegistry(stranger.to_owned()));
            }
            // Where outputs go is the owner's to say.
            if !edit.storage_providers.is_empty() {
                return Err(Failure::NotOwner(name.clone()));
            }
        }
        let (dry_run, access) = (terms.dry_run, access_by(&terms.by(principal)));
        if dry_run {
            let foreseen = Some(self.federator.foresee(name, edit, access).await?);
            return Ok(Edited { foreseen, ..Edited::default() });
        }
        self.federator.edit(name, edit, access).await
    }

    /// Looks at every member now instead of at the next tick.
    pub async fn reconcile_now(
        &self,
        principal: &Principal,
        name: &ServiceName,
        terms: Terms,
    ) -> Result<Vec<MemberOutcome>, Failure> {
        self.in_charge(principal, name).await?;
        let access = access_by(&terms.by(principal));
        Ok(self.federator.reconcile(name, Some(access)).await?.outcomes)
    }

    /// As [`Manager::in_charge`], but a service token is not enough.
    pub(crate) async fn owned(
        &self,
        principal: &Principal,
        name: &ServiceName,
    ) -> Result<(Arc<Stored>, FederationRecord), Failure> {
        let stored = self.in_charge(principal, name).await?;
        if matches!(principal, Principal::ServiceToken(_)) {
            return Err(Failure::NotOwner(name.clone()));
        }
        match self.federator.known(name).await? {
            Some(record) if record.role == Role::Coordinator => Ok((stored, record)),
            Some(_) => {
                let coordinator = coordinator_named_in(&stored.service.definition);
                Err(Failure::Replica { service: name.clone(), coordinator })
            }
            None => Err(Failure::NoFederation(name.clone())),
        }
    }

    /// Every federation of the caller's services here, the deleted ones too; the administrator
    /// sees all.
    pub async fn federations(&self, principal: &Principal) -> Result<Vec<FederationRecord>, Failure> {
        let records = self.federator.journal.federations().await?;
        Ok(records.into_iter().filter(|record| principal.acts_for(&record.owner)).collect())
    }

    /// What was done elsewhere in the name of this caller, newest first; the administrator sees
    /// everything.
    pub async fn audit(&self, principal: &Principal, most: usize) -> Result<Vec<AuditRecord>, Failure> {
        let recent = async |most| self.federator.audit.recent(most).await;
        Ok(match principal {
            Principal::Admin => recent(most.min(MOST_AUDITED)).await?,
            Principal::User(user) => {
                // However much others did meanwhile.
                let own = user.subject.as_str();
                let records = recent(MOST_AUDITED).await?;
                records.into_iter().filter(|record| record.owner == own).take(most).collect()
            }
            Principal::ServiceToken(_) => Vec::new(),
        })
    }

    /// One round of everything that federations need: ends what a crash left open, goes on with
    /// removals, looks at every federation that is coordinated here. What cannot be read of one
    /// service keeps nothing else from being done.
    pub async fn tick_federations(&self) -> Result<Tended, Failure> {
        let tidied = self.tidy_replicas().await;
        let recovered = self.federator.recover().await;
        let finished = self.federator.finish_deleted().await;
        let settled = self.tidy_grants().await.map(|()| Tended::default()).map_err(Failure::from);
        // An issuer that does not answer keeps no member waiting.
        let ((), looked) = futures::join!(self.federator.mint.tidy(), self.look_after_all());
        let mut tended = Tended::default();
        for part in [tidied, recovered, finished, settled, looked] {
            tended.absorb(part?);
        }
        Ok(tended)
    }

    async fn look_after_all(&self) -> Result<Tended, Failure> {
        let records = self.federator.journal.federations().await?;
        let living = records.into_iter().filter(|record| record.deleted.is_none());
        let coordinated = living.filter(|record| record.role == Role::Coordinator);
        let rounds = coordinated.map(|record| async move {
            let repair = self.federator.reconcile(&record.own.service_name, None).await;
            (record.own.service_name, repair.map(|repair| repair.troubles().len()))
        });
        Ok(Tended::of(futures::future::join_all(rounds).await))
    }
}

/// How far back the record of deeds is read.
const MOST_AUDITED: usize = 10_000;

/// How the owner is represented by this call alone.
pub(crate) fn access_by(terms: &Terms) -> Access {
    Access { bearer: terms.bearer.clone(), actor: terms.actor.clone(), ..Access::default() }
}

/// What an update would mean for the members, from what is known; nobody is asked.
fn foresee(record: &FederationRecord, service: &Service) -> Consequences {
    let federation = service.definition.federation.iter().filter(|federation| federation.deploys());
    let wanted: Vec<_> = federation.flat_map(|federation| &federation.members).filter_map(MemberId::of).collect();
    let known: Vec<_> = record.membership.members().map(|(id, _)| id.clone()).collect();
    let mut steps = Vec::new();
    for id in &wanted {
        steps.push((id.clone(), if known.contains(id) { Act::Update } else { Act::Create }));
    }
    steps.extend(known.into_iter().filter(|id| !wanted.contains(id)).map(|id| (id, Act::Delete)));
    Consequences { steps, ..Consequences::default() }
}

pub(crate) fn coordinator_named_in(definition: &Definition) -> String {
    let annotation = |key: &str| definition.annotations.get(key).map_or("", String::as_str);
    format!("{}/{}", annotation(ORIGIN_CLUSTER_ANNOTATION), annotation(ORIGIN_SERVICE_ANNOTATION))
}
