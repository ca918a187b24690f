//! Changing a federation that is there: what is wanted is stored at once, members follow as they
//! can be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oscar_model::federation::check;
use oscar_model::federation::edit::{Edit, Unfit, check_additions, edited, follow, members_of};
use oscar_model::federation::expand::FEDERATION_ID_ANNOTATION;
use oscar_model::federation::membership::{Membership, Place};
use oscar_model::federation::record::{Access, Against, FederationRecord, Fence, Holder, Role};
use oscar_model::federation::topology::MemberId;
use oscar_model::federation::{Federation, Target, Topology};
use oscar_model::name::ServiceName;
use oscar_model::service::{Cluster, Definition, Sensitive, Service};

use crate::bugs::{Bug, planted};
use crate::failure::{Failure, Undertaking};
use crate::grants::take_refresh_token;
use crate::ports::StoreError;
use crate::ports::mint::{Claim, Submission};
use crate::ports::peers::PeerError;
use crate::ports::services::Stored;

use super::access::logins;
use super::foresee::Foreseen;
use super::remove::leaving;
use super::view::coordinator_of;
use super::{Federator, Kind, MemberOutcome, federation_of, raise_fence};

/// What an edit came to. It is stored in any case; these members do not have it yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edited {
    pub troubles: Vec<MemberOutcome>,
    pub warnings: Vec<String>,
    /// What would be done, in a dry run.
    pub foreseen: Option<Vec<Foreseen>>,
}

/// What a change was judged on.
enum Seen {
    /// It says itself who is in the federation, from what the stored definition says.
    Definition,
    Membership(Option<Membership>),
}

impl Federator {
    /// Changes who is in the federation of a service, wherever in it the service stands.
    pub async fn edit(&self, service: &ServiceName, edit: &Edit, access: Access) -> Result<Edited, Failure> {
        loop {
            match self.known(service).await? {
                Some(record) if matches!(record.role, Role::Worker { .. }) => {
                    match self.edit_from_worker(record, edit).await {
                        // News came in between: judged anew.
                        Err(Failure::RevisionMismatch(_)) => {}
                        other => return other,
                    }
                }
                _ => return self.edit_as_coordinator(service, edit, access).await,
            }
        }
    }

    /// What an edit would make of the coordinator's definition; nothing is changed.
    pub fn rehearse(&self, definition: &Definition, edit: &Edit) -> Result<Definition, Failure> {
        let mut next = definition.clone();
        let federation = next.federation.get_or_insert_with(|| Federation::blank(definition.name.as_str()));
        let knows = |id: &str| definition.clusters.contains_key(id) || self.registry.contains_key(id);
        let faults = check_additions(federation, edit, &knows);
        if !faults.is_empty() {
            return Err(Failure::Invalid(faults));
        }
        *federation = edited(federation, edit).map_err(refuse)?;
        for (id, cluster) in &edit.clusters {
            // Whoever says where a cluster is and not who may go there changes only the former.
            let user_before = next.clusters.get(id).map(|former| former.auth_user.clone()).unwrap_or_default();
            let given = Some(cluster.auth_user.clone()).filter(|user| !user.is_empty());
            let cluster = Cluster { auth_user: given.unwrap_or(user_before), ..super::bare(cluster) };
            next.clusters.insert(id.clone(), cluster);
        }
        next.storage_providers.extend(edit.storage_providers.clone());
        // The members API warns about the token and does not insist on it.
        next.environment.secrets.entry("refresh_token".to_owned()).or_default();
        let faults = check::check(&next, &|id| self.registry.contains_key(id), true);
        if !definition.environment.secrets.contains_key("refresh_token") {
            next.environment.secrets.remove("refresh_token");
        }
        if !faults.is_empty() {
            return Err(Failure::Invalid(faults));
        }
        let doubles = self.doubles(&next);
        if doubles.is_empty() {
            return Ok(next);
        }
        Err(Failure::Obstacles { undertaking: Undertaking::Change, outcomes: doubles })
    }

