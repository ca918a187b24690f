//! Other managers over HTTP: ours, and Go OSCAR.
//!
//! Every sentence that leaves here may be shown to the owner of a federation and may be logged:
//! none holds a credential, and what a stranger answered is not repeated.

mod answer;
pub mod body;
mod endpoint;
mod gate;
mod http;
mod look;
mod options;
mod resolver;
mod tardy;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use oscar_api::federation::channel::{ExchangeBody, UndoBody, WithdrawBody};
use oscar_api::json;
use oscar_api::service::{encode_for_peer, with_single_port};
use oscar_engine::ports::peers::{Call, Exchange, Invitation, PeerError, Peers, Sighting, Undone};
use oscar_model::federation::expand::{Audience, OPERATION_ANNOTATION};
use oscar_model::federation::plan::{Act, Found, Step, Undo};
use oscar_model::federation::record::Credential;
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::Definition;
use reqwest::{Method, StatusCode};

use answer::{Answer, Confidential};
use http::{Request, Session, Transport, Trouble};
use look::Shown;
pub use options::{FOREIGN_DEADLINE, PeersError, PeersOptions};

const SERVICES: &str = "/system/services";

/// The port [`Peers`] over HTTP.
pub struct HttpPeers {
    transport: Transport,
    own: OnceLock<Arc<dyn Peers>>,
    own_urls: BTreeSet<String>,
    deadline: Duration,
    foreign_deadline: Duration,
}

impl HttpPeers {
    pub fn new(options: PeersOptions) -> Result<Self, PeersError> {
        let transport = Transport::new(&options)?;
        let peers = Self {
            transport,
            own: OnceLock::new(),
            own_urls: options.own_urls.iter().filter_map(|url| endpoint::normalise(url)).collect(),
            deadline: options.deadline,
            foreign_deadline: options.foreign_deadline,
        };
        if let Some(own) = options.own {
            peers.set_own(own);
        }
        Ok(peers)
    }

    /// Who takes the calls that name this manager itself, for a manager that cannot be built
    /// before its peers. The first one stays.
    pub fn set_own(&self, own: Arc<dyn Peers>) {
        // A second one is dropped.
        let _ = self.own.set(own);
    }

    /// Several cluster ids may name one manager, also this one: such a call needs no network,
    /// and the public address need not be reachable from here.
    fn own(&self, call: &Call<'_>) -> Option<&dyn Peers> {
        let endpoint = endpoint::normalise(&call.contact.endpoint)?;
        self.own.get().filter(|_| self.own_urls.contains(&endpoint)).map(AsRef::as_ref)
    }

    async fn open<'a>(&'a self, call: &Call<'a>) -> Result<Session<'a>, PeerError> {
        let deadline = match call.contact.audience {
            Audience::Ours => self.deadline,
            Audience::Foreign => self.foreign_deadline,
        };
        Ok(self.transport.open(call, deadline).await?)
    }
}

#[async_trait]
impl Peers for HttpPeers {
    async fn look(&self, call: &Call<'_>, federation_id: &str) -> Sighting {
        if let Some(own) = self.own(call) {
            return own.look(call, federation_id).await;
        }
        let answer = async { self.transport.open(call, self.deadline).await?.ask(&get(call)).await };
        match answer.await {
            Ok(answer) => look::judge(&answer, call, federation_id),
            Err(trouble) => Sighting { found: Found::Unreachable(trouble.to_string()), audience: None },
        }
    }

