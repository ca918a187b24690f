use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use oscar::http::{AdminAccount, App, Facts, Limits, Prints, Traffic};
use oscar_api::problem::{Code, ERROR_HEADER};
use oscar_api::service::{Mode, decode};
use oscar_api::tree::parse_json;
use oscar_engine::memory::{
    FixedClock, MemoryCluster, MemoryIdentity, MemoryServices, MemorySettings, MemoryUsers, SeededEntropy,
};
use oscar_engine::{FederationPorts, Manager, Policy, Ports};
use oscar_model::identity::{Principal, Subject, User};
use oscar_model::secret::Secret;
use tower::ServiceExt as _;

const ADMIN: &[u8] = b"oscar:planted-password";
const BEARER: &str = "alice-token";

/// A request as text: method and target, header lines, an empty line, the body. Whatever it
/// is, the answer is one of those that the API documents, and nobody gets in without a key.
pub fn request(data: &[u8]) {
    let Some(request) = parse(data) else { return };
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(answered(request)));
}

async fn answered(request: Request<Body>) {
    // A new one for each input, so that a failing input fails alone.
    let (app, service_token) = mk_app().await;
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let entitled = has_key(&request, &service_token);
    let answer: Result<Response<Body>, Infallible> = oscar::http::service(&app).oneshot(request).await;
    let Ok(answer) = answer;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.expect("a body of ours does not break off").to_bytes();
    let shown = || format!("{method} {path}: {head:?} {}", String::from_utf8_lossy(&body));

    let status = head.status.as_u16();
    assert!(status < 500 || is_about_a_member(&head.headers), "{}", shown());
    // A browser's question before its request is answered by the layer above the routes.
    let preflight = method == Method::OPTIONS;
    assert!(preflight || head.headers.contains_key("oscar-manager"), "{}", shown());
    if status >= 400 {
        let code = head.headers.get(ERROR_HEADER).and_then(|value| value.to_str().ok());
        let known = Code::ALL.iter().find(|known| Some(known.as_str()) == code);
        assert_eq!(known.map(|code| code.status()), Some(status), "{}", shown());
        assert!(!body.is_empty() || method == Method::HEAD, "{}", shown());
    }
    if !body.is_empty() {
        let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        assert!(!kind.is_empty(), "{}", shown());
        assert!(!kind.contains("json") || serde_json::from_slice::<serde_json::Value>(&body).is_ok(), "{}", shown());
    }
    if !entitled {
        let open = preflight || path.trim_end_matches('/') == "/health";
        assert!(open || status >= 400, "nobody got in: {}", shown());
        assert!(!String::from_utf8_lossy(&body).contains("planted"), "nobody sees secrets: {}", shown());
    }
}

/// Nobody else is there for the manager in memory, and an input may well name somebody.
fn is_about_a_member(headers: &HeaderMap) -> bool {
    let code = headers.get(ERROR_HEADER).and_then(|value| value.to_str().ok());
    let about = [Code::CoordinatorSilent, Code::FederationRolledBack, Code::FederationUnreachable];
    about.iter().any(|about| Some(about.as_str()) == code)
}

fn parse(data: &[u8]) -> Option<Request<Body>> {
    let at = data.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = at.map_or((data, &[][..]), |at| (&data[..at], &data[at + 2..]));
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let method = Method::from_bytes(&first[..space]).ok()?;
    let uri = Uri::try_from(&first[space + 1..]).ok()?;
    let mut request = Request::new(Body::from(body.to_vec()));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            request.headers_mut().append(name, value);
        }
    }
    Some(request)
}

/// Read in another way than the manager does, so that a mistake there shows here. The token of
/// a service may also stand in the query or in a cookie.
fn has_key(request: &Request<Body>, service_token: &str) -> bool {
    let mut texts = request.headers().values().filter_map(|value| value.to_str().ok());
    if request.uri().to_string().contains(service_token) || texts.any(|text| text.contains(service_token)) {
        return true;
    }
    let Some(value) = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else { return false };
    let words: Vec<_> = value.split_whitespace().collect();
    match words.as_slice() {
        [scheme, key] if scheme.eq_ignore_ascii_case("basic") => STANDARD.decode(key).is_ok_and(|pair| pair == ADMIN),
        [scheme, key] if scheme.eq_ignore_ascii_case("bearer") => *key == BEARER,
        _ => false,
    }
}

/// A manager in memory with two services; and the token of the first.
async fn mk_app() -> (Arc<App>, String) {
    let manager = Manager::new(
        Ports {
            services: Arc::new(MemoryServices::default()),
            users: Arc::new(MemoryUsers::new("oscar-svc")),
            settings: Arc::new(MemorySettings::default()),
            cluster: Arc::new(MemoryCluster::default()),
            clock: Arc::new(FixedClock(SystemTime::UNIX_EPOCH)),
            entropy: Arc::new(SeededEntropy::new(1)),
            federation: FederationPorts::none(),
            jobs: None,
        },
        Policy::default(),
    );
    let alice = User {
        subject: Subject::parse("alice@example.org").expect("a subject"),
        name: "Alice".to_owned(),
        groups: vec![],
        issuer: "https://issuer.example".to_owned(),
    };
    let owner = Principal::User(alice.clone());
    let mut first_token = String::new();
    for (name, visibility) in [("mine", "private"), ("open", "public")] {
        let text = format!(
            r#"{{"name":"{name}","visibility":"{visibility}","image":"a/b","script":"echo planted","allowed_users":["x"]}}"#
        );
        let node = parse_json(text.as_bytes()).expect("JSON");
        let definition = decode(&node, "", Mode::Json).expect("valid").definition;
        let made = manager.create_service(&owner, definition, &Secret::default(), false).await.expect("stored");
        if first_token.is_empty() {
            made.service.token.expose().clone_into(&mut first_token);
        }
    }
    let app = App {
        manager: Arc::new(manager),
        identity: Arc::new(MemoryIdentity { users: [(BEARER.to_owned(), alice)].into() }),
        admin: AdminAccount { username: Secret::new("oscar"), password: Secret::new("planted-password") },
        facts: Facts { instance_id: "fuzz".to_owned(), cors: true, ..Facts::default() },
        limits: Limits { body: Duration::from_mins(1), answer: Duration::from_mins(1), page: 70 },
        prints: Prints::default(),
        traffic: Arc::new(Traffic::new()),
        notices: None,
    };
    (Arc::new(app), first_token)
}