    async fn edit_as_coordinator(&self, service: &ServiceName, edit: &Edit, access: Access) -> Result<Edited, Failure> {
        let fail = |error: StoreError| Failure::of_service(error, service);
        let warnings = loop {
            // What others have changed and the definition does not say yet is not undone.
            let (known, stored) = match self.coordinator_of(service).await? {
                Some((record, stored)) => (Some(record), Some(stored)),
                None => (None, self.services.get(service).await.map_err(fail)?),
            };
            let stored = stored.ok_or_else(|| Failure::NotFound(service.clone()))?;
            if stored.service.definition.is_worker() {
                // A replica that was not invited yet has nobody to tell.
                let coordinator = crate::federation::coordinator_named_in(&stored.service.definition);
                return Err(Failure::Replica { service: service.clone(), coordinator });
            }
            let mut sensitive = self.services.reveal(service).await.map_err(fail)?;
            for (id, cluster) in &edit.clusters {
                if !cluster.auth_password.is_blank() {
                    sensitive.cluster_passwords.insert(id.clone(), cluster.auth_password.clone());
                }
            }
            let definition = self.rehearse(&stored.service.definition, edit)?;
            let next = Service { definition, ..stored.service.clone() };
            let seen = Seen::Membership(known.map(|record| record.membership));
            match self.store(&stored, next, sensitive, edit, (seen, &access)).await {
                Err(Failure::RevisionMismatch(_)) => {}
                Err(failure) => return Err(failure),
                Ok((_, warnings)) => break warnings,
            }
        };
        let troubles = self.reach_everybody(service, access).await?;
        Ok(Edited { troubles, warnings, foreseen: None })
    }

    /// Replaces the definition of a coordinator and everything that is wanted with it. Members
    /// that are no longer listed are removed with what was created for them.
    pub async fn update(
        &self,
        stored: &Stored,
        next: Service,
        sensitive: Sensitive,
        access: Access,
    ) -> Result<(Arc<Stored>, Edited), Failure> {
        let service = next.name().clone();
        let edit = Edit { delete: true, ..Edit::default() };
        let stored = self.store(stored, next, sensitive, &edit, (Seen::Definition, &access)).await;
        if let Err(Failure::MembersChanged(_)) = &stored {
            // Whoever reads it again finds what he could not know.
            self.coordinator_of(&service).await?;
        }
        let (stored, warnings) = stored?;
        let troubles = self.reach_everybody(&service, access).await?;
        Ok((stored, Edited { troubles, warnings, foreseen: None }))
    }

    /// Carries out what was stored, as far as that can be waited for. What is not done then is done
    /// at the next look; stopping half-way is no worse than a crash.
    async fn reach_everybody(&self, service: &ServiceName, access: Access) -> Result<Vec<MemberOutcome>, Failure> {
        let reconcile = self.reconcile(service, Some(access));
        let Some(patience) = self.own.patience else { return Ok(reconcile.await?.troubles()) };
        if let Ok(repair) = tokio::time::timeout(patience, reconcile).await {
            return Ok(repair?.troubles());
        }
        self.memory.nudge.notify_one();
        let record = self.known(service).await?;
        let members = record.iter().flat_map(|record| record.membership.members().map(|(id, _)| id));
        let leaving = record.iter().flat_map(|record| record.leaving.keys());
        let why = "asking everybody took too long: it is told as soon as it can be";
        Ok(members.chain(leaving).map(|id| MemberOutcome::new(id, Kind::Awaited, why)).collect())
    }

