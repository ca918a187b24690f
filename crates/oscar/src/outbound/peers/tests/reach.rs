//! Who is called, and who is not.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::ConnectInfo;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::raw::{Conduct, Raw};
use super::*;

/// Answers with one address after the other, and then with the last.
struct Changing(Mutex<Vec<IpAddr>>);

impl Changing {
    fn new(addresses: &[&str]) -> Arc<Self> {
        let addresses = addresses.iter().rev().map(|text| text.parse().expect("an address"));
        Arc::new(Self(Mutex::new(addresses.collect())))
    }
}

impl Resolve for Changing {
    fn resolve(&self, _: Name) -> Resolving {
        let mut left = self.0.lock().expect("not poisoned");
        let address = if left.len() > 1 { left.pop() } else { left.last().copied() };
        let found: Vec<_> = address.map(|address| SocketAddr::new(address, 0)).into_iter().collect();
        Box::pin(async move { Ok(Box::new(found.into_iter()) as Addrs) })
    }
}

fn mk_strict(entries: &[&str], lookup: Option<Arc<Changing>>) -> HttpPeers {
    let mut options = mk_options();
    options.policy = AddressPolicy::parse(entries.iter().copied(), false).expect("a policy");
    if let Some(lookup) = lookup {
        options.lookup = lookup;
    }
    HttpPeers::new(options).expect("options that work")
}

async fn look(peers: &HttpPeers, endpoint: &str) -> Sighting {
    peers.look(&Callee::new(endpoint, Audience::Foreign).call(), FEDERATION).await
}

fn mk_missing() -> Conduct {
    Conduct::answer("404 Not Found", "", "")
}

#[tokio::test]
async fn an_address_that_is_not_permitted_is_never_connected_to() {
    let raw = Raw::start(mk_missing()).await;
    let port = raw.address.port();
    let peers = mk_strict(&[], None);
    let spellings = ["127.0.0.1", "127.1", "[::ffff:127.0.0.1]", "localhost", "0x7f000001"];
    for host in spellings {
        let sighting = look(&peers, &format!("http://{host}:{port}")).await;
        let sentence = unreachable_because(&sighting);
        assert!(sentence.contains("not permitted") && sentence.contains("peer_networks"), "{host}: {sentence}");
        assert_eq!(sighting.audience, None);
        let callee = Callee::new(&format!("http://{host}:{port}"), Audience::Ours);
        let step = mk_step(Act::Create, Some(mk_replica(OPERATION)), None);
        let told = peers.deploy(&callee.call(), &step, &mk_token()).await;
        assert!(matches!(told, Err(PeerError::Unreachable(_))), "{host}: {told:?}");
    }
    assert_eq!(raw.connections(), 0);
}

#[tokio::test]
async fn what_the_operator_lists_is_called() {
    let raw = Raw::start(mk_missing()).await;
    let named = format!("http://peer.example:{}", raw.address.port());
    let lookup = || Some(Changing::new(&["127.0.0.1"]));
    for entries in [&["127.0.0.0/8"], &["127.0.0.1"], &["PEER.example"]] {
        let sighting = look(&mk_strict(entries, lookup()), &named).await;
        assert_eq!(sighting.found, Found::Nothing, "{entries:?}");
    }
    let refused = look(&mk_strict(&["other.example"], lookup()), &named).await;
    assert!(unreachable_because(&refused).contains("127.0.0.1 of peer.example"), "{refused:?}");
    assert_eq!(raw.connections(), 3);
}

/// Two servers on one port of two addresses.
async fn mk_twins() -> (Raw, Raw) {
    for _ in 0..100 {
        let first = Raw::start_at("127.0.0.2:0", mk_missing(), None).await.expect("a free port");
        let second = format!("127.0.0.1:{}", first.address.port());
        if let Ok(second) = Raw::start_at(&second, mk_missing(), None).await {
            return (first, second);
        }
    }
    panic!("no port is free on both addresses");
}

#[tokio::test]
async fn a_name_that_means_another_address_the_second_time_gains_nothing() {
    let (permitted, forbidden) = mk_twins().await;
    let lookup = Changing::new(&["127.0.0.2", "127.0.0.1"]);
    let peers = mk_strict(&["127.0.0.2/32"], Some(lookup));
    let endpoint = format!("http://rebind.example:{}", permitted.address.port());
    assert_eq!(look(&peers, &endpoint).await.found, Found::Nothing);
    let second = look(&peers, &endpoint).await;
    assert!(unreachable_because(&second).contains("not permitted"), "{second:?}");
    assert_eq!((permitted.connections(), forbidden.connections()), (1, 0));
}

