//! Federations: a service and its replicas on other clusters, kept as one.
//!
//! A *create* is all or nothing: it is journalled before the first call and taken back when one
//! fails. Everything later changes only what is wanted, durably; [`Federator::reconcile`] then
//! makes it so, however often it takes. Who is in a federation is a membership that merges; the
//! definition of the coordinator is what that membership says.

mod access;
mod channel;
mod create;
mod edit;
mod foresee;
mod member;
mod reconcile;
mod remove;
mod states;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use oscar_model::federation::address::is_same;
use oscar_model::federation::expand::FEDERATION_ID_ANNOTATION;
use oscar_model::federation::membership::Place;
use oscar_model::federation::plan::Obstacle;
use oscar_model::federation::record::{AuditRecord, Contact, FederationRecord, Seconds};
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::service::{Cluster, Definition, Sensitive};

use crate::failure::Failure;
use crate::ports::audit::Audit;
use crate::ports::clock::{Clock, Entropy};
use crate::ports::journal::Journal;
use crate::ports::mint::Mint;
use crate::ports::peers::{PeerError, Peers};
use crate::ports::services::Services;
use crate::tokens::MANAGER;
use crate::turns::Turns;

use access::Lent;
pub(crate) use access::logins;
use states::States;

pub use channel::KeyHolder;
pub use create::{Create, CreateFailure, Prepared};
pub use edit::Edited;
pub use foresee::{Foreseen, Foresight};
pub use member::{Letting, Member};
pub(crate) use member::{raise_fence, released};
pub use reconcile::Repair;
pub use view::{Graph, Node, View};

/// The coordinator's side, and what a worker of our kind shares with it.
pub struct Federator {
    pub services: Arc<dyn Services>,
    pub journal: Arc<dyn Journal>,
    pub peers: Arc<dyn Peers>,
    pub mint: Arc<dyn Mint>,
    pub audit: Arc<dyn Audit>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub own: Own,
    /// Clusters that definitions may name by id alone.
    pub registry: BTreeMap<String, Cluster>,
    pub(crate) memory: Memory,
}

/// What a manager says of itself to others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own {
    pub public_url: String,
    /// Every address under which this manager is itself, the public one too.
    pub urls: Vec<String>,
    pub instance_id: String,
    /// The operator's name for this cluster, for definitions that give it none.
    pub cluster_id: String,
    /// How long a create may be another manager's that shares this journal. Zero where nobody
    /// else does.
    pub grace: Seconds,
    /// How long whoever changes a federation is kept waiting for its members, however many of them
    /// are slow in turn. Without one, as long as it takes.
    pub patience: Option<Duration>,
}

/// What is known as long as the manager runs.
#[derive(Default)]
pub struct Memory {
    pub(crate) states: States,
    lent: Lent,
    /// Records change one at a time for each service.
    records: Turns,
    /// One look and repair at a time for each service.
    repairs: Turns,
    /// Creates that are under way here: nobody else takes them back.
    running: Running,
    /// Something changed; somebody should look before the next tick.
    pub(crate) nudge: tokio::sync::Notify,
}

/// The ids of operations that somebody is carrying out.
#[derive(Default)]
struct Running(Mutex<BTreeSet<String>>);

impl Running {
    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As long as what is returned lives; also when its task is dropped half-way.
    fn begin(&self, id: &str) -> Begun<'_> {
        self.ids().insert(id.to_owned());
        Begun { running: self, id: id.to_owned() }
    }

    fn contains(&self, id: &str) -> bool {
        self.ids().contains(id)
    }
}

struct Begun<'a> {
    running: &'a Running,
    id: String,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.running.ids().remove(&self.id);
    }
}

/// What became of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberOutcome {
    pub member: MemberId,
    pub kind: Kind,
    /// Blank when all is well.
    pub trouble: String,
}

/// What sort of trouble it is, for those who must react to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Well,
    /// Nothing of ours is there, and something that was sent may still arrive.
    Awaited,
    Unreachable,
    /// It answered that it will not.
    Refused,
    /// Its manager cannot take the part that it was given.
    Unfit,
    /// Nobody can speak for the owner there.
    Credentials,
    /// The name belongs to somebody else or to another federation.
    Taken,
}

impl MemberOutcome {
    pub(crate) fn well(member: &MemberId) -> Self {
        Self { member: member.clone(), kind: Kind::Well, trouble: String::new() }
    }

    pub(crate) fn of_obstacle(member: &MemberId, obstacle: &Obstacle) -> Self {
        let kind = match obstacle {
            Obstacle::OtherFederation | Obstacle::SomebodyElses => Kind::Taken,
            Obstacle::Refused(_) => Kind::Credentials,
            Obstacle::Unreachable(_) | Obstacle::NotLooked => Kind::Unreachable,
        };
        Self { member: member.clone(), kind, trouble: describe_obstacle(obstacle) }
    }

    pub(crate) fn of_error(member: &MemberId, error: &PeerError) -> Self {
        let kind = match error {
            PeerError::Unreachable(_) => Kind::Unreachable,
            PeerError::Credentials(_) => Kind::Credentials,
            PeerError::Refused(_) => Kind::Refused,
        };
        Self { member: member.clone(), kind, trouble: error.to_string() }
    }

    pub(crate) fn new(member: &MemberId, kind: Kind, trouble: impl Into<String>) -> Self {
        Self { member: member.clone(), kind, trouble: trouble.into() }
    }
}

impl std::fmt::Display for MemberOutcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let trouble = if self.kind == Kind::Well { "well" } else { &self.trouble };
        write!(out, "{}: {trouble}", self.member)
    }
}

/// What a round over several federations came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tended {
    /// How much is not as it should be.
    pub open: usize,
    /// What could not even be looked at, with the service that it is about; counted as open.
    pub failures: Vec<(ServiceName, Failure)>,
}

