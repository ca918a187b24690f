//! The laws of expansion, over random federations of up to 64 members.

use std::collections::{BTreeMap, BTreeSet};

use oscar_model::federation::check::check;
use oscar_model::federation::expand::{Audience, Origin, REFRESH_TOKEN, Unfit, Worker, expand, fit};
use oscar_model::federation::topology::{Graph, MemberId};
use oscar_model::federation::{Delegation, Federation, LocalShare, Member, OnUnknown, Target, Topology};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::storage::{Provider, ProviderRef};
use oscar_model::service::{Cluster, Definition};
use proptest::prelude::*;

const HOME: &str = "home";

/// Thousands in the long run; hundreds while somebody waits.
fn cases() -> u32 {
    if std::env::var_os("OSCAR_TEST_LONG").is_some() { 5000 } else { 200 }
}

fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("valid")
}

fn mk_origin() -> Origin {
    Origin {
        endpoint: "https://home.example".to_owned(),
        federation_id: "11111111-1111-4111-8111-111111111111".to_owned(),
        operation: "op-1".to_owned(),
    }
}

fn mk_cluster(id: &str) -> Cluster {
    Cluster {
        endpoint: format!("https://{id}.example"),
        auth_user: format!("planted-user-{id}"),
        auth_password: Secret::new(format!("planted-password-{id}")),
        ssl_verify: true,
    }
}

/// A coordinator with something of everything that must not leave.
fn mk_coordinator(topology: Topology, members: Vec<Member>) -> Definition {
    let mut definition = Definition::new(name("coordinator"), "image", "script");
    definition.cluster_id = HOME.to_owned();
    for member in &members {
        if let Target::Oscar { cluster_id, .. } = &member.target {
            definition.clusters.insert(cluster_id.clone(), mk_cluster(cluster_id));
        }
    }
    definition.clusters.insert("unrelated".to_owned(), mk_cluster("unrelated"));
    let secrets = &mut definition.environment.secrets;
    secrets.insert(REFRESH_TOKEN.to_owned(), Secret::new("planted-refresh-token"));
    secrets.insert("KEY".to_owned(), Secret::new("crossing-secret"));
    definition.storage_providers.insert(
        ProviderRef::parse("minio.default").expect("valid"),
        Provider::Minio {
            endpoint: "https://store.home.example".to_owned(),
            verify: true,
            access_key: "planted-access-key".to_owned(),
            secret_key: Secret::new("planted-secret-key"),
            region: "us-east-1".to_owned(),
        },
    );
    definition.federation = Some(Federation {
        group_id: "group".to_owned(),
        topology,
        delegation: Delegation::default(),
        rescheduler_threshold: 30,
        members,
        local: LocalShare::First,
        on_unknown: OnUnknown::Wait,
        share_refresh_token: false,
        share_secrets: false,
    });
    definition
}

fn topologies() -> impl Strategy<Value = Topology> {
    prop_oneof![Just(Topology::None), Just(Topology::Star), Just(Topology::Tree), Just(Topology::Mesh)]
}

/// Members on a few clusters, some several to one; in a tree each hangs off an earlier one or
/// off the coordinator; now and then an endpoint.
fn federations() -> impl Strategy<Value = Definition> {
    federations_of(topologies())
}

fn federations_of(topologies: impl Strategy<Value = Topology>) -> impl Strategy<Value = Definition> {
    let member = (0usize..40, any::<prop::sample::Index>(), any::<bool>(), 0u32..4, 0u8..10);
    (topologies, prop::collection::vec(member, 0..64)).prop_map(|(topology, drawn)| {
        let mut members: Vec<Member> = Vec::new();
        for (index, (cluster, parent, has_parent, priority, kind)) in drawn.into_iter().enumerate() {
            let earlier: Vec<String> = members.iter().filter_map(MemberId::of).map(|id| id.to_string()).collect();
            let parent =
                (topology == Topology::Tree && has_parent && !earlier.is_empty()).then(|| parent.get(&earlier).clone());
            let target = if kind == 0 {
                Target::Endpoint { url: format!("https://e{index}.example") }
            } else {
                let service_name = name(&format!("replica-{index}"));
                Target::Oscar { cluster_id: format!("cluster-{cluster}"), service_name, parent }
            };
            members.push(Member { target, priority, ssl_verify: true, headers: BTreeMap::new() });
        }
        mk_coordinator(topology, members)
    })
}

