//! The federation of a service: who is in it, and changing that. `/system/replicas` and
//! `/system/federation` are two names of one resource.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use oscar_api::federation::replicas::{
    self, ConditionBody, CreatedBody, GraphBody, Listed, Name, NodeBody, OperationBody, RequestBody, StepBody,
    TokenBody, ViewBody,
};
use oscar_api::problem::Problem;
use oscar_api::tree::parse_json;
use oscar_engine::federate::{Edited, Foreseen, Foresight, Graph, Node};
use oscar_engine::ports::mint::GrantStatus;
use oscar_engine::{Shown, Terms};
use oscar_model::federation::edit::Edit;
use oscar_model::federation::plan::Act;
use oscar_model::federation::record::{GrantState, Operation, Phase};
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;

use super::super::answer::{Refused, json_answer};
use super::super::app::App;
use super::super::caller::{authenticate_for, bearer_of};
use super::super::documented::{FederationEditRefusals, FederationGetRefusals};
use super::extract::{NameInPath, Query, body, service_name, undisturbed};

macro_rules! resource {
    ($path:literal, $name:expr, $tag:literal, $get:ident, $add:ident, $update:ident, $remove:ident) => {
        #[doc = concat!("Who is in the federation of a service (", $tag, ").")]
        #[utoipa::path(get, path = $path,
            params(("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
            responses((status = 200, description = "Its topology, its members and their state.", body = ViewBody), FederationGetRefusals))]
        pub(in super::super) async fn $get(
            State(app): State<Arc<App>>,
            NameInPath(name): NameInPath,
            headers: HeaderMap,
        ) -> Response {
            show(&app, &name, &headers, $name).await.unwrap_or_else(|refused| refused.into_answer(&headers))
        }

        #[doc = concat!("Adds members and deploys to them (", $tag, ").")]
        #[utoipa::path(post, path = $path,
            params(
                ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
                ("dry_run" = Option<bool>, Query, description = "Only say what would be done at which member: `federation` of the answer."),
            ),
            request_body(content = RequestBody, description = "The members to add."),
            responses((status = 200, description = "As it is now, with what did not reach everybody yet.", body = ViewBody), FederationEditRefusals))]
        pub(in super::super) async fn $add(
            State(app): State<Arc<App>>,
            NameInPath(name): NameInPath,
            request: Request,
        ) -> Response {
            change(&app, &name, request, $name, |request| request.into_addition()).await
        }

        #[doc = concat!("Changes members (", $tag, ").")]
        #[utoipa::path(put, path = $path,
            params(
                ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
                ("dry_run" = Option<bool>, Query, description = "Only say what would be done at which member: `federation` of the answer."),
            ),
            request_body(content = RequestBody, description = "The members and what they become."),
            responses((status = 200, description = "As it is now, with what did not reach everybody yet.", body = ViewBody), FederationEditRefusals))]
        pub(in super::super) async fn $update(
            State(app): State<Arc<App>>,
            NameInPath(name): NameInPath,
            request: Request,
        ) -> Response {
            change(&app, &name, request, $name, |request| request.into_update()).await
        }

        #[doc = concat!("Removes members (", $tag, ").")]
        #[utoipa::path(delete, path = $path,
            params(
                ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
                ("dry_run" = Option<bool>, Query, description = "Only say what would be done at which member: `federation` of the answer."),
            ),
            request_body(content = RequestBody, description = "The members to remove."),
            responses((status = 200, description = "As it is now, with what did not reach everybody yet.", body = ViewBody), FederationEditRefusals))]
        pub(in super::super) async fn $remove(
            State(app): State<Arc<App>>,
            NameInPath(name): NameInPath,
            request: Request,
        ) -> Response {
            change(&app, &name, request, $name, |request| request.into_removal()).await
        }
    };
}

resource!(
    "/system/federation/{serviceName}",
    Name::Federation,
    "`members`",
    get_federation,
    add_members,
    update_members,
    remove_members
);
resource!(
    "/system/replicas/{serviceName}",
    Name::Replicas,
    "`replicas`",
    get_replicas,
    add_replicas,
    update_replicas,
    remove_replicas
);

async fn show(app: &App, name: &str, headers: &HeaderMap, spelled: Name) -> Result<Response, Refused> {
    let name = service_name(name)?;
    let principal = authenticate_for(app, headers, &name).await?;
    lend(app, &principal, headers);
    answer(app, &principal, &name, spelled, &Edited::default()).await
}

