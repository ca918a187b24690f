//! The manager: ports, the operator's policy, and the use cases on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use oscar_model::access::{Action as Wish, decide};
use oscar_model::identity::{Owner, Principal, Subject, User};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::Cluster as KnownCluster;
use oscar_model::service::storage::StorageProviders;

use crate::failure::Failure;
use crate::federate::{Federator, Memory, Own, hex};
use crate::jobs::Dispatcher;
use crate::memory::{MemoryAudit, MemoryJournal};
use crate::onboarding::Onboarding;
use crate::ports::audit::Audit;
use crate::ports::clock::{Clock, Entropy};
use crate::ports::cluster::Cluster;
use crate::ports::journal::Journal;
use crate::ports::mint::{Mint, NoMint};
use crate::ports::peers::{NoPeers, Peers};
use crate::ports::services::{Entry, Scope, Services, Stored};
use crate::ports::settings::Settings;
use crate::ports::users::Users;
use crate::turns::Turns;

/// The world that a manager lives in.
#[derive(Clone)]
pub struct Ports {
    pub services: Arc<dyn Services>,
    pub users: Arc<dyn Users>,
    pub settings: Arc<dyn Settings>,
    pub cluster: Arc<dyn Cluster>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub federation: FederationPorts,
    /// Absent in a world that keeps definitions only.
    pub jobs: Option<Arc<Dispatcher>>,
}

/// What federations need of the world.
#[derive(Clone)]
pub struct FederationPorts {
    pub journal: Arc<dyn Journal>,
    pub peers: Arc<dyn Peers>,
    pub mint: Arc<dyn Mint>,
    pub audit: Arc<dyn Audit>,
    pub own: Own,
}

impl FederationPorts {
    /// For a manager that nobody federates with.
    pub fn none() -> Self {
        Self {
            journal: Arc::<MemoryJournal>::default(),
            peers: Arc::new(NoPeers),
            mint: Arc::new(NoMint),
            audit: Arc::<MemoryAudit>::default(),
            own: Own::default(),
        }
    }
}

/// What the operator decided.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    pub own_store: OwnStore,
    /// Providers that definitions may name without saying more.
    pub providers: StorageProviders,
    /// Clusters that definitions may name by id alone.
    pub registry: BTreeMap<String, KnownCluster>,
    /// Groups whose members may use this cluster; none lets every authenticated user in.
    pub groups: Vec<String>,
    /// Users who see what otherwise only the administrator sees of the cluster's state.
    pub admins: Vec<Subject>,
    /// Names of keys of the object store that are nobody's. A user is known there by his
    /// subject, so that nobody may have one of these for it.
    pub taken_subjects: Vec<String>,
}

/// The object store that belongs to the cluster.
#[derive(Debug, Clone, Default)]
pub struct OwnStore {
    pub endpoint: String,
    pub verify: bool,
    pub region: String,
    pub access_key: String,
    pub secret_key: Secret,
}

pub struct Manager {
    pub(crate) ports: Ports,
    pub(crate) policy: Policy,
    pub(crate) onboarding: Onboarding,
    /// Changes by users, one at a time for each name. Such a change may call other managers.
    pub(crate) changes: Turns,
    /// Writes of coordinators, one at a time for each name. Nobody calls anybody meanwhile: two
    /// services that name each other as members would wait for each other.
    pub(crate) turns: Turns,
    pub(crate) federator: Federator,
    pub(crate) jobs: Option<Arc<Dispatcher>>,
}

impl Manager {
    pub fn new(ports: Ports, policy: Policy) -> Self {
        let onboarding = Onboarding::new(ports.users.clone());
        let federation = ports.federation.clone();
        let federator = Federator {
            services: ports.services.clone(),
            journal: federation.journal,
            peers: federation.peers,
            mint: federation.mint,
            audit: federation.audit,
            clock: ports.clock.clone(),
            entropy: ports.entropy.clone(),
            own: federation.own,
            registry: policy.registry.clone(),
            memory: Memory::default(),
        };
        let jobs = ports.jobs.clone();
        Self { ports, policy, onboarding, changes: Turns::default(), turns: Turns::default(), federator, jobs }
    }

    /// Who looks after jobs here.
    pub fn jobs(&self) -> Result<&Arc<Dispatcher>, Failure> {
        self.jobs.as_ref().ok_or(Failure::NoJobs("in this world it keeps definitions only"))
    }

    pub fn federator(&self) -> &Federator {
        &self.federator
    }

