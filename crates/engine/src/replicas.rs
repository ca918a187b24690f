//! Replicas that coordinators of other clusters deploy here.

use std::collections::BTreeSet;

use oscar_model::access::{Action as Wish, decide};
use oscar_model::federation::edit::{Edit, is_same};
use oscar_model::federation::expand::OPERATION_ANNOTATION;
use oscar_model::federation::plan::Found;
use oscar_model::federation::record::{Access, FederationRecord, Role, Seconds};
use oscar_model::federation::sync::in_sync;
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Definition, Sensitive, Service};

use crate::bugs::{Bug, planted};
use crate::deploy::{Action, Change, Former, Terms, done, is_token, not_yours, owner_of};
use crate::failure::Failure;
use crate::federate::{Federator, Letting, Tended, federation_of};
use crate::federation::coordinator_named_in;
use crate::manager::Manager;
use crate::ports::StoreError;
use crate::ports::peers::Invitation;
use crate::ports::services::Stored;

/// Nothing that was sent arrives later than that.
const FENCES_LAST: Seconds = 24 * 3600;

/// More for one owner, of whatever names, than all his federations need: somebody plays.
const MOST_FENCES_OF_OWNER: usize = 1024;

impl Federator {
    /// What is known of the federation that the definition of a service names. Whoever calls need not
    /// be anybody yet: for a service that is in none nothing is looked up, and otherwise one entry.
    pub(crate) async fn in_definition(&self, service: &ServiceName) -> Result<Option<FederationRecord>, Failure> {
        let stored = self.services.get(service).await.map_err(|error| Failure::of_service(error, service))?;
        match stored.as_ref().map_or("", |stored| federation_of(&stored.service.definition)) {
            "" => Ok(None),
            id => Ok(self.journal.federation_with_id(id, service).await?),
        }
    }
}

impl Manager {
    /// A replica is its coordinator's; whoever wants it for himself takes it out first.
    /// With `discard` he does not want it at all. Returns what he should know.
    pub(crate) async fn release_replica(
        &self,
        stored: &Stored,
        terms: &Terms,
        discard: bool,
    ) -> Result<Option<String>, Failure> {
        let definition = &stored.service.definition;
        if !definition.is_worker() || federation_of(definition).is_empty() {
            return Ok(None);
        }
        if !terms.detach {
            let service = stored.service.name().clone();
            return Err(Failure::Replica { service, coordinator: coordinator_named_in(definition) });
        }
        if terms.dry_run || planted(Bug::LeavesSilently) {
            Ok(None)
        } else {
            self.federator.detach(stored.service.name(), discard).await
        }
    }

    /// A coordinator of our kind writes a replica here: creates it, takes over a plain service of
    /// the owner's, or updates it. Without `creates` there must be one already: somebody may send
    /// back what he read of a replica that has gone since.
    pub(crate) async fn deploy_replica(
        &self,
        principal: &Principal,
        mut definition: Definition,
        token: &Secret,
        terms: &Terms,
        creates: bool,
    ) -> Result<Change, Failure> {
        let name = definition.name.clone();
        let _turn = self.turns.take(&name).await;
        let stored = match self.stored_for(principal, &name).await {
            Ok(stored) => Some(stored),
            Err(Failure::NotFound(_)) if creates => None,
            Err(failure) => return Err(failure),
        };
        if let Some(stored) = &stored {
            if !decide(principal, Wish::Change, &stored.service) {
                return Err(not_yours(principal, stored));
            }
            if self.is_coordinator(&name).await? {
                return Err(Failure::Exists(name));
            }
        }
        let former = stored.as_ref().map_or(Former::None, |stored| Former::Of(&stored.service.definition));
        self.complete(principal, &mut definition, former).await?;
        let action = if stored.is_some() { Action::Update } else { Action::Create };
        let (owner, owner_name) = owner_of(principal);
        let namespace = self.home_of(&owner, &owner_name, terms.dry_run).await?;
        if terms.dry_run {
            let _ = Sensitive::take_from(&mut definition);
            let service =
                Service { definition, owner, owner_name, token: token.clone(), namespace, bucket_list: Vec::new() };
            return Ok(Change { action, service, revision: None, federation: None });
        }
        let token = if is_token(token.expose()) { token.clone() } else { self.new_token() };
        let time = terms.order.as_ref().map_or(0, |order| order.time);
        self.member().deploy(principal, &namespace, definition, &token, time).await?;
        let stored = self.stored(&name).await?;
        Ok(done(action, &stored))
    }

