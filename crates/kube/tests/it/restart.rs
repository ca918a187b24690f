//! The apiserver dies under load and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::services::{Entry, Scope};
use oscar_engine::testing::make::mk_service;
use oscar_model::identity::Owner;
use oscar_model::service::Sensitive;
use oscar_testkit::{Apiserver, count, require};

use crate::support::{admin, eventually, name, options, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_go_on_and_nothing_acknowledged_is_lost() {
    let cluster = Arc::new(require!(Apiserver::start()));
    let mut options = options(&cluster, "kill").await;
    options.patience = std::time::Duration::from_secs(6);
    let world = Arc::new(world(&cluster, &options).await);
    let stop = Arc::new(AtomicBool::new(false));
    let reads = Arc::new(AtomicUsize::new(0));

    let reader = {
        let (world, stop, reads) = (world.clone(), stop.clone(), reads.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                world.services().list(&Scope::All).await.expect("reads never fail once it is ready");
                reads.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
    };
    let mut writers = Vec::new();
    for writer in 0..3 {
        let (world, stop, namespace) = (world.clone(), stop.clone(), options.services_namespace.clone());
        writers.push(tokio::spawn(async move {
            let mut made = Vec::new();
            for round in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let mut service = mk_service(&format!("kill-{writer}-{round}"), &Owner::Admin);
                service.namespace.clone_from(&namespace);
                match world.services().create(service, Sensitive::default()).await {
                    Ok(stored) => made.push(stored),
                    Err(StoreError::Unavailable(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            made
        }));
    }

    let kills = 3;
    for _ in 0..kills {
        let before = world.services().list(&Scope::All).await.expect("readable").len();
        eventually("the writers make progress", async || {
            (world.services().list(&Scope::All).await.expect("readable").len() > before + 5).then_some(())
        })
        .await;
        let before = reads.load(Ordering::SeqCst);
        let killed = cluster.clone();
        tokio::task::spawn_blocking(move || killed.kill_apiserver()).await.expect("killed");
        eventually("reads go on", async || (reads.load(Ordering::SeqCst) > before + 20).then_some(())).await;
        let started = cluster.clone();
        tokio::task::spawn_blocking(move || started.start_apiserver()).await.expect("started");
    }
    stop.store(true, Ordering::SeqCst);
    reader.await.expect("the reader saw no error");
    let mut made = Vec::new();
    for writer in writers {
        made.extend(writer.await.expect("the writer saw only what it may"));
    }
    assert!(!made.is_empty());
    for stored in &made {
        let read = world.services().get(stored.service.name()).await.expect("readable");
        assert_eq!(read.as_ref(), Some(stored), "what was acknowledged is there");
    }

    // What one sees is what there is, also of changes whose answer was lost.
    let records: Api<ConfigMap> = Api::namespaced(admin(&cluster).await, &options.services_namespace);
    let which = ListParams::default().labels("oscar_service");
    eventually("the index is what is stored", async || {
        let stored = records.list(&which).await.ok()?.items;
        let mut stored: Vec<_> = stored.iter().filter_map(|record| record.metadata.name.clone()).collect();
        stored.sort();
        let seen = world.services().list(&Scope::All).await.expect("readable");
        (seen.iter().map(Entry::name).eq(stored.iter().map(String::as_str))).then_some(())
    })
    .await;
    assert!(world.services().get(&name("kill-none")).await.expect("readable").is_none());
    count("kube_apiserver_kills", kills);
}
