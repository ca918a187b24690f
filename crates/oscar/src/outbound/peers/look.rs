//! What a member's cluster has under a name, as its manager shows it.

use oscar_api::problem::Code;
use oscar_api::service::{Mode, decode};
use oscar_api::tree::{Value, parse_json};
use oscar_engine::ports::peers::{Call, Sighting};
use oscar_model::federation::expand::{Audience, FEDERATION_ID_ANNOTATION, OPERATION_ANNOTATION};
use oscar_model::federation::plan::{Found, Origination};
use oscar_model::federation::record::Credential;
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::storage::Provider;
use oscar_model::service::{Definition, ORIGIN_CLUSTER_ANNOTATION, ORIGIN_SERVICE_ANNOTATION, WORKER_ANNOTATION};
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;

use super::answer::{Answer, Confidential, clean, cut};

const REPLICA_HEADER: &str = "oscar-replica";

/// A service that a manager showed.
pub(super) struct Shown {
    pub(super) definition: Definition,
    /// Nobody, when what stands there can be no owner.
    pub(super) owner: Option<Owner>,
}

pub(super) fn judge(answer: &Answer, call: &Call<'_>, federation_id: &str) -> Sighting {
    let confidential = Confidential::of(call.credential);
    let found = match answer.status {
        StatusCode::OK if is_hidden(answer, call) => Found::SomebodyElses,
        StatusCode::OK => match show(answer, &call.member.service_name) {
            Ok(shown) => told(shown, answer, call, federation_id),
            Err(sentence) => Found::Unreachable(sentence),
        },
        StatusCode::NOT_FOUND if answer.audience() == Audience::Ours || !answer.is_page() => Found::Nothing,
        StatusCode::FORBIDDEN if answer.code() == Some(Code::NotVisible) => Found::SomebodyElses,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Found::Refused(answer.sentence(&confidential)),
        _ => Found::Unreachable(answer.sentence(&confidential)),
    };
    Sighting { found, audience: Some(answer.audience()) }
}

/// Go OSCAR 3 says nothing at all, with a 200, of a private service that is not the caller's.
pub(super) fn is_hidden(answer: &Answer, call: &Call<'_>) -> bool {
    let wordless = answer.header(CONTENT_TYPE.as_str()).is_none() && answer.body.as_ref().is_ok_and(Vec::is_empty);
    wordless && answer.audience() == Audience::Foreign && matches!(call.credential, Credential::Bearer(_))
}

fn told(shown: Shown, answer: &Answer, call: &Call<'_>, federation_id: &str) -> Found {
    if !shown.belongs_to(call) {
        return Found::SomebodyElses;
    }
    let definition = Box::new(shown.definition);
    match annotation(&definition, FEDERATION_ID_ANNOTATION) {
        "" => Found::Plain(definition),
        id if id == federation_id => {
            let ours = answer.audience() == Audience::Ours;
            let adopted = ours && answer.header(REPLICA_HEADER).is_some_and(|value| value.trim() == "adopted");
            let origination = if adopted { Origination::Adopted } else { Origination::Created };
            Found::Replica { origination, definition }
        }
        _ => Found::OtherFederation,
    }
}

/// Reads the body of a success, or says why it cannot be read.
pub(super) fn show(answer: &Answer, name: &ServiceName) -> Result<Shown, String> {
    let body = answer.body.as_ref().map_err(ToString::to_string)?;
    let unreadable = |cause: String| format!("its answer cannot be understood: {}", cut(&clean(&cause)));
    let node = parse_json(body).map_err(|malformed| unreadable(malformed.to_string()))?;
    let draft = decode(&node, "", Mode::Stored).map_err(|faults| unreadable(faults.to_string()))?;
    if draft.definition.name != *name {
        return Err("it answered with another service than it was asked for".to_owned());
    }
    let owner = match node.get("owner").map(|node| &node.value) {
        Some(Value::Text(owner)) => Owner::parse(owner),
        None | Some(Value::Null) => Some(Owner::Admin),
        Some(_) => None,
    };
    Ok(Shown { definition: without_secrets(draft.definition), owner })
}

/// As it can be sent back: a blank secret means "keep", and what a manager shows in place of
/// the keys of its own store is no key.
fn without_secrets(mut definition: Definition) -> Definition {
    for value in definition.environment.secrets.values_mut() {
        *value = Secret::default();
    }
    for cluster in definition.clusters.values_mut() {
        cluster.auth_password = Secret::default();
    }
    for (reference, provider) in &mut definition.storage_providers {
        if reference.is_own_store()
            && let Provider::Minio { access_key, secret_key, .. } = provider
        {
            access_key.clear();
            *secret_key = Secret::default();
        }
    }
    definition
}

impl Shown {
    /// Whether it is the owner's, on whose behalf is called. Who calls with the account of a
    /// cluster's administrator owns what that one owns.
    pub(super) fn belongs_to(&self, call: &Call<'_>) -> bool {
        let by_account = matches!(call.credential, Credential::Basic(_)) && self.owner == Some(Owner::Admin);
        by_account || self.owner.as_ref() == Some(call.owner)
    }

    pub(super) fn is_of(&self, federation_id: &str) -> bool {
        !federation_id.is_empty() && annotation(&self.definition, FEDERATION_ID_ANNOTATION) == federation_id
    }

    pub(super) fn was_written_by(&self, operation: &str) -> bool {
        !operation.is_empty() && annotation(&self.definition, OPERATION_ANNOTATION) == operation
    }
}

/// Whether it is a replica of any federation.
pub(super) fn is_replica(definition: &Definition) -> bool {
    !annotation(definition, FEDERATION_ID_ANNOTATION).is_empty()
}

/// What is left of a replica when its federation lets it go.
pub(super) fn released(definition: &Definition) -> Definition {
    let mut released = Definition { federation: None, ..definition.clone() };
    for key in [
        WORKER_ANNOTATION,
        ORIGIN_CLUSTER_ANNOTATION,
        ORIGIN_SERVICE_ANNOTATION,
        FEDERATION_ID_ANNOTATION,
        OPERATION_ANNOTATION,
    ] {
        released.annotations.remove(key);
    }
    released
}

fn annotation<'a>(definition: &'a Definition, key: &str) -> &'a str {
    definition.annotations.get(key).map_or("", |value| value.trim())
}
