//! What the tests share: worlds on a real apiserver, a client that fails when it is told to,
//! and looking at what is really stored.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, PostParams};
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use oscar_engine::ports::users::Users;
use oscar_engine::testing::make::mk_service;
use oscar_kube::{KubeWorld, Options};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::service::Service;
use oscar_testkit::{ADMIN_TOKEN, Apiserver};
use tower::{BoxError, Layer, Service as TowerService};

/// Generous: the machine is shared.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// A kubeconfig is written anew whenever it is asked for, so nobody may read it meanwhile.
static KUBECONFIGS: Mutex<()> = Mutex::new(());

pub(crate) async fn config(cluster: &Apiserver, token: &str) -> Config {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = {
        let _alone = KUBECONFIGS.lock().unwrap_or_else(PoisonError::into_inner);
        Kubeconfig::read_from(cluster.kubeconfig_for(token)).expect("a kubeconfig")
    };
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a usable kubeconfig")
}

/// Runs kubectl as the administrator; its status and what it said.
pub(crate) fn kubectl(cluster: &Apiserver, arguments: &[&str]) -> (bool, String, String) {
    let _alone = KUBECONFIGS.lock().unwrap_or_else(PoisonError::into_inner);
    let done = cluster.kubectl(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.success(), text(&done.stdout), text(&done.stderr))
}

pub(crate) fn apply(cluster: &Apiserver, manifest: &str) {
    let _alone = KUBECONFIGS.lock().unwrap_or_else(PoisonError::into_inner);
    cluster.apply(manifest);
}

pub(crate) async fn admin(cluster: &Apiserver) -> Client {
    Client::try_from(config(cluster, ADMIN_TOKEN).await).expect("a client")
}

/// Namespaces of one test's own; the manager's is made.
pub(crate) async fn options(cluster: &Apiserver, test: &str) -> Options {
    let options =
        Options { namespace: format!("{test}-oscar"), services_namespace: format!("{test}-svc"), ..Options::default() };
    let api: Api<Namespace> = Api::all(admin(cluster).await);
    for name in [&options.namespace, &options.services_namespace] {
        let namespace = oscar_namespace(name);
        if let Err(error) = api.create(&PostParams::default(), &namespace).await {
            assert!(error.to_string().contains("already exists"), "{error}");
        }
    }
    options
}

fn oscar_namespace(name: &str) -> Namespace {
    serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).expect("a namespace")
}

pub(crate) async fn world(cluster: &Apiserver, options: &Options) -> KubeWorld {
    ready(KubeWorld::with_client(admin(cluster).await, options.clone())).await
}

pub(crate) async fn ready(world: KubeWorld) -> KubeWorld {
    let synced = tokio::time::timeout(LIMIT, world.ready()).await;
    assert!(synced.is_ok(), "the world is not ready: {:?}", world.obstacle());
    assert!(world.is_synced());
    world
}

/// A manager that looks after federations for as long as this lives, and then falls silent.
pub(crate) struct Charge(tokio::task::JoinHandle<()>);

impl Drop for Charge {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) async fn in_charge(world: &KubeWorld) -> Charge {
    let lease = world.lease();
    let charge = Charge(tokio::spawn(async move { lease.hold_forever().await }));
    eventually("it is in charge", async || world.lease().holds().then_some(())).await;
    charge
}

/// A service in the home of its owner.
pub(crate) async fn at_home(users: &dyn Users, name: &str, owner: &Owner) -> Service {
    let mut service = mk_service(name, owner);
    service.namespace = users.ensure(owner, "").await.expect("a home").namespace;
    service
}

pub(crate) fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("test names are valid")
}

/// Polls until `probe` gives something.
pub(crate) async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < deadline, "this did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The names of the objects of a kind that carry a service's label, in all namespaces.
pub(crate) async fn labelled<K>(client: &Client, service: &str) -> Vec<String>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let which = ListParams::default().labels(&format!("oscar_service={service}"));
    let list = api.list(&which).await.expect("the administrator may list");
    list.items.iter().map(kube::ResourceExt::name_any).collect()
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    /// It never reaches the apiserver.
    LostBefore,
    /// It has its effect, and the answer is lost.
    LostAfter,
    /// A watch asks to go on from a version that is long gone.
    TooOld,
}

type Decide = Box<dyn FnMut(&Request<Body>) -> Fate + Send>;

/// Decides the fate of every call of a client.
#[derive(Clone)]
pub(crate) struct Faults {
    decide: Arc<Mutex<Decide>>,
}

impl Faults {
    pub(crate) fn new(decide: impl FnMut(&Request<Body>) -> Fate + Send + 'static) -> Self {
        Self { decide: Arc::new(Mutex::new(Box::new(decide))) }
    }

    pub(crate) async fn client(&self, cluster: &Apiserver) -> Client {
        let config = config(cluster, ADMIN_TOKEN).await;
        ClientBuilder::try_from(config).expect("a client").with_layer(self).build()
    }
}

impl<S> Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Faulty<S> {
        Faulty { inner, faults: self.clone() }
    }
}

pub(crate) struct Faulty<S> {
    inner: S,
    faults: Faults,
}

impl<S> TowerService<Request<Body>> for Faulty<S>
where
    S: TowerService<Request<Body>, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let fate = (self.faults.decide.lock().unwrap_or_else(PoisonError::into_inner))(&request);
        if fate == Fate::LostBefore {
            return Box::pin(async { Err(BoxError::from("injected: the call was lost")) });
        }
        if fate == Fate::TooOld {
            *request.uri_mut() = from_version_one(request.uri());
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if fate == Fate::LostAfter {
                return Err(BoxError::from("injected: the answer was lost"));
            }
            Ok(answer)
        })
    }
}

fn from_version_one(uri: &http::Uri) -> http::Uri {
    let kept = uri.query().unwrap_or_default().split('&').filter(|part| !part.starts_with("resourceVersion="));
    let query = kept.collect::<Vec<_>>().join("&");
    format!("{}?{query}&resourceVersion=1", uri.path()).parse().expect("a URI")
}

pub(crate) fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}
