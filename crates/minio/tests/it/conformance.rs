//! The contract of the ports.

use std::sync::Arc;

use oscar_engine::testing::conformance_buckets;
use oscar_minio::WebhookState;
use oscar_testkit::require;

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_minio_conforms() {
    let scene = require!(Scene::start().await);
    let state = scene.store.webhook_state().await.expect("asked");
    assert!(
        matches!(&state, WebhookState::Fine { endpoint } if endpoint.ends_with("/system/events/minio")),
        "{state:?}"
    );
    let store = Arc::new(scene.store.clone());
    let client = Arc::new(scene.client.clone());
    conformance_buckets::buckets(&conformance_buckets::Store { buckets: store.clone(), uploads: store, client }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_the_webhook_says_so() {
    let scene = require!(Scene::start_with(false).await);
    assert_eq!(scene.store.webhook_state().await, Ok(WebhookState::Missing));
}
