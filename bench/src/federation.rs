//! Federations: what a create costs over many members that are 20 ms away, what one that never
//! answers costs, and what deciding costs alone.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse as _;
use oscar_model::federation::expand::{Origin, expand};
use oscar_model::federation::plan::{Found, plan};
use oscar_model::federation::{Federation, Member, Target, Topology};
use oscar_model::name::ServiceName;
use oscar_model::service::{Cluster, Definition};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::load::{Call, Connection};
use crate::report::Report;
use crate::server::Server;

const LATENCY: Duration = Duration::from_millis(20);
const MEMBERS: [usize; 6] = [1, 2, 4, 8, 16, 32];
const REPEATS: usize = 5;

/// The seconds after which a manager gives a member up here.
const PATIENCE: &str = "2";

pub(crate) async fn measure(binary: &Path, report: &mut Report) {
    let manager = Server::manager(binary, &[("OSCAR_PEER_TIMEOUT", PATIENCE)]);
    let mut members = Vec::new();
    for _ in 0..MEMBERS[MEMBERS.len() - 1] {
        members.push(stand_in(Some(LATENCY)).await);
    }
    let mut connection = Connection::open(manager.address).await;
    for count in MEMBERS {
        let mut times = Vec::new();
        for repeat in 0..REPEATS {
            let name = format!("over-{count}-{repeat}");
            times.push(create(&mut connection, &name, &members[..count], StatusCode::CREATED).await);
        }
        times.sort_unstable();
        report.put(&format!("federate {count} ms"), times[REPEATS / 2].as_secs_f64() * 1000.0);
    }
    let dead = stand_in(None).await;
    let with_dead: Vec<_> = members[..3].iter().copied().chain([dead]).collect();
    let took = create(&mut connection, "with-a-dead-one", &with_dead, StatusCode::BAD_GATEWAY).await;
    report.put("federate with a silent member s", took.as_secs_f64());
    report.put("silent member s", PATIENCE.parse().expect("a number"));
    report.put("plan 1000 ms", decide(1000).as_secs_f64() * 1000.0);
}

/// Answers as a manager of our kind that has nothing yet; never, without a latency.
async fn stand_in(latency: Option<Duration>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let answer = move |method: Method| async move {
        match latency {
            Some(latency) => tokio::time::sleep(latency).await,
            None => std::future::pending().await,
        }
        let status = match method {
            Method::GET => StatusCode::NOT_FOUND,
            Method::POST => StatusCode::CREATED,
            _ => StatusCode::NO_CONTENT,
        };
        ([("oscar-manager", "stand-in; v=1")], status).into_response()
    };
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn create(connection: &mut Connection, name: &str, members: &[SocketAddr], expected: StatusCode) -> Duration {
    let clusters: serde_json::Map<String, Value> = members
        .iter()
        .enumerate()
        .map(|(index, address)| {
            let login = json!({"endpoint": format!("http://{address}"), "auth_user": "u", "auth_password": "p"});
            (format!("c{index}"), login)
        })
        .collect();
    let listed: Vec<_> = (0..members.len())
        .map(|index| json!({"type": "oscar", "cluster_id": format!("c{index}"), "service_name": format!("r{index}")}))
        .collect();
    let body = json!({
        "name": name,
        "cluster_id": "bench",
        "image": "ghcr.io/grycap/cowsay",
        "script": "#!/bin/sh\necho hello\n",
        "environment": {"secrets": {"refresh_token": "not-used"}},
        "clusters": clusters,
        "federation": {"topology": "star", "members": listed},
    });
    let call = Call::post("/system/services", body.to_string().into_bytes());
    let begun = Instant::now();
    let (status, _) = connection.call(&call).await;
    let took = begun.elapsed();
    assert_eq!(status, expected, "{name}");
    took
}

/// Expanding a star of many and planning from nothing; the best of some tries.
fn decide(count: usize) -> Duration {
    let name = |text: String| ServiceName::parse(&text).expect("a name");
    let mut definition = Definition::new(name("coordinator".to_owned()), "image", "script");
    definition.cluster_id = "home".to_owned();
    let mut federation = Federation::blank("coordinator");
    federation.topology = Topology::Star;
    for index in 0..count {
        let cluster_id = format!("c{index}");
        definition.clusters.insert(
            cluster_id.clone(),
            Cluster {
                endpoint: format!("https://c{index}.example.org"),
                auth_user: String::new(),
                auth_password: oscar_model::secret::Secret::default(),
                ssl_verify: true,
            },
        );
        let target = Target::Oscar { cluster_id, service_name: name(format!("r{index}")), parent: None };
        federation.members.push(Member {
            target,
            priority: 0,
            ssl_verify: true,
            headers: std::collections::BTreeMap::new(),
        });
    }
    definition.federation = Some(federation);
    let origin = Origin { endpoint: String::new(), federation_id: "id".to_owned(), operation: "op".to_owned() };
    let tries = (0..10).map(|_| {
        let begun = Instant::now();
        let workers = expand(&definition, &origin);
        let found = workers.iter().map(|worker| (worker.id.clone(), Found::Nothing)).collect();
        assert_eq!(plan(&workers, &found).steps.len(), count);
        begun.elapsed()
    });
    tries.min().expect("some tries")
}
