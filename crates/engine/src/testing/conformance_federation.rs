//! One suite per port that federations need: what its contract promises, asked of any adapter.
//!
//! As in `conformance`, a store need not be empty: a suite looks only at what begins with its
//! `prefix`, which is short.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use oscar_model::federation::expand::Audience;
use oscar_model::federation::membership::{Attributes, Duty, Membership, Place};
use oscar_model::federation::plan::{Act, Step, Undo};
use oscar_model::federation::record::{
    Access, Against, AuditRecord, Bearer, Contact, Echo, FederationRecord, Fence, Former, Grant, GrantState, Leaving,
    Login, Operation, Phase, Role, Sent,
};
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;

use super::make::{mk_definition, mk_owner, mk_secretive};
use crate::ports::audit::Audit;
use crate::ports::journal::Journal;
use crate::ports::users::Users;
use crate::ports::vault::Vault;

fn name_of(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("test names are valid")
}

fn mk_member(cluster: &str, service: &str) -> MemberId {
    MemberId { cluster_id: cluster.to_owned(), service_name: name_of(service) }
}

fn mk_access() -> Access {
    let login = Login { user: "oscar".to_owned(), password: Secret::new("planted-login") };
    Access {
        logins: BTreeMap::from([("far".to_owned(), login)]),
        bearer: Some(Bearer { token: Secret::new("planted-bearer"), expires: 1_800_000_000 }),
        grant: Some("a grant".to_owned()),
        actor: "somebody".to_owned(),
    }
}

fn mk_contact(audience: Audience) -> Contact {
    Contact { endpoint: "https://far.example".to_owned(), verify: false, audience }
}

/// An operation with something in every part of it.
pub fn mk_operation(id: &str, begun: u64) -> Operation {
    let mut definition = mk_definition("replica");
    definition.environment.secrets.insert("PASSWORD".to_owned(), Secret::new("planted-secret"));
    definition.annotations.insert("note".to_owned(), "line one\nline: two ".to_owned());
    let member = mk_member("far", "replica");
    let step = Step {
        member: member.clone(),
        act: Act::Adopt,
        undo: Undo::RestoreFormer,
        definition: Some(Box::new(definition)),
        former: Some(Box::new(mk_definition("replica"))),
    };
    Operation {
        id: id.to_owned(),
        federation_id: "5f0e1c6a-8d53-4b7e-9a51-0f6f2f6b9d10".to_owned(),
        coordinator: name_of("coordinator"),
        owner: mk_owner("someone@egi.eu"),
        phase: Phase::Forward,
        steps: vec![step],
        contacts: BTreeMap::from([(member.clone(), mk_contact(Audience::Foreign))]),
        access: mk_access(),
        begun,
        absent: BTreeMap::from([(member, begun)]),
    }
}

/// A federation with something in every part of it.
pub fn mk_federation(federation_id: &str, service: &str) -> FederationRecord {
    let far = mk_member("far", "replica");
    let mut membership = Membership::default();
    membership.add(far.clone(), Attributes::default(), Place::new("https://far.example", true), "one");
    membership.set_duty(&far, Duty::Paused, "two");
    membership.add(mk_member("gone", "replica"), Attributes::default(), Place::default(), "one");
    membership.remove(&mk_member("gone", "replica"), true, "one");
    membership.acknowledge("one");
    let echo = Echo { wanted: mk_definition("replica"), found: mk_definition("replica") };
    let sent = Sent {
        audience: Audience::Foreign,
        secrets: "a digest".to_owned(),
        wanted: "another digest".to_owned(),
        operation: "op".to_owned(),
        echo: Some(Box::new(echo)),
        former: Some(Box::new(mk_definition("replica"))),
    };
    FederationRecord {
        federation_id: federation_id.to_owned(),
        own: mk_member("here", service),
        role: Role::Worker { coordinator: far.clone(), endpoint: "https://far.example".to_owned() },
        owner: Owner::Admin,
        membership,
        leaving: BTreeMap::from([(
            far.clone(),
            Leaving { contact: mk_contact(Audience::Ours), delete: true, absent: Some(9) },
        )]),
        deleted: None,
        access: mk_access(),
        sent: BTreeMap::from([(far.clone(), sent)]),
        keys: BTreeMap::from([(far, Secret::new("planted-member-key"))]),
    }
}