fn listed(worker: &Worker) -> BTreeSet<MemberId> {
    let federation = worker.definition.federation.as_ref().expect("workers carry the block");
    federation.members.iter().filter_map(MemberId::of).collect()
}

fn federation_of(definition: &Definition) -> &Federation {
    definition.federation.as_ref().expect("given")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn what_is_drawn_is_valid(coordinator in federations()) {
        let faults = check(&coordinator, &|_| false, false);
        prop_assert!(faults.is_empty(), "{}", faults);
    }

    #[test]
    fn there_is_one_worker_per_member_and_none_without_deployment(coordinator in federations()) {
        let federation = federation_of(&coordinator);
        let expected: BTreeSet<_> = match federation.topology {
            Topology::None => BTreeSet::new(),
            _ => federation.members.iter().filter_map(MemberId::of).collect(),
        };
        let workers = expand(&coordinator, &mk_origin());
        let ids: BTreeSet<_> = workers.iter().map(|worker| worker.id.clone()).collect();
        prop_assert_eq!(workers.len(), ids.len());
        prop_assert_eq!(ids, expected);
    }

    #[test]
    fn nobody_lists_itself_and_a_mesh_is_symmetric(coordinator in federations()) {
        let workers = expand(&coordinator, &mk_origin());
        let by_id: BTreeMap<_, _> = workers.iter().map(|worker| (worker.id.clone(), listed(worker))).collect();
        for (id, targets) in &by_id {
            prop_assert!(!targets.contains(id));
            if federation_of(&coordinator).topology == Topology::Mesh {
                prop_assert!(targets.contains(&MemberId::own(&coordinator)));
                for target in targets.iter().filter(|target| **target != MemberId::own(&coordinator)) {
                    prop_assert!(by_id[target].contains(id), "{} lists {} but not the other way", id, target);
                }
            }
        }
    }

    #[test]
    fn a_tree_reaches_every_member_once(coordinator in federations_of(Just(Topology::Tree))) {
        let federation = federation_of(&coordinator);
        let graph = Graph::of(MemberId::own(&coordinator), federation);
        let mut seen = BTreeSet::new();
        let mut open = vec![graph.coordinator.clone()];
        while let Some(at) = open.pop() {
            for target in graph.targets(&at) {
                prop_assert!(seen.insert(target.clone()), "{} is reached twice", target);
                open.push(target.clone());
            }
        }
        prop_assert_eq!(seen, graph.members().cloned().collect::<BTreeSet<_>>());
    }

    #[test]
    fn nothing_that_must_stay_leaves(coordinator in federations()) {
        for worker in expand(&coordinator, &mk_origin()) {
            let definition = &worker.definition;
            prop_assert!(!definition.environment.secrets.contains_key(REFRESH_TOKEN));
            prop_assert_eq!(definition.environment.secrets["KEY"].expose(), "crossing-secret");
            prop_assert!(!definition.clusters.contains_key("unrelated"), "only the endpoints that it needs");
            prop_assert_eq!(&definition.clusters[HOME].endpoint, "https://home.example");
            for cluster in definition.clusters.values() {
                prop_assert!(cluster.auth_user.is_empty() && cluster.auth_password.is_blank());
            }
            // Secrets do not print, so this sees what is plain; their values are looked at above.
            let printed = format!("{definition:?}");
            prop_assert!(!printed.contains("planted"), "{}", printed);
            for provider in definition.storage_providers.values() {
                prop_assert!(provider.secret().is_blank());
            }
        }
    }

    #[test]
    fn a_worker_is_never_expanded_again(coordinator in federations()) {
        for worker in expand(&coordinator, &mk_origin()) {
            prop_assert!(worker.definition.is_worker());
            prop_assert!(expand(&worker.definition, &mk_origin()).is_empty());
        }
    }

    #[test]
    fn the_order_of_members_does_not_matter(coordinator in federations(), seed in any::<u64>()) {
        let mut shuffled = coordinator.clone();
        let members = &mut shuffled.federation.as_mut().expect("given").members;
        let length = members.len().max(1) as u64;
        members.sort_by_key(|member| {
            let text = format!("{:?}", member.target);
            text.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)) % (length * 7)
        });
        let by_id = |definition: &Definition| -> BTreeMap<MemberId, Definition> {
            expand(definition, &mk_origin()).into_iter().map(|worker| (worker.id, worker.definition)).collect()
        };
        prop_assert_eq!(by_id(&coordinator), by_id(&shuffled));
    }

    #[test]
    fn a_foreign_manager_is_told_less(coordinator in federations()) {
        let refresh = Secret::new("planted-refresh-token");
        let federation = federation_of(&coordinator);
        let graph = Graph::of(MemberId::own(&coordinator), federation);
        for worker in expand(&coordinator, &mk_origin()) {
            match (fit(&worker, Audience::Foreign, &coordinator, &refresh), federation.topology) {
                (Err(Unfit::MeshNeedsRefreshToken), topology) => prop_assert_eq!(topology, Topology::Mesh),
                (Err(Unfit::ForeignInnerNode), _) => prop_assert!(graph.delegates(&worker.id)),
                (Ok(fitted), topology) => {
                    prop_assert_ne!(topology, Topology::Mesh);
                    prop_assert!(fitted.definition.environment.secrets.values().all(Secret::is_blank));
                    prop_assert_eq!(federation_of(&fitted.definition).topology, Topology::Star);
                }
            }
        }
    }
}

