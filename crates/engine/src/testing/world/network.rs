//! The network between managers: what is sent may be late, lost, or heard twice, and so may the
//! answer.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use oscar_model::federation::expand::Audience;
use oscar_model::federation::plan::{Act, Found, Step};
use oscar_model::federation::record::Credential;
use oscar_model::identity::Principal;
use oscar_model::secret::Secret;
use oscar_model::service::Definition;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::federate::Letting;
use crate::own_peer::order_of;
use crate::ports::peers::{Call, Exchange, Invitation, PeerError, Peers, Sighting, Undone};
use crate::{Manager, OwnPeer, Terms};

use super::executor::{Life, Millis};
use super::ground::Ground;
use super::mint::{PLANTED, verify};

/// How long a caller waits for an answer.
const DEADLINE: Millis = 15_000;

/// What goes astray arrives within this time.
const LONGEST_DELAY: Millis = 90_000;

pub(super) struct SimPeers {
    pub(super) ground: Arc<Ground>,
    pub(super) life: Life,
    pub(super) own: Arc<OwnPeer>,
}

/// What a manager does with a request; `None` when nobody could be told from the credential.
type Handler<T> = Arc<dyn Fn(Arc<Manager>) -> BoxFuture<'static, T> + Send + Sync>;

impl SimPeers {
    fn own(&self, call: &Call<'_>) -> Option<&OwnPeer> {
        (self.ground.find(&call.contact.endpoint) == Some(self.life.site)).then_some(&*self.own)
    }

    /// One request and its answer; `None` when no answer came.
    async fn carry<T: Send + 'static>(&self, call: &Call<'_>, what: &str, handler: Handler<T>) -> Option<T> {
        let ground = &self.ground;
        ground.step(self.life).await;
        ground.count(|figures| figures.calls += 1);
        let answer = self.deliver(call, what, handler).await;
        ground.step(self.life).await;
        answer
    }

    async fn deliver<T: Send + 'static>(&self, call: &Call<'_>, what: &str, handler: Handler<T>) -> Option<T> {
        let (ground, from) = (&self.ground, self.life.site);
        let to = ground.find(&call.contact.endpoint)?;
        let line = |fate: &str| format!("c{from} → c{to}: {what} {}: {fate}", call.member.service_name);
        let rates = ground.rates();
        let way = if ground.dice(rates.late) { ground.between(500, DEADLINE - 1_000) } else { ground.between(1, 40) };
        ground.sim.sleep(way).await;
        if what != "look at" && ground.dice(rates.stray) {
            self.go_astray(to, line("arrives when nobody waits for it"), &handler);
        }
        if ground.is_cut(from, to) {
            ground.tell(|| line("no way there"));
            let patience = if ground.dice(5_000) { DEADLINE } else { 10 };
            ground.sim.sleep(patience).await;
            return None;
        }
        if ground.dice(rates.lose) {
            ground.tell(|| line("the request is lost"));
            ground.count(|figures| figures.requests_lost += 1);
            ground.sim.sleep(DEADLINE).await;
            return None;
        }
        let left = DEADLINE - way;
        let (mut answer, mut task) = self.hand_over(to, &handler)?;
        ground.tell(|| line("arrives"));
        if ground.dice(rates.repeat) {
            // Somebody between the two sends it again: the first answer is not waited for.
            let pause = ground.between(0, left / 4);
            ground.sim.sleep(pause).await;
            ground.tell(|| line("arrives again"));
            ground.count(|figures| figures.repeated += 1);
            (answer, task) = self.hand_over(to, &handler)?;
        }
        let lost = ground.dice(rates.lose);
        let answered = tokio::select! {
            biased;
            answered = answer => answered.ok(),
            () = ground.sim.sleep(left / 2) => {
                ground.tell(|| line("no answer in time"));
                if ground.dice(rates.hang_up) {
                    // Nobody waits for the answer: the server drops what it was doing.
                    ground.count(|figures| figures.hang_ups += 1);
                    ground.sim.hang_up(task);
                }
                return None;
            }
        };
        if lost || ground.is_cut(from, to) {
            ground.tell(|| line("the answer is lost"));
            ground.count(|figures| figures.answers_lost += 1);
            ground.sim.sleep(left / 2).await;
            return None;
        }
        let back = ground.between(1, 40);
        ground.sim.sleep(back).await;
        answered
    }

    /// A copy of a request that arrives much later, whatever becomes of the request itself.
    fn go_astray<T: Send + 'static>(&self, to: usize, line: String, handler: &Handler<T>) {
        let (ground, handler) = (self.ground.clone(), handler.clone());
        let delay = ground.between(DEADLINE, LONGEST_DELAY);
        ground.expect_stray(delay);
        self.ground.sim.spawn(None, async move {
            ground.sim.sleep(delay).await;
            let Some((manager, present)) = ground.at_work(to) else { return };
            ground.tell(|| line);
            ground.count(|figures| figures.strays += 1);
            let work = handler(manager);
            ground.sim.spawn(Some(present), async move {
                // Nobody waits for the answer.
                let _ = work.await;
            });
        });
    }

    fn hand_over<T: Send + 'static>(&self, to: usize, handler: &Handler<T>) -> Option<(oneshot::Receiver<T>, u64)> {
        let (manager, life) = self.ground.at_work(to)?;
        let (sender, receiver) = oneshot::channel();
        let work = handler(manager);
        let task = self.ground.sim.spawn(Some(life), async move {
            // Who asked may not be there any more.
            let _ = sender.send(work.await);
        });
        Some((receiver, task))
    }

    /// Whoever the call shows itself to be, as the called manager finds out.
    fn caller(&self, call: &Call<'_>) -> Option<Principal> {
        match call.credential {
            Credential::Bearer(token) => verify(&self.ground.sim, token),
            Credential::None | Credential::Basic(_) | Credential::MemberKey(_) => None,
        }
    }

    /// A refresh token stays where it was given.
    fn search(&self, definition: &Definition) {
        let leaks = definition.environment.secrets.values().any(|value| value.expose() == PLANTED);
        if leaks {
            self.ground.ledger().leaked(format!("c{} sends it with {}", self.life.site, definition.name));
        }
    }
}

