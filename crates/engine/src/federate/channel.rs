//! What managers of our kind tell each other: an invitation with a key, and then, under that
//! key, who is in the federation.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use oscar_model::fault::Faults;
use oscar_model::federation::expand::Audience;
use oscar_model::federation::membership::{Membership, Presence, Record};
use oscar_model::federation::record::{Access, Contact, Credential, FederationRecord, Role};
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;

use crate::bugs::{Bug, planted};
use crate::failure::Failure;
use crate::ports::peers::{Call, Exchange, Invitation, PeerError};

use super::create::Survey;
use super::remove::leaving;
use super::{Federator, federation_of};

/// So many removals are remembered although everybody has seen them.
const KEPT_REMOVALS: usize = 32;

fn own_copy((id, known): (&MemberId, &Record)) -> (MemberId, Record) {
    (id.clone(), known.clone())
}

/// Who spoke under a key, and in which federation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHolder {
    pub federation_id: String,
    pub member: MemberId,
}

/// Halves of a federation that did not hear each other may have more together than an edit allows;
/// what one expands to grows with the square.
const MOST_MERGED: usize = 256;
const MOST_RECORDS: usize = 4096;

impl Federator {
    /// Whose key it is that was offered for a service here. Unknown services and wrong keys look
    /// alike.
    pub async fn key_holder(&self, service: &ServiceName, key: &str) -> Option<KeyHolder> {
        let record = self.in_definition(service).await.ok().flatten()?;
        // All are compared, so that the time tells nothing.
        let mut holder = None;
        for (member, known) in &record.keys {
            if known.matches(key) {
                holder = Some(member.clone());
            }
        }
        holder.map(|member| KeyHolder { federation_id: record.federation_id.clone(), member })
    }

    pub(crate) async fn join_all(
        &self,
        record: &FederationRecord,
        access: &Access,
        contacts: &BTreeMap<MemberId, Contact>,
    ) {
        let joins = record.keys.iter().map(|(member, key)| async move {
            if let Some(contact) = contacts.get(member) {
                // Who cannot be told now is told at the next look.
                let _ = self.invite(record, access, member, contact, key).await;
            }
        });
        join_all(joins).await;
    }

    async fn invite(
        &self,
        record: &FederationRecord,
        access: &Access,
        member: &MemberId,
        contact: &Contact,
        key: &Secret,
    ) -> Result<(), PeerError> {
        let credential = self.credential(access, &record.owner, &member.cluster_id, contact).await;
        let credential = credential.map_err(PeerError::Credentials)?;
        let time = record.membership.time();
        let call = Call { member, contact, owner: &record.owner, credential: &credential, time };
        let invitation = Invitation {
            federation_id: record.federation_id.clone(),
            member: member.clone(),
            coordinator: record.own.clone(),
            endpoint: self.own.public_url.clone(),
            key: key.clone(),
            exchange: self.exchange(record),
        };
        self.peers.join(&call, &invitation).await
    }

    pub(crate) fn exchange(&self, record: &FederationRecord) -> Exchange {
        let states = match record.role {
            Role::Coordinator => self.memory.states.of(&record.federation_id),
            Role::Worker { .. } => BTreeMap::new(),
        };
        Exchange {
            federation_id: record.federation_id.clone(),
            instance: self.own.instance_id.clone(),
            membership: record.membership.clone(),
            states,
        }
    }

    /// Exchanges with every member of our kind what both know. Nothing is written when nobody
    /// has news.
    pub(crate) async fn talk_to_all(
        &self,
        record: FederationRecord,
        access: &Access,
        survey: &Survey,
    ) -> Result<(), Failure> {
        let contacts = &survey.contacts;
        let talks = record.keys.iter().map(|(member, key)| {
            let record = &record;
            async move {
                let contact = contacts.get(member).filter(|contact| contact.audience == Audience::Ours)?;
                if survey.is_silent(member) {
                    // Whoever hangs is waited for once.
                    return None;
                }
                let answer = self.talk(record, access, member, contact, key).await.ok()?;
                Some((member.clone(), answer))
            }
        });
        let answers: Vec<_> = join_all(talks).await.into_iter().flatten().collect();
        let mut living = BTreeSet::from([self.own.instance_id.clone()]);
        let mut merged = record.membership.clone();
        let mut everybody = true;
        for (member, answer) in &answers {
            merged.merge(&answer.membership);
            living.insert(answer.instance.clone());
            let state = self.memory.states.of(&record.federation_id).remove(member);
            if let Some(mut state) = state {
                state.instance.clone_from(&answer.instance);
                self.memory.states.set(&record.federation_id, member, state);
            }
        }
        let spoken_to = |member: &&MemberId| record.membership.is_member(member) && contacts.contains_key(*member);
        for member in record.keys.keys().filter(spoken_to) {
            everybody &= answers.iter().any(|(answered, _)| answered == member);
        }
        if merged != record.membership || record.membership.removed().next().is_some() {
            let everybody = everybody.then_some(&living);
            if self.absorb(&record.own.service_name, &record.federation_id, &merged, everybody).await? {
                // Whoever reads the definition from now on finds it there, and does not undo it.
                self.coordinator_of(&record.own.service_name).await?;
            }
        }
        Ok(())
    }

