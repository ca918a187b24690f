//! Several clusters in one process: the real engine in each, and between them a network that
//! loses requests or answers, and managers that crash, exactly where a test says.
//!
//! Every call to a port of the coordinator is counted. A scenario is run once to learn how many
//! there are, and then once for each of them with a strike there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use oscar_model::federation::expand::Audience;
use oscar_model::federation::plan::{Act, Found, Step};
use oscar_model::federation::record::{Credential, FederationRecord, Fence, Former, Operation, Seconds};
use oscar_model::identity::{Owner, Principal};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Sensitive, Service};

use crate::federate::{Federator, Letting, Member, Memory, Own};
use crate::memory::{FixedClock, MemoryAudit, MemoryJournal, MemoryServices, SeededEntropy};
use crate::ports::StoreError;
use crate::ports::journal::Journal;
use crate::ports::mint::NoMint;
use crate::ports::peers::{Call, Exchange, Invitation, PeerError, Peers, Sighting, Undone};
use crate::ports::services::{Entry, Revision, Scope, Services, Stored};

/// What happens at the chosen call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// The request is lost: no effect, and the caller is told so.
    FailBefore,
    /// The answer is lost: the effect is there, and the caller does not know.
    FailAfter,
    /// The manager dies before the call has an effect.
    CrashBefore,
    /// The manager dies when the call has had its effect.
    CrashAfter,
}

/// Counts calls and strikes at one of them.
#[derive(Default)]
pub struct Fate {
    calls: AtomicUsize,
    strike: Mutex<Option<(usize, Strike)>>,
    crashed: tokio::sync::Notify,
}

impl Fate {
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Starts counting anew, to strike at call `at`.
    pub fn plan(&self, strike: Option<(usize, Strike)>) {
        self.calls.store(0, Ordering::SeqCst);
        *self.strike.lock().unwrap_or_else(PoisonError::into_inner) = strike;
    }

    /// Runs `work` until it ends or the manager dies: then everything it held is dropped.
    pub async fn live<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.crashed.notified() => None,
            done = work => Some(done),
        }
    }

    async fn call<T>(&self, lost: impl Fn() -> Option<T>, work: impl Future<Output = T>) -> T {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let planned = *self.strike.lock().unwrap_or_else(PoisonError::into_inner);
        let strike = planned.filter(|(at, _)| *at == number).map(|(_, strike)| strike);
        match strike {
            None => work.await,
            Some(Strike::FailBefore) => match lost() {
                Some(error) => error,
                None => work.await,
            },
            Some(Strike::FailAfter) => {
                let done = work.await;
                lost().unwrap_or(done)
            }
            Some(Strike::CrashBefore) => self.die().await,
            Some(Strike::CrashAfter) => {
                let _ = work.await;
                self.die().await
            }
        }
    }

    async fn die<T>(&self) -> T {
        self.crashed.notify_one();
        std::future::pending().await
    }
}

/// One cluster: what it keeps, and whether it answers.
pub struct Cluster {
    pub services: Arc<MemoryServices>,
    pub journal: Arc<MemoryJournal>,
    down: Mutex<bool>,
}

impl Cluster {
    fn member(&self) -> Member {
        Member { services: self.services.clone(), journal: self.journal.clone(), now: 1_000_000 }
    }

    pub fn set_down(&self, down: bool) {
        *self.down.lock().unwrap_or_else(PoisonError::into_inner) = down;
    }

    fn is_down(&self) -> bool {
        *self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that a user could see or lose here, secrets included.
    pub async fn snapshot(&self) -> BTreeMap<String, (Service, Sensitive)> {
        let mut seen = BTreeMap::new();
        for entry in self.services.list(&Scope::All).await.expect("listed") {
            if let Entry::Good(stored) = entry {
                let sensitive = self.services.reveal(stored.service.name()).await.expect("revealed");
                seen.insert(stored.service.name().to_string(), (stored.service.clone(), sensitive));
            }
        }
        seen
    }
}

/// Clusters by endpoint, and the fate of the coordinator at the first of them.
pub struct World {
    pub clusters: BTreeMap<String, Arc<Cluster>>,
    pub fate: Arc<Fate>,
    /// How often something was written at a member.
    pub writes: Arc<AtomicUsize>,
    entropy: Arc<SeededEntropy>,
}

fn own(endpoint: &str) -> Own {
    Own {
        public_url: endpoint.to_owned(),
        urls: vec![endpoint.to_owned()],
        instance_id: format!("instance of {endpoint}"),
        cluster_id: String::new(),
        grace: 0,
        patience: None,
    }
}

impl World {
    pub fn new(endpoints: &[&str]) -> Self {
        let mk = |endpoint: &&str| {
            let cluster = Cluster { services: Arc::default(), journal: Arc::default(), down: Mutex::new(false) };
            ((*endpoint).to_owned(), Arc::new(cluster))
        };
        Self {
            clusters: endpoints.iter().map(mk).collect(),
            fate: Arc::default(),
            writes: Arc::default(),
            entropy: Arc::new(SeededEntropy::new(7)),
        }
    }

