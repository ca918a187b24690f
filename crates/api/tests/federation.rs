//! What a manager keeps of federations is read back as it was, whatever is in it.

use std::collections::{BTreeMap, BTreeSet};

use oscar_api::federation::Kept;
use oscar_api::federation::channel::{GREATEST_TIME, MOST_RECORDS, MembershipBody};
use oscar_api::service::{Mode, decode};
use oscar_api::tree::parse_json;
use oscar_model::federation::expand::Audience;
use oscar_model::federation::membership::{Attributes, Duty, Membership, Place, Presence, Record, Stamp, Written};
use oscar_model::federation::plan::{Act, Step, Undo};
use oscar_model::federation::record::{
    Access, Against, AuditRecord, Bearer, Contact, Echo, FederationRecord, Fence, Former, Grant, GrantState, Holder,
    Leaving, Login, Operation, Phase, Role, Sent,
};
use oscar_model::federation::topology::MemberId;
use oscar_model::federation::{Member, Target, Topology};
use oscar_model::identity::{Owner, Subject};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Cluster, Definition, Sensitive, Service};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

/// Every field that a definition has.
const EVERYTHING: &str = include_str!("everything.json");

fn mk_everything() -> Definition {
    let node = parse_json(EVERYTHING.as_bytes()).expect("valid JSON");
    decode(&node, "", Mode::Json).unwrap_or_else(|faults| panic!("{faults}")).definition
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[ -~]{0,20}", "\\PC{0,12}", Just("a\r\n\t\"\\\u{0}\u{2028}</script>".to_owned())]
}

fn secret() -> impl Strategy<Value = Secret> {
    text().prop_map(Secret::new)
}

fn name() -> impl Strategy<Value = ServiceName> {
    "[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?".prop_map(|text| ServiceName::parse(&text).expect("valid"))
}

fn owner() -> impl Strategy<Value = Owner> {
    prop_oneof![
        Just(Owner::Admin),
        "[a-zA-Z0-9@.é-]{1,30}".prop_map(|text| Owner::User(Subject::parse(&text).expect("valid")))
    ]
}

fn id() -> impl Strategy<Value = MemberId> {
    ("[A-Za-z0-9._-]{0,8}", name()).prop_map(|(cluster_id, service_name)| MemberId { cluster_id, service_name })
}

fn audience() -> impl Strategy<Value = Audience> {
    prop_oneof![Just(Audience::Ours), Just(Audience::Foreign)]
}

fn contact() -> impl Strategy<Value = Contact> {
    (text(), any::<bool>(), audience()).prop_map(|(endpoint, verify, audience)| Contact { endpoint, verify, audience })
}

fn cluster() -> impl Strategy<Value = Cluster> {
    (text(), text(), secret(), any::<bool>()).prop_map(|(endpoint, auth_user, auth_password, ssl_verify)| Cluster {
        endpoint,
        auth_user,
        auth_password,
        ssl_verify,
    })
}

fn member() -> impl Strategy<Value = Member> {
    let target = prop_oneof![
        (id(), option::of("[a-z]{1,5}(/[a-z]{1,5})?")).prop_map(|(id, parent)| Target::Oscar {
            cluster_id: id.cluster_id,
            service_name: id.service_name,
            parent
        }),
        text().prop_map(|url| Target::Endpoint { url }),
    ];
    (target, 0u32..=1_000_000, any::<bool>(), btree_map(text(), text(), 0..3))
        .prop_map(|(target, priority, ssl_verify, headers)| Member { target, priority, ssl_verify, headers })
}