    /// First the membership, then the definition: a crash between the two is mended by the next
    /// look, because the definition follows. Only if the membership is still the one that was
    /// seen, when somebody has seen one.
    async fn store(
        &self,
        stored: &Stored,
        mut next: Service,
        mut sensitive: Sensitive,
        edit: &Edit,
        (seen, access): (Seen, &Access),
    ) -> Result<(Arc<Stored>, Vec<String>), Failure> {
        let service = next.name().clone();
        let _turn = self.memory.records.take(&service).await;
        let now = self.services.get(&service).await.map_err(|error| Failure::of_service(error, &service))?;
        if now.is_none_or(|now| now.revision != stored.revision) {
            // A change that is refused must not have changed who is in the federation.
            return Err(Failure::RevisionMismatch(service));
        }
        let known = self.known(&service).await?;
        let membership = known.as_ref().map(|record| &record.membership);
        match &seen {
            Seen::Membership(seen) if seen.as_ref() != membership => {
                return Err(Failure::RevisionMismatch(service));
            }
            Seen::Definition
                if membership.is_some_and(|members| self.is_behind(&stored.service.definition, members)) =>
            {
                return Err(Failure::MembersChanged(service));
            }
            Seen::Membership(_) | Seen::Definition => {}
        }
        let deploys = next.definition.federation.as_ref().is_some_and(Federation::deploys);
        let (mut warnings, mut written) = (Vec::new(), None);
        if known.is_some() || deploys {
            let mut record = match &known {
                Some(record) => record.clone(),
                None => self.blank_record(&next).await?,
            };
            // One that came with this change is in the place of the former.
            if access.grant.is_some() {
                record.access.grant.clone_from(&access.grant);
            }
            if record.access.grant.is_none() && deploys {
                let (grant, warning) = self.needed_now(&next, &mut sensitive, &record.federation_id, access).await;
                record.access.grant = grant;
                warnings.extend(warning);
            }
            let annotations = &mut next.definition.annotations;
            annotations.insert(FEDERATION_ID_ANNOTATION.to_owned(), record.federation_id.clone());
            self.follow_definition(&mut record, &next.definition, edit);
            self.keep_logins(&mut record, &stored.service, &next.definition).await?;
            if known.as_ref() != Some(&record) {
                self.journal.put_federation(&record).await?;
                written = Some(record);
            }
        }
        let replaced = self.services.replace(next, sensitive, &stored.revision).await;
        if let (Some(record), Err(error)) = (&written, &replaced)
            && !matches!(error, StoreError::Unavailable(_))
        {
            self.put_back(known.as_ref(), record).await?;
        }
        Ok((replaced.map_err(|error| Failure::of_service(error, &service))?, warnings))
    }

    /// A definition that was refused for certain changes nobody's members: the next look would
    /// carry out what the caller was told did not happen.
    async fn put_back(&self, known: Option<&FederationRecord>, written: &FederationRecord) -> Result<(), Failure> {
        match known {
            Some(known) => self.journal.put_federation(known).await?,
            None => self.journal.remove_federation(&written.federation_id, &written.own.service_name).await?,
        }
        Ok(())
    }

    /// What was made at a cluster under a login can be removed only with it, also when the change
    /// that lets the member go drops the login.
    async fn keep_logins(
        &self,
        record: &mut FederationRecord,
        former: &Service,
        next: &Definition,
    ) -> Result<(), Failure> {
        let has_login = |definition: &Definition, cluster: &str| {
            definition.clusters.get(cluster).is_some_and(|cluster| !cluster.auth_user.is_empty())
        };
        let dropped = |cluster: &&str| has_login(&former.definition, cluster) && !has_login(next, cluster);
        let needed: BTreeSet<&str> = record.leaving.keys().map(|id| id.cluster_id.as_str()).filter(dropped).collect();
        if needed.is_empty() {
            return Ok(());
        }
        let name = former.name();
        let sensitive = self.services.reveal(name).await.map_err(|error| Failure::of_service(error, name))?;
        let kept = logins(&former.definition, &sensitive).into_iter().filter(|(id, _)| needed.contains(id.as_str()));
        let kept: Vec<_> = kept.collect();
        record.access.logins.extend(kept);
        Ok(())
    }

