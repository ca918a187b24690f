//! The OpenAPI document, printed by `oscar openapi` and kept in `docs/`.

use utoipa::OpenApi;
use utoipa::openapi::RefOr;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

use super::handlers::{
    buckets, channel, config, deployment, federation, info, invoke, jobs, logs, metrics, notices, prometheus, services,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "OSCAR Manager",
        description = "Serverless file processing. Errors are plain sentences; ask for `application/problem+json` \
                       to get every fault in a field of its own.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(
        info::health,
        info::get_info,
        info::get_status,
        config::get_config,
        config::put_config,
        services::list_services,
        services::create_service,
        services::update_service,
        services::get_service,
        services::delete_service,
        services::check_auth,
        federation::get_audit,
        federation::list_federations,
        federation::get_federation,
        federation::add_members,
        federation::update_members,
        federation::remove_members,
        federation::reconcile,
        federation::get_token,
        federation::put_token,
        federation::delete_token,
        federation::get_replicas,
        federation::add_replicas,
        federation::update_replicas,
        federation::remove_replicas,
        channel::join,
        channel::sync,
        channel::undo,
        channel::withdraw,
        invoke::submit_job,
        invoke::run_service,
        jobs::list_jobs,
        jobs::get_job,
        jobs::cancel_job,
        logs::get_executions,
        logs::list_logs,
        logs::delete_logs,
        logs::get_log,
        logs::delete_log,
        deployment::get_deployment,
        deployment::get_deployment_logs,
        buckets::list_buckets,
        buckets::create_bucket,
        buckets::update_bucket,
        buckets::get_bucket,
        buckets::delete_bucket,
        buckets::presign,
        metrics::get_metrics,
        metrics::get_breakdown,
        metrics::get_service_metrics,
        notices::take_minio_event,
        prometheus::get_prometheus,
    ),
    components(schemas(oscar_api::problem::Problem, oscar_api::body::metrics::WrappedError)),
    modifiers(&Security, &Manager),
    security(("basic" = []), ("bearer" = []))
)]
struct Document;

struct Security;

impl utoipa::Modify for Security {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("basic", SecurityScheme::Http(Http::new(HttpAuthScheme::Basic)));
        components.add_security_scheme("bearer", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

/// Every answer names the manager that gives it.
struct Manager;

impl utoipa::Modify for Manager {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let header =
            HeaderBuilder::new().schema(Some(text)).description(Some("The permanent id of the manager.")).build();
        for path in document.paths.paths.values_mut() {
            let operations = [&mut path.get, &mut path.put, &mut path.post, &mut path.delete];
            for operation in operations.into_iter().flatten() {
                for response in operation.responses.responses.values_mut() {
                    if let RefOr::T(response) = response {
                        response.headers.insert("Oscar-Manager".to_owned(), header.clone().into());
                    }
                }
            }
        }
    }
}

pub fn openapi_json() -> String {
    let mut text = Document::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}
