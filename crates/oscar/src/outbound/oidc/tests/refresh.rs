//! Trading refresh tokens in, at issuers that behave and at others.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use fake::{DISCOVERY, Mischief, REVOKE, TOKEN};
use oscar_engine::ports::issuers::{IssuerError, Issuers, Minted, Terms};
use oscar_model::secret::Secret;

use super::*;

/// What must be found nowhere.
const REFRESH: &str = "refresh-0123456789-hunter2";
const CLIENT_SECRET: &str = "s3cret/hunter3 &";

fn mk_issuers(world: &World, change: impl FnOnce(&mut IssuerSettings)) -> OidcIssuers {
    let mut settings = world.settings();
    change(&mut settings.issuers[0]);
    OidcIssuers::new(&settings).expect("settings that work")
}

fn mk_terms(world: &World) -> Terms {
    Terms { issuer: world.issuer.url.clone(), client: "oscar".to_owned() }
}

/// Signed by nobody, like the refresh tokens of many issuers as far as we can see.
fn mk_jwt(claims: &Value) -> Secret {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    Secret::new(format!("{}.{}.c2ln", part(&json!({"alg": "HS512"})), part(claims)))
}

fn with_secret(issuer: &mut IssuerSettings) {
    issuer.client = Some(ClientSettings { id: "oscar".to_owned(), secret: Some(Secret::new(CLIENT_SECRET)) });
}

