//! Refresh tokens at Keycloak, in a realm that rotates them and takes a second use for theft.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use oscar::outbound::oidc::{IssuerSettings, OidcIdentity, OidcIssuers, OidcSettings};
use oscar_engine::memory::{MemoryAudit, MemoryVault};
use oscar_engine::ports::audit::Audit;
use oscar_engine::ports::clock::Clock;
use oscar_engine::ports::identity::Identity;
use oscar_engine::ports::vault::Vault;
use oscar_engine::tokens::{AtIssuer, Submitted, TokenFailure, Tokens};
use oscar_model::federation::record::{GrantState, Holder};
use oscar_model::identity::{Owner, Subject};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_testkit::{Keycloak, require};

/// Longer than an access token of Keycloak is good.
const LATER: u64 = 3600;

/// Goes as time does, from a point that a test can move: access tokens need not be waited out.
#[derive(Default)]
struct LeapClock(AtomicU64);

impl Clock for LeapClock {
    fn now(&self) -> SystemTime {
        SystemTime::now() + Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// A manager's tokens, and what the test sees of them.
struct World {
    keycloak: &'static Keycloak,
    clock: Arc<LeapClock>,
    vault: Arc<MemoryVault>,
    audit: Arc<MemoryAudit>,
    tokens: Tokens,
    identity: OidcIdentity,
    owner: Owner,
}

impl World {
    fn new(keycloak: &'static Keycloak) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (clock, vault, audit) = (Arc::<LeapClock>::default(), Arc::default(), Arc::default());
        // Keycloak is slow on a busy machine; no test here is about that.
        let settings = |clock| OidcSettings {
            request_timeout: Duration::from_mins(1),
            refresh_timeout: Duration::from_mins(1),
            ..OidcSettings::new(vec![IssuerSettings::new(keycloak.issuer())], clock)
        };
        let issuers = OidcIssuers::new(&settings(clock.clone())).expect("settings that work");
        let tokens = Tokens::new(
            Arc::<MemoryVault>::clone(&vault),
            Arc::new(issuers),
            clock.clone(),
            Arc::<MemoryAudit>::clone(&audit),
        );
        let identity = OidcIdentity::new(settings(Arc::<LeapClock>::default())).expect("settings that work");
        let subject = tokio::task::block_in_place(|| keycloak.token("alice").subject());
        let owner = Owner::User(Subject::parse(&subject).expect("a subject"));
        Self { keycloak, clock, vault, audit, tokens, identity, owner }
    }

    /// A refresh token of a new session.
    fn sign_in(&self, user: &str) -> Secret {
        Secret::new(tokio::task::block_in_place(|| self.keycloak.token(user).refresh))
    }

    async fn submit(&self, name: &str, token: &Secret) -> Result<Submitted, TokenFailure> {
        self.tokens.submit(&self.owner, "oscar-svc-alice", &service(name), token, None, true).await
    }

    /// An access token that was not made before.
    async fn mint_later(&self, id: &str) -> Result<Secret, TokenFailure> {
        self.clock.0.fetch_add(LATER, Ordering::SeqCst);
        self.tokens.mint(id).await
    }

    /// Somebody besides the manager uses a token.
    fn use_elsewhere(&self, token: &Secret) -> bool {
        tokio::task::block_in_place(|| self.keycloak.refresh(token.expose())).is_ok()
    }

    async fn stored(&self, id: &str) -> Secret {
        self.vault.grant(id).await.expect("memory does not fail").expect("it is stored").token
    }

    async fn refreshes(&self) -> usize {
        let records = self.audit.recent(usize::MAX).await.expect("memory does not fail");
        for record in &records {
            let text = format!("{record:?}");
            assert!(!text.contains("eyJ"), "a record holds a token: {text}");
        }
        records.iter().filter(|record| record.act == "token-refreshed").count()
    }
}

fn service(name: &str) -> Holder {
    Holder::from(ServiceName::parse(name).expect("a name"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_token_is_refreshed_again_and_its_access_tokens_are_the_owners() {
    let world = World::new(require!(Keycloak::shared()));
    let given = world.sign_in("alice");
    let grant = world.submit("one", &given).await.expect("a good token");
    assert_eq!((&grant.state, &grant.warning), (&GrantState::Valid, &None));
    let mut seen = vec![given];
    for _ in 0..2 {
        let access = world.mint_later(&grant.id).await.expect("an access token");
        let user = world.identity.verify(access.expose()).await.expect("a good token");
        assert_eq!(user.subject.as_str(), world.owner.as_str());
        let stored = world.stored(&grant.id).await;
        assert!(!seen.contains(&stored), "it is rotated with each use");
        seen.push(stored);
    }
    assert_eq!(world.refreshes().await, 3);
    let status = world.tokens.status(&grant.id).await.expect("it is known");
    assert_eq!((status.issuer.as_str(), status.client.as_str()), (world.keycloak.issuer(), world.keycloak.client_id()));

    let foreign = world.sign_in("bob");
    assert_eq!(world.submit("two", &foreign).await, Err(TokenFailure::SomebodyElse));
    let nonsense = Secret::new(format!("{}x", seen[0].expose()));
    assert!(matches!(world.submit("two", &nonsense).await, Err(TokenFailure::NotAccepted(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_share_a_token_that_is_tried_once_and_the_last_one_ends_it() {
    let world = World::new(require!(Keycloak::shared()));
    let given = world.sign_in("alice");
    let grant = world.submit("one", &given).await.expect("a good token");
    for name in ["one", "two", "one"] {
        assert_eq!(world.submit(name, &given).await.as_ref(), Ok(&grant));
    }
    assert_eq!(world.refreshes().await, 1);

    world.tokens.release(&grant.id, &service("one"), "alice").await.expect("released");
    world.mint_later(&grant.id).await.expect("the other service has it still");
    let last = world.stored(&grant.id).await;
    world.tokens.release(&grant.id, &service("two"), "alice").await.expect("released");
    assert!(matches!(world.tokens.mint(&grant.id).await, Err(TokenFailure::Unknown(_))));
    assert!(!world.use_elsewhere(&last), "it is revoked at the issuer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_replaced_and_the_former_one_revoked() {
    let world = World::new(require!(Keycloak::shared()));
    let (old, new) = (world.sign_in("alice"), world.sign_in("alice"));
    let first = world.submit("one", &old).await.expect("a good token");
    let former = world.stored(&first.id).await;
    let replaced = world.tokens.replace(&world.owner, "oscar-svc-alice", &service("one"), &new, None).await;
    let second = replaced.expect("a good token");
    assert_ne!(first.id, second.id);
    assert!(!world.use_elsewhere(&former), "the former one is revoked at the issuer");
    world.mint_later(&second.id).await.expect("the new one is not concerned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_revoked_ends_its_own_session_only() {
    let world = World::new(require!(Keycloak::shared()));
    let (ending, staying, bobs) = (world.sign_in("alice"), world.sign_in("alice"), world.sign_in("bob"));
    let grant = world.submit("one", &ending).await.expect("a good token");
    let other = world.submit("two", &staying).await.expect("a good token");
    let last = world.stored(&grant.id).await;
    let revoked = world.tokens.revoke(&service("one"), "alice").await.expect("revoked");
    assert_eq!(revoked.len(), 1);
    assert_eq!((&revoked[0].at_issuer, revoked[0].others.len()), (&AtIssuer::Revoked, 0));
    assert!(!world.use_elsewhere(&last));
    world.mint_later(&other.id).await.expect("another session of the same user");
    assert!(world.use_elsewhere(&bobs), "and one of another user");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_somebody_else_used_becomes_sign_in_again_in_sight() {
    let world = World::new(require!(Keycloak::shared()));
    let (given, staying, bobs) = (world.sign_in("alice"), world.sign_in("alice"), world.sign_in("bob"));
    let grant = world.submit("one", &given).await.expect("a good token");
    let other = world.submit("two", &staying).await.expect("a good token");
    world.mint_later(&grant.id).await.expect("an access token");

    // A thief uses what is stored: from then on either the manager or the thief comes second.
    let stolen = world.stored(&grant.id).await;
    assert!(world.use_elsewhere(&stolen));
    for _ in 0..3 {
        let outcome = world.mint_later(&grant.id).await;
        assert!(matches!(outcome, Err(TokenFailure::SignInAgain(_))), "{outcome:?}");
    }
    let status = world.tokens.status(&grant.id).await.expect("it is known");
    assert!(matches!(status.state, GrantState::SignInAgain(_)), "{status:?}");
    assert_eq!(world.refreshes().await, 3, "the issuer is not asked again");

    world.mint_later(&other.id).await.expect("another session of the same user");
    assert!(world.use_elsewhere(&bobs), "and one of another user");
    let again = world.sign_in("alice");
    let replaced = world.tokens.replace(&world.owner, "", &service("one"), &again, None).await;
    world.mint_later(&replaced.expect("a good token").id).await.expect("the owner has signed in again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_whose_predecessor_comes_again_becomes_sign_in_again_in_sight() {
    let world = World::new(require!(Keycloak::shared()));
    let (given, staying) = (world.sign_in("alice"), world.sign_in("alice"));
    let grant = world.submit("one", &given).await.expect("a good token");
    world.submit("two", &given).await.expect("it is known");
    let other = world.submit("three", &staying).await.expect("a good token");

    // The issuer cannot tell who is the thief, so nobody has the session any more.
    assert!(!world.use_elsewhere(&given), "it was used before");
    let outcome = world.mint_later(&grant.id).await;
    assert!(matches!(outcome, Err(TokenFailure::SignInAgain(_))), "{outcome:?}");
    for name in ["one", "two"] {
        let held = world.tokens.by_holder(&service(name)).await.expect("an answer");
        assert!(matches!(held[0].state, GrantState::SignInAgain(_)), "each service shows it: {held:?}");
    }
    world.mint_later(&other.id).await.expect("another session of the same user");
}