    pub fn at(&self, endpoint: &str) -> &Arc<Cluster> {
        &self.clusters[endpoint]
    }

    /// The coordinator's engine at `endpoint`, every call of it in the hands of fate. A restart
    /// after a crash is another one of these.
    pub fn federator(&self, endpoint: &str) -> Federator {
        let home = self.at(endpoint);
        Federator {
            services: Arc::new(Fated { inner: home.services.clone() as Arc<dyn Services>, fate: self.fate.clone() }),
            journal: Arc::new(Fated { inner: home.journal.clone() as Arc<dyn Journal>, fate: self.fate.clone() }),
            peers: Arc::new(Network {
                clusters: self.clusters.clone(),
                fate: self.fate.clone(),
                writes: self.writes.clone(),
            }),
            mint: Arc::new(NoMint),
            audit: Arc::<MemoryAudit>::default(),
            clock: Arc::new(FixedClock(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000))),
            entropy: self.entropy.clone(),
            own: own(endpoint),
            registry: BTreeMap::new(),
            memory: Memory::default(),
        }
    }

    pub async fn snapshot(&self) -> BTreeMap<String, BTreeMap<String, (Service, Sensitive)>> {
        let mut all = BTreeMap::new();
        for (endpoint, cluster) in &self.clusters {
            all.insert(endpoint.clone(), cluster.snapshot().await);
        }
        all
    }
}

struct Network {
    clusters: BTreeMap<String, Arc<Cluster>>,
    fate: Arc<Fate>,
    writes: Arc<AtomicUsize>,
}

impl Network {
    fn reach(&self, call: &Call<'_>) -> Result<Member, PeerError> {
        Ok(self.cluster(call)?.member())
    }

    fn cluster(&self, call: &Call<'_>) -> Result<&Arc<Cluster>, PeerError> {
        let cluster = self.clusters.get(&call.contact.endpoint).filter(|cluster| !cluster.is_down());
        cluster.ok_or_else(lost)
    }

    /// The engine of the called manager, without fate: only the coordinator is struck.
    fn engine(&self, call: &Call<'_>) -> Result<Federator, PeerError> {
        let cluster = self.cluster(call)?;
        Ok(Federator {
            services: cluster.services.clone(),
            journal: cluster.journal.clone(),
            peers: Arc::new(Self {
                clusters: self.clusters.clone(),
                fate: Arc::default(),
                writes: self.writes.clone(),
            }),
            mint: Arc::new(NoMint),
            audit: Arc::<MemoryAudit>::default(),
            clock: Arc::new(FixedClock(SystemTime::UNIX_EPOCH)),
            entropy: Arc::new(SeededEntropy::new(11)),
            own: own(&call.contact.endpoint),
            registry: BTreeMap::new(),
            memory: Memory::default(),
        })
    }
}

fn lost() -> PeerError {
    PeerError::Unreachable("no answer".to_owned())
}

fn refused(failure: &crate::Failure) -> PeerError {
    PeerError::Refused(failure.to_string())
}

fn principal(owner: &Owner) -> Principal {
    Principal::of_owner(owner)
}

#[async_trait]
impl Peers for Network {
    async fn look(&self, call: &Call<'_>, federation_id: &str) -> Sighting {
        let nobody = || Sighting { found: Found::Unreachable("no answer".to_owned()), audience: None };
        self.fate
            .call(|| Some(nobody()), async {
                let Ok(member) = self.reach(call) else { return nobody() };
                let found = member.look(&principal(call.owner), &call.member.service_name, federation_id).await;
                let found = found.unwrap_or_else(|failure| Found::Unreachable(failure.to_string()));
                Sighting { found, audience: Some(Audience::Ours) }
            })
            .await
    }

    async fn deploy(&self, call: &Call<'_>, step: &Step, token: &Secret) -> Result<(), PeerError> {
        self.fate
            .call(|| Some(Err(lost())), async {
                let member = self.reach(call)?;
                self.writes.fetch_add(1, Ordering::SeqCst);
                let Some(definition) = step.definition.as_deref() else { return Ok(()) };
                let deployed =
                    member.deploy(&principal(call.owner), "oscar-svc", definition.clone(), token, call.time).await;
                deployed.map_err(|failure| refused(&failure))
            })
            .await
    }

    async fn withdraw(
        &self,
        call: &Call<'_>,
        step: &Step,
        federation_id: &str,
        _operation: &str,
    ) -> Result<(), PeerError> {
        self.fate
            .call(|| Some(Err(lost())), async {
                let member = self.reach(call)?;
                self.writes.fetch_add(1, Ordering::SeqCst);
                let (name, delete) = (&call.member.service_name, step.act == Act::Delete);
                let letting = Letting { federation_id, time: call.time, delete };
                let withdrawn = member.withdraw(&principal(call.owner), name, letting).await;
                withdrawn.map_err(|failure| refused(&failure))
            })
            .await
    }

