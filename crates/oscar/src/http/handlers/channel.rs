//! What managers of our kind ask each other: the calls of a coordinator to a member, and the
//! exchange under a member's key.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use oscar_api::federation::channel::{ExchangeBody, JoinBody, UndoBody, WithdrawBody, check_length};
use oscar_api::problem::Code;
use oscar_engine::federate::Letting;
use oscar_model::federation::record::Against;
use serde::de::DeserializeOwned;

use super::super::answer::{Refused, json_answer};
use super::super::app::App;
use super::super::caller::{authenticate, offered_key};
use super::super::documented::{ChannelRefusals, FederationEditRefusals};
use super::extract::{NameInPath, body, service_name};
use crate::outbound::peers::body::{from_exchange, from_invitation, to_exchange};

/// The body of a call between managers; what it holds is not quoted.
async fn read<T: DeserializeOwned>(app: &App, request: Request) -> Result<T, Refused> {
    let bytes = body(app, request).await?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let text = format!("the body is not what managers send each other (line {})", error.line());
        Refused::new(Code::BodyMalformed, text)
    })
}

fn malformed(cause: impl std::fmt::Display) -> Refused {
    Refused::new(Code::BodyMalformed, format!("the body is not what managers send each other: {cause}"))
}

/// A coordinator of the owner's gives a replica here its key.
#[utoipa::path(post, path = "/system/federation/{serviceName}/join",
    params(("serviceName" = String, Path, description = "The replica.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    request_body(content = JoinBody, description = "The federation and the key."),
    responses((status = 204, description = "It has joined."), FederationEditRefusals))]
pub(in super::super) async fn join(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let joined = async {
        let principal = authenticate(&app, &headers).await?;
        let name = service_name(&name)?;
        let invitation = from_invitation(read::<JoinBody>(&app, request).await?).map_err(malformed)?;
        app.manager.join(&principal, &name, &invitation).await?;
        Ok::<_, Refused>(StatusCode::NO_CONTENT.into_response())
    };
    joined.await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

/// Members tell each other who is in the federation, under the key of their channel.
#[utoipa::path(post, path = "/system/federation/{serviceName}/sync",
    params(("serviceName" = String, Path, description = "The service that is spoken to.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    request_body(content = ExchangeBody, description = "What the caller knows."),
    responses((status = 200, description = "What this member knows, after both were put together.", body = ExchangeBody), ChannelRefusals))]
pub(in super::super) async fn sync(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    exchange(&app, &name, request, &headers).await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

async fn exchange(app: &App, name: &str, request: Request, headers: &HeaderMap) -> Result<Response, Refused> {
    let Some(key) = offered_key(headers) else {
        return Err(Refused::unauthenticated("members speak under the key of their channel"));
    };
    let name = service_name(name)?;
    let Some(holder) = app.manager.key_holder(&name, key).await else {
        return Err(Refused::new(Code::TokenRefused, "this is no key of that service's federation"));
    };
    let exchange = from_exchange(read::<ExchangeBody>(app, request).await?).map_err(malformed)?;
    let answer = app.manager.sync(&holder, &name, &exchange).await?;
    Ok(json_answer(StatusCode::OK, &to_exchange(&answer)))
}

/// A federation lets a replica here go.
#[utoipa::path(post, path = "/system/federation/{serviceName}/withdraw",
    params(("serviceName" = String, Path, description = "The replica.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    request_body(content = WithdrawBody, description = "Which federation."),
    responses((status = 204, description = "Nothing of that federation is here any more."), FederationEditRefusals))]
pub(in super::super) async fn withdraw(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let withdrawn = async {
        let principal = authenticate(&app, &headers).await?;
        let name = service_name(&name)?;
        let WithdrawBody { federation_id, operation: _, time, delete } = read(&app, request).await?;
        check_length("federation_id", &federation_id).map_err(malformed)?;
        if time > Against::ENDED {
            return Err(malformed(format!("time: found {time}, expected at most {}", Against::ENDED)));
        }
        let letting = Letting { federation_id: &federation_id, time, delete };
        app.manager.withdraw_replica(&principal, &name, letting).await?;
        Ok::<_, Refused>(StatusCode::NO_CONTENT.into_response())
    };
    withdrawn.await.unwrap_or_else(|refused| refused.into_answer(&headers))
}

/// A coordinator takes back what one operation of its did here.
#[utoipa::path(post, path = "/system/federation/{serviceName}/undo",
    params(("serviceName" = String, Path, description = "The replica.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay")),
    request_body(content = UndoBody, description = "Which operation."),
    responses((status = 204, description = "It is as it was before, or the operation never arrived."), FederationEditRefusals))]
pub(in super::super) async fn undo(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let undone = async {
        let principal = authenticate(&app, &headers).await?;
        let name = service_name(&name)?;
        let UndoBody { operation } = read(&app, request).await?;
        check_length("operation", &operation).map_err(malformed)?;
        app.manager.undo_replica(&principal, &name, &operation).await?;
        Ok::<_, Refused>(StatusCode::NO_CONTENT.into_response())
    };
    undone.await.unwrap_or_else(|refused| refused.into_answer(&headers))
}
