//! Records of federations as bytes for a store.

use std::collections::BTreeSet;

use oscar_model::federation::membership::Membership;
use oscar_model::federation::record::{
    Against, AuditRecord, Echo, FederationRecord, Fence, Former, Grant, GrantState, Holder, Leaving, Operation, Phase,
    Role, Sent,
};
use oscar_model::secret::Secret;
use serde::{Deserialize, Serialize};

use super::channel::MembershipBody;
use super::definition::{StoredDefinition, StoredSensitive, StoredService, boxed, owner};
use super::parts::{Of, StoredAccess, StoredAudience, StoredContact, StoredId, StoredStep, list, map, name};
use super::{VERSION, parse};

/// A record that a store keeps as bytes. They hold its credentials as they are: sealing them, or
/// putting them where nobody else reads, is the store's part.
pub trait Kept: Sized {
    fn to_bytes(&self) -> Vec<u8>;

    /// The cause of a failure quotes nothing of what is stored.
    fn from_bytes(bytes: &[u8]) -> Result<Self, String>;
}

#[derive(Serialize)]
struct Outgoing<T> {
    version: u32,
    #[serde(flatten)]
    record: T,
}

#[derive(Deserialize)]
struct Head {
    version: u32,
}

fn write<T: Serialize>(record: T) -> Vec<u8> {
    // Our records have string keys and no failing `Serialize`.
    serde_json::to_vec(&Outgoing { version: VERSION, record }).unwrap_or_default()
}

fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let Head { version } = parse(bytes)?;
    if version > VERSION {
        return Err(format!("it was written by a newer version (its form is {version}, known is {VERSION})"));
    }
    parse(bytes)
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredPhase {
    Forward,
    Back,
}

#[derive(Serialize, Deserialize)]
struct StoredOperation {
    id: String,
    federation_id: String,
    coordinator: String,
    owner: String,
    phase: StoredPhase,
    steps: Vec<StoredStep>,
    contacts: Vec<Of<StoredContact>>,
    #[serde(default)]
    access: StoredAccess,
    begun: u64,
    #[serde(default)]
    absent: Vec<Of<u64>>,
}

