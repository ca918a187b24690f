//! Changing who is in a federation: pure steps from what is stored to what is wanted.

use std::collections::BTreeMap;

use crate::fault::{Faults, join, quoted};
use crate::service::storage::StorageProviders;
use crate::service::{Cluster, Definition};

use super::membership::{Attributes, Duty, Membership, Place, Record};
use super::topology::{MemberId, find_parent};
use super::{Federation, Member, Target, Topology};

/// What somebody wants to change. Members are named by cluster and service; endpoints by URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    pub add: Vec<Member>,
    /// Each with what it becomes. Another identity is a removal and an addition.
    pub update: Vec<(Target, Member)>,
    pub remove: Vec<Target>,
    /// Remove the services of removed members too, where this federation created them.
    pub delete: bool,
    /// Members below a removed one are hung on its parent.
    pub reparent: bool,
    /// Duties by member.
    pub duties: Vec<(Target, Duty)>,
    /// Clusters that the members of this edit live on.
    pub clusters: BTreeMap<String, Cluster>,
    /// Providers that take the place of those of the same id.
    pub storage_providers: StorageProviders,
}

impl Edit {
    pub fn is_empty(&self) -> bool {
        self.add.is_empty()
            && self.update.is_empty()
            && self.remove.is_empty()
            && self.duties.is_empty()
            && self.clusters.is_empty()
            && self.storage_providers.is_empty()
    }

    /// Every cluster that the edit touches.
    pub fn clusters_touched(&self) -> impl Iterator<Item = &str> {
        let targets = self
            .add
            .iter()
            .map(|member| &member.target)
            .chain(self.update.iter().flat_map(|(was, member)| [was, &member.target]))
            .chain(&self.remove)
            .chain(self.duties.iter().map(|(target, _)| target));
        let of_targets = targets.map(|target| match target {
            Target::Oscar { cluster_id, .. } => cluster_id.as_str(),
            Target::Endpoint { url } => url.as_str(),
        });
        of_targets.chain(self.clusters.keys().map(String::as_str))
    }
}

/// Why an edit cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    Invalid(Faults),
    /// Others hang below it, and nobody said where they go.
    InnerNode(String),
}

/// Whether two targets are the same member; where a tree hangs it does not matter.
pub fn is_same(a: &Target, b: &Target) -> bool {
    match (a, b) {
        (
            Target::Oscar { cluster_id, service_name, .. },
            Target::Oscar { cluster_id: other_cluster, service_name: other_service, .. },
        ) => cluster_id == other_cluster && service_name == other_service,
        (Target::Endpoint { url }, Target::Endpoint { url: other }) => url == other,
        (Target::Oscar { .. }, Target::Endpoint { .. }) | (Target::Endpoint { .. }, Target::Oscar { .. }) => false,
    }
}

/// The members after the edit. A member that is there already is not added twice; one that is
/// to be changed or removed and is not there is a fault.
pub fn edited(federation: &Federation, edit: &Edit) -> Result<Federation, Unfit> {
    let mut members = federation.members.clone();
    let mut faults = Faults::default();
    for (index, (was, becomes)) in edit.update.iter().enumerate() {
        match members.iter_mut().find(|member| is_same(&member.target, was)) {
            Some(member) => *member = becomes.clone(),
            None => faults.push(format!("members[{index}]"), describe(was), "a member of this federation"),
        }
    }
    for (index, target) in edit.remove.iter().enumerate() {
        if !members.iter().any(|member| is_same(&member.target, target)) {
            faults.push(format!("members[{index}]"), describe(target), "a member of this federation");
        }
    }
    for (index, (target, _)) in edit.duties.iter().enumerate() {
        if !members.iter().any(|member| is_same(&member.target, target)) {
            faults.push(format!("members[{index}]"), describe(target), "a member of this federation");
        }
    }
    if !faults.is_empty() {
        return Err(Unfit::Invalid(faults));
    }
    merge_doubles(&mut members, edit);
    for target in &edit.remove {
        hang_children_elsewhere(&mut members, target, edit)?;
        members.retain(|member| !is_same(&member.target, target));
    }
    for member in &edit.add {
        if !members.iter().any(|known| is_same(&known.target, &member.target)) {
            members.push(member.clone());
        }
    }
    Ok(Federation { members, ..federation.clone() })
}