    async fn talk(
        &self,
        record: &FederationRecord,
        access: &Access,
        member: &MemberId,
        contact: &Contact,
        key: &Secret,
    ) -> Result<Exchange, PeerError> {
        let credential = Credential::MemberKey(key.clone());
        let time = record.membership.time();
        let call = Call { member, contact, owner: &record.owner, credential: &credential, time };
        let exchange = self.exchange(record);
        match self.peers.sync(&call, &exchange).await {
            // It does not know the key (yet, or any more).
            Err(PeerError::Credentials(_) | PeerError::Refused(_)) => {
                self.invite(record, access, member, contact, key).await?;
                self.peers.sync(&call, &exchange).await
            }
            other => other,
        }
    }

    /// Takes over what others know. Members that somebody else removed are seen off by the
    /// coordinator. With `everybody`, the living instances, removals that all have seen are
    /// forgotten. Returns whether something was new.
    pub(crate) async fn absorb(
        &self,
        service: &ServiceName,
        federation_id: &str,
        other: &Membership,
        everybody: Option<&BTreeSet<String>>,
    ) -> Result<bool, Failure> {
        let _turn = self.memory.records.take(service).await;
        let Some(mut record) = self.known(service).await? else { return Ok(false) };
        if record.federation_id != federation_id {
            return Ok(false);
        }
        let before = record.clone();
        record.membership.merge(other);
        let (present, all) = (record.membership.members().count(), record.membership.records().count());
        if present > MOST_MERGED || all > MOST_RECORDS {
            let mut faults = Faults::default();
            let allowed = format!("at most {MOST_MERGED} members, and {MOST_RECORDS} with those that left");
            faults.push("membership", format!("{present} members, {all} in all"), allowed);
            return Err(Failure::Invalid(faults));
        }
        if planted(Bug::LastHeardWins) {
            let mut records: BTreeMap<_, _> = before.membership.records().map(own_copy).collect();
            records.extend(other.records().map(own_copy));
            record.membership = Membership::from_records(records, record.membership.time());
        }
        if record.role == Role::Coordinator {
            for (id, was) in before.membership.members() {
                let now = record.membership.records().find(|(other, _)| *other == id).map(|(_, now)| now);
                if let Some(now) = now.filter(|now| !now.presence.value.is_present()) {
                    let delete = now.presence.value == Presence::Discarded;
                    let leaving = leaving(&record, id, &was.endpoint.value, delete);
                    record.leaving.insert(id.clone(), leaving);
                }
            }
            if record.leaving.len() > before.leaving.len() {
                // What was sent to them so far was sent with less knowledge.
                record.membership.advance();
            }
        }
        let back: Vec<_> = record.leaving.keys().filter(|id| record.membership.is_member(id)).cloned().collect();
        for id in back {
            record.leaving.remove(&id);
        }
        record.membership.acknowledge(&self.own.instance_id);
        if planted(Bug::TombstoneForgotten) {
            record.membership.forget(&BTreeSet::new());
        }
        // Who is leaving and cannot be reached may still speak as a member; and what somebody said
        // before he heard of a removal may still be under way.
        let many = record.membership.removed().count() > KEPT_REMOVALS;
        if let Some(living) = everybody.filter(|_| many && record.leaving.is_empty()) {
            record.membership.forget(living);
        }
        if record == before {
            return Ok(false);
        }
        self.journal.put_federation(&record).await?;
        let news = record.membership != before.membership;
        if news && record.role == Role::Coordinator {
            self.memory.nudge.notify_one();
        }
        Ok(news)
    }