pub fn mk_grant(id: &str, owner: &Owner, namespace: &str) -> Grant {
    Grant {
        id: id.to_owned(),
        owner: owner.clone(),
        namespace: namespace.to_owned(),
        issuer: "https://issuer.example".to_owned(),
        client: "oscar".to_owned(),
        token: Secret::new("planted-refresh-token"),
        state: GrantState::NotVerified("the issuer is not listed".to_owned()),
        submitted: 1_700_000_000,
        refreshed: None,
        holders: BTreeSet::from([name_of("one").into(), name_of("two").into()]),
        given: 1_700_000_000,
        ending: None,
    }
}

/// An id as grants have it: 64 hexadecimal digits.
pub fn mk_grant_id(text: &str) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex:0<64}")
}

/// Everything the contract of [`Journal`] says.
pub async fn journal(store: Arc<dyn Journal>, prefix: &str) {
    operations_are_read_back(&*store, prefix).await;
    many_at_once_are_all_there(&*store, prefix).await;
    federations_are_read_back(&*store, prefix).await;
    the_first_former_wins(&*store, prefix).await;
    fences_stand_until_they_are_old(&*store, prefix).await;
}

async fn operations(store: &dyn Journal, prefix: &str) -> Vec<Operation> {
    let mut found = store.operations().await.expect("listed");
    found.retain(|operation| operation.id.starts_with(prefix));
    found
}

async fn operations_are_read_back(store: &dyn Journal, prefix: &str) {
    let mk = |suffix: &str, begun| mk_operation(&format!("{prefix}{suffix}"), begun);
    let (late, early, same) = (mk("a", 30), mk("b", 10), mk("c", 10));
    for operation in [&late, &same, &early] {
        store.put_operation(operation).await.expect("put");
    }
    let all = vec![early.clone(), same.clone(), late.clone()];
    assert_eq!(operations(store, prefix).await, all, "the oldest first, each as it was put");

    let mut changed = early.clone();
    changed.phase = Phase::Back;
    changed.steps.clear();
    changed.access = Access::default();
    store.put_operation(&changed).await.expect("put again");
    assert_eq!(operations(store, prefix).await, vec![changed, same.clone(), late.clone()], "the last put counts");

    store.remove_operation(&early.id).await.expect("removed");
    assert_eq!(operations(store, prefix).await, vec![same.clone(), late.clone()]);
    store.remove_operation(&early.id).await.expect("what is not there is removed already");
    for operation in [same, late] {
        store.remove_operation(&operation.id).await.expect("removed");
    }
    assert_eq!(operations(store, prefix).await, vec![]);
}

async fn many_at_once_are_all_there(store: &dyn Journal, prefix: &str) {
    let many: Vec<_> = (0..8).map(|n| mk_operation(&format!("{prefix}many-{n}"), n)).collect();
    for outcome in join_all(many.iter().map(|operation| store.put_operation(operation))).await {
        outcome.expect("put");
    }
    assert_eq!(operations(store, prefix).await, many);
    let same = join_all((0..8).map(|_| store.put_operation(&many[0]))).await;
    assert!(same.iter().all(Result::is_ok), "one record by several at once: {same:?}");
    for outcome in join_all(many.iter().map(|operation| store.remove_operation(&operation.id))).await {
        outcome.expect("removed");
    }
    assert_eq!(operations(store, prefix).await, vec![]);
}

async fn federations_are_read_back(store: &dyn Journal, prefix: &str) {
    let service = name_of(&format!("{prefix}fed"));
    let other = name_of(&format!("{prefix}other"));
    let federations = async || {
        let mut found = store.federations().await.expect("listed");
        found.retain(|federation| federation.federation_id.starts_with(prefix));
        found.sort_by(|a, b| (&a.federation_id, &a.own).cmp(&(&b.federation_id, &b.own)));
        found
    };
    assert_eq!(store.federation(&service).await, Ok(None), "nothing is there yet");
    let mut first = mk_federation(&format!("{prefix}1"), service.as_str());
    let same = mk_federation(&format!("{prefix}1"), other.as_str());
    for federation in [&first, &same] {
        store.put_federation(federation).await.expect("put");
    }
    assert_eq!(store.federation(&service).await, Ok(Some(first.clone())), "as it was put");
    let by_id = async |id: &str, service: &ServiceName| store.federation_with_id(id, service).await.expect("readable");
    assert_eq!(by_id(&first.federation_id, &service).await, Some(first.clone()));
    assert_eq!(by_id("another", &service).await, None, "and not of another");
    assert_eq!(store.federation(&other).await, Ok(Some(same.clone())), "two services here may be in one");

    first.deleted = Some(1_700_000_000);
    store.put_federation(&first).await.expect("put again");
    assert_eq!(store.federation(&service).await, Ok(None), "what was deleted is no living service's");
    assert_eq!(by_id(&first.federation_id, &service).await, None);
    let mut second = mk_federation(&format!("{prefix}2"), service.as_str());
    second.role = Role::Coordinator;
    store.put_federation(&second).await.expect("put");
    assert_eq!(store.federation(&service).await, Ok(Some(second.clone())), "the name is free for the next");
    assert_eq!(federations().await, vec![first.clone(), same.clone(), second.clone()], "all, the deleted ones too");

    store.remove_federation(&first.federation_id, &service).await.expect("removed");
    store.remove_federation(&first.federation_id, &service).await.expect("what is not there is removed already");
    assert_eq!(federations().await, vec![same.clone(), second.clone()], "the other service keeps its own");
    store.remove_federation(&same.federation_id, &other).await.expect("removed");
    store.remove_federation(&second.federation_id, &service).await.expect("removed");
    assert_eq!(federations().await, vec![]);
}