    async fn undo(&self, call: &Call<'_>, _step: &Step, operation: &str) -> Result<Undone, PeerError> {
        self.fate
            .call(|| Some(Err(lost())), async {
                let member = self.reach(call)?;
                let undone = member.undo(&principal(call.owner), &call.member.service_name, operation).await;
                undone.map(|()| Undone::ForGood).map_err(|failure| refused(&failure))
            })
            .await
    }

    async fn join(&self, call: &Call<'_>, invitation: &Invitation) -> Result<(), PeerError> {
        self.fate
            .call(|| Some(Err(lost())), async {
                let engine = self.engine(call)?;
                let joined = engine.accept(&principal(call.owner), &call.member.service_name, invitation).await;
                joined.map_err(|failure| refused(&failure))
            })
            .await
    }

    async fn sync(&self, call: &Call<'_>, exchange: &Exchange) -> Result<Exchange, PeerError> {
        self.fate
            .call(|| Some(Err(lost())), async {
                let engine = self.engine(call)?;
                let Credential::MemberKey(key) = call.credential else {
                    return Err(PeerError::Credentials("no key".to_owned()));
                };
                let holder = engine.key_holder(&call.member.service_name, key.expose()).await;
                let holder = holder.ok_or_else(|| PeerError::Credentials("unknown key".to_owned()))?;
                let answer = engine.answer(&holder, &call.member.service_name, exchange).await;
                answer.map_err(|failure| refused(&failure))
            })
            .await
    }
}

/// A port whose calls can be the last of their manager. The store of a living manager does not
/// fail here: that is the business of the adapters' own tests.
struct Fated<P: ?Sized> {
    inner: Arc<P>,
    fate: Arc<Fate>,
}

impl<P: ?Sized> Fated<P> {
    async fn call<T>(&self, work: impl Future<Output = T>) -> T {
        self.fate.call(|| None, work).await
    }
}

#[async_trait]
impl Services for Fated<dyn Services> {
    async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError> {
        self.call(self.inner.create(service, sensitive)).await
    }

    async fn replace(
        &self,
        service: Service,
        sensitive: Sensitive,
        expected: &Revision,
    ) -> Result<Arc<Stored>, StoreError> {
        self.call(self.inner.replace(service, sensitive, expected)).await
    }

    async fn remove(&self, name: &ServiceName, expected: Option<&Revision>) -> Result<(), StoreError> {
        self.call(self.inner.remove(name, expected)).await
    }

    async fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError> {
        self.call(self.inner.get(name)).await
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<Entry>, StoreError> {
        self.call(self.inner.list(scope)).await
    }

    async fn reveal(&self, name: &ServiceName) -> Result<Sensitive, StoreError> {
        self.call(self.inner.reveal(name)).await
    }
}

#[async_trait]
impl Journal for Fated<dyn Journal> {
    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError> {
        self.call(self.inner.put_operation(operation)).await
    }

    async fn remove_operation(&self, id: &str) -> Result<(), StoreError> {
        self.call(self.inner.remove_operation(id)).await
    }

    async fn operations(&self) -> Result<Vec<Operation>, StoreError> {
        self.call(self.inner.operations()).await
    }

    async fn put_federation(&self, federation: &FederationRecord) -> Result<(), StoreError> {
        self.call(self.inner.put_federation(federation)).await
    }

    async fn federation(&self, coordinator: &ServiceName) -> Result<Option<FederationRecord>, StoreError> {
        self.call(self.inner.federation(coordinator)).await
    }

    async fn federation_with_id(
        &self,
        federation_id: &str,
        service: &ServiceName,
    ) -> Result<Option<FederationRecord>, StoreError> {
        self.call(self.inner.federation_with_id(federation_id, service)).await
    }

    async fn federations(&self) -> Result<Vec<FederationRecord>, StoreError> {
        self.call(self.inner.federations()).await
    }

    async fn remove_federation(&self, federation_id: &str, service: &ServiceName) -> Result<(), StoreError> {
        self.call(self.inner.remove_federation(federation_id, service)).await
    }

    async fn keep_former(&self, former: &Former) -> Result<(), StoreError> {
        self.call(self.inner.keep_former(former)).await
    }

    async fn former(&self, name: &ServiceName, label: &str) -> Result<Option<Former>, StoreError> {
        self.call(self.inner.former(name, label)).await
    }

    async fn formers(&self) -> Result<Vec<(ServiceName, String)>, StoreError> {
        self.call(self.inner.formers()).await
    }

    async fn forget_former(&self, name: &ServiceName, label: &str) -> Result<(), StoreError> {
        self.call(self.inner.forget_former(name, label)).await
    }

    async fn put_fence(&self, fence: &Fence) -> Result<(), StoreError> {
        self.call(self.inner.put_fence(fence)).await
    }

    async fn fences(&self, service: &ServiceName) -> Result<Vec<Fence>, StoreError> {
        self.call(self.inner.fences(service)).await
    }

    async fn fences_of(&self, owner: &Owner) -> Result<Vec<Fence>, StoreError> {
        self.call(self.inner.fences_of(owner)).await
    }

    async fn forget_fences(&self, before: Seconds) -> Result<(), StoreError> {
        self.call(self.inner.forget_fences(before)).await
    }
}