/// Some with every field, some with the least; what people write into them is random.
fn definition() -> impl Strategy<Value = Definition> {
    let plain = (name(), text(), text()).prop_map(|(name, image, script)| Definition::new(name, &image, &script));
    let maps = (
        btree_map(text(), text(), 0..3),
        btree_map(text(), secret(), 0..3),
        btree_map(text(), text(), 0..3),
        btree_map("[a-z]{1,6}", text(), 0..3),
        btree_map(text(), cluster(), 0..3),
    );
    let federation = (vec(member(), 0..4), any::<bool>(), 0u32..=1_000_000_000);
    (prop_oneof![Just(mk_everything()), plain], maps, federation, text()).prop_map(
        |(mut definition, (variables, secrets, annotations, labels, clusters), federation, script)| {
            definition.script = script;
            definition.environment.variables = variables;
            definition.environment.secrets = secrets;
            definition.annotations = annotations;
            definition.labels = labels;
            definition.clusters = clusters;
            if let Some(block) = &mut definition.federation {
                (block.members, block.share_refresh_token, _) = federation;
                block.topology = Topology::Tree;
                block.delegation.weights.insert("c".to_owned(), federation.2);
            }
            definition
        },
    )
}

fn access() -> impl Strategy<Value = Access> {
    let login = (text(), secret()).prop_map(|(user, password)| Login { user, password });
    let bearer = (secret(), any::<u64>()).prop_map(|(token, expires)| Bearer { token, expires });
    (btree_map(text(), login, 0..3), option::of(bearer), option::of(text()), text())
        .prop_map(|(logins, bearer, grant, actor)| Access { logins, bearer, grant, actor })
}