async fn the_first_former_wins(store: &dyn Journal, prefix: &str) {
    let (service, sensitive) = mk_secretive(&format!("{prefix}former"), &mk_owner("someone@egi.eu"));
    let name = service.name().clone();
    let mk = |label: &str, service| Former { name: name.clone(), label: label.to_owned(), service };
    assert_eq!(store.former(&name, "op").await, Ok(None));
    let first = mk("op", Some((service, sensitive)));
    let nothing = mk("adopted:5f0e1c6a", None);
    store.keep_former(&first).await.expect("kept");
    store.keep_former(&nothing).await.expect("kept");
    store.keep_former(&mk("op", None)).await.expect("a repetition is no error");
    assert_eq!(store.former(&name, "op").await, Ok(Some(first)), "as it was kept first, secrets and all");
    assert_eq!(store.former(&name, "adopted:5f0e1c6a").await, Ok(Some(nothing.clone())), "each label has its own");
    assert_eq!(store.former(&name_of(&format!("{prefix}else")), "op").await, Ok(None));
    let mut kept = store.formers().await.expect("listed");
    kept.retain(|(of, _)| *of == name);
    kept.sort();
    assert_eq!(kept, [(name.clone(), "adopted:5f0e1c6a".to_owned()), (name.clone(), "op".to_owned())]);
    store.forget_former(&name, "op").await.expect("forgotten");
    store.forget_former(&name, "op").await.expect("what is not there is forgotten already");
    assert_eq!(store.former(&name, "op").await, Ok(None));
    store.keep_former(&mk("op", None)).await.expect("kept");
    assert_eq!(store.former(&name, "op").await, Ok(Some(mk("op", None))), "what was forgotten does not win");
    for label in ["op", "adopted:5f0e1c6a"] {
        store.forget_former(&name, label).await.expect("forgotten");
    }
}

/// A fence of each kind.
pub fn mk_fences(service: &str, since: u64) -> [Fence; 2] {
    let mk = |against| Fence { service: name_of(service), owner: mk_owner("someone@egi.eu"), against, since };
    let id = "5f0e1c6a-8d53-4b7e-9a51-0f6f2f6b9d10".to_owned();
    [mk(Against::Operation("op".to_owned())), mk(Against::Federation { id, before: Against::ENDED })]
}

async fn fences_stand_until_they_are_old(store: &dyn Journal, prefix: &str) {
    let (name, other) = (format!("{prefix}fenced"), format!("{prefix}free"));
    let standing = async |name: &str| {
        let mut found = store.fences(&name_of(name)).await.expect("listed");
        found.sort_by_key(|fence| std::cmp::Reverse(fence.label()));
        found
    };
    // No store has fences as old as these.
    let [operation, mut federation] = mk_fences(&name, 3);
    for fence in [&operation, &federation, &mk_fences(&other, 5)[0]] {
        store.put_fence(fence).await.expect("put");
    }
    assert_eq!(standing(&name).await, [operation.clone(), federation.clone()], "those of that service, as put");
    federation.against = Against::Federation { id: "5f0e1c6a-8d53-4b7e-9a51-0f6f2f6b9d10".to_owned(), before: 7 };
    federation.since = 4;
    store.put_fence(&federation).await.expect("put again");
    assert_eq!(standing(&name).await, [operation, federation.clone()], "the last put counts");
    let mut foreign = federation.clone();
    foreign.owner = mk_owner(&format!("{prefix}somebody-else"));
    store.put_fence(&foreign).await.expect("put");
    assert_eq!(store.fences_of(&foreign.owner).await, Ok(vec![foreign]), "of that owner alone");
    let of_owner = store.fences_of(&federation.owner).await.expect("listed");
    assert!(of_owner.contains(&federation) && of_owner.contains(&mk_fences(&other, 5)[0]), "of whatever service");
    store.forget_fences(4).await.expect("forgotten");
    assert_eq!(standing(&name).await.len(), 2, "what is not older stays");
    store.forget_fences(6).await.expect("forgotten");
    assert_eq!((standing(&name).await, standing(&other).await), (vec![], vec![]));
}