    /// The refresh token that was kept until a service has members. That it is of no use is no
    /// reason to refuse them.
    async fn needed_now(
        &self,
        service: &Service,
        sensitive: &mut Sensitive,
        federation_id: &str,
        access: &Access,
    ) -> (Option<String>, Option<String>) {
        let holder = Holder::new(service.name(), federation_id);
        let (actor, owner) = (access.actor.as_str(), &service.owner);
        // Older managers stored it with the rest.
        let token = take_refresh_token(sensitive);
        let submitted = if token.is_blank() {
            self.mint.claim(Claim { actor, owner, holder: &holder, strict: false }).await
        } else {
            let bearer = access.bearer.as_ref().map(|bearer| &bearer.token);
            let (holder, namespace) = (&holder, service.namespace.as_str());
            let submission = Submission { actor, owner, namespace, holder, token: &token, bearer, strict: false };
            self.mint.submit(submission).await.map(Some)
        };
        match submitted {
            Ok(Some(submitted)) => (Some(submitted.grant), submitted.warning),
            Ok(None) => (None, None),
            Err(cause) => (None, Some(cause)),
        }
    }

    /// A federation that was deleted is not begun again: what is left of it is being removed.
    pub(super) async fn blank_record(&self, service: &Service) -> Result<FederationRecord, Failure> {
        let marked = federation_of(&service.definition);
        let ended = self.journal.federations().await?.iter().any(|record| record.federation_id == marked);
        Ok(FederationRecord {
            federation_id: if marked.is_empty() || ended { self.new_id() } else { marked.to_owned() },
            own: MemberId::own(&service.definition),
            role: Role::Coordinator,
            owner: service.owner.clone(),
            membership: Membership::default(),
            leaving: BTreeMap::new(),
            deleted: None,
            access: Access::default(),
            sent: BTreeMap::new(),
            keys: BTreeMap::new(),
        })
    }

    fn follow_definition(&self, record: &mut FederationRecord, definition: &Definition, edit: &Edit) {
        let listed = definition.federation.as_ref().filter(|federation| federation.topology != Topology::None);
        let members = listed.map_or(&[][..], |federation| federation.members.as_slice());
        let place = |id: &MemberId| self.place(definition, &id.cluster_id).unwrap_or_default();
        let gone = follow(&mut record.membership, members, &place, edit.delete, &self.own.instance_id);
        for (id, place) in gone {
            let leaving = leaving(record, &id, &place, edit.delete);
            record.leaving.insert(id, leaving);
        }
        self.set_duties(&mut record.membership, edit);
        let membership = &record.membership;
        record.leaving.retain(|id, _| !membership.is_member(id));
        self.memory.states.retain(&record.federation_id, |id| membership.is_member(id));
    }

    fn set_duties(&self, membership: &mut Membership, edit: &Edit) {
        for (target, duty) in &edit.duties {
            if let Target::Oscar { cluster_id, service_name, .. } = target {
                let id = MemberId { cluster_id: cluster_id.clone(), service_name: service_name.clone() };
                if membership.get(&id).is_some_and(|record| record.duty.value != *duty) {
                    membership.set_duty(&id, *duty, &self.own.instance_id);
                }
            }
        }
    }

    /// A worker changes what it knows and tells its coordinator. In a mesh that may wait; in a
    /// star or a tree the coordinator must hear it now.
    async fn edit_from_worker(&self, record: FederationRecord, edit: &Edit) -> Result<Edited, Failure> {
        let service = record.own.service_name.clone();
        let coordinator = coordinator_of(&record);
        let (stored, after) = self.judge_at_worker(&record, edit).await?;
        let definition = &stored.service.definition;
        let mesh = after.topology == Topology::Mesh;
        let changed = {
            let _turn = self.memory.records.take(&service).await;
            let now = self.known(&service).await?;
            if now.as_ref() != Some(&record) {
                // Judged on what is no longer so.
                return Err(Failure::RevisionMismatch(service));
            }
            let mut changed = record.clone();
            let place = |id: &MemberId| self.place_known(&record, definition, edit, &id.cluster_id).unwrap_or_default();
            follow(&mut changed.membership, &after.members, &place, edit.delete, &self.own.instance_id);
            self.set_duties(&mut changed.membership, edit);
            changed.membership.acknowledge(&self.own.instance_id);
            if changed == record {
                return Ok(Edited::default());
            }
            let kept =
                if mesh && !planted(Bug::EditNotStored) { changed.clone() } else { at_time_of(&record, &changed) };
            self.journal.put_federation(&kept).await?;
            changed
        };
        match self.tell_coordinator(&changed).await {
            Ok(_) => Ok(Edited::default()),
            Err(error) if mesh => {
                let trouble = format!("{error}; it is told as soon as it can be reached");
                let troubles = vec![MemberOutcome::new(&coordinator, Kind::Unreachable, trouble)];
                Ok(Edited { troubles, ..Edited::default() })
            }
            Err(error) => Err(Failure::CoordinatorSilent { coordinator, cause: error.to_string() }),
        }
    }

