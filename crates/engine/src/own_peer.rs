//! Members that live on this very manager: several cluster ids may name one endpoint, also our
//! own. Their calls need no network and no credential, because the owner is known here.

use std::sync::{OnceLock, Weak};

use async_trait::async_trait;
use oscar_model::federation::expand::{Audience, OPERATION_ANNOTATION};
use oscar_model::federation::plan::{Act, Found, Step};
use oscar_model::federation::record::Credential;
use oscar_model::identity::{Principal, User};
use oscar_model::secret::Secret;
use oscar_model::service::Definition;

use crate::deploy::{Order, Terms};
use crate::failure::Failure;
use crate::federate::Letting;
use crate::manager::Manager;
use crate::ports::peers::{Call, Exchange, Invitation, PeerError, Peers, Sighting, Undone};

/// Calls that a manager makes to itself. It is made before the manager that it belongs to.
#[derive(Default)]
pub struct OwnPeer {
    manager: OnceLock<Weak<Manager>>,
}

impl OwnPeer {
    pub fn bind(&self, manager: Weak<Manager>) {
        // Bound once, at the start.
        let _ = self.manager.set(manager);
    }

    fn manager(&self) -> Result<std::sync::Arc<Manager>, PeerError> {
        let manager = self.manager.get().and_then(Weak::upgrade);
        manager.ok_or_else(|| PeerError::Unreachable("the manager is stopping".to_owned()))
    }
}

/// What a coordinator says beside a definition that it deploys.
pub(crate) fn order_of(definition: &Definition, time: u64) -> Option<Order> {
    let operation = definition.annotations.get(OPERATION_ANNOTATION)?;
    Some(Order { operation: operation.clone(), time })
}

/// The coordinator is this manager: it has asked already whether the owner is in that group.
fn member_of_group(principal: Principal, group: &str) -> Principal {
    match principal {
        Principal::User(user) if !group.is_empty() => Principal::User(User { groups: vec![group.to_owned()], ..user }),
        other => other,
    }
}

fn refused(failure: &Failure) -> PeerError {
    match failure {
        Failure::Store(_) => PeerError::Unreachable(failure.to_string()),
        _ => PeerError::Refused(failure.to_string()),
    }
}

#[async_trait]
impl Peers for OwnPeer {
    async fn look(&self, call: &Call<'_>, federation_id: &str) -> Sighting {
        let audience = Some(Audience::Ours);
        let manager = match self.manager() {
            Ok(manager) => manager,
            Err(error) => return Sighting { found: Found::Unreachable(error.to_string()), audience: None },
        };
        let principal = Principal::of_owner(call.owner);
        let found = manager.look_at_replica(&principal, &call.member.service_name, federation_id).await;
        let found = found.unwrap_or_else(|failure| Found::Unreachable(failure.to_string()));
        Sighting { found, audience }
    }

    async fn deploy(&self, call: &Call<'_>, step: &Step, token: &Secret) -> Result<(), PeerError> {
        let Some(definition) = step.definition.as_deref() else { return Ok(()) };
        let principal = member_of_group(Principal::of_owner(call.owner), &definition.vo);
        let manager = self.manager()?;
        let terms = Terms { order: order_of(definition, call.time), ..Terms::default() };
        let creates = step.act == Act::Create;
        let deployed = manager.deploy_replica(&principal, definition.clone(), token, &terms, creates).await;
        deployed.map(drop).map_err(|failure| refused(&failure))
    }

    async fn withdraw(
        &self,
        call: &Call<'_>,
        step: &Step,
        federation_id: &str,
        _operation: &str,
    ) -> Result<(), PeerError> {
        let principal = Principal::of_owner(call.owner);
        let letting = Letting { federation_id, time: call.time, delete: step.act == Act::Delete };
        let manager = self.manager()?;
        let withdrawn = manager.withdraw_replica(&principal, &call.member.service_name, letting).await;
        withdrawn.map_err(|failure| refused(&failure))
    }

    async fn undo(&self, call: &Call<'_>, _step: &Step, operation: &str) -> Result<Undone, PeerError> {
        let principal = Principal::of_owner(call.owner);
        let manager = self.manager()?;
        let undone = manager.undo_replica(&principal, &call.member.service_name, operation).await;
        undone.map(|()| Undone::ForGood).map_err(|failure| refused(&failure))
    }

    async fn join(&self, call: &Call<'_>, invitation: &Invitation) -> Result<(), PeerError> {
        let principal = Principal::of_owner(call.owner);
        let manager = self.manager()?;
        let joined = manager.join(&principal, &call.member.service_name, invitation).await;
        joined.map_err(|failure| refused(&failure))
    }

    async fn sync(&self, call: &Call<'_>, exchange: &Exchange) -> Result<Exchange, PeerError> {
        let manager = self.manager()?;
        let Credential::MemberKey(key) = call.credential else {
            return Err(PeerError::Credentials("members speak under the key of their channel".to_owned()));
        };
        let name = &call.member.service_name;
        let holder = manager.key_holder(name, key.expose()).await;
        let holder = holder.ok_or_else(|| PeerError::Credentials("it is no key of that federation".to_owned()))?;
        let answer = manager.sync(&holder, name, exchange).await;
        answer.map_err(|failure| refused(&failure))
    }
}
