//! The federation of a service, as `/system/replicas/{s}` and `/system/federation/{s}` show and
//! change it: one resource with two names.

use std::collections::BTreeMap;

use oscar_model::fault::{Faults, quoted};
use oscar_model::federation::edit::{Edit, is_same};
use oscar_model::federation::membership::Duty;
use oscar_model::federation::{Delegation, Member, Target};
use serde::Serialize;
use utoipa::ToSchema;

use crate::service::{
    DelegationBody, ReplicaBody, clusters, delegation_body, hide_credentials, members, providers, replica_body,
};
use crate::tree::{Node, Reader};

/// Which of the two names was used: the list is answered under that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    Federation,
    Replicas,
}

/// What a service shows of its federation.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = FederationView)]
pub struct ViewBody {
    /// `none`, `star`, `tree` or `mesh`.
    pub topology: String,
    /// What this service hands jobs to; `null` when that is nobody.
    #[serde(skip_serializing_if = "Listed::is_absent")]
    pub members: Listed,
    /// The same under its other name.
    #[serde(skip_serializing_if = "Listed::is_absent")]
    pub replicas: Listed,
    pub group_id: String,
    /// How the next cluster for a job is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delegation: Option<DelegationBody>,
    /// What is known of the owner's refresh token, never its value.
    pub token: Option<TokenBody>,
    /// The whole topology; the same at every member.
    pub graph: Option<GraphBody>,
    /// What went wrong at which member, and when each was seen last.
    pub conditions: Vec<ConditionBody>,
    /// Members that are still to be removed, as `<cluster>/<service>`.
    pub leaving: Vec<String>,
    /// Creates of this service that have not ended: under way, or being taken back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationBody>,
    /// What did not reach every member yet, after a change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Nothing was changed: everything else is as it is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// What would be done at which member, in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub federation: Option<CreatedBody>,
}

/// A create that is under way, or that is being taken back.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = FederationOperation)]
pub struct OperationBody {
    pub operation: String,
    /// `creating` or `taking-back`.
    pub phase: String,
    /// Seconds since the epoch.
    pub begun: u64,
    /// As `<cluster>/<service>`.
    pub members: Vec<String>,
}

impl ViewBody {
    /// For whoever holds the token of the service and is not its owner.
    #[must_use]
    pub fn without_credentials(mut self) -> Self {
        for list in [&mut self.members, &mut self.replicas] {
            if let Listed::Present(Some(members)) = list {
                members.iter_mut().for_each(hide_credentials);
            }
        }
        self
    }
}

/// A list that is `null` when it is empty, and absent under the name that was not asked for.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Listed {
    #[serde(skip)]
    Absent,
    Present(Option<Vec<ReplicaBody>>),
}

impl Listed {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Both lists, of which one is absent.
    pub fn both(name: Name, members: &[Member]) -> (Self, Self) {
        let list = (!members.is_empty()).then(|| members.iter().map(replica_body).collect());
        match name {
            Name::Federation => (Self::Present(list), Self::Absent),
            Name::Replicas => (Self::Absent, Self::Present(list)),
        }
    }
}

/// The delegation of a definition on the wire.
pub fn delegation(delegation: &Delegation) -> Option<DelegationBody> {
    delegation_body(delegation)
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = RefreshTokenState)]
pub struct TokenBody {
    /// `valid`, `not-verified` or `sign-in-again`.
    pub state: String,
    /// Why it is not valid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub issuer: String,
    pub client: String,
    /// Seconds since it was submitted.
    pub age: u64,
    /// Seconds since it was used last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub used: Option<u64>,
    /// How many services use it.
    pub services: usize,
    /// It is so old that it should be replaced.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub warning: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FederationGraph)]
pub struct GraphBody {
    pub federation_id: String,
    pub topology: String,
    /// As `<cluster>/<service>`.
    pub coordinator: String,
    pub nodes: Vec<NodeBody>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FederationNode)]