#[tokio::test]
async fn a_credential_is_seen_by_the_host_that_it_is_for() {
    let first = Raw::start(mk_missing()).await;
    let moved = format!("location: {}\r\n", first.url());
    let second = Raw::start(Conduct::answer("307 Moved", &moved, "")).await;
    let peers = mk_peers();
    let look = async |raw: &Raw, credential| {
        let callee = Callee::new(&raw.url(), Audience::Foreign).with(credential);
        peers.look(&callee.call(), FEDERATION).await
    };
    look(&second, Credential::Bearer("token-of-second".into())).await;
    look(&first, Credential::Bearer("token-of-first".into())).await;
    look(&first, mk_login()).await;
    look(&first, Credential::None).await;
    let heard = |raw: &Raw| {
        let requests = raw.requests().join("\n");
        let lines = requests.lines().filter_map(|line| line.strip_prefix("authorization: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(heard(&second), ["Bearer token-of-second"]);
    assert_eq!(heard(&first), ["Bearer token-of-first", "Basic b3NjYXI6YWNjb3VudC13b3Jk"]);
    assert_eq!(first.requests().len(), 3, "the redirect was not followed");
}

#[tokio::test]
async fn a_credential_that_no_header_can_hold_is_not_sent() {
    let raw = Raw::start(mk_missing()).await;
    let callee = Callee::new(&raw.url(), Audience::Foreign).with(Credential::Bearer("a\r\nx: y".into()));
    let sighting = mk_peers().look(&callee.call(), FEDERATION).await;
    assert!(unreachable_because(&sighting).contains("credential"), "{sighting:?}");
    assert_eq!(raw.requests().len(), 0);
}

#[tokio::test]
async fn reading_is_tried_again_after_a_lost_connection_and_only_once() {
    let once = Raw::start(Conduct::Drop(1, Box::new(mk_missing()))).await;
    assert_eq!(look(&mk_peers(), &once.url()).await.found, Found::Nothing);
    assert_eq!(once.requests().len(), 2);
    let twice = Raw::start(Conduct::Drop(2, Box::new(mk_missing()))).await;
    unreachable_because(&look(&mk_peers(), &twice.url()).await);
    assert_eq!(twice.requests().len(), 2);
}

#[tokio::test]
async fn where_nobody_listens_is_said_so() {
    let listener = tokio::net::TcpSocket::new_v4().expect("a socket");
    listener.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let sighting = look(&mk_peers(), &endpoint).await;
    assert_eq!(unreachable_because(&sighting), "nobody listens at its address");
}

/// How many requests are under way, and from which ports they came.
#[derive(Default)]
struct Watch {
    now: AtomicUsize,
    most: AtomicUsize,
    ports: Mutex<std::collections::BTreeSet<u16>>,
}

async fn start_watched(watch: Arc<Watch>) -> String {
    let router = Router::new().fallback(move |ConnectInfo(from): ConnectInfo<SocketAddr>| {
        let watch = Arc::clone(&watch);
        async move {
            watch.ports.lock().expect("not poisoned").insert(from.port());
            let now = watch.now.fetch_add(1, Ordering::SeqCst) + 1;
            watch.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            watch.now.fetch_sub(1, Ordering::SeqCst);
            axum::http::StatusCode::NOT_FOUND
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    url
}

#[tokio::test]
async fn calls_wait_for_their_turn_and_share_connections() {
    let watch = Arc::<Watch>::default();
    let url = start_watched(Arc::clone(&watch)).await;
    let options = PeersOptions { most_calls: 3, most_calls_per_host: 2, ..mk_options() };
    let peers = HttpPeers::new(options).expect("options that work");
    let callee = Callee::new(&url, Audience::Foreign);
    let call = callee.call();
    let calls: Vec<_> = (0..40).map(|_| peers.look(&call, FEDERATION)).collect();
    for sighting in futures::future::join_all(calls).await {
        assert_eq!(sighting.found, Found::Nothing);
    }
    assert_eq!(watch.most.load(Ordering::SeqCst), 2);
    let connections = watch.ports.lock().expect("not poisoned").len();
    assert!(connections < 40, "{connections} connections for 40 calls");
}

#[tokio::test]
async fn a_machine_that_hangs_takes_nobody_elses_turn() {
    let hangs = Raw::start(Conduct::Hang).await;
    let works = Raw::start(mk_missing()).await;
    let options = PeersOptions { most_calls: 2, most_calls_per_host: 1, ..mk_options() };
    let peers = HttpPeers::new(options).expect("options that work");
    let (stuck, fine) = (hangs.url(), works.url().replace("127.0.0.1", "localhost"));
    tokio::select! {
        _ = futures::future::join_all([look(&peers, &stuck), look(&peers, &stuck), look(&peers, &stuck)]) => {
            panic!("it hangs")
        }
        sighting = look(&peers, &fine) => assert_eq!(sighting.found, Found::Nothing),
    }
}