impl Kept for Operation {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { id, federation_id, coordinator, owner, phase, steps, contacts, access, begun, absent } = self;
        write(StoredOperation {
            id: id.clone(),
            federation_id: federation_id.clone(),
            coordinator: coordinator.to_string(),
            owner: owner.to_string(),
            phase: match phase {
                Phase::Forward => StoredPhase::Forward,
                Phase::Back => StoredPhase::Back,
            },
            steps: steps.iter().map(StoredStep::from_step).collect(),
            contacts: list(contacts, StoredContact::from_contact),
            access: StoredAccess::from_access(access),
            begun: *begun,
            absent: list(absent, |since| *since),
        })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let stored: StoredOperation = read(bytes)?;
        Ok(Self {
            id: stored.id,
            federation_id: stored.federation_id,
            coordinator: name(&stored.coordinator)?,
            owner: owner(&stored.owner)?,
            phase: match stored.phase {
                StoredPhase::Forward => Phase::Forward,
                StoredPhase::Back => Phase::Back,
            },
            steps: stored.steps.into_iter().map(StoredStep::into_step).collect::<Result<_, _>>()?,
            contacts: map(stored.contacts, |contact| Ok(contact.into_contact()))?,
            access: stored.access.into_access(),
            begun: stored.begun,
            absent: map(stored.absent, Ok)?,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredRole {
    Coordinator,
    Worker { coordinator: StoredId, endpoint: String },
}

#[derive(Serialize, Deserialize)]
struct StoredLeaving {
    contact: StoredContact,
    delete: bool,
    #[serde(default)]
    absent: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct StoredSent {
    audience: StoredAudience,
    secrets: String,
    #[serde(default)]
    wanted: String,
    #[serde(default)]
    operation: String,
    echo: Option<StoredEcho>,
    former: Option<StoredDefinition>,
}

#[derive(Serialize, Deserialize)]
struct StoredEcho {
    wanted: StoredDefinition,
    found: StoredDefinition,
}

impl StoredSent {
    fn from_sent(sent: &Sent) -> Self {
        let Sent { audience, secrets, wanted, operation, echo, former } = sent;
        Self {
            audience: StoredAudience::from_audience(*audience),
            secrets: secrets.clone(),
            wanted: wanted.clone(),
            operation: operation.clone(),
            echo: echo.as_ref().map(|echo| StoredEcho {
                wanted: StoredDefinition::from_definition(&echo.wanted),
                found: StoredDefinition::from_definition(&echo.found),
            }),
            former: former.as_deref().map(StoredDefinition::from_definition),
        }
    }

    fn into_sent(self) -> Result<Sent, String> {
        let echo = |echo: StoredEcho| -> Result<_, String> {
            Ok(Box::new(Echo { wanted: echo.wanted.into_definition()?, found: echo.found.into_definition()? }))
        };
        Ok(Sent {
            audience: self.audience.to_audience(),
            secrets: self.secrets,
            wanted: self.wanted,
            operation: self.operation,
            echo: self.echo.map(echo).transpose()?,
            former: boxed(self.former)?,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredFederation {
    federation_id: String,
    own: StoredId,
    role: StoredRole,
    owner: String,
    membership: MembershipBody,
    #[serde(default)]
    leaving: Vec<Of<StoredLeaving>>,
    deleted: Option<u64>,
    #[serde(default)]
    access: StoredAccess,
    #[serde(default)]
    sent: Vec<Of<StoredSent>>,
    #[serde(default)]
    keys: Vec<Of<String>>,
}

impl Kept for FederationRecord {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { federation_id, own, role, owner, membership, leaving, deleted, access, sent, keys } = self;
        write(StoredFederation {
            federation_id: federation_id.clone(),
            own: StoredId::from_id(own),
            role: match role {
                Role::Coordinator => StoredRole::Coordinator,
                Role::Worker { coordinator, endpoint } => {
                    StoredRole::Worker { coordinator: StoredId::from_id(coordinator), endpoint: endpoint.clone() }
                }
            },
            owner: owner.to_string(),
            membership: MembershipBody::from(membership),
            leaving: list(leaving, |leaving| StoredLeaving {
                contact: StoredContact::from_contact(&leaving.contact),
                delete: leaving.delete,
                absent: leaving.absent,
            }),
            deleted: *deleted,
            access: StoredAccess::from_access(access),
            sent: list(sent, StoredSent::from_sent),
            keys: list(keys, |key| key.expose().to_owned()),
        })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let stored: StoredFederation = read(bytes)?;
        Ok(Self {
            federation_id: stored.federation_id,
            own: stored.own.to_id()?,
            role: match stored.role {
                StoredRole::Coordinator => Role::Coordinator,
                StoredRole::Worker { coordinator, endpoint } => {
                    Role::Worker { coordinator: coordinator.to_id()?, endpoint }
                }
            },
            owner: owner(&stored.owner)?,
            membership: Membership::try_from(stored.membership).map_err(|fault| fault.to_string())?,
            leaving: map(stored.leaving, |leaving| {
                let StoredLeaving { contact, delete, absent } = leaving;
                Ok(Leaving { contact: contact.into_contact(), delete, absent })
            })?,
            deleted: stored.deleted,
            access: stored.access.into_access(),
            sent: map(stored.sent, StoredSent::into_sent)?,
            keys: map(stored.keys, |key| Ok(Secret::new(key)))?,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredFormer {
    name: String,
    label: String,
    service: Option<(StoredService, StoredSensitive)>,
}

impl Kept for Former {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { name, label, service } = self;
        let service = service.as_ref().map(|(service, sensitive)| {
            (StoredService::from_service(service), StoredSensitive::from_sensitive(sensitive))
        });
        write(StoredFormer { name: name.to_string(), label: label.clone(), service })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let stored: StoredFormer = read(bytes)?;
        let service = stored.service.map(|(service, sensitive)| -> Result<_, String> {
            Ok((service.into_service()?, sensitive.into_sensitive()))
        });
        Ok(Self { name: name(&stored.name)?, label: stored.label, service: service.transpose()? })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredAgainst {
    Operation(String),
    Federation { id: String, before: u64 },
}

#[derive(Serialize, Deserialize)]
struct StoredFence {
    service: String,
    owner: String,
    against: StoredAgainst,
    since: u64,
}

impl Kept for Fence {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { service, owner, against, since } = self;
        write(StoredFence {
            service: service.to_string(),
            owner: owner.to_string(),
            against: match against.clone() {
                Against::Operation(id) => StoredAgainst::Operation(id),
                Against::Federation { id, before } => StoredAgainst::Federation { id, before },
            },
            since: *since,
        })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let stored: StoredFence = read(bytes)?;
        Ok(Self {
            service: name(&stored.service)?,
            owner: owner(&stored.owner)?,
            against: match stored.against {
                StoredAgainst::Operation(id) => Against::Operation(id),
                StoredAgainst::Federation { id, before } => Against::Federation { id, before },
            },
            since: stored.since,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredState {
    NotVerified(String),
    Valid,
    SignInAgain(String),
}

#[derive(Serialize, Deserialize)]
struct StoredGrant {
    id: String,
    owner: String,
    namespace: String,
    issuer: String,
    client: String,
    token: String,
    state: StoredState,
    submitted: u64,
    refreshed: Option<u64>,
    holders: Vec<String>,
    #[serde(default)]
    given: u64,
    #[serde(default)]
    ending: Option<u64>,
}

fn holder(text: &str) -> Result<Holder, String> {
    Holder::parse(text).ok_or_else(|| "it does not name a service".to_owned())
}

impl Kept for Grant {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { id, owner, namespace, issuer, client, token, state, submitted, refreshed, holders, given, ending } =
            self;
        write(StoredGrant {
            id: id.clone(),
            owner: owner.to_string(),
            namespace: namespace.clone(),
            issuer: issuer.clone(),
            client: client.clone(),
            token: token.expose().to_owned(),
            state: match state.clone() {
                GrantState::NotVerified(cause) => StoredState::NotVerified(cause),
                GrantState::Valid => StoredState::Valid,
                GrantState::SignInAgain(cause) => StoredState::SignInAgain(cause),
            },
            submitted: *submitted,
            refreshed: *refreshed,
            holders: holders.iter().map(ToString::to_string).collect(),
            given: *given,
            ending: *ending,
        })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let stored: StoredGrant = read(bytes)?;
        Ok(Self {
            id: stored.id,
            owner: owner(&stored.owner)?,
            namespace: stored.namespace,
            issuer: stored.issuer,
            client: stored.client,
            token: Secret::new(stored.token),
            state: match stored.state {
                StoredState::NotVerified(cause) => GrantState::NotVerified(cause),
                StoredState::Valid => GrantState::Valid,
                StoredState::SignInAgain(cause) => GrantState::SignInAgain(cause),
            },
            submitted: stored.submitted,
            refreshed: stored.refreshed,
            holders: stored.holders.iter().map(|text| holder(text)).collect::<Result<BTreeSet<_>, _>>()?,
            given: stored.given,
            ending: stored.ending,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredAudit {
    at: u64,
    actor: String,
    owner: String,
    act: String,
    service: String,
    target: String,
    outcome: String,
}

impl Kept for AuditRecord {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { at, actor, owner, act, service, target, outcome } = self.clone();
        write(StoredAudit { at, actor, owner, act, service, target, outcome })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let StoredAudit { at, actor, owner, act, service, target, outcome } = read(bytes)?;
        Ok(Self { at, actor, owner, act, service, target, outcome })
    }
}