async fn answer(
    app: &App,
    principal: &Principal,
    name: &ServiceName,
    spelled: Name,
    edited: &Edited,
) -> Result<Response, Refused> {
    let shown = app.manager.federation(principal, name).await?;
    let mut body = view_body(app, &shown, spelled);
    body.warnings = edited.troubles.iter().map(ToString::to_string).chain(edited.warnings.iter().cloned()).collect();
    body.dry_run = edited.foreseen.is_some();
    body.federation = edited
        .foreseen
        .as_ref()
        .map(|foreseen| CreatedBody { members: foreseen.iter().map(foreseen_body).collect(), warnings: Vec::new() });
    if matches!(principal, Principal::ServiceToken(_)) {
        body = body.without_credentials();
    }
    Ok(json_answer(StatusCode::OK, &body))
}

async fn change(
    app: &App,
    name: &str,
    request: Request,
    spelled: Name,
    meaning: fn(replicas::Request) -> Edit,
) -> Response {
    let headers = request.headers().clone();
    let changed = try_change(app, name, request, spelled, meaning, &headers).await;
    changed.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn try_change(
    app: &App,
    name: &str,
    request: Request,
    spelled: Name,
    meaning: fn(replicas::Request) -> Edit,
    headers: &HeaderMap,
) -> Result<Response, Refused> {
    let name = service_name(name)?;
    let principal = authenticate_for(app, headers, &name).await?;
    let dry_run = Query::of(request.uri()).flag("dry_run")?;
    let bytes = body(app, request).await?;
    let node = parse_json(&bytes).map_err(oscar_api::fdl::FdlError::Malformed)?;
    let request = replicas::read(&node).map_err(Problem::invalid)?;
    let terms = terms(app, &principal, headers, dry_run);
    let (manager, caller, service) = (app.manager.clone(), principal.clone(), name.clone());
    let edit = meaning(request);
    let edited = undisturbed(async move { manager.edit_federation(&caller, &service, &edit, terms).await }).await?;
    answer(app, &principal, &name, spelled, &edited).await
}

/// How a change is meant by this caller: members are called with the token of its owner only.
pub(super) fn terms(app: &App, principal: &Principal, headers: &HeaderMap, dry_run: bool) -> Terms {
    lend(app, principal, headers);
    let bearer = principal.user().and_then(|_| bearer_of(headers));
    Terms { dry_run, bearer, ..Terms::default() }
}

/// What waits for its owner can go on when he calls.
fn lend(app: &App, principal: &Principal, headers: &HeaderMap) {
    if let (Some(user), Some(bearer)) = (principal.user(), bearer_of(headers)) {
        let owner = oscar_model::identity::Owner::User(user.subject.clone());
        app.manager.federator().lend(&owner, bearer);
    }
}

pub(super) fn view_body(app: &App, shown: &Shown, spelled: Name) -> ViewBody {
    let view = &shown.view;
    let (members, replicas) = Listed::both(spelled, &view.members);
    ViewBody {
        topology: view.topology.as_str().to_owned(),
        members,
        replicas,
        group_id: view.group_id.clone(),
        delegation: replicas::delegation(&view.delegation),
        token: shown.token.as_ref().map(|status| token_body(app, status)),
        graph: view.graph.as_ref().map(graph_body),
        conditions: view
            .conditions
            .iter()
            .map(|(member, error, seen)| ConditionBody {
                member: member.to_string(),
                error: error.clone(),
                last_seen: *seen,
            })
            .collect(),
        leaving: view.leaving.iter().map(MemberId::to_string).collect(),
        operations: shown.operations.iter().map(operation_body).collect(),
        warnings: Vec::new(),
        dry_run: false,
        federation: None,
    }
}

fn operation_body(operation: &Operation) -> OperationBody {
    OperationBody {
        operation: operation.id.clone(),
        phase: match operation.phase {
            Phase::Forward => "creating".to_owned(),
            Phase::Back => "taking-back".to_owned(),
        },
        begun: operation.begun,
        members: operation.steps.iter().map(|step| step.member.to_string()).collect(),
    }
}

fn graph_body(graph: &Graph) -> GraphBody {
    let node = |node: &Node| NodeBody {
        cluster_id: node.id.cluster_id.clone(),
        service_name: node.id.service_name.to_string(),
        role: if node.is_coordinator { "coordinator" } else { "worker" }.to_owned(),
        endpoint: node.endpoint.clone(),
        priority: node.priority,
        duty: replicas::duty_word(node.duty).to_owned(),
        state: node.condition.as_str().to_owned(),
        targets: node.targets.iter().map(MemberId::to_string).collect(),
    };
    GraphBody {
        federation_id: graph.federation_id.clone(),
        topology: graph.topology.as_str().to_owned(),
        coordinator: graph.coordinator.to_string(),
        nodes: graph.nodes.iter().map(node).collect(),
    }
}

pub(super) fn token_body(app: &App, status: &GrantStatus) -> TokenBody {
    let (state, reason) = match &status.state {
        GrantState::Valid => ("valid", ""),
        GrantState::NotVerified(reason) => ("not-verified", reason.as_str()),
        GrantState::SignInAgain(reason) => ("sign-in-again", reason.as_str()),
    };
    let now = crate::time::now();
    let age = status.age;
    let oldest = app.facts.oldest_refresh_token.as_secs();
    let warning = if let Some(trouble) = &status.trouble {
        trouble.clone()
    } else if age > oldest {
        format!("it was submitted {} days ago; replace it with `oscar federation token set`", age / 86400)
    } else {
        String::new()
    };
    TokenBody {
        state: state.to_owned(),
        reason: reason.to_owned(),
        issuer: status.issuer.clone(),
        client: status.client.clone(),
        age,
        used: status.refreshed.map(|at| now.saturating_sub(at)),
        services: status.holders,
        warning,
    }
}

pub(super) fn step_body(member: &MemberId, act: Act) -> StepBody {
    let action = match act {
        Act::Create => "create",
        Act::Adopt => "adopt",
        Act::Update => "update",
        Act::Delete => "delete",
        Act::Release => "release",
    };
    StepBody {
        cluster_id: member.cluster_id.clone(),
        service_name: member.service_name.to_string(),
        action: action.to_owned(),
        reason: String::new(),
    }
}

fn foreseen_body(foreseen: &Foreseen) -> StepBody {
    let reason = foreseen.why.clone();
    let without_act = |action: &str| StepBody {
        cluster_id: foreseen.member.cluster_id.clone(),
        service_name: foreseen.member.service_name.to_string(),
        action: action.to_owned(),
        reason: reason.clone(),
    };
    match foreseen.foresight {
        Foresight::Act(act) => StepBody { reason, ..step_body(&foreseen.member, act) },
        Foresight::Nothing => without_act("none"),
        Foresight::Later => without_act("later"),
    }
}

/// Looks at every member now instead of at the next tick.
#[utoipa::path(post, path = "/system/federation/{serviceName}/reconcile",
    params(("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    responses((status = 200, description = "As it is now, with what did not reach everybody yet.", body = ViewBody), FederationGetRefusals))]
pub(in super::super) async fn reconcile(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    headers: HeaderMap,
) -> Response {
    reconcile_now(&app, &name, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn reconcile_now(app: &App, name: &str, headers: &HeaderMap) -> Result<Response, Refused> {
    let name = service_name(name)?;
    let principal = authenticate_for(app, headers, &name).await?;
    let terms = terms(app, &principal, headers, false);
    let outcomes = app.manager.reconcile_now(&principal, &name, terms).await?;
    let troubles: Vec<_> = outcomes.into_iter().filter(|outcome| !outcome.trouble.is_empty()).collect();
    let edited = Edited { troubles, ..Edited::default() };
    answer(app, &principal, &name, Name::Federation, &edited).await
}

/// What is known of the refresh token that speaks for the owner; never its value.
#[utoipa::path(get, path = "/system/federation/{serviceName}/token",
    params(("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    responses((status = 200, description = "Its state and age, or `null`.", body = Option<TokenBody>), FederationGetRefusals))]
pub(in super::super) async fn get_token(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    headers: HeaderMap,
) -> Response {
    token_status(&app, &name, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn token_status(app: &App, name: &str, headers: &HeaderMap) -> Result<Response, Refused> {
    let name = service_name(name)?;
    let principal = super::super::caller::authenticate(app, headers).await?;
    let shown = app.manager.federation(&principal, &name).await?;
    Ok(json_answer(StatusCode::OK, &shown.token.as_ref().map(|status| token_body(app, status))))
}

/// Replaces the refresh token.
#[utoipa::path(put, path = "/system/federation/{serviceName}/token",
    params(("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    request_body(content = TokenRequest, description = "The new one."),
    responses((status = 200, description = "Its state.", body = Option<TokenBody>), FederationEditRefusals))]
pub(in super::super) async fn put_token(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    set_token(&app, &name, request, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

#[derive(serde::Serialize, utoipa::ToSchema)]
#[schema(as = RefreshTokenRequest)]
pub(in super::super) struct TokenRequest {
    /// An OIDC refresh token of the owner.
    #[schema(min_length = 1)]
    refresh_token: String,
}

async fn set_token(app: &App, name: &str, request: Request, headers: &HeaderMap) -> Result<Response, Refused> {
    let name = service_name(name)?;
    let principal = super::super::caller::authenticate(app, headers).await?;
    let bytes = body(app, request).await?;
    let node = parse_json(&bytes).map_err(oscar_api::fdl::FdlError::Malformed)?;
    let reader = oscar_api::tree::Reader::new(&node, true);
    let token = {
        let fields = reader.fields("");
        let token = fields.text("refresh_token");
        if token.is_empty() {
            fields.fault("refresh_token", "nothing", "an OIDC refresh token of the owner");
        }
        oscar_model::secret::Secret::new(token)
    };
    let token = reader.into_faults().into_result(token).map_err(Problem::invalid)?;
    let terms = terms(app, &principal, headers, false);
    app.manager.set_refresh_token(&principal, &name, &token, terms).await?;
    token_status(app, name.as_str(), headers).await
}

/// Revokes the refresh token at its issuer.
#[utoipa::path(delete, path = "/system/federation/{serviceName}/token",
    params(("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    responses((status = 204, description = "Revoked and forgotten."), FederationEditRefusals))]
pub(in super::super) async fn delete_token(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    headers: HeaderMap,
) -> Response {
    revoke_token(&app, &name, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn revoke_token(app: &App, name: &str, headers: &HeaderMap) -> Result<Response, Refused> {
    let name = service_name(name)?;
    let principal = super::super::caller::authenticate(app, headers).await?;
    app.manager.revoke_refresh_token(&principal, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Every federation of the caller, also those that are being removed.
#[utoipa::path(get, path = "/system/federation",
    responses((status = 200, description = "By service.", body = Vec<FederationRow>), super::super::documented::ReadRefusals))]
pub(in super::super) async fn list_federations(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    list(&app, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

#[derive(serde::Serialize, utoipa::ToSchema)]
#[schema(as = FederationSummary)]
pub(in super::super) struct FederationRow {
    service: String,
    federation_id: String,
    /// `coordinator` or `worker`.
    role: String,
    /// As `<cluster>/<service>`.
    members: Vec<String>,
    leaving: Vec<String>,
    /// The coordinator is gone; its members are being removed.
    deleted: bool,
    /// The create that has not ended: under way, or being taken back. Its service may not be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    operation: Option<OperationBody>,
}

async fn list(app: &App, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = super::super::caller::authenticate(app, headers).await?;
    lend(app, &principal, headers);
    let records = app.manager.federations(&principal).await?;
    let operations = app.manager.operations(&principal).await?;
    let of = |federation_id: &str| operations.iter().find(|operation| operation.federation_id == federation_id);
    let mut rows: Vec<_> = records
        .iter()
        .map(|record| FederationRow {
            service: record.own.service_name.to_string(),
            federation_id: record.federation_id.clone(),
            role: match record.role {
                oscar_model::federation::record::Role::Coordinator => "coordinator".to_owned(),
                oscar_model::federation::record::Role::Worker { .. } => "worker".to_owned(),
            },
            members: record.membership.members().map(|(id, _)| id.to_string()).collect(),
            leaving: record.leaving.keys().map(MemberId::to_string).collect(),
            deleted: record.deleted.is_some(),
            operation: of(&record.federation_id).map(operation_body),
        })
        .collect();
    let unknown = operations
        .iter()
        .filter(|operation| records.iter().all(|record| record.federation_id != operation.federation_id));
    rows.extend(unknown.map(|operation| FederationRow {
        service: operation.coordinator.to_string(),
        federation_id: operation.federation_id.clone(),
        role: "coordinator".to_owned(),
        members: Vec::new(),
        leaving: Vec::new(),
        deleted: false,
        operation: Some(operation_body(operation)),
    }));
    Ok(json_answer(StatusCode::OK, &rows))
}

/// What was done elsewhere in the caller's name, newest first.
#[utoipa::path(get, path = "/system/audit",
    params(("limit" = Option<u32>, Query, description = "At most so many.", minimum = 1, maximum = 10000)),
    responses((status = 200, description = "The administrator sees everybody's.", body = Vec<AuditRow>), super::super::documented::ListRefusals))]
pub(in super::super) async fn get_audit(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    audit(&app, &uri, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

#[derive(serde::Serialize, utoipa::ToSchema)]
#[schema(as = AuditRecord)]
pub(in super::super) struct AuditRow {
    /// Seconds since the epoch.
    at: u64,
    actor: String,
    owner: String,
    act: String,
    service: String,
    target: String,
    outcome: String,
}

async fn audit(app: &App, uri: &Uri, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = super::super::caller::authenticate(app, headers).await?;
    let most = Query::of(uri).limit("limit", 10_000)?.unwrap_or(100);
    let records = app.manager.audit(&principal, most).await?;
    let rows: Vec<_> = records
        .into_iter()
        .map(|record| AuditRow {
            at: record.at,
            actor: record.actor,
            owner: record.owner,
            act: record.act,
            service: record.service,
            target: record.target,
            outcome: record.outcome,
        })
        .collect();
    Ok(json_answer(StatusCode::OK, &rows))
}