/// Members that became the same one are one.
fn merge_doubles(members: &mut Vec<Member>, edit: &Edit) {
    for (_, becomes) in &edit.update {
        let mut seen = false;
        members.retain(|member| {
            let same = is_same(&member.target, &becomes.target);
            !same || !std::mem::replace(&mut seen, true)
        });
    }
}

fn describe(target: &Target) -> String {
    match target {
        Target::Oscar { cluster_id, service_name, .. } => quoted(&format!("{cluster_id}/{service_name}")),
        Target::Endpoint { url } => quoted(url),
    }
}

/// Members below a removed one go to its parent, or the removal is refused.
fn hang_children_elsewhere(members: &mut [Member], removed: &Target, edit: &Edit) -> Result<(), Unfit> {
    let ids = members.iter().filter_map(MemberId::of).collect();
    let Target::Oscar { cluster_id, service_name, .. } = removed else { return Ok(()) };
    let removed_id = MemberId { cluster_id: cluster_id.clone(), service_name: service_name.clone() };
    let grandparent =
        members.iter().find(|member| is_same(&member.target, removed)).and_then(|member| match &member.target {
            Target::Oscar { parent, .. } => parent.clone(),
            Target::Endpoint { .. } => None,
        });
    for member in members {
        let leaves_too = edit.remove.iter().any(|target| is_same(target, &member.target));
        let Target::Oscar { parent, .. } = &mut member.target else { continue };
        let below = parent.as_deref().and_then(|parent| find_parent(parent, &ids)).as_ref() == Some(&removed_id);
        if !below || leaves_too {
            continue;
        }
        if !edit.reparent {
            return Err(Unfit::InnerNode(removed_id.to_string()));
        }
        parent.clone_from(&grandparent);
    }
    Ok(())
}

/// What of a member can be changed without making it another one.
pub fn attributes(member: &Member) -> Attributes {
    let parent = match &member.target {
        Target::Oscar { parent, .. } => parent.clone(),
        Target::Endpoint { .. } => None,
    };
    Attributes { priority: member.priority, ssl_verify: member.ssl_verify, headers: member.headers.clone(), parent }
}

/// Brings a membership to what `members` says, with a stamp only where something differs.
/// `place` tells where a cluster is. Returns the members that left.
pub fn follow(
    membership: &mut Membership,
    members: &[Member],
    place: &dyn Fn(&MemberId) -> Place,
    discard: bool,
    instance: &str,
) -> Vec<(MemberId, Place)> {
    let wanted: BTreeMap<_, _> =
        members.iter().filter_map(|member| Some((MemberId::of(member)?, attributes(member)))).collect();
    let known: Vec<_> = membership.members().map(|(id, record)| (id.clone(), record.endpoint.value.clone())).collect();
    let gone: Vec<_> = known.into_iter().filter(|(id, _)| !wanted.contains_key(id)).collect();
    for (id, _) in &gone {
        membership.remove(id, discard, instance);
    }
    for (id, attributes) in wanted {
        let there = place(&id);
        match membership.get(&id) {
            None => membership.add(id, attributes, there, instance),
            Some(record) => {
                let (other_attributes, other_place) =
                    (record.attributes.value != attributes, record.endpoint.value != there);
                if other_attributes {
                    membership.set_attributes(&id, attributes, instance);
                }
                if other_place {
                    membership.set_endpoint(&id, there, instance);
                }
            }
        }
    }
    gone
}

