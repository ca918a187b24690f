//! The suites that every adapter of the engine's stores passes, on a data folder.

use std::sync::Arc;

use oscar_engine::testing::{conformance, conformance_cluster, conformance_federation};
use oscar_local::{ClusterOptions, LocalCluster, LocalStore, Options};

fn mk_store() -> (tempfile::TempDir, Arc<LocalStore>) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
    (folder, store)
}

#[tokio::test]
async fn services_conform() {
    let (_folder, store) = mk_store();
    conformance::services(store.clone(), &*store, "c-").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_conform_on_several_threads() {
    let (_folder, store) = mk_store();
    conformance::services(store.clone(), &*store, "c-").await;
}

#[tokio::test]
async fn users_conform() {
    let (_folder, store) = mk_store();
    conformance::users(store).await;
}

#[tokio::test]
async fn settings_conform() {
    let (_folder, store) = mk_store();
    conformance::settings(store).await;
}

#[tokio::test]
async fn what_federations_need_conforms() {
    let (_folder, store) = mk_store();
    conformance_federation::journal(store.journal(), "c-").await;
    conformance_federation::vault(store.vault(), &*store, "c-").await;
    conformance_federation::audit(store.audit(), "c-").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_federations_need_conforms_on_several_threads() {
    let (_folder, store) = mk_store();
    conformance_federation::journal(store.journal(), "c-").await;
    conformance_federation::vault(store.vault(), &*store, "c-").await;
    conformance_federation::audit(store.audit(), "c-").await;
}

#[tokio::test]
async fn this_machine_conforms() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, deployment) = (folder.path().to_owned(), "oscar".to_owned());
    for cores in [None, Some(500)] {
        let options =
            ClusterOptions { cores, data: data.clone(), deployment: deployment.clone(), ..Default::default() };
        let cluster = LocalCluster::new(options, std::time::SystemTime::UNIX_EPOCH);
        conformance_cluster::cluster(&cluster).await;
    }
}
