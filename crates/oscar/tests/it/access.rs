//! Who may call what: every route, asked by every kind of caller, with real tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use oscar_testkit::{Apiserver, Dex, DexConfig, eventually, require};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::manager::{Manager, PASSWORD, mk_body};

const CALLERS: [&str; 8] =
    ["anonymous", "stranger", "allowed", "owner", "admin", "forged token", "expired token", "other service's token"];

/// What each caller gets, in the order of [`CALLERS`]. The service in the path is alice's,
/// restricted, and bob is allowed. `dry_run` keeps what is asked for from happening.
type Row = (&'static str, &'static str, Asked, [u16; 8]);

/// What is sent along.
#[derive(Clone, Copy)]
enum Asked {
    Nothing,
    /// The definition of a service of that name.
    Definition(&'static str),
    Repositories,
    /// No members: only who asks matters.
    Members,
    /// An invitation to a federation that the service is not in.
    Join,
    /// An operation that never arrived.
    Operation,
    RefreshToken,
}

use Asked::{Definition, Join, Members, Nothing, Operation, RefreshToken, Repositories};

/// Every route of `oscar routes` has a row here, or the test fails.
const ROWS: &[Row] = &[
    ("GET", "/health", Nothing, [200; 8]),
    ("POST", "/job/{serviceName}", Nothing, [401, 403, 201, 201, 201, 401, 401, 401]),
    ("GET", "/metrics", Nothing, [401, 403, 403, 403, 200, 401, 401, 400]),
    // No run of that service finds room.
    ("POST", "/run/{serviceName}", Nothing, [401, 403, 400, 400, 400, 401, 401, 401]),
    ("GET", "/system/config", Nothing, [401, 200, 200, 200, 200, 401, 401, 400]),
    ("PUT", "/system/config", Repositories, [401, 403, 403, 403, 200, 401, 401, 400]),
    ("GET", "/system/audit", Nothing, [401, 200, 200, 200, 200, 401, 401, 400]),
    ("GET", "/system/buckets", Nothing, [401, 200, 200, 200, 200, 401, 401, 400]),
    // Everybody may have buckets; without a body nothing is made.
    ("POST", "/system/buckets", Nothing, [401, 400, 400, 400, 400, 401, 401, 400]),
    ("PUT", "/system/buckets", Nothing, [401, 400, 400, 400, 400, 401, 401, 400]),
    ("GET", "/system/buckets/{bucketName}", Nothing, [401, 404, 404, 404, 404, 401, 401, 400]),
    ("DELETE", "/system/buckets/{bucketName}", Nothing, [401, 404, 404, 404, 404, 401, 401, 400]),
    ("POST", "/system/buckets/{bucketName}/presign", Nothing, [401, 400, 400, 400, 400, 401, 401, 400]),
    // Only the token of the external store's webhook opens it.
    ("POST", "/system/events/minio", Nothing, [401; 8]),
    ("GET", "/system/federation", Nothing, [401, 200, 200, 200, 200, 401, 401, 400]),
    ("GET", "/system/federation/{serviceName}", Nothing, [401, 403, 403, 200, 200, 401, 401, 401]),
    ("POST", "/system/federation/{serviceName}", Members, [401, 403, 403, 200, 200, 401, 401, 401]),
    ("PUT", "/system/federation/{serviceName}", Members, [401, 403, 403, 200, 200, 401, 401, 401]),
    ("DELETE", "/system/federation/{serviceName}", Members, [401, 403, 403, 200, 200, 401, 401, 401]),
    // The owner may, and this service is in no such federation.
    ("POST", "/system/federation/{serviceName}/join", Join, [401, 403, 403, 409, 409, 401, 401, 400]),
    ("POST", "/system/federation/{serviceName}/reconcile", Nothing, [401, 403, 403, 200, 200, 401, 401, 401]),
    // Only a member's key opens it.
    ("POST", "/system/federation/{serviceName}/sync", Nothing, [401; 8]),
    ("GET", "/system/federation/{serviceName}/token", Nothing, [401, 403, 403, 200, 200, 401, 401, 400]),
    ("PUT", "/system/federation/{serviceName}/token", RefreshToken, [401, 403, 403, 404, 404, 401, 401, 400]),
    ("DELETE", "/system/federation/{serviceName}/token", Nothing, [401, 403, 403, 404, 404, 401, 401, 400]),
    ("POST", "/system/federation/{serviceName}/undo", Operation, [401, 403, 403, 204, 204, 401, 401, 400]),
    ("POST", "/system/federation/{serviceName}/withdraw", Operation, [401, 403, 403, 204, 204, 401, 401, 400]),
    ("GET", "/system/info", Nothing, [401, 200, 200, 200, 200, 401, 401, 400]),
    ("GET", "/system/jobs/{serviceName}", Nothing, [401, 403, 200, 200, 200, 401, 401, 400]),
    ("GET", "/system/jobs/{serviceName}/{jobName}", Nothing, [401, 403, 404, 404, 404, 401, 401, 400]),
    ("POST", "/system/jobs/{serviceName}/{jobName}/cancel", Nothing, [401, 403, 404, 404, 404, 401, 401, 400]),
    ("GET", "/system/logs", Nothing, [401, 403, 403, 403, 200, 401, 401, 400]),
    ("GET", "/system/logs/{serviceName}", Nothing, [401, 403, 200, 200, 200, 401, 401, 400]),
    ("DELETE", "/system/logs/{serviceName}", Nothing, [401, 403, 204, 204, 204, 401, 401, 400]),
    ("GET", "/system/logs/{serviceName}/{jobName}", Nothing, [401, 403, 404, 404, 404, 401, 401, 400]),
    ("DELETE", "/system/logs/{serviceName}/{jobName}", Nothing, [401, 403, 404, 404, 404, 401, 401, 400]),
    ("GET", "/system/metrics", Nothing, [401, 200, 200, 200, 200, 401, 401, 400]),
    // Nobody says by what.
    ("GET", "/system/metrics/breakdown", Nothing, [401, 400, 400, 400, 400, 401, 401, 400]),
    ("GET", "/system/metrics/{serviceName}", Nothing, [401, 403, 200, 200, 200, 401, 401, 400]),
    ("GET", "/system/replicas/{serviceName}", Nothing, [401, 403, 403, 200, 200, 401, 401, 401]),
    ("POST", "/system/replicas/{serviceName}", Members, [401, 403, 403, 200, 200, 401, 401, 401]),
    ("PUT", "/system/replicas/{serviceName}", Members, [401, 403, 403, 200, 200, 401, 401, 401]),
    ("DELETE", "/system/replicas/{serviceName}", Members, [401, 403, 403, 200, 200, 401, 401, 401]),
    ("GET", "/system/services", Nothing, [401, 200, 200, 200, 200, 401, 401, 400]),
    ("POST", "/system/services", Definition("brand-new"), [401, 200, 200, 200, 200, 401, 401, 400]),
    ("PUT", "/system/services", Definition("target"), [401, 403, 403, 200, 200, 401, 401, 400]),
    ("GET", "/system/services/{serviceName}", Nothing, [401, 403, 200, 200, 200, 401, 401, 400]),
    ("DELETE", "/system/services/{serviceName}", Nothing, [401, 403, 403, 200, 200, 401, 401, 400]),
    ("GET", "/system/services/{serviceName}/auth", Nothing, [401, 403, 200, 200, 200, 401, 401, 401]),
    ("GET", "/system/services/{serviceName}/deployment", Nothing, [401, 403, 200, 200, 200, 401, 401, 400]),
    ("GET", "/system/services/{serviceName}/deployment/logs", Nothing, [401, 403, 200, 200, 200, 401, 401, 400]),
    ("GET", "/system/status", Nothing, [401, 200, 200, 200, 200, 401, 401, 400]),
];

/// Routes that only a world which runs jobs can serve.
const OF_JOBS: [&str; 5] = ["/job/", "/run/", "/system/buckets", "/system/jobs/", "/system/logs/"];

struct Scene {
    manager: Manager,
    runs_jobs: bool,
    dex: Dex,
    expired: String,
    other_service_token: String,
}

impl Scene {
    /// What the row says; where nothing runs, those who may call are told so.
    fn expected(&self, row: &Row) -> [u16; 8] {
        let of_jobs = OF_JOBS.iter().any(|route| row.1.starts_with(route));
        let mut expected = row.3;
        if of_jobs && !self.runs_jobs {
            let may = |status: &&mut u16| !matches!(**status, 401 | 403);
            expected[1..5].iter_mut().filter(may).for_each(|status| *status = 501);
        }
        expected
    }