fn unreachable() -> PeerError {
    PeerError::Unreachable("no answer".to_owned())
}

fn stranger() -> PeerError {
    PeerError::Credentials("the token is not good".to_owned())
}

fn refused(failure: &Failure) -> PeerError {
    PeerError::Refused(failure.to_string())
}

#[async_trait]
impl Peers for SimPeers {
    async fn look(&self, call: &Call<'_>, federation_id: &str) -> Sighting {
        if let Some(own) = self.own(call) {
            return own.look(call, federation_id).await;
        }
        let Some(caller) = self.caller(call) else {
            return Sighting { found: Found::Refused("the token is not good".to_owned()), audience: None };
        };
        let (name, id) = (call.member.service_name.clone(), federation_id.to_owned());
        let handler: Handler<_> = Arc::new(move |manager: Arc<Manager>| {
            let (caller, name, id) = (caller.clone(), name.clone(), id.clone());
            Box::pin(async move { manager.look_at_replica(&caller, &name, &id).await })
        });
        match self.carry(call, "look at", handler).await {
            Some(Ok(found)) => Sighting { found, audience: Some(Audience::Ours) },
            Some(Err(failure)) => {
                Sighting { found: Found::Unreachable(failure.to_string()), audience: Some(Audience::Ours) }
            }
            None => Sighting { found: Found::Unreachable("no answer".to_owned()), audience: None },
        }
    }

