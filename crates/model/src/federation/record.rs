//! What a manager remembers of the federations that its services take part in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::identity::Owner;
use crate::name::ServiceName;
use crate::secret::Secret;
use crate::service::{Definition, Sensitive, Service};

use super::expand::{Audience, OPERATION_ANNOTATION};
use super::membership::Membership;
use super::plan::Step;
use super::topology::MemberId;

/// Seconds since the epoch.
pub type Seconds = u64;

/// How a member's cluster is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// The address of its manager.
    pub endpoint: String,
    /// Whether its certificate must be good.
    pub verify: bool,
    pub audience: Audience,
}

/// An account of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: Secret,
}

/// An access token of the owner, as long as it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    pub token: Secret,
    pub expires: Seconds,
}

/// With what the owner is represented at other clusters, best first: an account that was given
/// for that cluster alone, the token of the call, one that is minted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// By cluster id.
    pub logins: BTreeMap<String, Login>,
    pub bearer: Option<Bearer>,
    /// The stored refresh token, by its id.
    pub grant: Option<String>,
    /// Who asked for what is done with it: a subject, `cluster_admin`, the token of a service; blank
    /// when nobody did.
    pub actor: String,
}

/// What goes into one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    None,
    Basic(Login),
    Bearer(Secret),
    /// Between managers of one federation.
    MemberKey(Secret),
}

/// A create that is under way: all or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub id: String,
    pub federation_id: String,
    pub coordinator: ServiceName,
    pub owner: Owner,
    pub phase: Phase,
    pub steps: Vec<Step>,
    pub contacts: BTreeMap<MemberId, Contact>,
    pub access: Access,
    pub begun: Seconds,
    /// Since when nothing of it was found at members where it may still arrive.
    pub absent: BTreeMap<MemberId, Seconds>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Forward,
    /// Something failed; what was done is being taken back.
    Back,
}

/// The part that a service of this manager has in its federation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Coordinator,
    Worker {
        coordinator: MemberId,
        /// The address of the coordinator's manager.
        endpoint: String,
    },
}

/// A federation as one of its members knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederationRecord {
    pub federation_id: String,
    /// The service here, as the federation names it.
    pub own: MemberId,
    pub role: Role,
    pub owner: Owner,
    pub membership: Membership,
    /// Members that are to be removed, with how they are reached.
    pub leaving: BTreeMap<MemberId, Leaving>,
    /// When the coordinator was deleted: what is left is removing its members.
    pub deleted: Option<Seconds>,
    /// What removing needs when the definition is gone.
    pub access: Access,
    /// What each member was sent last.
    pub sent: BTreeMap<MemberId, Sent>,
    /// The keys of the channel to each member; a worker has the coordinator's alone.
    pub keys: BTreeMap<MemberId, Secret>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    pub contact: Contact,
    /// Remove its service too, if this federation created it. Otherwise it is only let go.
    pub delete: bool,
    /// Since when nothing of it was found, where something may still arrive.
    pub absent: Option<Seconds>,
}

/// What the coordinator knows of a member beyond the membership that all share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub audience: Audience,
    /// Of the secrets, which a manager does not show.
    pub secrets: String,
    /// Of the definition, so that what somebody changed there is told from what was changed here.
    /// Blank when it is not known.
    pub wanted: String,
    /// By which operation: what arrives late may have been written over it since. Blank when it is
    /// not known.
    pub operation: String,
    /// What a foreign manager made of what it was sent: both in sync as long as neither changes.
    pub echo: Option<Box<Echo>>,
    /// What a foreign manager had before it was adopted; our own kind keeps that itself.
    pub former: Option<Box<Definition>>,
}

impl Sent {
    /// Whether what is found was written by another operation than the last one that is known to
    /// have arrived.
    pub fn is_overwritten(&self, found: &Definition) -> bool {
        let operation = found.annotations.get(OPERATION_ANNOTATION);
        !self.operation.is_empty() && operation != Some(&self.operation)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Echo {
    pub wanted: Definition,
    pub found: Definition,
}

/// What stood under a name before something was written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Former {
    pub name: ServiceName,
    /// The operation, or `adopted:<federation id>` for what is given back at the end.
    pub label: String,
    /// Nothing, when nothing was there.
    pub service: Option<(Service, Sensitive)>,
}

/// What is not written here any more, however late it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    pub service: ServiceName,
    /// Who put it up. Those of the administrator hold for everybody.
    pub owner: Owner,
    pub against: Against,
    pub since: Seconds,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Against {
    /// An operation that was taken back.
    Operation(String),
    /// Whatever a federation sent before it let the service go: its coordinator knew less then.
    Federation { id: String, before: u64 },
}

impl Against {
    /// Later than everything: the federation has ended.
    pub const ENDED: u64 = i64::MAX as u64;
}

impl Fence {
    /// One of a label at most is kept for each service.
    pub fn label(&self) -> String {
        match &self.against {
            Against::Operation(id) => format!("operation:{id} of {}", self.owner),
            Against::Federation { id, .. } => format!("federation:{id} of {}", self.owner),
        }
    }

    pub fn holds_for(&self, owner: &Owner) -> bool {
        self.owner == Owner::Admin || self.owner == *owner
    }
}

/// A refresh token that is stored, once for all services that were given the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Of owner, issuer, client and the value that was submitted.
    pub id: String,
    pub owner: Owner,
    /// Where the owner's things live.
    pub namespace: String,
    pub issuer: String,
    pub client: String,
    /// As the issuer rotated it last.
    pub token: Secret,
    pub state: GrantState,
    pub submitted: Seconds,
    pub refreshed: Option<Seconds>,
    /// Those that use it. The last one to go takes it along.
    pub holders: BTreeSet<Holder>,
    /// When it was given to the last of them.
    pub given: Seconds,
    /// Since when its issuer is to be told that it has ended. Nobody uses it any more.
    pub ending: Option<Seconds>,
}

/// Who has a grant: a service in one federation. A name alone may be that of a successor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    pub service: ServiceName,
    /// Blank when the service is in none yet, or when it was not written down in which.
    pub federation_id: String,
}

impl Holder {
    pub fn new(service: &ServiceName, federation_id: &str) -> Self {
        Self { service: service.clone(), federation_id: federation_id.to_owned() }
    }

    /// The stored form: `<service>` or `<service>/<federation id>`.
    pub fn parse(text: &str) -> Option<Self> {
        let (service, federation_id) = text.split_once('/').unwrap_or((text, ""));
        Some(Self { service: ServiceName::parse(service)?, federation_id: federation_id.to_owned() })
    }
}

impl From<ServiceName> for Holder {
    fn from(service: ServiceName) -> Self {
        Self { service, federation_id: String::new() }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.federation_id.is_empty() {
            write!(out, "{}", self.service)
        } else {
            write!(out, "{}/{}", self.service, self.federation_id)
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantState {
    /// Not tried, with the reason.
    NotVerified(String),
    Valid,
    /// The issuer refused it, with the reason.
    SignInAgain(String),
}

/// One act that somebody may have to answer for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    pub at: Seconds,
    /// Who asked: a subject, `cluster_admin`, or the manager itself.
    pub actor: String,
    /// Under whose identity it was done.
    pub owner: String,
    /// One word: `token-refreshed`, `replica-deployed`, …
    pub act: String,
    /// The service here that it is about.
    pub service: String,
    /// The cluster, member or issuer that was called.
    pub target: String,
    /// `ok`, or what went wrong.
    pub outcome: String,
}
