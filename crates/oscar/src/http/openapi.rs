//! The OpenAPI document, printed by `oscar openapi` and kept in `docs/`.

use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

use super::handlers::{config, info, services};

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
    ),
    components(schemas(oscar_api::problem::Problem)),
    modifiers(&Security),
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

pub fn openapi_json() -> String {
    let mut text = Document::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}
