//! Settings that clients read, and the one that the administrator changes.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use oscar_api::body::{Config, ConfigSection, MinioProvider};
use oscar_api::fdl::FdlError;
use oscar_api::problem::{Code, Problem};
use oscar_api::tree::{Reader, Value, parse_json};
use oscar_model::fault::quoted;
use oscar_model::identity::Principal;

use super::super::answer::{Refused, json_answer};
use super::super::app::App;
use super::super::caller::authenticate;
use super::super::documented::{ConfigRefusals, ReadRefusals};
use super::extract::body;
use super::info::blank_as_one;

/// Settings of the cluster and the caller's keys of its object store.
#[utoipa::path(get, path = "/system/config", responses(
    (status = 200, description = "Settings.", body = Config),
        ReadRefusals))]
pub(in super::super) async fn get_config(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match config(&app, &headers).await {
        Ok(config) => json_answer(StatusCode::OK, &config),
        Err(refused) => refused.into_answer(&headers),
    }
}

async fn config(app: &App, headers: &HeaderMap) -> Result<Config, Refused> {
    let principal = authenticate(app, headers).await?;
    let store = app.manager.store_keys(&principal).await?;
    let facts = &app.facts;
    Ok(Config {
        config: ConfigSection {
            name: facts.name.clone(),
            namespace: facts.namespace.clone(),
            services_namespace: facts.services_namespace.clone(),
            controller_service_account: facts.controller_service_account.clone(),
            gpu_available: app.manager.has_gpus().await,
            interlink_available: app.manager.has_interlink().await,
            serverless_backend: String::new(),
            yunikorn_enable: false,
            kueue_enable: false,
            volume_enable: false,
            oidc_groups: blank_as_one(&facts.oidc_groups),
            minio_quota_enabled: false,
        },
        minio_provider: MinioProvider {
            endpoint: store.endpoint,
            verify: store.verify,
            access_key: store.access_key,
            secret_key: store.secret_key.expose().to_owned(),
            region: store.region,
        },
        allowed_image_repositories: app.manager.image_repositories().await?,
    })
}

/// Which repositories images may come from; an empty list allows all.
#[utoipa::path(put, path = "/system/config", request_body(content = inline(ConfigChange), content_type = "application/json"), responses(
    (status = 200, description = "The list as it is now.", body = Vec<String>),
        ConfigRefusals))]
pub(in super::super) async fn put_config(State(app): State<Arc<App>>, request: Request) -> Response {
    let headers = request.headers().clone();
    match change_config(&app, &headers, request).await {
        Ok(repositories) => json_answer(StatusCode::OK, &repositories),
        Err(refused) => refused.into_answer(&headers),
    }
}

/// The body of a change; other keys of the answer of GET are tolerated. No list allows all.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes the body for the OpenAPI document; it is read from the tree")]
struct ConfigChange {
    allowed_image_repositories: Option<Vec<String>>,
}

async fn change_config(app: &App, headers: &HeaderMap, request: Request) -> Result<Vec<String>, Refused> {
    let principal = authenticate(app, headers).await?;
    if principal != Principal::Admin {
        return Err(Refused::new(Code::NotAdministrator, "only the administrator may change the configuration"));
    }
    let bytes = body(app, request).await?;
    let node = parse_json(&bytes).map_err(FdlError::Malformed)?;
    let reader = Reader::new(&node, false);
    if node.value == Value::Null {
        // It would take every restriction away, and nobody who means that says it so.
        reader.fault("", node.kind(), "a map of fields");
    }
    let repositories = reader.fields("").texts("allowed_image_repositories");
    for (index, entry) in repositories.iter().enumerate() {
        if entry.trim().trim_end_matches('/').is_empty() {
            // An entry that allows nothing in a list of nothing else would allow everything.
            let path = format!("allowed_image_repositories[{index}]");
            reader.fault(&path, quoted(entry), "a repository such as `ghcr.io/grycap`");
        }
    }
    if node.get("allowed_image_repositories").is_none() {
        // Taken for an empty list, a misspelt key would open the cluster to every image.
        reader.fault("allowed_image_repositories", "nothing", "a list; an empty one allows every image");
    }
    let faults = reader.into_faults();
    if !faults.is_empty() {
        let detail = format!("the configuration is not valid: {faults}");
        return Err(Problem {
            faults: faults.0.into_iter().map(Into::into).collect(),
            ..Problem::new(Code::BodyMalformed, detail)
        }
        .into());
    }
    Ok(app.manager.set_image_repositories(&principal, repositories).await?)
}