impl Tended {
    pub(crate) fn of(outcomes: Vec<(ServiceName, Result<usize, Failure>)>) -> Self {
        let mut tended = Self::default();
        for (service, outcome) in outcomes {
            tended.note(service, outcome);
        }
        tended
    }

    pub(crate) fn note(&mut self, service: ServiceName, outcome: Result<usize, Failure>) {
        match outcome {
            Ok(open) => self.open += open,
            Err(failure) => {
                self.open += 1;
                self.failures.push((service, failure));
            }
        }
    }

    pub(crate) fn absorb(&mut self, other: Self) {
        self.open += other.open;
        self.failures.extend(other.failures);
    }
}

impl Federator {
    pub(crate) fn now(&self) -> Seconds {
        self.clock.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    /// An id that nobody else makes.
    pub(crate) fn new_id(&self) -> String {
        let mut bytes = [0u8; 16];
        self.entropy.fill(&mut bytes);
        let hex = hex(&bytes);
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    pub(crate) fn is_own(&self, endpoint: &str) -> bool {
        self.own.urls.iter().any(|url| is_same(url, endpoint))
    }

    /// Where a cluster is: the definition's word, else the operator's.
    pub(crate) fn place(&self, definition: &Definition, cluster_id: &str) -> Option<Place> {
        let cluster = definition.clusters.get(cluster_id).filter(|cluster| !cluster.endpoint.is_empty());
        let cluster = cluster.or_else(|| self.registry.get(cluster_id))?;
        Some(Place::new(cluster.endpoint.trim_end_matches('/'), cluster.ssl_verify))
    }

    /// The definition with the clusters that the operator knows, so that expansion finds them.
    pub(crate) fn with_registry(&self, definition: &Definition) -> Definition {
        let mut whole = definition.clone();
        for (id, cluster) in &self.registry {
            let known = whole.clusters.entry(id.clone()).or_insert_with(|| bare(cluster));
            if known.endpoint.is_empty() {
                known.endpoint.clone_from(&cluster.endpoint);
                known.ssl_verify = cluster.ssl_verify;
            }
        }
        whole
    }

    /// The federation that a service is in. A crash may have left the record of another one that
    /// never came about or has ended: the definition tells which one counts.
    pub(crate) async fn known(&self, service: &ServiceName) -> Result<Option<FederationRecord>, Failure> {
        let Some(record) = self.journal.federation(service).await? else { return Ok(None) };
        let stored = self.services.get(service).await.map_err(|error| Failure::of_service(error, service))?;
        let Some(stored) = stored else { return Ok(None) };
        let id = federation_of(&stored.service.definition);
        if record.federation_id == id {
            return Ok(Some(record));
        }
        let mut records = self.journal.federations().await?.into_iter();
        Ok(records.find(|record| {
            record.deleted.is_none() && record.own.service_name == *service && record.federation_id == id
        }))
    }

    /// Writes down who did what for whom.
    pub(crate) async fn note(
        &self,
        (actor, owner): (&str, &Owner),
        act: &str,
        service: &ServiceName,
        target: &str,
        outcome: &str,
    ) {
        let record = AuditRecord {
            at: self.now(),
            actor: if actor.is_empty() { MANAGER.to_owned() } else { actor.to_owned() },
            owner: owner.to_string(),
            act: act.to_owned(),
            service: service.to_string(),
            target: target.to_owned(),
            outcome: if outcome.is_empty() { "ok".to_owned() } else { outcome.to_owned() },
        };
        self.audit.append(record).await;
    }

    /// Which refresh token speaks for the owner from now on. Returns the former one.
    pub(crate) async fn hold_grant(
        &self,
        service: &ServiceName,
        grant: Option<String>,
    ) -> Result<Option<String>, Failure> {
        let _turn = self.memory.records.take(service).await;
        let Some(mut record) = self.known(service).await? else { return Ok(None) };
        let former = std::mem::replace(&mut record.access.grant, grant);
        self.journal.put_federation(&record).await?;
        self.memory.nudge.notify_one();
        Ok(former)
    }

    /// Waits until something was changed that should be looked at before the next tick.
    pub async fn nudged(&self) {
        self.memory.nudge.notified().await;
    }
}

fn bare(cluster: &Cluster) -> Cluster {
    Cluster { auth_user: String::new(), auth_password: oscar_model::secret::Secret::default(), ..cluster.clone() }
}

pub(crate) fn contact(place: &Place, audience: Option<oscar_model::federation::expand::Audience>) -> Contact {
    let audience = audience.unwrap_or(oscar_model::federation::expand::Audience::Ours);
    Contact { endpoint: place.url.clone(), verify: place.verify, audience }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Secrets are kept apart from a definition; what crosses is decided by expansion.
pub(crate) fn with_secrets(definition: &Definition, sensitive: &Sensitive) -> Definition {
    let mut whole = definition.clone();
    whole.environment.secrets.extend(sensitive.environment.clone());
    whole
}

/// Which federation a definition belongs to; blank when none.
pub(crate) fn federation_of(definition: &Definition) -> &str {
    definition.annotations.get(FEDERATION_ID_ANNOTATION).map_or("", String::as_str)
}

/// Why a member cannot be planned for, as a sentence.
fn describe_obstacle(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::OtherFederation => "its service of that name belongs to another federation".to_owned(),
        Obstacle::SomebodyElses => "its service of that name belongs to somebody else".to_owned(),
        Obstacle::Refused(cause) => format!("the credentials were refused: {cause}"),
        Obstacle::Unreachable(cause) => format!("it cannot be reached: {cause}"),
        Obstacle::NotLooked => "nobody looked there".to_owned(),
    }
}