async fn refresh(world: &World, issuers: &OidcIssuers) -> Result<Minted, IssuerError> {
    let outcome = issuers.refresh(&mk_terms(world), &Secret::new(REFRESH)).await;
    let told = match &outcome {
        Ok(minted) => format!("{minted:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!told.contains("hunter"), "{told}");
    outcome
}

/// The fields of the only request to a path, in their order.
fn only_form(world: &World, path: &str) -> Vec<(String, String)> {
    let requests = world.issuer.requests(path);
    assert_eq!(requests.len(), 1, "{path}");
    let address = reqwest::Url::parse(&format!("http://form/?{}", requests[0].body)).expect("a form");
    address.query_pairs().into_owned().collect()
}

fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn a_token_that_is_traded_in_brings_an_access_token_and_perhaps_its_successor() {
    let world = World::new();
    let issuers = mk_issuers(&world, |_| ());
    let access = world.token();
    let mut answer = json!({"access_token": access, "expires_in": 120, "refresh_token": "next"});
    world.issuer.change(|conduct| conduct.token = (200, answer.clone()));
    let minted = refresh(&world, &issuers).await.expect("a new token");
    assert_eq!(
        minted,
        Minted {
            access: Secret::new(&access),
            expires: NOON + 120,
            rotated: Some(Secret::new("next")),
            subject: Some("alice".to_owned()),
        }
    );
    let form = fields(&[("grant_type", "refresh_token"), ("refresh_token", REFRESH), ("client_id", "oscar")]);
    assert_eq!(only_form(&world, TOKEN), form);
    assert_eq!(world.issuer.requests(TOKEN)[0].authorization, None);

    let marked = mk_issuers(&world, |issuer| issuer.subject_suffix = "@here".to_owned());
    let minted = refresh(&world, &marked).await.expect("a new token");
    assert_eq!(minted.subject.as_deref(), Some("alice@here"));

    // The same token again is no successor; what is not said is five minutes; opaque tokens name nobody.
    answer = json!({"access_token": "opaque", "refresh_token": REFRESH});
    world.issuer.change(|conduct| conduct.token = (200, answer));
    let minted = refresh(&world, &issuers).await.expect("a new token");
    assert_eq!((minted.rotated, minted.subject, minted.expires), (None, None, NOON + 300));
}

#[tokio::test]
async fn a_client_shows_its_secret_as_the_issuer_wants_it() {
    for (methods, basic) in [
        (Value::Null, true),
        (json!(["client_secret_post", "client_secret_basic"]), true),
        (json!(["private_key_jwt", "client_secret_post"]), false),
    ] {
        let world = World::new();
        let issuers = mk_issuers(&world, |issuer| {
            with_secret(issuer);
            issuer.refresh_scope = Some("openid profile".to_owned());
        });
        world.issuer.change(|conduct| {
            conduct.discovery["token_endpoint_auth_methods_supported"] = methods;
            conduct.token = (200, json!({"access_token": "opaque"}));
        });
        refresh(&world, &issuers).await.expect("a new token");
        let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", REFRESH), ("scope", "openid profile")];
        let login = if basic {
            Some(format!("Basic {}", STANDARD.encode("oscar:s3cret%2Fhunter3%20%26")))
        } else {
            form.extend([("client_id", "oscar"), ("client_secret", CLIENT_SECRET)]);
            None
        };
        assert_eq!(only_form(&world, TOKEN), fields(&form));
        assert_eq!(world.issuer.requests(TOKEN)[0].authorization, login);
    }
}

#[tokio::test]
async fn the_secret_of_a_client_goes_with_no_other_client_and_in_no_unknown_way() {
    let world = World::new();
    let issuers = mk_issuers(&world, with_secret);
    let terms = Terms { client: "another".to_owned(), ..mk_terms(&world) };
    let _ = issuers.refresh(&terms, &Secret::new(REFRESH)).await;
    let sent = &world.issuer.requests(TOKEN)[0];
    assert!(sent.authorization.is_none() && !sent.body.contains("hunter3"), "{sent:?}");

    let world = World::new();
    let issuers = mk_issuers(&world, with_secret);
    world.issuer.change(|conduct| {
        conduct.discovery["token_endpoint_auth_methods_supported"] = json!(["private_key_jwt"]);
    });
    assert!(matches!(refresh(&world, &issuers).await, Err(IssuerError::Refused(_))));
    assert_eq!(world.issuer.count(TOKEN), 0);
}

#[tokio::test]
async fn what_an_issuer_says_decides_what_kind_of_failure_it_is() {
    let world = World::new();
    let issuers = mk_issuers(&world, with_secret);
    let grant = |text: &str| json!({"error": "invalid_grant", "error_description": text});
    let request = |text: &str| json!({"error": "invalid_request", "error_description": text});
    let long = "e".repeat(64);
    let cases = [
        (400, grant("Session not active"), "invalid", "says invalid_grant: Session not active"),
        (401, json!({"error": "invalid_grant"}), "invalid", "says invalid_grant"),
        // What it repeats is not repeated.
        (400, grant(&format!("unknown token {REFRESH}")), "invalid", "says invalid_grant"),
        (400, grant(&format!("client secret {CLIENT_SECRET}")), "invalid", "says invalid_grant"),
        (400, grant(&format!("hunter {long}")), "invalid", "says invalid_grant"),
        // Some issuers blame a used token in words alone; the same word is said of a bad request.
        (400, request("Refresh token is invalid or has already been claimed by another client."), "invalid", "claimed"),
        (400, request("Refresh token expired."), "invalid", "says invalid_request: Refresh token expired."),
        (400, request(&format!("The refresh token {REFRESH} was revoked.")), "invalid", "says invalid_request"),
        (400, request("No refresh token is found in request."), "refused", "says invalid_request"),
        (400, request("Unsupported scope is invalid"), "refused", "says invalid_request"),
        (503, request("Refresh token expired."), "unreachable", "says invalid_request"),
        (401, json!({"error": "invalid_client"}), "refused", "says invalid_client"),
        (400, json!({"error": REFRESH}), "refused", "answered 400"),
        (200, json!({"token": "x"}), "refused", "without an access token"),
        (404, Value::Null, "refused", "answered 404"),
        (503, Value::Null, "unreachable", "answered 503"),
        (429, json!({"error": "slow_down"}), "unreachable", "says slow_down"),
        (500, grant("a proxy that is broken"), "unreachable", "a proxy"),
        (400, json!({"error": "temporarily_unavailable"}), "unreachable", "says temporarily_unavailable"),
    ];
    let count = cases.len();
    for (status, body, kind, text) in cases {
        world.issuer.change(|conduct| conduct.token = (status, body.clone()));
        let error = refresh(&world, &issuers).await.expect_err("a failure");
        let found = match &error {
            IssuerError::InvalidGrant(_) => "invalid",
            IssuerError::Refused(_) => "refused",
            IssuerError::Unreachable(_) => "unreachable",
            IssuerError::NotListed(_) | IssuerError::Untold(_) => "another",
        };
        assert_eq!(found, kind, "{status} {body}: {error}");
        assert!(error.to_string().contains(text), "{status} {body}: {error}");
    }
    assert_eq!(world.issuer.count(TOKEN), count, "each is asked once");
}

#[tokio::test]
async fn a_token_is_sent_once_whatever_happens_to_the_answer() {
    for mischief in [Mischief::Drop, Mischief::Huge, Mischief::Endless, Mischief::Redirect, Mischief::Garbage] {
        let world = World::new();
        let issuers = mk_issuers(&world, |_| ());
        world.issuer.misbehave(TOKEN, mischief);
        let error = refresh(&world, &issuers).await.expect_err("a failure");
        let lost = matches!(mischief, Mischief::Drop | Mischief::Huge | Mischief::Endless);
        assert_eq!(matches!(error, IssuerError::Unreachable(_)), lost, "{mischief:?}: {error}");
        assert_eq!(world.issuer.count(TOKEN), 1, "{mischief:?}");
        assert_eq!(world.issuer.count("/token-moved"), 0);
    }
}

#[tokio::test]
async fn a_silent_token_endpoint_is_given_up_on() {
    let world = World::new();
    let mut settings = world.settings();
    settings.refresh_timeout = Duration::from_millis(200);
    let issuers = OidcIssuers::new(&settings).expect("settings that work");
    world.issuer.misbehave(TOKEN, Mischief::Hang);
    let error = refresh(&world, &issuers).await.expect_err("no answer");
    assert!(matches!(&error, IssuerError::Unreachable(why) if why.contains("no answer in time")), "{error}");
    assert_eq!(world.issuer.count(TOKEN), 1);
}

#[tokio::test]
async fn a_token_goes_to_safe_endpoints_of_listed_issuers_only() {
    for endpoint in ["http://127.0.0.2:1/token", "http://example.org/token", "ftp://127.0.0.1/", "nowhere", ""] {
        let world = World::new();
        let issuers = mk_issuers(&world, |_| ());
        world.issuer.change(|conduct| conduct.discovery["token_endpoint"] = json!(endpoint));
        let outcome = refresh(&world, &issuers).await;
        assert!(matches!(outcome, Err(IssuerError::Refused(_))), "{endpoint}: {outcome:?}");
        // Who only signs in is not concerned.
        world.identity().verify(&world.token()).await.expect("a good token");
    }
    let world = World::new();
    let issuers = mk_issuers(&world, |_| ());
    world.issuer.change(|conduct| conduct.discovery["token_endpoint"] = json!(["odd"]));
    assert!(matches!(refresh(&world, &issuers).await, Err(IssuerError::Refused(_))));
    world.identity().verify(&world.token()).await.expect("a good token");

    let terms = Terms { issuer: "https://elsewhere.example".to_owned(), client: "oscar".to_owned() };
    let outcome = issuers.refresh(&terms, &Secret::new(REFRESH)).await;
    assert_eq!(outcome, Err(IssuerError::NotListed("https://elsewhere.example".to_owned())));
    let outcome = issuers.revoke(&terms, &Secret::new(REFRESH)).await;
    assert!(matches!(outcome, Err(IssuerError::NotListed(_))));
}

#[tokio::test]
async fn an_issuer_that_cannot_describe_itself_is_unreachable_and_sees_no_token() {
    let world = World::new();
    let issuers = mk_issuers(&world, |_| ());
    world.issuer.misbehave(DISCOVERY, Mischief::Status(500));
    assert!(matches!(refresh(&world, &issuers).await, Err(IssuerError::Unreachable(_))));
    assert_eq!(world.issuer.count(TOKEN), 0);
}

#[tokio::test]
async fn a_token_is_given_back_where_the_issuer_takes_it() {
    let world = World::new();
    let issuers = mk_issuers(&world, |_| ());
    let revoke = async || issuers.revoke(&mk_terms(&world), &Secret::new(REFRESH)).await;
    assert_eq!(revoke().await, Ok(true));
    let form = [("token", REFRESH), ("token_type_hint", "refresh_token"), ("client_id", "oscar")];
    assert_eq!(only_form(&world, REVOKE), fields(&form));

    world.issuer.change(|conduct| conduct.revoke = (400, json!({"error": "unsupported_token_type"})));
    assert_eq!(revoke().await, Ok(false));
    world.issuer.change(|conduct| conduct.revoke = (401, json!({"error": "invalid_client"})));
    assert!(matches!(revoke().await, Err(IssuerError::Refused(_))));
    world.issuer.change(|conduct| conduct.revoke = (503, Value::Null));
    assert!(matches!(revoke().await, Err(IssuerError::Unreachable(_))));

    let world = World::new();
    let issuers = mk_issuers(&world, |_| ());
    world.issuer.change(|conduct| conduct.discovery["revocation_endpoint"] = Value::Null);
    assert_eq!(issuers.revoke(&mk_terms(&world), &Secret::new(REFRESH)).await, Ok(false));
}

#[tokio::test]
async fn whose_token_it_is_says_the_token_or_the_bearer_or_the_operator() {
    let world = World::new();
    let here = world.issuer.url.clone();
    let terms = |client: &str| Ok(Terms { issuer: here.clone(), client: client.to_owned() });
    let plain = mk_issuers(&world, |_| ());
    let configured = mk_issuers(&world, with_secret);
    let opaque = Secret::new("opaque");

    let both = mk_jwt(&json!({"iss": format!("{here}/"), "azp": "own", "client_id": "x"}));
    let bearer = mk_jwt(&json!({"iss": here, "client_id": "bearer's"}));
    assert_eq!(plain.terms(&both, None), terms("own"));
    assert_eq!(plain.terms(&both, Some(&bearer)), terms("own"));
    assert_eq!(configured.terms(&both, None), terms("own"));
    let anonymous = mk_jwt(&json!({"iss": here}));
    assert_eq!(plain.terms(&anonymous, Some(&bearer)), terms("bearer's"));
    assert_eq!(plain.terms(&opaque, Some(&bearer)), terms("bearer's"));
    assert_eq!(configured.terms(&opaque, Some(&anonymous)), terms("oscar"));

    // The client of another issuer is nobody here.
    let stranger = mk_jwt(&json!({"iss": "https://elsewhere.example", "azp": "theirs"}));
    assert_eq!(configured.terms(&anonymous, Some(&stranger)), terms("oscar"));
    assert!(
        matches!(plain.terms(&anonymous, Some(&stranger)), Err(IssuerError::Untold(why)) if why.contains("client_id"))
    );
    let not_listed = Err(IssuerError::NotListed("https://elsewhere.example".to_owned()));
    assert_eq!(configured.terms(&stranger, Some(&bearer)), not_listed);
    assert_eq!(configured.terms(&opaque, Some(&stranger)), not_listed);
    for beside in [None, Some(&opaque)] {
        assert!(matches!(configured.terms(&opaque, beside), Err(IssuerError::Untold(_))));
    }

    let nobody = OidcSettings { issuers: Vec::new(), ..world.settings() };
    let nobody = OidcIssuers::new(&nobody).expect("no issuer is fine here");
    assert_eq!(nobody.terms(&both, None), Err(IssuerError::NotListed(format!("{here}/"))));
}

/// A log of everything, of all libraries too.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_holds_a_token_not_even_the_chattiest() {
    let log = Log::default();
    let writer = log.clone();
    let everything = || tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
    let subscriber = everything().with_writer(move || writer.clone()).finish();
    // As long as there is one subscriber alone, a test of another thread that comes first to a
    // place where something is logged switches that place off for all.
    let _second = tracing::Dispatch::new(everything().with_writer(std::io::sink).finish());
    let guard = tracing::subscriber::set_default(subscriber);
    let world = World::new();
    let issuers = mk_issuers(&world, with_secret);
    for mischief in [None, Some(Mischief::Drop), Some(Mischief::Redirect), Some(Mischief::Garbage)] {
        if let Some(mischief) = mischief {
            world.issuer.misbehave(TOKEN, mischief);
            world.issuer.misbehave(REVOKE, mischief);
        }
        refresh(&world, &issuers).await.expect_err("a failure");
        let _ = issuers.revoke(&mk_terms(&world), &Secret::new(REFRESH)).await;
    }
    world.issuer.behave();
    let answer = json!({"access_token": "access-hunter4", "refresh_token": "next-hunter5"});
    world.issuer.change(|conduct| conduct.token = (200, answer));
    refresh(&world, &issuers).await.expect("a new token");
    drop(guard);
    let text = String::from_utf8_lossy(&log.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    assert!(text.contains("127.0.0.1"), "something is logged: {text}");
    let login = STANDARD.encode("oscar:s3cret");
    assert!(!text.contains("hunter") && !text.contains(&login[..12]), "{text}");
}