    /// Gives a user a place of his own; called for every authenticated request, and cheap
    /// from the second one on.
    pub async fn welcome(&self, user: &User) -> Result<(), Failure> {
        let owner = Owner::User(user.subject.clone());
        self.onboarding.home(&owner, &user.name).await?;
        Ok(())
    }

    /// Whether nobody may sign in under that subject.
    pub fn is_taken(&self, subject: &Subject) -> bool {
        self.policy.taken_subjects.iter().any(|taken| taken == subject.as_str())
    }

    /// One service, if the caller may see it.
    pub async fn service(&self, principal: &Principal, name: &ServiceName) -> Result<Arc<Stored>, Failure> {
        let stored = self.stored_for(principal, name).await?;
        if decide(principal, Wish::See, &stored.service) { Ok(stored) } else { Err(Failure::NotVisible(name.clone())) }
    }

    /// Every service that the caller may see, by name. Broken ones are shown to the
    /// administrator alone: nobody else can do something about them.
    pub async fn services(&self, principal: &Principal) -> Result<Vec<Entry>, Failure> {
        let scope = match principal {
            Principal::Admin => Scope::All,
            Principal::User(user) => Scope::VisibleTo(user.subject.clone()),
            Principal::ServiceToken(name) => return Ok(vec![Entry::Good(self.stored(name).await?)]),
        };
        Ok(self.ports.services.list(&scope).await?)
    }

    /// Whether a token is that of the service. Unknown services and wrong tokens look alike.
    pub async fn service_by_token(&self, name: &ServiceName, token: &str) -> Option<Principal> {
        let stored = self.ports.services.get(name).await.ok().flatten()?;
        stored.service.token.matches(token).then(|| Principal::ServiceToken(name.clone()))
    }

    /// Whether the caller may start the service.
    pub async fn may_invoke(&self, principal: &Principal, name: &ServiceName) -> Result<(), Failure> {
        let stored = self.stored_for(principal, name).await?;
        if decide(principal, Wish::Invoke, &stored.service) { Ok(()) } else { Err(Failure::NotVisible(name.clone())) }
    }

    pub async fn image_repositories(&self) -> Result<Vec<String>, Failure> {
        Ok(self.ports.settings.image_repositories().await?)
    }

    pub async fn set_image_repositories(
        &self,
        principal: &Principal,
        repositories: Vec<String>,
    ) -> Result<Vec<String>, Failure> {
        if !principal.is_admin() {
            return Err(Failure::NotAdministrator);
        }
        self.ports.settings.set_image_repositories(repositories.clone()).await?;
        Ok(repositories)
    }

    /// The cluster's own store with the keys of this caller; none for a user of a manager that
    /// does not look after the store.
    pub async fn store_keys(&self, principal: &Principal) -> Result<OwnStore, Failure> {
        let mut store = self.policy.own_store.clone();
        if !principal.is_admin() {
            let keys = self.user_keys(principal).await?;
            store.access_key = keys.as_ref().map(|keys| keys.access_key.clone()).unwrap_or_default();
            store.secret_key = keys.map(|keys| keys.secret_key).unwrap_or_default();
        }
        Ok(store)
    }

    /// As [`Manager::stored`]; what is wrong with an unreadable definition quotes it, so only the
    /// administrator is told.
    pub(crate) async fn stored_for(&self, principal: &Principal, name: &ServiceName) -> Result<Arc<Stored>, Failure> {
        match self.stored(name).await {
            Err(Failure::Unreadable { .. }) if !principal.is_admin() => Err(Failure::NotVisible(name.clone())),
            other => other,
        }
    }

    pub(crate) async fn stored(&self, name: &ServiceName) -> Result<Arc<Stored>, Failure> {
        match self.ports.services.get(name).await {
            Ok(Some(stored)) => Ok(stored),
            Ok(None) => Err(Failure::NotFound(name.clone())),
            Err(error) => Err(Failure::of_service(error, name)),
        }
    }

    /// Whether the caller is shown the state of the whole cluster.
    pub fn sees_everything(&self, principal: &Principal) -> bool {
        match principal {
            Principal::Admin => true,
            Principal::User(user) => self.policy.admins.contains(&user.subject),
            Principal::ServiceToken(_) => false,
        }
    }

    /// 64 hexadecimal characters that nobody can guess.
    pub(crate) fn new_token(&self) -> Secret {
        let mut bytes = [0u8; 32];
        self.ports.entropy.fill(&mut bytes);
        Secret::new(hex(&bytes))
    }
}