    /// A PUT that carries the marks of a replica and yet is not its coordinator's: somebody sends
    /// back what he was shown, or a foreign mesh worker tells its coordinator of members.
    pub(crate) async fn put_by_hand(
        &self,
        principal: &Principal,
        definition: &Definition,
        terms: &Terms,
    ) -> Result<Change, Failure> {
        let name = &definition.name;
        let stored = self.changeable(principal, name, &terms.guard).await?;
        let there = &stored.service.definition;
        let same_federation = federation_of(there) == federation_of(definition);
        if self.is_coordinator(name).await? {
            if !same_federation {
                return Err(Failure::Exists(name.clone()));
            }
            let registry = &self.federator.registry;
            let edit = additions(there, definition, &|id| registry.contains_key(id));
            if !terms.dry_run && !edit.is_empty() {
                self.federator.edit(name, &edit, Access::default()).await?;
            }
            let stored = self.stored(name).await?;
            return Ok(done(Action::Update, &stored));
        }
        if !same_federation || !there.is_worker() {
            // It was let go since, or is another's by now: it does not come back by accident.
            return Err(Failure::OtherFederation(name.clone()));
        }
        let operation = |definition: &Definition| definition.annotations.get(OPERATION_ANNOTATION).cloned();
        if operation(there) == operation(definition) && (in_sync(definition, there) || terms.dry_run) {
            return Ok(done(Action::Nothing, &stored));
        }
        Err(Failure::Replica { service: name.clone(), coordinator: coordinator_named_in(there) })
    }

    /// What a coordinator of that federation finds under a name here.
    pub async fn look_at_replica(
        &self,
        principal: &Principal,
        name: &ServiceName,
        federation_id: &str,
    ) -> Result<Found, Failure> {
        self.member().look(principal, name, federation_id).await
    }

    /// Whether a replica was a plain service before.
    pub async fn is_adopted(&self, stored: &Stored) -> bool {
        let federation_id = federation_of(&stored.service.definition);
        if federation_id.is_empty() || !stored.service.definition.is_worker() {
            return false;
        }
        self.member().is_adopted(stored.service.name(), federation_id).await
    }

    pub async fn withdraw_replica(
        &self,
        principal: &Principal,
        name: &ServiceName,
        letting: Letting<'_>,
    ) -> Result<(), Failure> {
        self.may_touch(principal, name).await?;
        self.may_fence(principal).await?;
        let _turn = self.turns.take(name).await;
        self.member().withdraw(principal, name, letting).await
    }

    pub async fn undo_replica(
        &self,
        principal: &Principal,
        name: &ServiceName,
        operation: &str,
    ) -> Result<(), Failure> {
        self.may_touch(principal, name).await?;
        self.may_fence(principal).await?;
        let _turn = self.turns.take(name).await;
        self.member().undo(principal, name, operation).await
    }

