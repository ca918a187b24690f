//! What somebody who is nobody yet can make a manager ask the apiserver.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use oscar_engine::federate::KeyHolder;
use oscar_engine::memory::{FixedClock, SeededEntropy};
use oscar_engine::testing::conformance_federation::mk_federation;
use oscar_engine::testing::make::mk_service;
use oscar_engine::{FederationPorts, Manager, Policy, Ports};
use oscar_kube::KubeWorld;
use oscar_model::federation::expand::FEDERATION_ID_ANNOTATION;
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::Sensitive;
use oscar_testkit::{Apiserver, require};

use crate::support::{Fate, Faults, in_charge, is_watch, name, options, ready};

fn mk_manager(world: &KubeWorld) -> Manager {
    let ports = Ports {
        services: world.services(),
        users: world.users(),
        settings: world.settings(),
        cluster: world.cluster(),
        clock: Arc::new(FixedClock(SystemTime::UNIX_EPOCH)),
        entropy: Arc::new(SeededEntropy::new(7)),
        federation: FederationPorts { journal: world.journal(), ..FederationPorts::none() },
        jobs: None,
    };
    Manager::new(ports, Policy::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_offered_costs_no_list() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "offer").await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, own) = (asked.clone(), format!("/namespaces/{}/secrets", options.namespace));
    let faults = Faults::new(move |request| {
        if request.uri().path().contains(&own) && !is_watch(request) {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(request.uri().path().to_owned());
        }
        Fate::Pass
    });
    let world = ready(KubeWorld::with_client(faults.client(cluster).await, options.clone())).await;
    let _charge = in_charge(&world).await;
    let member = MemberId { cluster_id: "other".to_owned(), service_name: name("offer-there") };
    let mut record = mk_federation("fed", "offer-in");
    record.keys = [(member.clone(), Secret::new("omk_right"))].into();
    world.journal().put_federation(&record).await.expect("put");
    for text in ["offer-in", "offer-out"] {
        let mut service = mk_service(text, &Owner::Admin);
        service.namespace.clone_from(&options.services_namespace);
        if text == "offer-in" {
            service.definition.annotations.insert(FEDERATION_ID_ANNOTATION.to_owned(), "fed".to_owned());
        }
        world.services().create(service, Sensitive::default()).await.expect("created");
    }
    let manager = mk_manager(&world);
    let take = || std::mem::take(&mut *asked.lock().unwrap_or_else(PoisonError::into_inner));
    take();
    for text in ["offer-nowhere", "offer-out"] {
        assert_eq!(manager.key_holder(&name(text), "omk_wrong").await, None);
    }
    assert_eq!(take(), Vec::<String>::new(), "what is in no federation is not looked for");
    assert_eq!(manager.key_holder(&name("offer-in"), "omk_wrong").await, None);
    let holder = KeyHolder { federation_id: "fed".to_owned(), member };
    assert_eq!(manager.key_holder(&name("offer-in"), "omk_right").await, Some(holder));
    let asked = take();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked.iter().all(|path| path.contains("/secrets/journal.federation.")), "one entry by its name: {asked:?}");
}