pub struct NodeBody {
    pub cluster_id: String,
    pub service_name: String,
    /// `coordinator` or `worker`.
    pub role: String,
    pub endpoint: String,
    pub priority: u32,
    /// `active`, `paused` or `draining`.
    pub duty: String,
    /// `in-sync`, `pending`, `drifted`, `unreachable`, `refused` or `blocked`.
    pub state: String,
    /// Those that it hands jobs to, as `<cluster>/<service>`.
    pub targets: Vec<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = MemberCondition)]
pub struct ConditionBody {
    /// As `<cluster>/<service>`.
    pub member: String,
    /// What went wrong last; blank when nothing did.
    pub error: String,
    /// When it answered last, in seconds since the epoch.
    pub last_seen: Option<u64>,
}

/// What became of each member of a new federation.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = FederationCreated)]
pub struct CreatedBody {
    pub members: Vec<StepBody>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = FederationStep)]
pub struct StepBody {
    pub cluster_id: String,
    pub service_name: String,
    /// `create`, `adopt`, `update`, `delete` or `release`; in a dry run of a change of members also
    /// `none`, or `later` for what cannot be done now and is tried until it can.
    pub action: String,
    /// Why, where that is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

pub fn duty_word(duty: Duty) -> &'static str {
    match duty {
        Duty::Active => "active",
        Duty::Paused => "paused",
        Duty::Draining => "draining",
    }
}

#[expect(clippy::option_option, reason = "no word is none, and a wrong word is a fault")]
fn parse_duty(word: &str) -> Option<Option<Duty>> {
    match word {
        "active" => Some(Some(Duty::Active)),
        "paused" => Some(Some(Duty::Paused)),
        "draining" => Some(Some(Duty::Draining)),
        _ => None,
    }
}

/// What is asked for; the method of the request says what it means.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub members: Vec<Member>,
    pub update: Vec<Member>,
    pub duty: Option<Duty>,
    pub edit: Edit,
}

/// The body of a change, for documents.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MembersRequest)]
pub struct RequestBody {
    /// The members to add (POST), change (PUT) or remove (DELETE). `replicas` is the same.
    pub members: Option<Vec<MemberRequest>>,
    pub replicas: Option<Vec<MemberRequest>>,
    /// PUT: what each of `members` becomes, in the same order; a single one is for all of them.
    pub update: Option<Vec<MemberRequest>>,
    /// PUT: `active`, `paused` or `draining`, for all of `members`.
    pub duty: Option<String>,
    /// Where the clusters of the members are.
    pub clusters: Option<BTreeMap<String, ClusterRequest>>,
    /// DELETE: remove their services too, where this federation created them.
    pub delete: Option<bool>,
    /// DELETE: members below a removed one are hung on its parent.
    pub reparent: Option<bool>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MembersEntry)]
pub struct MemberRequest {
    /// `oscar` (default) or `endpoint`.
    pub r#type: Option<String>,
    pub cluster_id: Option<String>,
    #[schema(max_length = 39)]
    pub service_name: Option<String>,
    pub url: Option<String>,
    pub ssl_verify: Option<bool>,
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub priority: Option<u32>,
    pub headers: Option<BTreeMap<String, String>>,
    pub parent: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MembersCluster)]
pub struct ClusterRequest {
    pub endpoint: Option<String>,
    pub auth_user: Option<String>,
    pub auth_password: Option<String>,
    pub ssl_verify: Option<bool>,
}

/// Reads the body of a change. Every fault is told at once.
pub fn read(node: &Node) -> Result<Request, Faults> {
    let reader = Reader::new(node, true);
    let request = {
        let fields = reader.fields("");
        let key = if fields.get("members").is_some() { "members" } else { "replicas" };
        let request = Request {
            members: members(&fields, key),
            update: members(&fields, "update"),
            duty: fields.word("duty", "active, paused or draining", parse_duty),
            edit: Edit {
                delete: fields.flag("delete"),
                reparent: fields.flag("reparent"),
                clusters: clusters(&fields),
                storage_providers: providers(&fields),
                ..Edit::default()
            },
        };
        if request.update.len() > request.members.len() {
            let found = format!("{} entries", request.update.len());
            fields.fault("update", found, format!("at most as many as `{key}` ({})", request.members.len()));
        }
        if fields.get("members").is_some() && fields.get("replicas").is_some() {
            fields.fault("replicas", quoted("members"), "one of `members` and `replicas`, which are the same");
        }
        request
    };
    reader.into_faults().into_result(request)
}