/// The coordinator's definition as the membership has it: the members that are there, in the
/// order that the definition had, and where their clusters are. `registry` tells what the
/// operator knows anyway. `None` when the definition says so already.
pub fn projected(
    definition: &Definition,
    membership: &Membership,
    registry: &dyn Fn(&str) -> Option<Place>,
) -> Option<Definition> {
    let federation = definition.federation.as_ref().filter(|federation| federation.topology != Topology::None)?;
    let listed = members_of(membership).into_iter();
    let mut known: BTreeMap<_, _> = listed.filter_map(|member| Some((MemberId::of(&member)?, member))).collect();
    let mut members: Vec<Member> = Vec::new();
    for member in &federation.members {
        match MemberId::of(member) {
            None => members.push(member.clone()),
            Some(id) => members.extend(known.remove(&id)),
        }
    }
    members.extend(known.into_values());
    let mut clusters = definition.clusters.clone();
    for (id, record) in membership.members() {
        let place = &record.endpoint.value;
        match clusters.get_mut(&id.cluster_id) {
            // Its owner says who goes there, and the operator where it is.
            Some(cluster) if cluster.endpoint.is_empty() && registry(&id.cluster_id).as_ref() == Some(place) => {}
            Some(cluster) if is_at(cluster, place) => {}
            Some(cluster) => {
                let moved = cluster.endpoint.trim_end_matches('/') != place.url;
                if moved || (cluster.ssl_verify && !place.verify) {
                    // A login is for the place that its owner gave it for. A member that says that
                    // another one has moved must not be sent it.
                    cluster.auth_user.clear();
                    cluster.auth_password = crate::secret::Secret::default();
                }
                cluster.endpoint.clone_from(&place.url);
                cluster.ssl_verify = place.verify;
            }
            None if registry(&id.cluster_id).as_ref() == Some(place) => {}
            None => {
                let cluster = Cluster {
                    endpoint: place.url.clone(),
                    auth_user: String::new(),
                    auth_password: crate::secret::Secret::default(),
                    ssl_verify: place.verify,
                };
                clusters.insert(id.cluster_id.clone(), cluster);
            }
        }
    }
    let same = members == federation.members && clusters == definition.clusters;
    (!same).then(|| Definition {
        federation: Some(Federation { members, ..federation.clone() }),
        clusters,
        ..definition.clone()
    })
}

fn is_at(cluster: &Cluster, place: &Place) -> bool {
    cluster.endpoint.trim_end_matches('/') == place.url && cluster.ssl_verify == place.verify
}

/// Everybody in a membership, as a definition lists them. Edits at places that did not hear each
/// other can hang a member below one that is gone, or make a circle of a tree: then the member
/// hangs on the coordinator.
pub fn members_of(membership: &Membership) -> Vec<Member> {
    let ids = membership.members().map(|(id, _)| id.clone()).collect();
    let parent_of = |record: &Record| find_parent(record.attributes.value.parent.as_deref()?, &ids);
    let mut parents: BTreeMap<_, _> =
        membership.members().filter_map(|(id, record)| Some((id.clone(), parent_of(record)?))).collect();
    for id in &ids {
        if climbs_to_itself(&parents, id) {
            parents.remove(id);
        }
    }
    let mended = |id: &MemberId, record: &Record| {
        let parent = record.attributes.value.parent.clone().filter(|_| parents.contains_key(id));
        member_of(id, &Attributes { parent, ..record.attributes.value.clone() })
    };
    membership.members().map(|(id, record)| mended(id, record)).collect()
}

fn climbs_to_itself(parents: &BTreeMap<MemberId, MemberId>, id: &MemberId) -> bool {
    let mut above = parents.get(id);
    for _ in 0..parents.len() {
        match above {
            Some(other) if other == id => return true,
            Some(other) => above = parents.get(other),
            None => return false,
        }
    }
    false
}

/// A member as a definition lists it.
pub fn member_of(id: &MemberId, attributes: &Attributes) -> Member {
    Member {
        target: Target::Oscar {
            cluster_id: id.cluster_id.clone(),
            service_name: id.service_name.clone(),
            parent: attributes.parent.clone(),
        },
        priority: attributes.priority,
        ssl_verify: attributes.ssl_verify,
        headers: attributes.headers.clone(),
    }
}