    async fn deploy(&self, call: &Call<'_>, step: &Step, token: &Secret) -> Result<(), PeerError> {
        if let Some(own) = self.own(call) {
            return own.deploy(call, step, token).await;
        }
        let caller = self.caller(call).ok_or_else(stranger)?;
        let Some(definition) = step.definition.as_deref() else { return Ok(()) };
        self.search(definition);
        let (definition, token, creates) = (definition.clone(), token.clone(), step.act == Act::Create);
        let order = order_of(&definition, call.time);
        let handler: Handler<_> = Arc::new(move |manager: Arc<Manager>| {
            let (caller, definition, token) = (caller.clone(), definition.clone(), token.clone());
            let terms = Terms { order: order.clone(), ..Terms::default() };
            Box::pin(async move {
                let done = if creates {
                    manager.create(&caller, definition, &token, terms).await
                } else {
                    manager.update(&caller, definition, &token, terms).await
                };
                done.map(drop)
            })
        });
        let done = self.carry(call, "deploy", handler).await.ok_or_else(unreachable)?;
        done.map_err(|failure| refused(&failure))
    }

    async fn withdraw(
        &self,
        call: &Call<'_>,
        step: &Step,
        federation_id: &str,
        operation: &str,
    ) -> Result<(), PeerError> {
        if let Some(own) = self.own(call) {
            return own.withdraw(call, step, federation_id, operation).await;
        }
        let caller = self.caller(call).ok_or_else(stranger)?;
        let (name, id) = (call.member.service_name.clone(), federation_id.to_owned());
        let (time, delete) = (call.time, step.act == Act::Delete);
        let handler: Handler<_> = Arc::new(move |manager: Arc<Manager>| {
            let (caller, name, id) = (caller.clone(), name.clone(), id.clone());
            Box::pin(async move {
                let letting = Letting { federation_id: &id, time, delete };
                manager.withdraw_replica(&caller, &name, letting).await
            })
        });
        let done = self.carry(call, "withdraw", handler).await.ok_or_else(unreachable)?;
        done.map_err(|failure| refused(&failure))
    }

    async fn undo(&self, call: &Call<'_>, step: &Step, operation: &str) -> Result<Undone, PeerError> {
        if let Some(own) = self.own(call) {
            return own.undo(call, step, operation).await;
        }
        let caller = self.caller(call).ok_or_else(stranger)?;
        let (name, operation) = (call.member.service_name.clone(), operation.to_owned());
        let handler: Handler<_> = Arc::new(move |manager: Arc<Manager>| {
            let (caller, name, operation) = (caller.clone(), name.clone(), operation.clone());
            Box::pin(async move { manager.undo_replica(&caller, &name, &operation).await })
        });
        let done = self.carry(call, "undo", handler).await.ok_or_else(unreachable)?;
        done.map(|()| Undone::ForGood).map_err(|failure| refused(&failure))
    }

    async fn join(&self, call: &Call<'_>, invitation: &Invitation) -> Result<(), PeerError> {
        if let Some(own) = self.own(call) {
            return own.join(call, invitation).await;
        }
        let caller = self.caller(call).ok_or_else(stranger)?;
        let (name, invitation) = (call.member.service_name.clone(), invitation.clone());
        let handler: Handler<_> = Arc::new(move |manager: Arc<Manager>| {
            let (caller, name, invitation) = (caller.clone(), name.clone(), invitation.clone());
            Box::pin(async move { manager.join(&caller, &name, &invitation).await })
        });
        let done = self.carry(call, "invite", handler).await.ok_or_else(unreachable)?;
        done.map_err(|failure| refused(&failure))
    }

    async fn sync(&self, call: &Call<'_>, exchange: &Exchange) -> Result<Exchange, PeerError> {
        if let Some(own) = self.own(call) {
            return own.sync(call, exchange).await;
        }
        let Credential::MemberKey(key) = call.credential else { return Err(stranger()) };
        let (name, key, exchange) = (call.member.service_name.clone(), key.clone(), exchange.clone());
        let handler: Handler<_> = Arc::new(move |manager: Arc<Manager>| {
            let (name, key, exchange) = (name.clone(), key.clone(), exchange.clone());
            Box::pin(async move {
                let holder = manager.key_holder(&name, key.expose()).await?;
                Some(manager.sync(&holder, &name, &exchange).await)
            })
        });
        let done = self.carry(call, "exchange with", handler).await.ok_or_else(unreachable)?;
        let done = done.ok_or_else(|| PeerError::Credentials("it is no key of that federation".to_owned()))?;
        done.map_err(|failure| refused(&failure))
    }
}
