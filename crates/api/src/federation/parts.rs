//! What several records are made of.

use std::collections::BTreeMap;

use oscar_model::federation::expand::Audience;
use oscar_model::federation::plan::{Act, Step, Undo};
use oscar_model::federation::record::{Access, Bearer, Contact, Login};
use oscar_model::federation::topology::MemberId;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use serde::{Deserialize, Serialize};

use super::definition::{StoredDefinition, boxed};

pub(super) fn name(text: &str) -> Result<ServiceName, String> {
    ServiceName::parse(text).ok_or_else(|| "it does not name a service".to_owned())
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredId {
    cluster_id: String,
    service_name: String,
}

impl StoredId {
    pub(super) fn from_id(id: &MemberId) -> Self {
        Self { cluster_id: id.cluster_id.clone(), service_name: id.service_name.to_string() }
    }

    pub(super) fn to_id(&self) -> Result<MemberId, String> {
        Ok(MemberId { cluster_id: self.cluster_id.clone(), service_name: name(&self.service_name)? })
    }
}

/// An entry of a map by member: JSON has text for keys only.
#[derive(Serialize, Deserialize)]
pub(super) struct Of<T> {
    member: StoredId,
    value: T,
}

pub(super) fn list<T, S>(map: &BTreeMap<MemberId, T>, stored: impl Fn(&T) -> S) -> Vec<Of<S>> {
    map.iter().map(|(id, value)| Of { member: StoredId::from_id(id), value: stored(value) }).collect()
}

pub(super) fn map<T, S>(
    list: Vec<Of<S>>,
    read: impl Fn(S) -> Result<T, String>,
) -> Result<BTreeMap<MemberId, T>, String> {
    list.into_iter().map(|Of { member, value }| Ok((member.to_id()?, read(value)?))).collect()
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StoredAudience {
    Ours,
    Foreign,
}

impl StoredAudience {
    pub(super) fn from_audience(audience: Audience) -> Self {
        match audience {
            Audience::Ours => Self::Ours,
            Audience::Foreign => Self::Foreign,
        }
    }

    pub(super) fn to_audience(self) -> Audience {
        match self {
            Self::Ours => Audience::Ours,
            Self::Foreign => Audience::Foreign,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredContact {
    endpoint: String,
    verify: bool,
    audience: StoredAudience,
}

impl StoredContact {
    pub(super) fn from_contact(contact: &Contact) -> Self {
        let Contact { endpoint, verify, audience } = contact.clone();
        Self { endpoint, verify, audience: StoredAudience::from_audience(audience) }
    }

    pub(super) fn into_contact(self) -> Contact {
        Contact { endpoint: self.endpoint, verify: self.verify, audience: self.audience.to_audience() }
    }
}

#[derive(Serialize, Deserialize)]
struct StoredLogin {
    user: String,
    password: String,
}

#[derive(Serialize, Deserialize)]
struct StoredBearer {
    token: String,
    expires: u64,
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct StoredAccess {
    #[serde(default)]
    logins: BTreeMap<String, StoredLogin>,
    bearer: Option<StoredBearer>,
    grant: Option<String>,
    #[serde(default)]
    actor: String,
}

impl StoredAccess {
    pub(super) fn from_access(access: &Access) -> Self {
        let Access { logins, bearer, grant, actor } = access;
        let login =
            |login: &Login| StoredLogin { user: login.user.clone(), password: login.password.expose().to_owned() };
        let bearer = bearer.as_ref();
        Self {
            logins: logins.iter().map(|(id, one)| (id.clone(), login(one))).collect(),
            bearer: bearer.map(|b| StoredBearer { token: b.token.expose().to_owned(), expires: b.expires }),
            grant: grant.clone(),
            actor: actor.clone(),
        }
    }

    pub(super) fn into_access(self) -> Access {
        let login = |login: StoredLogin| Login { user: login.user, password: Secret::new(login.password) };
        Access {
            logins: self.logins.into_iter().map(|(id, one)| (id, login(one))).collect(),
            bearer: self.bearer.map(|b| Bearer { token: Secret::new(b.token), expires: b.expires }),
            grant: self.grant,
            actor: self.actor,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredAct {
    Create,
    Adopt,
    Update,
    Delete,
    Release,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredUndo {
    DeleteCreated,
    RestoreFormer,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredStep {
    member: StoredId,
    act: StoredAct,
    undo: StoredUndo,
    definition: Option<StoredDefinition>,
    former: Option<StoredDefinition>,
}

impl StoredStep {
    pub(super) fn from_step(step: &Step) -> Self {
        let Step { member, act, undo, definition, former } = step;
        Self {
            member: StoredId::from_id(member),
            act: match act {
                Act::Create => StoredAct::Create,
                Act::Adopt => StoredAct::Adopt,
                Act::Update => StoredAct::Update,
                Act::Delete => StoredAct::Delete,
                Act::Release => StoredAct::Release,
            },
            undo: match undo {
                Undo::DeleteCreated => StoredUndo::DeleteCreated,
                Undo::RestoreFormer => StoredUndo::RestoreFormer,
            },
            definition: definition.as_deref().map(StoredDefinition::from_definition),
            former: former.as_deref().map(StoredDefinition::from_definition),
        }
    }

    pub(super) fn into_step(self) -> Result<Step, String> {
        Ok(Step {
            member: self.member.to_id()?,
            act: match self.act {
                StoredAct::Create => Act::Create,
                StoredAct::Adopt => Act::Adopt,
                StoredAct::Update => Act::Update,
                StoredAct::Delete => Act::Delete,
                StoredAct::Release => Act::Release,
            },
            undo: match self.undo {
                StoredUndo::DeleteCreated => Undo::DeleteCreated,
                StoredUndo::RestoreFormer => Undo::RestoreFormer,
            },
            definition: boxed(self.definition)?,
            former: boxed(self.former)?,
        })
    }
}
