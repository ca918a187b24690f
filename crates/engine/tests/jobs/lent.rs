//! Stores of the operator's that services name.

use oscar_engine::jobs::JobPolicy;
use oscar_engine::ports::services::Services as _;
use oscar_model::service::storage::{Provider, ProviderRef, StorageProviders};

use crate::synchronous::started;
use crate::world::{World, call, name, run, user};

fn mk_providers(ids: &[&str], secret: &str) -> StorageProviders {
    let provider = |id: &&str| {
        let reference = ProviderRef::parse(id).expect("valid");
        let (access_key, secret_key) = ("key".to_owned(), secret.into());
        (reference, Provider::S3 { access_key, secret_key, region: String::new() })
    };
    ids.iter().map(provider).collect()
}

async fn lending() -> World {
    let mut world = World::new().await;
    let providers = mk_providers(&["s3.shared", "s3.unnamed", "s3.own", "minio.default"], "of the operator");
    world.policy = JobPolicy { providers, ..JobPolicy::default() };
    let change = |definition: &mut oscar_model::service::Definition| {
        for id in ["s3.shared", "s3.own"] {
            let mut output = definition.output[0].clone();
            output.provider_text = id.to_owned();
            output.provider = ProviderRef::parse(id).expect("valid");
            definition.output.push(output);
        }
        definition.storage_providers = mk_providers(&["s3.own"], "of the user");
    };
    world.serve("a", change).await;
    world
}

fn told(providers: &StorageProviders) -> Vec<(String, &str)> {
    providers.iter().map(|(id, provider)| (id.to_string(), provider.secret().expose())).collect()
}

fn expected() -> Vec<(String, &'static str)> {
    vec![("s3.own".to_owned(), "of the user"), ("s3.shared".to_owned(), "of the operator")]
}

#[tokio::test]
async fn an_attempt_is_told_of_the_operators_stores_that_its_service_names() {
    let world = lending().await;
    let dispatcher = world.started().await;
    let job = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    let order = world.order(&run(&job, 1));
    assert_eq!(told(&order.service.definition.storage_providers), expected());
    let stored = world.services.get(&name("a")).await.expect("read").expect("there");
    assert_eq!(told(&stored.service.definition.storage_providers), [expected()[0].clone()], "nobody else is");
}

#[tokio::test]
async fn a_run_whose_caller_waits_is_told_of_them_too() {
    let world = lending().await;
    let dispatcher = world.started().await;
    let (caller, run) = started(&world, &dispatcher).await;
    assert_eq!(told(&world.order(&run).service.definition.storage_providers), expected());
    caller.abort();
}