    /// What is not there anybody may leave alone; what is there is its owner's.
    async fn may_touch(&self, principal: &Principal, name: &ServiceName) -> Result<(), Failure> {
        match self.in_charge(principal, name).await {
            Ok(_) | Err(Failure::NotFound(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// What is not there can be taken back all the same, because it may still arrive, and that is
    /// remembered for a day. Nobody fills the journal with names that he makes up.
    async fn may_fence(&self, principal: &Principal) -> Result<(), Failure> {
        let (owner, _) = owner_of(principal);
        if self.federator.journal.fences_of(&owner).await?.len() < MOST_FENCES_OF_OWNER {
            return Ok(());
        }
        let why = format!("you have taken back replicas {MOST_FENCES_OF_OWNER} times within a day: try again tomorrow");
        Err(StoreError::Unavailable(why).into())
    }

    pub async fn join(
        &self,
        principal: &Principal,
        name: &ServiceName,
        invitation: &Invitation,
    ) -> Result<(), Failure> {
        let _turn = self.turns.take(name).await;
        self.federator.accept(principal, name, invitation).await
    }

    /// A service that was a replica is somebody's own, or gone: what it was before is not needed.
    pub(crate) async fn forget_replica(&self, former: &Stored) -> Result<(), Failure> {
        let definition = &former.service.definition;
        if !definition.is_worker() || federation_of(definition).is_empty() {
            return Ok(());
        }
        self.member().forget_all(former.service.name()).await
    }

    /// Forgets what a crash kept from being forgotten: what was kept for services that are no
    /// replicas, and federations that they are not in.
    pub(crate) async fn tidy_replicas(&self) -> Result<Tended, Failure> {
        let mut tended = Tended::default();
        let journal = &self.federator.journal;
        let names: BTreeSet<_> = journal.formers().await?.into_iter().map(|(name, _)| name).collect();
        for name in names {
            let _turn = self.turns.take(&name).await;
            let forgotten = self.member().forget_needless(&name).await;
            tended.note(name.clone(), forgotten.map(|()| 0));
        }
        let records = journal.federations().await?;
        let living = records.iter().filter(|record| record.deleted.is_none());
        for record in living.filter(|record| record.role != Role::Coordinator) {
            let name = &record.own.service_name;
            let _turn = self.turns.take(name).await;
            let forgotten = self.member().forget_membership(name, &record.federation_id).await;
            tended.note(name.clone(), forgotten.map(|()| 0));
        }
        journal.forget_fences(self.federator.now().saturating_sub(FENCES_LAST)).await?;
        Ok(tended)
    }
}

/// Members that a foreign worker knows and its coordinator does not, with where they live. What
/// the coordinator knows is not changed: neither its members nor the addresses of their clusters.
fn additions(coordinator: &Definition, told: &Definition, registered: &dyn Fn(&str) -> bool) -> Edit {
    let known = coordinator.federation.iter().flat_map(|federation| &federation.members);
    let known: Vec<_> = known.collect();
    let own = MemberId::own(coordinator);
    let told_members = told.federation.iter().flat_map(|federation| &federation.members);
    let add: Vec<_> = told_members
        .filter(|member| MemberId::of(member).is_some_and(|id| id != own))
        .filter(|member| !known.iter().any(|known| is_same(&known.target, &member.target)))
        .cloned()
        .collect();
    let homes = add.iter().filter_map(MemberId::of).map(|id| id.cluster_id);
    let clusters = homes
        .filter(|id| !coordinator.clusters.contains_key(id) && !registered(id))
        .filter_map(|id| told.clusters.get(&id).map(|cluster| (id, cluster.clone())))
        .collect();
    Edit { add, clusters, ..Edit::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use oscar_model::federation::{Federation, Member, Target, Topology};
    use oscar_model::service::Cluster;

    use super::*;

    fn mk_member(cluster_id: &str) -> Member {
        let service_name = ServiceName::parse("plants").expect("valid");
        let target = Target::Oscar { cluster_id: cluster_id.to_owned(), service_name, parent: None };
        Member { target, priority: 0, ssl_verify: true, headers: BTreeMap::new() }
    }

    /// With a member in each cluster, all of which it knows under that address.
    fn mk_definition(cluster_id: &str, members: &[&str], address: &str) -> Definition {
        let mut definition = Definition::new(ServiceName::parse("plants").expect("valid"), "image", "script");
        definition.cluster_id = cluster_id.to_owned();
        let members: Vec<_> = members.iter().copied().map(mk_member).collect();
        for id in members.iter().filter_map(MemberId::of) {
            let endpoint = format!("https://{address}.{}", id.cluster_id);
            let cluster =
                Cluster { endpoint, auth_user: String::new(), auth_password: Secret::default(), ssl_verify: true };
            definition.clusters.insert(id.cluster_id, cluster);
        }
        let blank = Federation::blank("plants");
        definition.federation = Some(Federation { topology: Topology::Mesh, members, ..blank });
        definition
    }

    #[test]
    fn a_foreign_worker_adds_members_with_their_clusters_and_changes_nothing_else() {
        let coordinator = mk_definition("home", &["a"], "known");
        let told = mk_definition("home", &["home", "a", "b", "listed"], "told");
        let edit = additions(&coordinator, &told, &|id| id == "listed");
        assert_eq!(edit.add, ["b", "listed"].map(mk_member));
        assert_eq!(edit.clusters.keys().collect::<Vec<_>>(), ["b"], "what is known has its address");
        assert_eq!(edit.clusters["b"].endpoint, "https://told.b");
        let nothing = additions(&coordinator, &coordinator, &|_| false);
        assert!(nothing.is_empty());
    }
}
