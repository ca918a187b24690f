use oscar_engine::memory::{MemoryAudit, MemoryVault, SeededEntropy};
use oscar_engine::ports::identity::{Identity, Refusal};
use oscar_engine::tokens::{TokenFailure, Tokens};
use oscar_model::federation::record::GrantState;
use oscar_model::federation::record::Holder;
use oscar_model::identity::{Owner, Subject};
use oscar_model::name::ServiceName;
use serde_json::Value;

use super::*;
use crate::outbound::oidc::{IssuerSettings, OidcIdentity, OidcIssuers, OidcSettings};

struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

async fn mk_idp(change: impl FnOnce(&mut DevIdpOptions)) -> DevIdp {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let user = |name: &str, group: &str| DevUser {
        name: name.to_owned(),
        subject: format!("{name}-subject"),
        groups: vec![group.to_owned()],
    };
    let mut options = DevIdpOptions::new(Arc::new(WallClock), Arc::new(SeededEntropy::new(7)));
    change(&mut options);
    DevIdp::start(listener, vec![user("alice", "vision"), user("bob", "physics")], options).expect("a provider")
}

fn mk_settings(idp: &DevIdp) -> OidcSettings {
    OidcSettings::new(vec![IssuerSettings::new(idp.issuer_url())], Arc::new(WallClock))
}

fn mk_tokens(idp: &DevIdp) -> Tokens {
    let issuers = OidcIssuers::new(&mk_settings(idp)).expect("settings that work");
    let (vault, audit) = (Arc::<MemoryVault>::default(), Arc::<MemoryAudit>::default());
    Tokens::new(vault, Arc::new(issuers), Arc::new(WallClock), audit)
}

async fn post(idp: &DevIdp, path: &str, form: &[(&str, &str)]) -> (u16, Value) {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    let answer = client.post(format!("{}{path}", idp.issuer_url())).form(form).send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

fn alice() -> Owner {
    Owner::User(Subject::parse("alice-subject").expect("a subject"))
}

fn service(name: &str) -> Holder {
    Holder::from(ServiceName::parse(name).expect("a name"))
}

#[tokio::test]
async fn its_tokens_are_those_of_a_real_provider() {
    let idp = mk_idp(|_| ()).await;
    let mut settings = mk_settings(&idp);
    settings.accepted_groups = vec!["vision".to_owned()];
    settings.issuers[0].audience = Some(idp.client_id().to_owned());
    let identity = OidcIdentity::new(settings).expect("settings that work");
    let (access, refresh) = idp.mint("alice").expect("alice is known");
    let user = identity.verify(access.expose()).await.expect("a good token");
    assert_eq!((user.subject.as_str(), user.name.as_str()), ("alice-subject", "alice"));
    assert_eq!(user.groups, ["vision"]);
    let (bob, _) = idp.mint("bob").expect("bob is known");
    assert!(matches!(identity.verify(bob.expose()).await, Err(Refusal::NoAcceptedGroup(_))));
    let outcome = identity.verify(refresh.expose()).await;
    assert!(matches!(outcome, Err(Refusal::NotValid(_))), "a refresh token is no access token: {outcome:?}");
    assert!(idp.mint("carol").is_none());
}

#[tokio::test]
async fn a_password_signs_in_and_userinfo_tells_whom() {
    let idp = mk_idp(|_| ()).await;
    let password = idp.password("alice").expect("alice is known").clone();
    assert_ne!(Some(&password), idp.password("bob"));
    let sign_in = async |password: &str, client: &str| {
        let form = [("grant_type", "password"), ("client_id", client), ("username", "alice"), ("password", password)];
        post(&idp, "/token", &form).await
    };
    assert_eq!(sign_in("guess", "oscar").await.1["error"], "invalid_grant");
    assert_eq!(sign_in("", "oscar").await.1["error"], "invalid_grant");
    assert_eq!(sign_in(password.expose(), "stranger").await.1["error"], "invalid_client");
    assert_eq!(post(&idp, "/token", &[("client_id", "oscar")]).await.1["error"], "unsupported_grant_type");
    let (status, body) = sign_in(password.expose(), "oscar").await;
    assert_eq!((status, &body["expires_in"]), (200, &Value::from(300)));

    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    let ask = async |bearer: &str| {
        let request = client.get(format!("{}/userinfo", idp.issuer_url())).bearer_auth(bearer);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap_or_default())
    };
    let (status, claims) = ask(body["access_token"].as_str().expect("a token")).await;
    assert_eq!((status, &claims["sub"], &claims["groups"][0]), (200, &"alice-subject".into(), &"vision".into()));
    assert_eq!(ask(body["refresh_token"].as_str().expect("a token")).await.0, 401);
    assert_eq!(ask("nonsense").await.0, 401);
}