    /// Who would be in the federation after an edit that is made at a worker.
    pub(super) async fn judge_at_worker(
        &self,
        record: &FederationRecord,
        edit: &Edit,
    ) -> Result<(Arc<Stored>, Federation), Failure> {
        let service = record.own.service_name.clone();
        if !record.membership.is_member(&record.own) {
            // It is on its way out, and nobody would hear of the change.
            return Err(Failure::NoFederation(service));
        }
        let stored = self.services.get(&service).await.map_err(|error| Failure::of_service(error, &service))?;
        let stored = stored.ok_or_else(|| Failure::NotFound(service.clone()))?;
        let definition = &stored.service.definition;
        let coordinator = coordinator_of(record);
        let brings = edit.add.iter().map(|member| &member.target).chain(&edit.remove);
        let plain = brings.into_iter().any(|target| matches!(target, Target::Endpoint { .. }));
        if plain || !edit.storage_providers.is_empty() {
            return Err(Failure::AtCoordinator { service, coordinator });
        }
        let blank = Federation::blank(service.as_str());
        let block = definition.federation.as_ref().unwrap_or(&blank);
        let whole = Federation { members: members_of(&record.membership), ..block.clone() };
        let knows = |id: &str| self.place_known(record, definition, edit, id).is_some();
        let faults = check_additions(&whole, edit, &knows);
        if !faults.is_empty() {
            return Err(Failure::Invalid(faults));
        }
        let after = edited(&whole, edit).map_err(refuse)?;
        self.check_at_worker(record, definition, &after, edit)?;
        Ok((stored, after))
    }

