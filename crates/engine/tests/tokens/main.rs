//! Refresh tokens at an issuer that rotates them and treats a second use as theft.

mod laws;
mod life;
mod losses;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use oscar_engine::memory::{MemoryAudit, MemoryIssuers, MemoryVault};
use oscar_engine::ports::StoreError;
use oscar_engine::ports::audit::Audit;
use oscar_engine::ports::clock::Clock;
use oscar_engine::ports::issuers::{Issuers, Minted, Terms};
use oscar_engine::ports::vault::Vault;
use oscar_engine::tokens::{Submitted, TokenFailure, Tokens};
use oscar_model::federation::record::{Grant, Holder};
use oscar_model::identity::{Owner, Subject};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;

const NOON: u64 = 1_800_000_000;
/// Of access tokens.
const LIFETIME: u64 = 300;

/// Stands still until it is told to go on.
struct TestClock(AtomicU64);

impl TestClock {
    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// What a vault does with a grant that it is to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conduct {
    Stores,
    Fails,
    /// Never answers.
    Hangs,
}

/// A vault that can be told not to store.
struct TestVault {
    kept: MemoryVault,
    conduct: Mutex<Conduct>,
}

impl TestVault {
    fn behave(&self, conduct: Conduct) {
        *self.conduct.lock().expect("no panic before") = conduct;
    }
}

#[async_trait]
impl Vault for TestVault {
    async fn put_grant(&self, grant: &Grant) -> Result<(), StoreError> {
        let conduct = *self.conduct.lock().expect("no panic before");
        match conduct {
            Conduct::Stores => self.kept.put_grant(grant).await,
            Conduct::Fails => Err(StoreError::Unavailable("told to fail".to_owned())),
            Conduct::Hangs => std::future::pending().await,
        }
    }

    async fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        self.kept.grant(id).await
    }

    async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        self.kept.grants().await
    }

    async fn remove_grant(&self, id: &str) -> Result<(), StoreError> {
        self.kept.remove_grant(id).await
    }
}

/// What lasts longer than a manager.
#[derive(Clone)]
struct World {
    clock: Arc<TestClock>,
    vault: Arc<TestVault>,
    issuers: Arc<MemoryIssuers>,
    audit: Arc<MemoryAudit>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(TestClock(AtomicU64::new(NOON)));
        let vault = TestVault { kept: MemoryVault::default(), conduct: Mutex::new(Conduct::Stores) };
        let issuers = MemoryIssuers::new(clock.clone(), LIFETIME);
        Self { clock, vault: Arc::new(vault), issuers: Arc::new(issuers), audit: Arc::default() }
    }

    /// What a manager has that was started just now.
    fn tokens(&self) -> Tokens {
        Tokens::new(self.vault.clone(), self.issuers.clone(), self.clock.clone(), self.audit.clone())
    }

    /// Somebody besides the manager uses a token.
    async fn use_elsewhere(&self, token: &Secret) -> Option<Minted> {
        let terms = Terms { issuer: MemoryIssuers::ISSUER.to_owned(), client: MemoryIssuers::CLIENT.to_owned() };
        self.issuers.refresh(&terms, token).await.ok()
    }

    async fn stored(&self, id: &str) -> Option<Grant> {
        self.vault.grant(id).await.expect("memory does not fail")
    }

    /// Acts and outcomes, the oldest first.
    /// Who did it, when a token was last revoked.
    async fn revoked_by(&self) -> String {
        let records = self.audit.recent(usize::MAX).await.expect("memory does not fail");
        let revoked = records.into_iter().find(|record| record.act == "token-revoked");
        revoked.map(|record| record.actor).unwrap_or_default()
    }

    async fn acts(&self) -> Vec<String> {
        let records = self.audit.recent(usize::MAX).await.expect("memory does not fail");
        for record in &records {
            assert!(!format!("{record:?}").contains("-token-0"), "a record holds a token: {record:?}");
        }
        records.into_iter().rev().map(|record| format!("{} {}", record.act, record.outcome)).collect()
    }
}

fn alice() -> Owner {
    Owner::User(Subject::parse("alice").expect("a subject"))
}

/// In a federation of its own.
fn service(name: &str) -> Holder {
    Holder::new(&ServiceName::parse(name).expect("a name"), "its-federation")
}

/// As a create does it.
async fn submit(tokens: &Tokens, name: &str, token: &Secret) -> Result<Submitted, TokenFailure> {
    tokens.submit(&alice(), "oscar-svc-alice", &service(name), token, None, true).await
}
