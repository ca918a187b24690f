//! The same on Kubernetes, beside calls of kube-rs without a manager.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use oscar_testkit::Apiserver;

use crate::Options;
use crate::load::{Call, Load, load};
use crate::local::{definition, fill};
use crate::report::Report;
use crate::server::Server;

const SERVICES: &str = "/system/services";

/// The API server of a test has little to give; more callers only wait longer.
const CALLERS: usize = 8;

/// How many are there when they are read.
const STORED: usize = 200;

/// A control plane on this machine, or why there is none.
pub(crate) fn cluster() -> Result<Apiserver, String> {
    Apiserver::start().map_err(|missing| missing.to_string())
}

pub(crate) async fn measure(binary: &Path, cluster: &Apiserver, run: usize, options: &Options, report: &mut Report) {
    let kubeconfig = cluster.admin_kubeconfig();
    let client = connect(&kubeconfig).await;
    // Each run in namespaces of its own, so that none finds what another left.
    let names = [format!("raw-{run}"), format!("oscar-{run}"), format!("services-{run}")];
    for name in &names {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await.expect("a namespace");
    }
    let [raw, own, services] = names;
    raw_calls(Api::namespaced(client, &raw), options.duration, report).await;

    let path = kubeconfig.display().to_string();
    let manager = Server::manager(
        binary,
        &[
            ("OSCAR_WORLD", "kubernetes"),
            ("KUBECONFIG", &path),
            ("OSCAR_NAMESPACE", &own),
            ("OSCAR_SERVICES_NAMESPACE", &services),
        ],
    );
    // And with names of its own: those of services are unique in the whole cluster.
    fill(manager.address, &format!("s{run}"), 0, STORED).await;
    let get =
        move |lane: usize, number: usize| Call::get(format!("{SERVICES}/s{run}-{}", (lane * 31 + number * 7) % STORED));
    report.put_load("kubernetes: get", load(manager.address, CALLERS, options.duration, get).await);
    let list = |_, _| Call::get(SERVICES);
    report
        .put_load(&format!("kubernetes: list {STORED}"), load(manager.address, CALLERS, options.duration, list).await);
    let create = move |lane, number| Call::post(SERVICES, definition(&format!("c{run}-{lane}-{number}")));
    report.put_load("kubernetes: create", load(manager.address, CALLERS, options.duration, create).await);
}

async fn connect(kubeconfig: &PathBuf) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a configuration");
    Client::try_from(config).expect("a client")
}

async fn raw_calls(api: Api<ConfigMap>, duration: Duration, report: &mut Report) {
    for number in 0..STORED {
        create(&api, &format!("s-{number}")).await;
    }
    let load = busy(&api, duration, async |api, lane, number| {
        api.get(&format!("s-{}", (lane * 31 + number * 7) % STORED)).await.expect("it is there");
    });
    report.put_load("kube-rs: get", load.await);
    let load = busy(&api, duration, async |api, _, _| {
        api.list(&ListParams::default()).await.expect("a list");
    });
    report.put_load(&format!("kube-rs: list {STORED}"), load.await);
    let load = busy(&api, duration, async |api, lane, number| create(api, &format!("c-{lane}-{number}")).await);
    report.put_load("kube-rs: create", load.await);
}

async fn create(api: &Api<ConfigMap>, name: &str) {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    let text = String::from_utf8(definition(name)).expect("JSON");
    map.data = Some(BTreeMap::from([("function_config.yaml".to_owned(), text)]));
    api.create(&PostParams::default(), &map).await.expect("created");
}

/// Callers that each make one call after the other.
async fn busy<F>(api: &Api<ConfigMap>, duration: Duration, call: F) -> Load
where
    F: AsyncFn(&Api<ConfigMap>, usize, usize),
{
    let begin = Instant::now();
    let lanes = (0..CALLERS).map(|lane| {
        let call = &call;
        async move {
            let mut times = Vec::new();
            while begin.elapsed() < duration {
                let sent = Instant::now();
                call(api, lane, times.len()).await;
                times.push(sent.elapsed());
            }
            times
        }
    });
    let times = futures::future::join_all(lanes).await.concat();
    Load::of(times, begin.elapsed())
}
