use oscar_engine::testing::{conformance, conformance_federation};
use oscar_kube::KubeWorld;
use oscar_testkit::{Apiserver, require};

use crate::support::{in_charge, options, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ports_keep_their_contracts() {
    let cluster = require!(Apiserver::shared());
    let options = options(cluster, "conf").await;
    let world = world(cluster, &options).await;
    keeps_its_contracts(&world, "conf-").await;
}

pub(crate) async fn keeps_its_contracts(world: &KubeWorld, prefix: &str) {
    conformance::services(world.services(), &*world.users(), prefix).await;
    conformance::users(world.users()).await;
    conformance::settings(world.settings()).await;
    let _charge = in_charge(world).await;
    conformance_federation::journal(world.journal(), prefix).await;
    conformance_federation::vault(world.vault(), &*world.users(), prefix).await;
    conformance_federation::audit(world.audit(), prefix).await;
}