    /// What the coordinator would refuse is refused here: it hears of it when it cannot any more.
    fn check_at_worker(
        &self,
        record: &FederationRecord,
        definition: &Definition,
        after: &Federation,
        edit: &Edit,
    ) -> Result<(), Failure> {
        let Role::Worker { coordinator, endpoint } = &record.role else { return Ok(()) };
        let known = |id: &str| self.place_known(record, definition, edit, id);
        let mut probe = Definition::new(coordinator.service_name.clone(), "", "");
        probe.cluster_id.clone_from(&coordinator.cluster_id);
        probe.federation = Some(after.clone());
        // The token is the coordinator's business.
        probe.environment.secrets.entry("refresh_token".to_owned()).or_default();
        let mut faults = check::check(&probe, &|id| known(id).is_some(), true);
        let mut seen = BTreeSet::from([(endpoint.to_ascii_lowercase(), coordinator.service_name.clone())]);
        for id in after.members.iter().filter_map(MemberId::of) {
            let place = known(&id.cluster_id).map(|place| place.url.to_ascii_lowercase()).unwrap_or_default();
            if !seen.insert((place, id.service_name.clone())) {
                faults.push("members", id.to_string(), "a service that is not in the federation under another name");
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(Failure::Invalid(faults)) }
    }

    /// Where a cluster is, from all that a worker has heard.
    fn place_known(
        &self,
        record: &FederationRecord,
        definition: &Definition,
        edit: &Edit,
        cluster_id: &str,
    ) -> Option<Place> {
        let given = edit.clusters.get(cluster_id).filter(|cluster| !cluster.endpoint.is_empty());
        let given = given.map(|cluster| Place::new(cluster.endpoint.trim_end_matches('/'), cluster.ssl_verify));
        let listed = record.membership.members().find(|(id, _)| id.cluster_id == cluster_id);
        let listed = listed.map(|(_, known)| known.endpoint.value.clone());
        given.or(listed).or_else(|| self.place(definition, cluster_id))
    }

    /// Takes a worker out of its federation, for whoever removes or changes it by hand. The
    /// coordinator is told first; when it does not answer, it is told when it is back, and nothing
    /// of its is taken until then. Returns what the owner should know.
    ///
    /// With `discard` the service is about to be removed; otherwise it stays, as somebody's own.
    pub async fn detach(&self, service: &ServiceName, discard: bool) -> Result<Option<String>, Failure> {
        loop {
            let Some(record) = self.known(service).await? else { return Ok(None) };
            let Role::Worker { coordinator, .. } = &record.role else { return Ok(None) };
            let changed = self.without_itself(&record, discard);
            let error = match self.tell_coordinator(&changed).await {
                Ok(time) => return self.leave_behind(&record, time).await.map(|()| None),
                Err(error) => error,
            };
            let _turn = self.memory.records.take(service).await;
            if self.known(service).await?.as_ref() == Some(&record) {
                self.journal.put_federation(&FederationRecord { deleted: Some(self.now()), ..changed }).await?;
                self.memory.nudge.notify_one();
                return Ok(Some(format!("its coordinator {coordinator} is told as soon as it answers: {error}")));
            }
            // News came in between: told anew.
        }
    }

    /// What a worker knows when it has left.
    fn without_itself(&self, record: &FederationRecord, discard: bool) -> FederationRecord {
        let mut changed = record.clone();
        let MemberId { cluster_id, service_name } = record.own.clone();
        let blank = Federation::blank(service_name.as_str());
        let whole = Federation { members: members_of(&record.membership), ..blank };
        let itself = Target::Oscar { cluster_id, service_name, parent: None };
        // Who hangs below it hangs above it afterwards.
        let edit = Edit { remove: vec![itself], reparent: true, ..Edit::default() };
        if let Ok(after) = edited(&whole, &edit) {
            let known = |id: &MemberId| record.membership.get(id).map(|known| known.endpoint.value.clone());
            let place = |id: &MemberId| known(id).unwrap_or_default();
            follow(&mut changed.membership, &after.members, &place, discard, &self.own.instance_id);
        }
        changed.membership.acknowledge(&self.own.instance_id);
        changed
    }

    /// Tells the coordinator of a worker that has left without it. Returns whether that is done.
    pub(crate) async fn say_farewell(&self, record: &FederationRecord) -> Result<bool, Failure> {
        let time = match self.tell_coordinator(record).await {
            Ok(time) => time,
            Err(PeerError::Unreachable(_)) => return Ok(false),
            // It is there and does not know of the worker: nothing is left to be told.
            Err(PeerError::Credentials(_) | PeerError::Refused(_)) => record.membership.time(),
        };
        self.leave_behind(record, time).await?;
        Ok(true)
    }

    /// The worker is in no federation; what the coordinator sent when it knew less comes too late.
    async fn leave_behind(&self, record: &FederationRecord, time: u64) -> Result<(), Failure> {
        let (service, id) = (&record.own.service_name, &record.federation_id);
        let against = Against::Federation { id: id.clone(), before: time };
        let fence = Fence { service: service.clone(), owner: record.owner.clone(), against, since: self.now() };
        raise_fence(&*self.journal, fence).await?;
        Ok(self.journal.remove_federation(id, service).await?)
    }
}

/// What was known before a change, with the time after it: the coordinator may have heard of the
/// change although its answer was lost, and no other change must carry the same stamp.
fn at_time_of(before: &FederationRecord, after: &FederationRecord) -> FederationRecord {
    let records = before.membership.records().map(|(id, known)| (id.clone(), known.clone())).collect();
    let membership = Membership::from_records(records, after.membership.time());
    FederationRecord { membership, ..before.clone() }
}

fn refuse(unfit: Unfit) -> Failure {
    match unfit {
        Unfit::Invalid(faults) => Failure::Invalid(faults),
        Unfit::InnerNode(member) => Failure::InnerNode(member),
    }
}