    fn as_caller(&self, caller: &str, request: RequestBuilder) -> RequestBuilder {
        match caller {
            "anonymous" => request,
            "stranger" => request.bearer_auth(self.dex.token("carol").access),
            "allowed" => request.bearer_auth(self.dex.token("bob").access),
            "owner" => request.bearer_auth(self.dex.token("alice").access),
            "admin" => request.basic_auth("oscar", Some(PASSWORD)),
            "forged token" => request.bearer_auth(forge(&self.dex.token("alice").access)),
            "expired token" => request.bearer_auth(&self.expired),
            "other service's token" => request.bearer_auth(&self.other_service_token),
            other => panic!("{other} is no caller"),
        }
    }

    async fn ask(&self, row: &Row, caller: &str) -> reqwest::Response {
        self.send(row, caller, "?dry_run=true").await
    }

    async fn send(&self, (method, path, asked, _): &Row, caller: &str, query: &str) -> reqwest::Response {
        let method: Method = method.parse().expect("a method");
        let path =
            path.replace("{serviceName}", "target").replace("{bucketName}", "no-such").replace("{jobName}", "no-such");
        let mut request = self.manager.as_nobody(method, &format!("{path}{query}"));
        request = match asked {
            Nothing => request,
            Definition(name) => {
                let mut body = mk_body(name);
                body["visibility"] = json!("restricted");
                request.json(&body)
            }
            Repositories => request.json(&json!({"allowed_image_repositories": []})),
            Members => request.json(&json!({})),
            Join => request.json(&mk_invitation()),
            Operation => request.json(&json!({"federation_id": "no-such", "operation": "no-such"})),
            RefreshToken => request.json(&json!({"refresh_token": "a-refresh-token"})),
        };
        self.as_caller(caller, request).send().await.expect("an answer")
    }
}

fn mk_invitation() -> Value {
    let member = json!({"cluster_id": "here", "service_name": "target"});
    let exchange = json!({
        "federation_id": "no-such",
        "instance": "another",
        "membership": {"time": 0, "records": []},
        "states": [],
    });
    json!({
        "federation_id": "no-such",
        "member": member,
        "coordinator": {"cluster_id": "there", "service_name": "origin"},
        "endpoint": "https://there.example",
        "key": "omk_key",
        "exchange": exchange,
    })
}

/// The same claims with one letter of the signature changed.
fn forge(token: &str) -> String {
    let (signed, signature) = token.rsplit_once('.').expect("a JWT");
    let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(signature).expect("base64");
    bytes[10] ^= 1;
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

async fn mk_scene(dex: Dex, short: &Dex, world: &[(&str, &str)]) -> Scene {
    let issuers = format!("{},{}", dex.issuer(), short.issuer());
    let mut environment = vec![
        ("OIDC_ENABLE", "true"),
        ("OIDC_ISSUERS", issuers.as_str()),
        ("OIDC_GROUPS", "vo-a,vo-b"),
        ("OIDC_GROUP_CLAIM", "groups"),
        ("OIDC_LEEWAY", "0"),
    ];
    environment.extend(world);
    let manager = Manager::start(&environment);
    let mut target = mk_body("target");
    target["visibility"] = json!("restricted");
    target["allowed_users"] = json!([dex.token("bob").subject()]);
    // More than there is: what is asked for here is never run.
    target["cpu"] = json!("1000");
    let post = |token: String, body: Value| {
        manager.as_nobody(Method::POST, "/system/services").bearer_auth(token).json(&body).send()
    };
    assert_eq!(post(dex.token("alice").access, target).await.expect("sent").status(), 201);
    assert_eq!(post(dex.token("carol").access, mk_body("other")).await.expect("sent").status(), 201);
    let other = manager.read("other").await;
    let expired = short.token("alice").access;
    let info = || async {
        let request = manager.as_nobody(Method::GET, "/system/info").bearer_auth(&expired);
        request.send().await.expect("an answer").status()
    };
    // It was good, and stops being so by itself.
    let deadline = std::time::Instant::now() + Duration::from_mins(1);
    while info().await != 401 {
        assert!(std::time::Instant::now() < deadline, "the token never expired");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let other_service_token = other["token"].as_str().expect("a token").to_owned();
    Scene { manager, runs_jobs: world.is_empty(), dex, expired, other_service_token }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_every_caller_as_its_row_says() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let short = require!(Dex::start(&DexConfig { tokens: Duration::from_secs(2), ..DexConfig::default() }));
    check_rows(&mk_scene(dex, &short, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_every_caller_as_its_row_says_on_kubernetes() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let short = require!(Dex::start(&DexConfig { tokens: Duration::from_secs(2), ..DexConfig::default() }));
    let cluster = require!(Apiserver::shared());
    cluster.apply("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: access\n");
    let kubeconfig = cluster.admin_kubeconfig().display().to_string();
    let world = [
        ("OSCAR_WORLD", "kubernetes"),
        ("KUBECONFIG", kubeconfig.as_str()),
        ("OSCAR_NAMESPACE", "access"),
        ("OSCAR_SERVICES_NAMESPACE", "access-svc"),
    ];
    check_rows(&mk_scene(dex, &short, &world).await).await;
}

async fn check_rows(scene: &Scene) {
    let mut wrong = Vec::new();
    let mut asked = 0;
    for row in ROWS {
        for (caller, expected) in CALLERS.iter().zip(scene.expected(row)) {
            let answer = scene.ask(row, caller).await;
            asked += 1;
            if answer.status() != expected {
                let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
                wrong.push(format!("{} {} by {caller}: {status} instead of {expected}: {text}", row.0, row.1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    asked += refused_for_real(scene).await;
    assert!(!scene.manager.log().contains(&scene.expired), "no token is logged");
    oscar_testkit::count("routes × callers", asked);
}

/// Whoever is refused a change in a dry run is refused the change itself, and nothing happens.
async fn refused_for_real(scene: &Scene) -> u64 {
    let before = scene.manager.read("target").await;
    let mut asked = 0;
    for row in ROWS.iter().filter(|row| row.0 != "GET") {
        for (caller, _) in CALLERS.iter().zip(scene.expected(row)).filter(|(_, expected)| *expected >= 400) {
            let answer = scene.send(row, caller, "").await;
            assert!(answer.status().as_u16() >= 400, "{} {} by {caller}: {}", row.0, row.1, answer.status());
            asked += 1;
        }
    }
    assert_eq!(scene.manager.read("target").await, before, "nothing was changed");
    let absent = scene.manager.as_admin(Method::GET, "/system/services/brand-new").send().await.expect("sent");
    assert_eq!(absent.status(), 404, "nothing was made");
    asked
}

#[test]
fn every_route_has_a_row() {
    let routes: Vec<_> =
        oscar::http::ROUTES.iter().map(|route| format!("{} {}", route.method.to_uppercase(), route.path)).collect();
    let rows: Vec<_> = ROWS.iter().map(|row| format!("{} {}", row.0, row.1)).collect();
    assert_eq!(routes, rows, "each route has one access row, in the same order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_token_opens_its_own_service_only() {
    let manager = Manager::start(&[]);
    for name in ["one", "two"] {
        assert_eq!(manager.create(&mk_body(name)).await, 201);
    }
    let token = manager.read("one").await["token"].as_str().expect("a token").to_owned();
    let ask = async |name: &str, token: &str| {
        let path = format!("/system/services/{name}/auth");
        manager.as_nobody(Method::GET, &path).bearer_auth(token).send().await.expect("sent").status().as_u16()
    };
    assert_eq!(ask("one", &token).await, 200);
    assert_eq!(ask("two", &token).await, 401);
    assert_eq!(ask("absent", &token).await, 401, "unknown services and wrong tokens look alike");
    assert_eq!(ask("one", &"0".repeat(64)).await, 401);

    // Browsers bring it in the address first, and in a cookie from then on.
    let guard = "/system/services/one/auth";
    let by_query = manager.as_nobody(Method::GET, &format!("{guard}?token={token}")).send().await.expect("sent");
    assert_eq!(by_query.status(), 200);
    let cookie = by_query.headers()["set-cookie"].to_str().expect("text").to_owned();
    assert!(cookie.starts_with("oscar_service_one_auth=") && cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
    let with = |name: &str, value: String| manager.as_nobody(Method::GET, guard).header(name, value).send();
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    assert_eq!(with("cookie", format!("a=b; {pair}")).await.expect("sent").status(), 200);
    let forwarded = format!("/system/services/one/exposed/?x=1&token={token}");
    assert_eq!(with("x-forwarded-uri", forwarded).await.expect("sent").status(), 200);
    assert_eq!(with("x-forwarded-uri", format!("/?token={}", "0".repeat(64))).await.expect("sent").status(), 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_of_a_public_service_see_no_credentials() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let manager = mk_oidc_manager(&dex);
    let mut body = mk_body("open");
    body["visibility"] = json!("public");
    body["storage_providers"] =
        json!({"s3": {"mine": {"access_key": "planted-key", "secret_key": "planted-secret", "region": "r"}}});
    body["clusters"] =
        json!({"o": {"endpoint": "https://o", "auth_user": "planted-user", "auth_password": "planted-password"}});
    let request = manager.as_nobody(Method::POST, "/system/services").bearer_auth(dex.token("alice").access);
    assert_eq!(request.json(&body).send().await.expect("sent").status(), 201);
    for path in ["/system/services/open", "/system/services"] {
        let request = manager.as_nobody(Method::GET, path).bearer_auth(dex.token("bob").access);
        let text = request.send().await.expect("sent").text().await.expect("a body");
        assert!(text.contains(r#""name":"open""#) && text.contains(r#""token":"""#), "{text}");
        assert!(!text.contains("planted"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_contact_makes_one_home_also_under_concurrency() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let manager = mk_oidc_manager(&dex);
    let token = dex.token("alice").access;
    let create = |index: usize| {
        let body = mk_body(&format!("first-{index}"));
        manager.as_nobody(Method::POST, "/system/services").bearer_auth(&token).json(&body).send()
    };
    for answer in futures::future::join_all((0..32).map(create)).await {
        assert_eq!(answer.expect("sent").status(), 201);
    }
    let list = manager.as_nobody(Method::GET, "/system/services").bearer_auth(&token).send().await.expect("sent");
    let list: Vec<Value> = list.json().await.expect("JSON");
    let homes: std::collections::BTreeSet<_> = list.iter().map(|service| service["namespace"].to_string()).collect();
    assert_eq!((list.len(), homes.len()), (32, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_that_is_down_refuses_only_its_own_and_comes_back() {
    let dex = require!(Dex::start(&DexConfig::default()));
    let token = dex.token("alice").access;
    dex.stop();
    let manager = mk_oidc_manager(&dex);
    let ask = |request: RequestBuilder| async { request.send().await.expect("an answer").status().as_u16() };
    let info = || manager.as_nobody(Method::GET, "/system/info");
    assert_eq!(ask(info().bearer_auth(&token)).await, 503);
    assert_eq!(ask(info().basic_auth("oscar", Some(PASSWORD))).await, 200);
    dex.start_again();
    // Its storage is in memory: the keys are new, and so must the token be.
    let token = eventually("a token of the new issuer", Duration::from_secs(30), || Some(dex.token("alice").access));
    let deadline = std::time::Instant::now() + Duration::from_mins(1);
    while ask(info().bearer_auth(&token)).await != 200 {
        assert!(std::time::Instant::now() < deadline, "the issuer's return was never noticed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn mk_oidc_manager(dex: &Dex) -> Manager {
    let groups = [("OIDC_GROUPS", "vo-a,vo-b"), ("OIDC_GROUP_CLAIM", "groups")];
    let mut environment = vec![("OIDC_ENABLE", "true"), ("OIDC_ISSUERS", dex.issuer())];
    environment.extend(groups);
    Manager::start(&environment)
}