#[test]
fn a_mesh_with_foreign_members_needs_the_owners_word() {
    let member = |id: &str| Member {
        target: Target::Oscar { cluster_id: id.to_owned(), service_name: name("replica"), parent: None },
        priority: 0,
        ssl_verify: true,
        headers: BTreeMap::new(),
    };
    let mut coordinator = mk_coordinator(Topology::Mesh, vec![member("a"), member("b")]);
    coordinator.federation.as_mut().expect("given").share_refresh_token = true;
    let refresh = Secret::new("the-token");
    let workers = expand(&coordinator, &mk_origin());
    let fitted = fit(&workers[0], Audience::Foreign, &coordinator, &refresh).expect("allowed");
    assert_eq!(fitted.definition.environment.secrets[REFRESH_TOKEN], refresh);
    assert!(fitted.definition.environment.secrets["KEY"].is_blank());
    assert_eq!(fitted.definition.clusters.keys().collect::<Vec<_>>(), ["a", "b", "home"], "its own too");
    assert!(fitted.definition.clusters.values().all(|cluster| cluster.auth_password.is_blank()));
    let ours = fit(&workers[0], Audience::Ours, &coordinator, &refresh).expect("always");
    assert!(!ours.definition.environment.secrets.contains_key(REFRESH_TOKEN), "our kind asks the broker instead");
}

#[test]
fn foreign_members_are_told_secrets_only_when_the_owner_says_so() {
    let member = Member {
        target: Target::Oscar { cluster_id: "a".to_owned(), service_name: name("replica"), parent: None },
        priority: 0,
        ssl_verify: true,
        headers: BTreeMap::new(),
    };
    let mut coordinator = mk_coordinator(Topology::Star, vec![member]);
    let elsewhere = Provider::Minio {
        endpoint: "https://elsewhere.example".to_owned(),
        verify: true,
        access_key: "user".to_owned(),
        secret_key: Secret::new("crossing-key"),
        region: String::new(),
    };
    coordinator.storage_providers.insert(ProviderRef::parse("minio.elsewhere").expect("valid"), elsewhere);
    for told in [false, true] {
        coordinator.federation.as_mut().expect("given").share_secrets = told;
        let workers = expand(&coordinator, &mk_origin());
        let ours = fit(&workers[0], Audience::Ours, &coordinator, &Secret::default()).expect("always").definition;
        let foreign = fit(&workers[0], Audience::Foreign, &coordinator, &Secret::default()).expect("a leaf").definition;
        assert!(!federation_of(&foreign).share_secrets, "a worker hands nothing on");
        assert!(!ours.environment.secrets["KEY"].is_blank());
        assert_eq!(foreign.environment.secrets["KEY"] == ours.environment.secrets["KEY"], told);
        assert!(foreign.environment.secrets.contains_key("KEY"), "its name is told");
        assert!(!foreign.environment.secrets.contains_key(REFRESH_TOKEN), "of that another word decides");
        let third_party = |definition: &Definition| {
            let providers = definition.storage_providers.iter().filter(|(id, _)| !id.is_own_store());
            providers.map(|(_, provider)| provider.secret().clone()).collect::<Vec<_>>()
        };
        assert!(!third_party(&ours).is_empty() && third_party(&ours).iter().all(|key| !key.is_blank()));
        assert_eq!(third_party(&foreign) == third_party(&ours), told);
    }
}