    /// The other side of [`Peers::join`](crate::ports::peers::Peers::join): a coordinator of the
    /// owner's invites a replica here.
    pub async fn accept(
        &self,
        principal: &Principal,
        service: &ServiceName,
        invitation: &Invitation,
    ) -> Result<(), Failure> {
        let _turn = self.memory.records.take(service).await;
        let stored = self.services.get(service).await.map_err(|error| Failure::of_service(error, service))?;
        let Some(stored) = stored else { return Err(Failure::NotFound(service.clone())) };
        if !principal.acts_for(&stored.service.owner) {
            return Err(Failure::NotOwner(service.clone()));
        }
        if federation_of(&stored.service.definition) != invitation.federation_id {
            return Err(Failure::OtherFederation(service.clone()));
        }
        let mut known = self.journal.federation(service).await?;
        if known.as_ref().is_some_and(|record| record.role == Role::Coordinator) {
            return Err(Failure::OtherFederation(service.clone()));
        }
        while let Some(other) = known.take_if(|record| record.federation_id != invitation.federation_id) {
            // A former federation of the service, which a crash kept from being forgotten.
            self.journal.remove_federation(&other.federation_id, service).await?;
            known = self.journal.federation(service).await?;
        }
        // What it knew under another name is from before it left under that name: the others may
        // have forgotten since whom they removed.
        let same = known.as_ref().filter(|record| record.own.cluster_id == invitation.member.cluster_id);
        let mut membership = same.map(|record| record.membership.clone()).unwrap_or_default();
        membership.merge(&invitation.exchange.membership);
        membership.acknowledge(&self.own.instance_id);
        let record = FederationRecord {
            federation_id: invitation.federation_id.clone(),
            own: invitation.member.clone(),
            role: Role::Worker { coordinator: invitation.coordinator.clone(), endpoint: invitation.endpoint.clone() },
            owner: stored.service.owner.clone(),
            membership,
            leaving: BTreeMap::new(),
            deleted: None,
            access: Access::default(),
            sent: BTreeMap::new(),
            keys: BTreeMap::from([(invitation.coordinator.clone(), invitation.key.clone())]),
        };
        // The service here is named by the address that was called.
        let record =
            FederationRecord { own: MemberId { service_name: service.clone(), ..record.own.clone() }, ..record };
        if known.as_ref() != Some(&record) {
            self.journal.put_federation(&record).await?;
        }
        self.memory.states.replace(&record.federation_id, invitation.exchange.states.clone());
        Ok(())
    }

    /// The other side of [`Peers::sync`](crate::ports::peers::Peers::sync), for whoever holds a
    /// key of the federation.
    pub async fn answer(
        &self,
        holder: &KeyHolder,
        service: &ServiceName,
        exchange: &Exchange,
    ) -> Result<Exchange, Failure> {
        if exchange.federation_id != holder.federation_id {
            return Err(Failure::OtherFederation(service.clone()));
        }
        if self.absorb(service, &holder.federation_id, &exchange.membership, None).await? {
            // Whoever is told that it is known finds it in the definition.
            self.coordinator_of(service).await?;
        }
        let Some(record) = self.known(service).await? else {
            return Err(Failure::NotFound(service.clone()));
        };
        if matches!(record.role, Role::Worker { .. }) {
            self.memory.states.replace(&record.federation_id, exchange.states.clone());
        }
        Ok(self.exchange(&record))
    }

    /// Tells the coordinator what a worker here has changed. Returns how much the coordinator knows
    /// then.
    pub(crate) async fn tell_coordinator(&self, record: &FederationRecord) -> Result<u64, PeerError> {
        let Role::Worker { coordinator, endpoint } = &record.role else { return Ok(record.membership.time()) };
        let key = record.keys.get(coordinator);
        let key = key.ok_or_else(|| PeerError::Credentials("there is no key of the coordinator".to_owned()))?;
        let contact = Contact { endpoint: endpoint.clone(), verify: true, audience: Audience::Ours };
        let credential = Credential::MemberKey(key.clone());
        let (owner, time) = (&record.owner, record.membership.time());
        let call = Call { member: coordinator, contact: &contact, owner, credential: &credential, time };
        let answer = self.peers.sync(&call, &self.exchange(record)).await?;
        self.memory.states.replace(&record.federation_id, answer.states);
        // What the coordinator knew more is taken over; that it is stored can wait.
        let _ = self.absorb(&record.own.service_name, &record.federation_id, &answer.membership, None).await;
        Ok(answer.membership.time())
    }
}