/// Everything the contract of [`Vault`] says. `users` gives owners their homes.
pub async fn vault(store: Arc<dyn Vault>, users: &dyn Users, prefix: &str) {
    let (alice, bob) = (mk_owner(&format!("{prefix}alice")), mk_owner(&format!("{prefix}bob")));
    let mut grants = Vec::new();
    for (suffix, owner) in [("a", &alice), ("b", &bob), ("c", &alice)] {
        let home = users.ensure(owner, "").await.expect("a home").namespace;
        grants.push(mk_grant(&mk_grant_id(&format!("{prefix}{suffix}")), owner, &home));
    }
    let start = mk_grant_id(prefix).trim_end_matches('0').to_owned();
    let listed = async || {
        let mut found = store.grants().await.expect("listed");
        found.retain(|grant| grant.id.starts_with(&start));
        found
    };
    assert_eq!(store.grant(&grants[0].id).await, Ok(None), "nothing is there yet");
    for outcome in join_all(grants.iter().rev().map(|grant| store.put_grant(grant))).await {
        outcome.expect("put");
    }
    assert_eq!(listed().await, grants, "every grant, by id, each as it was put");
    assert_eq!(store.grant(&grants[1].id).await, Ok(Some(grants[1].clone())));

    let rotated = &mut grants[0];
    rotated.token = Secret::new("planted-rotated-token");
    rotated.state = GrantState::Valid;
    rotated.refreshed = Some(1_700_000_100);
    rotated.holders = BTreeSet::new();
    rotated.ending = Some(1_700_000_200);
    store.put_grant(rotated).await.expect("put again");
    assert_eq!(store.grant(&grants[0].id).await, Ok(Some(grants[0].clone())), "the last put counts");
    let same = join_all((0..8).map(|_| store.put_grant(&grants[0]))).await;
    assert!(same.iter().all(Result::is_ok), "one grant by several at once: {same:?}");
    assert_eq!(listed().await, grants);

    store.remove_grant(&grants[1].id).await.expect("removed");
    store.remove_grant(&grants[1].id).await.expect("what is not there is removed already");
    assert_eq!(store.grant(&grants[1].id).await, Ok(None));
    for grant in [&grants[0], &grants[2]] {
        store.remove_grant(&grant.id).await.expect("removed");
    }
    assert_eq!(listed().await, vec![]);
}

/// Everything the contract of [`Audit`] says.
pub async fn audit(store: Arc<dyn Audit>, prefix: &str) {
    let actor = format!("{prefix}actor");
    let mk = |at: u64| AuditRecord {
        at,
        actor: actor.clone(),
        owner: "cluster_admin".to_owned(),
        act: "replica-deployed".to_owned(),
        service: "cowsay".to_owned(),
        target: "far/cowsay \"quoted\"\n".to_owned(),
        outcome: "ok".to_owned(),
    };
    let recent = async |most: usize| {
        let mut found = store.recent(most).await.expect("read");
        assert!(found.len() <= most);
        found.retain(|record| record.actor == actor);
        found
    };
    assert_eq!(recent(100).await, vec![]);
    // The order of appending counts, also when a clock goes back.
    for at in [1, 2, 5, 4] {
        store.append(mk(at)).await;
    }
    assert_eq!(recent(100).await, vec![mk(4), mk(5), mk(2), mk(1)], "the newest first");
    store.append(mk(3)).await;
    assert_eq!(recent(1).await, vec![mk(3)], "no more than was asked for");
    assert_eq!(recent(0).await, vec![]);
    join_all((10..30).map(|at| store.append(mk(at)))).await;
    assert_eq!(recent(100).await.len(), 25, "none of many at once is lost");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryAudit, MemoryJournal, MemoryUsers, MemoryVault};

    #[tokio::test]
    async fn memory_conforms() {
        journal(Arc::new(MemoryJournal::default()), "c-").await;
        vault(Arc::new(MemoryVault::default()), &MemoryUsers::new("oscar-svc"), "c-").await;
        audit(Arc::new(MemoryAudit::default()), "c-").await;
    }
}