impl Request {
    pub fn into_addition(self) -> Edit {
        Edit { add: self.members, ..self.edit }
    }

    /// The n-th of `members` becomes the n-th of `update`; a single one is for all, as OSCAR has it.
    /// Where that one is itself among several, it says what becomes of each and not who each is:
    /// they cannot all be one member.
    pub fn into_update(self) -> Edit {
        let mut edit = self.edit;
        if let Some(duty) = self.duty {
            edit.duties = self.members.iter().map(|member| (member.target.clone(), duty)).collect();
        }
        let single = self.update.first().filter(|_| self.update.len() == 1);
        let among = |single: &&Member| self.members.iter().any(|was| is_same(&was.target, &single.target));
        let attributes = single.filter(among);
        for (index, was) in self.members.iter().enumerate() {
            let becomes = match (attributes, single.or(self.update.get(index))) {
                (Some(attributes), _) => with_attributes(&was.target, attributes),
                (None, Some(becomes)) => becomes.clone(),
                (None, None) => continue,
            };
            edit.update.push((was.target.clone(), becomes));
        }
        edit
    }

    pub fn into_removal(self) -> Edit {
        Edit { remove: self.members.into_iter().map(|member| member.target).collect(), ..self.edit }
    }
}

/// That member with what is said of another one.
fn with_attributes(target: &Target, said: &Member) -> Member {
    let target = match (target, &said.target) {
        (Target::Oscar { cluster_id, service_name, .. }, Target::Oscar { parent, .. }) => {
            Target::Oscar { cluster_id: cluster_id.clone(), service_name: service_name.clone(), parent: parent.clone() }
        }
        (other, _) => other.clone(),
    };
    Member { target, ..said.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::parse_json;

    fn update(body: &str) -> Vec<(String, String, u32)> {
        let node = parse_json(body.as_bytes()).expect("JSON");
        let named = |target: &Target| match target {
            Target::Oscar { cluster_id, service_name, .. } => format!("{cluster_id}/{service_name}"),
            Target::Endpoint { url } => url.clone(),
        };
        let edit = read(&node).expect("a request").into_update();
        edit.update.iter().map(|(was, is)| (named(was), named(&is.target), is.priority)).collect()
    }

    #[test]
    fn one_update_is_for_every_member_that_is_named() {
        let two = r#"[{"cluster_id": "a", "service_name": "s"}, {"cluster_id": "b", "service_name": "s"}]"#;
        let mk = |was: &str, is: &str, priority| (was.to_owned(), is.to_owned(), priority);
        let among =
            format!(r#"{{"members": {two}, "update": [{{"cluster_id": "b", "service_name": "s", "priority": 7}}]}}"#);
        assert_eq!(update(&among), [mk("a/s", "a/s", 7), mk("b/s", "b/s", 7)]);
        let other =
            format!(r#"{{"members": {two}, "update": [{{"cluster_id": "c", "service_name": "s", "priority": 7}}]}}"#);
        assert_eq!(update(&other), [mk("a/s", "c/s", 7), mk("b/s", "c/s", 7)], "both become that one");
        let each = format!(r#"{{"members": {two}, "update": {two}}}"#);
        assert_eq!(update(&each), [mk("a/s", "a/s", 0), mk("b/s", "b/s", 0)]);
        let single = r#"{"members": [{"cluster_id": "a", "service_name": "s"}], "update": [{"cluster_id": "c", "service_name": "t"}]}"#;
        assert_eq!(update(single), [mk("a/s", "c/t", 0)], "another identity is a removal and an addition");
    }
}