    async fn deploy(&self, call: &Call<'_>, step: &Step, token: &Secret) -> Result<(), PeerError> {
        if let Some(own) = self.own(call) {
            return own.deploy(call, step, token).await;
        }
        let Some(definition) = &step.definition else {
            return Err(PeerError::Refused("there is nothing to write".to_owned()));
        };
        let mut confidential = Confidential::of(call.credential);
        confidential.add(token);
        confidential.add_definition(definition);
        let session = self.open(call).await?;
        let owner = match (call.credential, call.contact.audience, step.act) {
            // Go OSCAR lets its administrator say who the owner is, so it has to be said anew,
            // and overwrite anybody's service, so it has to be looked at.
            (Credential::Basic(_), Audience::Foreign, Act::Adopt | Act::Update) => {
                match present(&session, call).await? {
                    Some(shown) if shown.belongs_to(call) => owner_of(&shown, call),
                    Some(_) => return Err(PeerError::Refused("the name belongs to somebody else".to_owned())),
                    None => Owner::Admin,
                }
            }
            (Credential::Basic(_), ..) => Owner::Admin,
            _ => call.owner.clone(),
        };
        let method = if step.act == Act::Create { Method::POST } else { Method::PUT };
        let body = encode_for_peer(definition, token, &owner);
        let mut request = write(call, method, SERVICES.to_owned(), Some(body));
        request.order = order(call, definition);
        let answer = send(&session, call, request).await?;
        check_kind(call, &answer, &confidential)?;
        done(&answer, &confidential)
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
        let session = self.open(call).await?;
        if call.contact.audience == Audience::Ours {
            let body = WithdrawBody {
                federation_id: federation_id.to_owned(),
                operation: operation.to_owned(),
                time: call.time,
                delete: step.act == Act::Delete,
            };
            return ask_ours(&session, call, "withdraw", json::to_vec(&body)).await;
        }
        // Go OSCAR would remove or overwrite whatever has that name by now.
        let Some(shown) =
            present(&session, call).await?.filter(|shown| shown.belongs_to(call) && shown.is_of(federation_id))
        else {
            return Ok(());
        };
        if step.act == Act::Delete {
            return delete(&session, call).await;
        }
        // What was found before the last change may itself have been a replica already.
        let former = step.former.as_deref().filter(|former| !look::is_replica(former)).cloned();
        let former = former.unwrap_or_else(|| look::released(&shown.definition));
        put(&session, call, &former, &owner_of(&shown, call)).await
    }

    async fn undo(&self, call: &Call<'_>, step: &Step, operation: &str) -> Result<Undone, PeerError> {
        if let Some(own) = self.own(call) {
            return own.undo(call, step, operation).await;
        }
        let session = self.open(call).await?;
        if call.contact.audience == Audience::Ours {
            let body = UndoBody { operation: operation.to_owned() };
            return ask_ours(&session, call, "undo", json::to_vec(&body)).await.map(|()| Undone::ForGood);
        }
        let Some(shown) =
            present(&session, call).await?.filter(|shown| shown.belongs_to(call) && shown.was_written_by(operation))
        else {
            // Go OSCAR knows no operations: what arrives after this is taken.
            return Ok(Undone::Absent);
        };
        let undone = match (step.undo, &step.former) {
            (Undo::DeleteCreated, _) => delete(&session, call).await,
            (Undo::RestoreFormer, Some(former)) => put(&session, call, former, &owner_of(&shown, call)).await,
            (Undo::RestoreFormer, None) => {
                Err(PeerError::Refused("what was there before is not known, so it cannot be put back".to_owned()))
            }
        };
        undone.map(|()| Undone::ForGood)
    }

    async fn join(&self, call: &Call<'_>, invitation: &Invitation) -> Result<(), PeerError> {
        if let Some(own) = self.own(call) {
            return own.join(call, invitation).await;
        }
        let mut confidential = Confidential::of(call.credential);
        confidential.add(&invitation.key);
        let session = self.open(call).await?;
        let body = json::to_vec(&body::to_invitation(invitation));
        let request = write(call, Method::POST, federation_path(call, "join"), Some(body));
        let answer = session.ask(&request).await?;
        check_kind(call, &answer, &confidential)?;
        done(&answer, &confidential)
    }

    async fn sync(&self, call: &Call<'_>, exchange: &Exchange) -> Result<Exchange, PeerError> {
        if let Some(own) = self.own(call) {
            return own.sync(call, exchange).await;
        }
        let session = self.open(call).await?;
        let body = json::to_vec(&body::to_exchange(exchange));
        let mut request = write(call, Method::POST, federation_path(call, "sync"), Some(body));
        request.wanted = true;
        let answer = session.ask(&request).await?;
        let confidential = Confidential::of(call.credential);
        check_kind(call, &answer, &confidential)?;
        done(&answer, &confidential)?;
        let unreadable = |cause: &dyn std::fmt::Display| {
            let cause = answer::cut(&answer::clean(&cause.to_string()));
            PeerError::Unreachable(format!("its answer cannot be understood: {cause}"))
        };
        let bytes = answer.body?;
        let body: ExchangeBody = serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))?;
        let answered = body::from_exchange(body).map_err(|fault| unreadable(&fault))?;
        if answered.federation_id == exchange.federation_id {
            Ok(answered)
        } else {
            Err(PeerError::Refused("it answered about another federation".to_owned()))
        }
    }
}

fn service_path(call: &Call<'_>) -> String {
    format!("{SERVICES}/{}", call.member.service_name)
}

fn federation_path(call: &Call<'_>, act: &str) -> String {
    format!("/system/federation/{}/{act}", call.member.service_name)
}

