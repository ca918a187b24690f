//! What the provider answers.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/.well-known/openid-configuration", get(description))
        .route("/keys", get(keys))
        .route("/token", post(token))
        .route("/revoke", post(revoke))
        .route("/userinfo", get(userinfo))
        .with_state(shared)
}

#[derive(Deserialize)]
struct TokenRequest {
    #[serde(default)]
    grant_type: String,
    #[serde(default)]
    client_id: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    refresh_token: String,
}

#[derive(Deserialize)]
struct RevokeRequest {
    #[serde(default)]
    client_id: String,
    #[serde(default)]
    token: String,
}

async fn description(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let at = |path: &str| format!("{}/{path}", shared.issuer);
    Json(json!({
        "issuer": shared.issuer,
        "jwks_uri": at("keys"),
        "token_endpoint": at("token"),
        "revocation_endpoint": at("revoke"),
        "userinfo_endpoint": at("userinfo"),
        "response_types_supported": [],
        "subject_types_supported": ["public"],
        "grant_types_supported": ["password", "refresh_token"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "token_endpoint_auth_methods_supported": ["none"],
    }))
}

async fn keys(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(shared.signer.published())
}

async fn token(State(shared): State<Arc<Shared>>, Form(request): Form<TokenRequest>) -> Response {
    if request.client_id != shared.options.client_id {
        return refuse(StatusCode::UNAUTHORIZED, "invalid_client", "there is no such client");
    }
    let outcome = match request.grant_type.as_str() {
        "password" => {
            let account = shared.users.get(&request.username);
            let account = account.filter(|account| account.password.matches(&request.password));
            account.map(|account| shared.sign_in(&account.user)).ok_or("the name or the password is wrong")
        }
        "refresh_token" => shared.renew(&request.refresh_token),
        _ => {
            let known = "this provider knows password and refresh_token";
            return refuse(StatusCode::BAD_REQUEST, "unsupported_grant_type", known);
        }
    };
    match outcome {
        Ok((access, refresh)) => {
            let body = json!({
                "access_token": access,
                "token_type": "Bearer",
                "expires_in": shared.options.access_lifetime.as_secs(),
                "refresh_token": refresh,
                "scope": "openid",
            });
            ([(CACHE_CONTROL, "no-store")], Json(body)).into_response()
        }
        Err(why) => refuse(StatusCode::BAD_REQUEST, "invalid_grant", why),
    }
}

/// Also a token that is unknown is gone afterwards, as RFC 7009 has it.
async fn revoke(State(shared): State<Arc<Shared>>, Form(request): Form<RevokeRequest>) -> Response {
    if request.client_id != shared.options.client_id {
        return refuse(StatusCode::UNAUTHORIZED, "invalid_client", "there is no such client");
    }
    shared.revoke(&request.token);
    StatusCode::OK.into_response()
}

async fn userinfo(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    match header.and_then(|value| value.strip_prefix("Bearer ")).and_then(|token| shared.userinfo(token)) {
        Some(claims) => Json(claims).into_response(),
        None => (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")]).into_response(),
    }
}

fn refuse(status: StatusCode, error: &str, description: &str) -> Response {
    let body = json!({"error": error, "error_description": description});
    (status, [(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}