/// Faults of what an edit brings, with the paths of its body.
pub fn check_additions(federation: &Federation, edit: &Edit, knows: &dyn Fn(&str) -> bool) -> Faults {
    let mut faults = Faults::default();
    let brought = edit.add.iter().chain(edit.update.iter().map(|(_, member)| member));
    for (index, member) in brought.enumerate() {
        if let Target::Oscar { cluster_id, .. } = &member.target
            && federation.topology != Topology::None
            && !edit.clusters.contains_key(cluster_id)
            && !knows(cluster_id)
        {
            faults.push(
                join(&format!("members[{index}]"), "cluster_id"),
                quoted(cluster_id),
                "a cluster that `clusters` of this request, the definition or the operator's registry knows",
            );
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::{Delegation, LocalShare, OnUnknown};
    use crate::name::ServiceName;

    fn target(cluster: &str, parent: Option<&str>) -> Target {
        Target::Oscar {
            cluster_id: cluster.to_owned(),
            service_name: ServiceName::parse("replica").expect("valid"),
            parent: parent.map(str::to_owned),
        }
    }

    fn mk_member(cluster: &str, parent: Option<&str>) -> Member {
        Member { target: target(cluster, parent), priority: 0, ssl_verify: true, headers: BTreeMap::new() }
    }

    fn mk_tree() -> Federation {
        Federation {
            group_id: String::new(),
            topology: Topology::Tree,
            delegation: Delegation::default(),
            rescheduler_threshold: 0,
            members: vec![mk_member("a", None), mk_member("b", Some("a")), mk_member("c", Some("b"))],
            local: LocalShare::First,
            on_unknown: OnUnknown::Wait,
            share_refresh_token: false,
            share_secrets: false,
        }
    }

    #[test]
    fn an_inner_node_goes_only_when_somebody_says_where_its_children_go() {
        let mut edit = Edit { remove: vec![target("b", None)], ..Edit::default() };
        assert_eq!(edited(&mk_tree(), &edit), Err(Unfit::InnerNode("b/replica".to_owned())));
        edit.reparent = true;
        let after = edited(&mk_tree(), &edit).expect("reparented");
        assert_eq!(after.members, [mk_member("a", None), mk_member("c", Some("a"))]);
    }

    #[test]
    fn an_inner_node_may_go_together_with_its_children() {
        let edit = Edit { remove: vec![target("b", None), target("c", None)], ..Edit::default() };
        assert_eq!(edited(&mk_tree(), &edit).expect("removed").members, [mk_member("a", None)]);
    }

    #[test]
    fn adding_twice_is_adding_once_and_strangers_are_named() {
        let edit = Edit { add: vec![mk_member("a", None), mk_member("d", None)], ..Edit::default() };
        assert_eq!(edited(&mk_tree(), &edit).expect("added").members.len(), 4);
        let stranger = Edit { remove: vec![target("x", None)], ..Edit::default() };
        assert!(matches!(edited(&mk_tree(), &stranger), Err(Unfit::Invalid(_))));
    }

    #[test]
    fn several_that_become_one_are_one() {
        let becomes = mk_member("z", None);
        let update = ["b", "c"].map(|id| (target(id, None), becomes.clone())).to_vec();
        let after = edited(&mk_tree(), &Edit { update, ..Edit::default() }).expect("updated");
        assert_eq!(after.members, [mk_member("a", None), becomes]);
    }

    #[test]
    fn following_what_is_there_already_changes_nothing() {
        let mut membership = Membership::default();
        let members = mk_tree().members;
        let place = |id: &MemberId| Place::new(format!("https://{}", id.cluster_id), true);
        follow(&mut membership, &members, &place, true, "one");
        let before = membership.clone();
        assert_eq!(follow(&mut membership, &members, &place, true, "two"), []);
        assert_eq!(membership, before);
        let gone = follow(&mut membership, &members[..1], &place, true, "two");
        assert_eq!(gone.len(), 2);
        assert_eq!(membership.members().count(), 1);
    }

    #[test]
    fn a_definition_follows_its_membership_and_then_rests() {
        let mut definition = Definition::new(ServiceName::parse("coordinator").expect("valid"), "image", "script");
        definition.federation = Some(mk_tree());
        let place = |id: &MemberId| Place::new(format!("https://{}", id.cluster_id), true);
        let mut membership = Membership::default();
        follow(&mut membership, &mk_tree().members[..2], &place, true, "one");
        let registry = |id: &str| (id == "a").then(|| Place::new("https://a", true));
        let after = projected(&definition, &membership, &registry).expect("c is gone");
        assert_eq!(after.federation.as_ref().map(|federation| federation.members.len()), Some(2));
        assert_eq!(after.clusters.keys().collect::<Vec<_>>(), ["b"], "the registry knows a");
        assert_eq!(projected(&after, &membership, &registry), None);
    }

    fn mk_cluster(endpoint: &str) -> Cluster {
        Cluster {
            endpoint: endpoint.to_owned(),
            auth_user: "somebody".to_owned(),
            auth_password: crate::secret::Secret::new("planted"),
            ssl_verify: true,
        }
    }

    /// What becomes of the login for the cluster `a`, where its member is said to be at `place`.
    fn login_after(cluster: &Cluster, place: &Place, registry: Option<&Place>) -> Option<Cluster> {
        let mut definition = Definition::new(ServiceName::parse("coordinator").expect("valid"), "image", "script");
        definition.federation = Some(Federation { members: vec![mk_member("a", None)], ..mk_tree() });
        definition.clusters.insert("a".to_owned(), cluster.clone());
        let mut membership = Membership::default();
        follow(&mut membership, &[mk_member("a", None)], &|_| place.clone(), true, "one");
        let after = projected(&definition, &membership, &|_| registry.cloned());
        after.map(|after| after.clusters["a"].clone())
    }

    #[test]
    fn a_login_stays_with_the_place_that_it_was_given_for() {
        let cluster = mk_cluster("https://a");
        for moved in [Place::new("https://b", true), Place::new("https://a", false)] {
            let after = login_after(&cluster, &moved, None).expect("it has moved");
            assert!(after.auth_user.is_empty() && after.auth_password.is_blank(), "{after:?}");
            assert_eq!((after.endpoint, after.ssl_verify), (moved.url, moved.verify));
        }
        // That its certificate has to be good from now on takes nothing from it.
        let lax = Cluster { ssl_verify: false, ..cluster.clone() };
        let after = login_after(&lax, &Place::new("https://a", true), None).expect("it is stricter");
        assert_eq!(after, cluster);
        // Two spellings of one place, and the place that the operator says, are no other place.
        let here = Place::new("https://a", true);
        assert_eq!(login_after(&mk_cluster("https://a/"), &here, None), None);
        assert_eq!(login_after(&mk_cluster(""), &here, Some(&here)), None);
    }

    #[test]
    fn a_member_below_nobody_or_in_a_circle_hangs_on_the_coordinator() {
        let place = |_: &MemberId| Place::new("https://somewhere", true);
        let mut membership = Membership::default();
        let members = [("a", Some("b")), ("b", Some("a")), ("c", Some("gone")), ("d", Some("a"))];
        let members = members.map(|(id, parent)| mk_member(id, parent));
        follow(&mut membership, &members, &place, true, "one");
        let parents: Vec<_> = members_of(&membership)
            .into_iter()
            .map(|member| match member.target {
                Target::Oscar { parent, .. } => parent,
                Target::Endpoint { .. } => None,
            })
            .collect();
        assert_eq!(parents, [None, Some("a".to_owned()), None, Some("a".to_owned())]);
    }
}