fn get(call: &Call<'_>) -> Request {
    Request { method: Method::GET, path: service_path(call), json: None, order: None, repeatable: true, wanted: true }
}

/// Our kind knows an operation that it has seen, so asking again is safe; Go OSCAR does not.
fn write(call: &Call<'_>, method: Method, path: String, json: Option<Vec<u8>>) -> Request {
    let repeatable = call.contact.audience == Audience::Ours;
    Request { method, path, json, order: None, repeatable, wanted: false }
}

/// Our kind takes no deploy for a coordinator's without it.
fn order(call: &Call<'_>, definition: &Definition) -> Option<String> {
    let operation = definition.annotations.get(OPERATION_ANNOTATION)?;
    (call.contact.audience == Audience::Ours).then(|| format!("{operation}; t={}", call.time))
}

impl From<Trouble> for PeerError {
    fn from(trouble: Trouble) -> Self {
        Self::Unreachable(trouble.to_string())
    }
}

fn done(answer: &Answer, confidential: &Confidential) -> Result<(), PeerError> {
    if answer.status.is_success() { Ok(()) } else { Err(answer.refusal(confidential)) }
}

/// A proxy in front of a manager that is gone answers in its place; that says nothing of what
/// the manager did or has.
fn check_kind(call: &Call<'_>, answer: &Answer, confidential: &Confidential) -> Result<(), PeerError> {
    if call.contact.audience == Audience::Ours && answer.audience() == Audience::Foreign {
        let sentence = answer.sentence(confidential);
        return Err(PeerError::Unreachable(format!(
            "what answers there is not the manager that was there: {sentence}"
        )));
    }
    Ok(())
}

/// A route that only our kind has. A service that is not there needs nothing done.
async fn ask_ours(session: &Session<'_>, call: &Call<'_>, act: &str, body: Vec<u8>) -> Result<(), PeerError> {
    let request = write(call, Method::POST, federation_path(call, act), Some(body));
    let answer = session.ask(&request).await?;
    let confidential = Confidential::of(call.credential);
    check_kind(call, &answer, &confidential)?;
    if answer.status == StatusCode::NOT_FOUND {
        return Ok(());
    }
    done(&answer, &confidential)
}

/// What a foreign manager has there, whoever's it is.
async fn present(session: &Session<'_>, call: &Call<'_>) -> Result<Option<Shown>, PeerError> {
    let answer = session.ask(&get(call)).await?;
    match answer.status {
        // Somebody else's: nothing of ours is there.
        StatusCode::OK if look::is_hidden(&answer, call) => Ok(None),
        StatusCode::OK => look::show(&answer, &call.member.service_name).map(Some).map_err(PeerError::Unreachable),
        StatusCode::NOT_FOUND if !answer.is_page() => Ok(None),
        StatusCode::NOT_FOUND => Err(PeerError::Unreachable(answer.sentence(&Confidential::of(call.credential)))),
        _ => Err(answer.refusal(&Confidential::of(call.credential))),
    }
}

fn owner_of(shown: &Shown, call: &Call<'_>) -> Owner {
    shown.owner.clone().unwrap_or_else(|| call.owner.clone())
}

async fn delete(session: &Session<'_>, call: &Call<'_>) -> Result<(), PeerError> {
    let answer = session.ask(&write(call, Method::DELETE, service_path(call), None)).await?;
    if answer.status == StatusCode::NOT_FOUND && !answer.is_page() {
        return Ok(());
    }
    done(&answer, &Confidential::of(call.credential))
}

/// Puts a definition back. Its token is the one that is there.
async fn put(session: &Session<'_>, call: &Call<'_>, definition: &Definition, owner: &Owner) -> Result<(), PeerError> {
    let mut confidential = Confidential::of(call.credential);
    confidential.add_definition(definition);
    let body = encode_for_peer(definition, &Secret::default(), owner);
    let request = write(call, Method::PUT, SERVICES.to_owned(), Some(body));
    done(&send(session, call, request).await?, &confidential)
}

/// Writes a service. Go OSCAR before 4.1 does not understand a list of ports, and says so before
/// it does anything else.
async fn send(session: &Session<'_>, call: &Call<'_>, request: Request) -> Result<Answer, PeerError> {
    let older = request.json.as_deref().and_then(with_single_port);
    let older = older.filter(|_| call.contact.audience == Audience::Foreign);
    let answer = session.ask(&request).await?;
    match older {
        Some(older) if answer.knows_one_port_only() => {
            Ok(session.ask(&Request { json: Some(older), ..request }).await?)
        }
        _ => Ok(answer),
    }
}
