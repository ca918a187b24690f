use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use oscar_engine::ports::StoreError;
use oscar_testkit::{Apiserver, require};
use serde_json::json;

use crate::support::{admin, eventually, options, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_settings_of_go_oscar_are_read_and_kept() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "set").await;
    let maps: Api<ConfigMap> = Api::namespaced(admin(cluster).await, &options.namespace);
    let planted = json!({"metadata": {"name": "config.yaml"},
                         "data": {"allowed_image_repositories": r#"["ghcr.io/grycap"]"#, "other": "kept"}});
    let planted: ConfigMap = serde_json::from_value(planted).expect("a ConfigMap");
    maps.create(&PostParams::default(), &planted).await.expect("planted");
    let world = world(cluster, &options).await;
    let settings = world.settings();
    assert_eq!(settings.image_repositories().await, Ok(vec!["ghcr.io/grycap".to_owned()]));

    settings.set_image_repositories(vec!["docker.io".to_owned()]).await.expect("stored");
    assert_eq!(settings.image_repositories().await, Ok(vec!["docker.io".to_owned()]));
    let mut stored = maps.get("config.yaml").await.expect("there");
    let data = stored.data.clone().expect("it has data");
    assert_eq!(data["allowed_image_repositories"], r#"["docker.io"]"#);
    assert_eq!(data["other"], "kept");

    // What somebody breaks by hand is told, and can be set again.
    stored.data = Some([("allowed_image_repositories".to_owned(), "docker.io".to_owned())].into());
    maps.replace("config.yaml", &PostParams::default(), &stored).await.expect("replaced");
    eventually("it is broken", async || {
        matches!(settings.image_repositories().await, Err(StoreError::Broken(_))).then_some(())
    })
    .await;
    settings.set_image_repositories(vec![]).await.expect("stored");
    assert_eq!(settings.image_repositories().await, Ok(vec![]));
}