fn step() -> impl Strategy<Value = Step> {
    let act =
        prop_oneof![Just(Act::Create), Just(Act::Adopt), Just(Act::Update), Just(Act::Delete), Just(Act::Release)];
    let undo = prop_oneof![Just(Undo::DeleteCreated), Just(Undo::RestoreFormer)];
    let boxed = || option::of(definition().prop_map(Box::new));
    (id(), act, undo, boxed(), boxed()).prop_map(|(member, act, undo, definition, former)| Step {
        member,
        act,
        undo,
        definition,
        former,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let phase = prop_oneof![Just(Phase::Forward), Just(Phase::Back)];
    let ids = (text(), text(), name(), owner());
    (
        ids,
        phase,
        vec(step(), 0..3),
        btree_map(id(), contact(), 0..3),
        access(),
        any::<u64>(),
        btree_map(id(), any::<u64>(), 0..3),
    )
        .prop_map(|((id, federation_id, coordinator, owner), phase, steps, contacts, access, begun, absent)| {
            Operation { id, federation_id, coordinator, owner, phase, steps, contacts, access, begun, absent }
        })
}

fn stamped<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
    most: u64,
) -> impl Strategy<Value = Written<T>> {
    (value, 0..=most, text()).prop_map(|(value, time, instance)| Written { value, at: Stamp { time, instance } })
}

fn membership(most: u64) -> impl Strategy<Value = Membership> {
    let presence = prop_oneof![Just(Presence::Present), Just(Presence::Removed), Just(Presence::Discarded)];
    let attributes = (any::<u32>(), any::<bool>(), btree_map(text(), text(), 0..3), option::of(text()))
        .prop_map(|(priority, ssl_verify, headers, parent)| Attributes { priority, ssl_verify, headers, parent });
    let duty = prop_oneof![Just(Duty::Active), Just(Duty::Paused), Just(Duty::Draining)];
    let place = (text(), any::<bool>()).prop_map(|(url, verify)| Place { url, verify });
    let record = (
        stamped(presence, most),
        stamped(attributes, most),
        stamped(duty, most),
        stamped(place, most),
        btree_set(text(), 0..3),
    )
        .prop_map(|(presence, attributes, duty, endpoint, acknowledged)| Record {
            presence,
            attributes,
            duty,
            endpoint,
            acknowledged,
        });
    (btree_map(id(), record, 0..4), 0..=most).prop_map(|(records, time)| Membership::from_records(records, time))
}

fn federation() -> impl Strategy<Value = FederationRecord> {
    let role = prop_oneof![
        Just(Role::Coordinator),
        (id(), text()).prop_map(|(coordinator, endpoint)| Role::Worker { coordinator, endpoint })
    ];
    let leaving = (contact(), any::<bool>(), option::of(any::<u64>())).prop_map(|(contact, delete, absent)| Leaving {
        contact,
        delete,
        absent,
    });
    let echo = (definition(), definition()).prop_map(|(wanted, found)| Box::new(Echo { wanted, found }));
    let texts = (text(), text(), text());
    let sent = (audience(), texts, option::of(echo), option::of(definition().prop_map(Box::new))).prop_map(
        |(audience, (secrets, wanted, operation), echo, former)| Sent {
            audience,
            secrets,
            wanted,
            operation,
            echo,
            former,
        },
    );
    let maps = (btree_map(id(), leaving, 0..3), btree_map(id(), sent, 0..2), btree_map(id(), secret(), 0..3));
    (text(), id(), role, owner(), membership(GREATEST_TIME), maps, option::of(any::<u64>()), access()).prop_map(
        |(federation_id, own, role, owner, membership, (leaving, sent, keys), deleted, access)| FederationRecord {
            federation_id,
            own,
            role,
            owner,
            membership,
            leaving,
            deleted,
            access,
            sent,
            keys,
        },
    )
}

fn former() -> impl Strategy<Value = Former> {
    let service = (definition(), owner(), text(), secret(), text(), vec(text(), 0..3)).prop_map(
        |(definition, owner, owner_name, token, namespace, bucket_list)| Service {
            definition,
            owner,
            owner_name,
            token,
            namespace,
            bucket_list,
        },
    );
    let sensitive = (btree_map(text(), secret(), 0..3), btree_map(text(), secret(), 0..3))
        .prop_map(|(environment, cluster_passwords)| Sensitive { environment, cluster_passwords });
    (name(), text(), option::of((service, sensitive))).prop_map(|(name, label, service)| Former {
        name,
        label,
        service,
    })
}

fn fence() -> impl Strategy<Value = Fence> {
    let against = prop_oneof![
        text().prop_map(Against::Operation),
        (text(), any::<u64>()).prop_map(|(id, before)| Against::Federation { id, before })
    ];
    (name(), owner(), against, any::<u64>()).prop_map(|(service, owner, against, since)| Fence {
        service,
        owner,
        against,
        since,
    })
}

fn grant() -> impl Strategy<Value = Grant> {
    let state = prop_oneof![
        text().prop_map(GrantState::NotVerified),
        Just(GrantState::Valid),
        text().prop_map(GrantState::SignInAgain)
    ];
    let texts = (text(), text(), text(), text());
    let holder = (name(), prop_oneof![Just(String::new()), "[a-f0-9-]{1,36}"])
        .prop_map(|(service, federation_id)| Holder { service, federation_id });
    let times = (any::<u64>(), option::of(any::<u64>()), any::<u64>(), option::of(any::<u64>()));
    (texts, owner(), secret(), state, times, btree_set(holder, 0..4)).prop_map(
        |((id, namespace, issuer, client), owner, token, state, times, holders)| Grant {
            id,
            owner,
            namespace,
            issuer,
            client,
            token,
            state,
            submitted: times.0,
            refreshed: times.1,
            holders,
            given: times.2,
            ending: times.3,
        },
    )
}

fn audit() -> impl Strategy<Value = AuditRecord> {
    (any::<u64>(), [text(), text(), text(), text(), text(), text()].into_iter().collect::<Vec<_>>()).prop_map(
        |(at, texts)| {
            let [actor, owner, act, service, target, outcome] = <[String; 6]>::try_from(texts).expect("six");
            AuditRecord { at, actor, owner, act, service, target, outcome }
        },
    )
}

fn check<T: Kept + PartialEq + std::fmt::Debug>(record: &T) -> Result<(), TestCaseError> {
    let bytes = record.to_bytes();
    let again = T::from_bytes(&bytes);
    prop_assert_eq!(again.as_ref(), Ok(record), "{}", String::from_utf8_lossy(&bytes));
    let mut value: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    prop_assert_eq!(&value["version"], 1);
    value["of-a-later-version"] = "unknown".into();
    let again = T::from_bytes(value.to_string().as_bytes());
    prop_assert_eq!(again.as_ref(), Ok(record), "unknown fields are passed over");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn operations_are_read_back_as_they_were(record in operation()) {
        check(&record)?;
    }

    #[test]
    fn federations_are_read_back_as_they_were(record in federation()) {
        check(&record)?;
    }

    #[test]
    fn formers_are_read_back_as_they_were(record in former()) {
        check(&record)?;
    }

    #[test]
    fn fences_are_read_back_as_they_were(record in fence()) {
        check(&record)?;
    }

    #[test]
    fn grants_are_read_back_as_they_were(record in grant()) {
        check(&record)?;
    }

    #[test]
    fn audit_records_are_read_back_as_they_were(record in audit()) {
        check(&record)?;
    }

    #[test]
    fn membership_on_the_wire_is_read_back_as_it_was(membership in membership(GREATEST_TIME)) {
        let sent = serde_json::to_vec(&MembershipBody::from(&membership)).expect("JSON");
        let received: MembershipBody = serde_json::from_slice(&sent).expect("the same form");
        prop_assert_eq!(Membership::try_from(received), Ok(membership));
    }

    #[test]
    fn what_is_cut_off_or_turned_is_an_error_that_quotes_nothing(record in former(), at in any::<prop::sample::Index>()) {
        let mut bytes = record.to_bytes();
        let at = at.index(bytes.len());
        bytes.truncate(at);
        if let Err(cause) = Former::from_bytes(&bytes) {
            prop_assert!(cause.starts_with("it "), "{}", cause);
        }
    }
}

fn mk_member(index: usize) -> MemberId {
    let service_name = ServiceName::parse(&format!("s{index}")).expect("valid");
    MemberId { cluster_id: "c".to_owned(), service_name }
}

fn mk_membership(members: usize) -> Membership {
    let mut membership = Membership::default();
    for index in 0..members {
        membership.add(mk_member(index), Attributes::default(), Place::default(), "i");
    }
    membership
}

#[test]
fn a_definition_with_more_than_a_reader_takes_is_still_read_back() {
    let mut definition = mk_everything();
    definition.annotations = (0..1005).map(|n| (format!("a{n}"), String::new())).collect();
    definition.environment.secrets = (0..1001).map(|n| (format!("S{n}"), Secret::new("x"))).collect();
    let step = Step {
        member: mk_member(0),
        act: Act::Create,
        undo: Undo::DeleteCreated,
        definition: Some(Box::new(definition)),
        former: None,
    };
    let operation = Operation {
        id: "o".to_owned(),
        federation_id: "f".to_owned(),
        coordinator: mk_member(0).service_name,
        owner: Owner::Admin,
        phase: Phase::Forward,
        steps: vec![step],
        contacts: BTreeMap::new(),
        access: Access::default(),
        begun: 1,
        absent: BTreeMap::new(),
    };
    assert_eq!(Operation::from_bytes(&operation.to_bytes()), Ok(operation));
}

#[test]
fn members_of_another_manager_are_refused_when_there_are_too_many_or_too_late() {
    let body = MembershipBody::from(&mk_membership(MOST_RECORDS));
    assert!(Membership::try_from(body).is_ok());
    let many = MembershipBody::from(&mk_membership(MOST_RECORDS + 1));
    assert!(Membership::try_from(many).is_err_and(|cause| cause.to_string().contains("4097")));
    let late = MembershipBody { time: GREATEST_TIME + 1, ..MembershipBody::default() };
    assert!(Membership::try_from(late).is_err());
    let mut late = MembershipBody::from(&mk_membership(1));
    late.records[0].duty.time = GREATEST_TIME + 1;
    assert!(Membership::try_from(late).is_err(), "the time of a part counts too");
    let mut twice = MembershipBody::from(&mk_membership(1));
    twice.records.push(twice.records[0].clone());
    assert!(Membership::try_from(twice).is_err_and(|cause| cause.to_string().contains("twice")));
    let mut odd = MembershipBody::from(&mk_membership(1));
    odd.records[0].member.service_name = "Not A Name".to_owned();
    assert!(Membership::try_from(odd).is_err());
    let mut seen = MembershipBody::from(&mk_membership(1));
    seen.records[0].acknowledged = (0..=MOST_RECORDS).map(|n| n.to_string()).collect();
    assert!(Membership::try_from(seen).is_err());
}

#[test]
fn the_membership_of_the_wire_has_this_form() {
    let mut membership = Membership::default();
    let attributes = Attributes { priority: 2, ssl_verify: true, headers: BTreeMap::new(), parent: None };
    membership.add(mk_member(0), attributes, Place::new("https://c", true), "i");
    membership.remove(&mk_member(0), true, "i");
    membership.acknowledge("j");
    let body = serde_json::to_value(MembershipBody::from(&membership)).expect("JSON");
    assert_eq!(
        body,
        serde_json::json!({"time": 2, "records": [{
            "cluster_id": "c",
            "service_name": "s0",
            "presence": {"value": "discarded", "time": 2, "instance": "i"},
            "attributes": {"value": {"priority": 2, "ssl_verify": true}, "time": 1, "instance": "i"},
            "duty": {"value": "active", "time": 1, "instance": "i"},
            "endpoint": {"value": {"url": "https://c", "verify": true}, "time": 1, "instance": "i"},
            "acknowledged": ["j"],
        }]})
    );
}

#[test]
fn a_record_that_cannot_be_read_says_so_without_its_values() {
    let grant = Grant {
        id: "g".to_owned(),
        owner: Owner::Admin,
        namespace: "n".to_owned(),
        issuer: "https://issuer".to_owned(),
        client: "c".to_owned(),
        token: Secret::new("planted-token"),
        state: GrantState::Valid,
        submitted: 1,
        refreshed: None,
        holders: BTreeSet::new(),
        given: 1,
        ending: None,
    };
    let spoilt = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value: serde_json::Value = serde_json::from_slice(&grant.to_bytes()).expect("JSON");
        change(&mut value);
        Grant::from_bytes(value.to_string().as_bytes()).expect_err("it must be refused")
    };
    let newer = spoilt(&|value| value["version"] = 2.into());
    assert!(newer.contains("newer version"), "{newer}");
    let shapes = [
        spoilt(&|value| value["submitted"] = "planted-token".into()),
        spoilt(&|value| value["state"] = "planted-token".into()),
        spoilt(&|value| value["holders"] = serde_json::json!(["Planted-Token"])),
        spoilt(&|value| value["owner"] = "planted-token\n".into()),
        Grant::from_bytes(b"planted-token").expect_err("no JSON"),
        Grant::from_bytes(b"").expect_err("nothing"),
    ];
    for cause in shapes {
        assert!(!cause.to_lowercase().contains("planted"), "{cause}");
    }
    let mut definition = mk_everything();
    definition.environment.secrets.insert("P".to_owned(), Secret::new("planted"));
    let former = Former {
        name: definition.name.clone(),
        label: "l".to_owned(),
        service: Some((
            Service {
                definition,
                owner: Owner::Admin,
                owner_name: String::new(),
                token: Secret::new("planted"),
                namespace: String::new(),
                bucket_list: vec![],
            },
            Sensitive::default(),
        )),
    };
    let mut value: serde_json::Value = serde_json::from_slice(&former.to_bytes()).expect("JSON");
    value["service"][0]["definition"]["config"]["memory"] = "planted".into();
    let cause = Former::from_bytes(value.to_string().as_bytes()).expect_err("no quantity");
    assert!(cause.contains("memory") && !cause.contains("planted"), "{cause}");
}

#[test]
fn what_older_managers_kept_is_read() {
    let grant = r#"{"version": 1, "id": "g", "owner": "alice", "namespace": "n", "issuer": "i", "client": "c",
        "token": "t", "state": "valid", "submitted": 5, "refreshed": null, "holders": ["one", "two"]}"#;
    let grant = Grant::from_bytes(grant.as_bytes()).expect("read");
    let holders: Vec<_> =
        grant.holders.iter().map(|holder| (holder.service.as_str(), &*holder.federation_id)).collect();
    assert_eq!((holders, grant.given, grant.ending), (vec![("one", ""), ("two", "")], 0, None));
    let operation = r#"{"version": 1, "id": "o", "federation_id": "f", "coordinator": "one", "owner": "alice",
        "phase": "back", "steps": [], "contacts": [], "begun": 5}"#;
    assert_eq!(Operation::from_bytes(operation.as_bytes()).expect("read").absent, BTreeMap::new());
}