#[tokio::test]
async fn its_refresh_tokens_rotate_and_a_second_use_ends_the_session() {
    let idp = mk_idp(|options| options.access_lifetime = Duration::ZERO).await;
    let tokens = mk_tokens(&idp);
    let (_, given) = idp.mint("alice").expect("alice is known");
    let submitted = tokens.submit(&alice(), "", &service("one"), &given, None, true).await.expect("a good token");
    assert_eq!((submitted.state, submitted.warning), (GrantState::Valid, None));
    for _ in 0..3 {
        tokens.mint(&submitted.id).await.expect("an access token");
    }
    let form = [("grant_type", "refresh_token"), ("client_id", "oscar"), ("refresh_token", given.expose())];
    assert_eq!(post(&idp, "/token", &form).await.1["error"], "invalid_grant");
    let outcome = tokens.mint(&submitted.id).await;
    assert!(matches!(outcome, Err(TokenFailure::SignInAgain(_))), "{outcome:?}");

    let (_, bobs) = idp.mint("bob").expect("bob is known");
    let outcome = tokens.submit(&alice(), "", &service("two"), &bobs, None, true).await;
    assert_eq!(outcome, Err(TokenFailure::SomebodyElse));
}

#[tokio::test]
async fn its_refresh_tokens_stay_good_when_they_are_not_rotated_until_they_are_revoked() {
    let idp = mk_idp(|options| options.rotate = false).await;
    let (_, given) = idp.mint("alice").expect("alice is known");
    let form = [("grant_type", "refresh_token"), ("client_id", "oscar"), ("refresh_token", given.expose())];
    for _ in 0..3 {
        let (status, body) = post(&idp, "/token", &form).await;
        assert_eq!((status, body["refresh_token"].as_str()), (200, Some(given.expose())));
    }
    let tokens = mk_tokens(&idp);
    tokens.submit(&alice(), "", &service("one"), &given, None, true).await.expect("a good token");
    let revoked = tokens.revoke(&service("one"), "alice").await.expect("revoked");
    assert_eq!(revoked[0].at_issuer, oscar_engine::tokens::AtIssuer::Revoked);
    assert_eq!(post(&idp, "/token", &form).await.1["error"], "invalid_grant");
}

#[tokio::test]
async fn it_listens_on_this_machine_only_and_ends_with_its_handle() {
    let options = DevIdpOptions::new(Arc::new(WallClock), Arc::new(SeededEntropy::new(7)));
    let everywhere = TcpListener::bind("0.0.0.0:0").await.expect("a free port");
    let refused = DevIdp::start(everywhere, Vec::new(), options);
    assert!(matches!(refused, Err(DevIdpError::NotLoopback(_))));

    let idp = mk_idp(|_| ()).await;
    let address = idp.issuer_url().trim_start_matches("http://").to_owned();
    drop(idp);
    let mut patience = 0;
    while tokio::net::TcpStream::connect(&address).await.is_ok() {
        patience += 1;
        assert!(patience < 1000, "it still listens");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
