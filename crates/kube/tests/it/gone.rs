//! The apiserver no longer has what happened since the watch's last version.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use oscar_engine::testing::make::mk_owner;
use oscar_kube::KubeWorld;
use oscar_model::service::Sensitive;
use oscar_testkit::{Apiserver, require};

use crate::support::{Fate, Faults, at_home, eventually, is_watch, name, options, ready, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_fell_behind_lists_again_and_misses_nothing() {
    let cluster = &require!(Apiserver::start());
    let options = options(cluster, "gone").await;
    // What it remembers begins after this, so that the first version is too old for it.
    cluster.restart_apiserver();
    let other = world(cluster, &options).await;
    let behind = Arc::new(AtomicU32::new(0));
    let counted = behind.clone();
    // The first three watches of records ask for a version that is gone; the apiserver
    // answers 410 itself.
    let faults = Faults::new(move |request| {
        let records = request.uri().path().ends_with("/configmaps") && is_watch(request);
        let labelled = request.uri().query().is_some_and(|query| query.contains("labelSelector"));
        if records && labelled && counted.fetch_add(1, Ordering::SeqCst) < 3 { Fate::TooOld } else { Fate::Pass }
    });
    let world = ready(KubeWorld::with_client(faults.client(cluster).await, options.clone())).await;
    let owner = mk_owner("gone-alice");
    for round in 0..6 {
        let text = format!("gone-{round}");
        let service = at_home(&*other.users(), &text, &owner).await;
        other.services().create(service, Sensitive::default()).await.expect("created");
        let mine = at_home(&*world.users(), &format!("gone-mine-{round}"), &owner).await;
        let made = world.services().create(mine, Sensitive::default()).await.expect("created");
        let read = world.services().get(made.service.name()).await.expect("readable");
        assert_eq!(read, Some(made), "own writes are read at once");
        eventually("it is seen", async || world.services().get(&name(&text)).await.expect("readable")).await;
    }
    eventually("the watch recovered", async || (behind.load(Ordering::SeqCst) > 3).then_some(())).await;
}
