use std::collections::BTreeMap;
use std::sync::Arc;

use oscar_engine::ports::buckets::Keys;
use oscar_minio::{Server, WebhookState};

use crate::cli::doctor::Finding;
use crate::cli::places::{Places, variable};
use crate::config::{Derived, Effective, Sources, World};
use crate::wiring::{MINIO_EVENTS, SystemClock, SystemEntropy};

/// An external MinIO: whether it can be asked, and whether it tells of uploads.
pub(super) async fn check(places: &Places) -> Vec<Finding> {
    let (settings, _) = Effective::gather(&Sources::of_process(BTreeMap::new(), None));
    let derived = Derived::of(&settings, &variable);
    if derived.world != World::Local || derived.minio_endpoint.is_empty() {
        return vec![Finding::fine("no MinIO is set, so a manager that is started here keeps objects itself")];
    }
    let endpoint = derived.minio_endpoint.clone();
    let root = Keys {
        access_key: settings.text("minio_access_key").to_owned(),
        secret_key: settings.secret("minio_secret_key"),
    };
    if root.access_key.is_empty() || root.secret_key.is_blank() {
        return vec![Finding::broken(
            format!("the keys of the MinIO at {endpoint} are not set"),
            "set MINIO_ACCESS_KEY and MINIO_SECRET_KEY to those of an administrator of it",
        )];
    }
    let server = Server {
        endpoint: endpoint.trim_end_matches('/').to_owned(),
        region: settings.text("minio_region").to_owned(),
        verify: settings.flag("minio_tls_verify"),
        root,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
    };
    let name = settings.text("minio_webhook");
    let state = match server.webhook_state(name, MINIO_EVENTS).await {
        Err(error) => return vec![Finding::broken(error.to_string(), "correct MINIO_ENDPOINT")],
        Ok(Err(error)) => {
            return vec![Finding::broken(
                format!("the MinIO at {endpoint} cannot be asked: {error}"),
                "check MINIO_ENDPOINT, MINIO_ACCESS_KEY, MINIO_SECRET_KEY and MINIO_TLS_VERIFY; the keys must be an \
                 administrator's",
            )];
        }
        Ok(Ok(state)) => state,
    };
    let manager = settings.given("public_url").unwrap_or_else(|| format!("http://{}", derived.listen));
    let token = match settings.given("minio_webhook_token") {
        Some(_) => "the value of OSCAR_MINIO_WEBHOOK_TOKEN".to_owned(),
        None => format!("the content of {}", places.data.join("minio-webhook.secret").display()),
    };
    vec![finding(&endpoint, name, &state, manager.trim_end_matches('/'), &token)]
}

fn finding(endpoint: &str, name: &str, state: &WebhookState, manager: &str, token: &str) -> Finding {
    let what = match state {
        WebhookState::Fine { endpoint: told } => {
            return Finding::fine(format!(
                "the MinIO at {endpoint} tells {told} of uploads, and keeps what it could not tell"
            ));
        }
        WebhookState::Missing => {
            format!(
                "the MinIO at {endpoint} has no webhook {name}: uploads are only found by looking, every 20 seconds"
            )
        }
        WebhookState::Elsewhere { endpoint: told } => {
            format!("the webhook {name} of the MinIO at {endpoint} tells {told}, which is no manager")
        }
        WebhookState::NoQueue => format!(
            "the webhook {name} of the MinIO at {endpoint} has no queue_dir: uploads while the manager is down are \
             only found by looking"
        ),
    };
    let mut finding = Finding::doubtful(what, "set these in MinIO's environment and restart it once:");
    let variable = |setting: &str, value: &str| format!("MINIO_NOTIFY_WEBHOOK_{setting}_{name}={value}");
    finding.hints.extend([
        variable("ENABLE", "on"),
        variable("ENDPOINT", &format!("{manager}{MINIO_EVENTS}")),
        variable("AUTH_TOKEN", &format!("({token})")),
        variable("QUEUE_DIR", "/a/folder/that/stays"),
        format!(
            "or: mc admin config set ALIAS notify_webhook:{name} endpoint={manager}{MINIO_EVENTS} auth_token=({token}) \
             queue_dir=/a/folder/that/stays && mc admin service restart ALIAS"
        ),
    ]);
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Level;

    #[test]
    fn what_is_missing_is_said_as_lines_to_set() {
        let found = finding("http://store", "OSCAR", &WebhookState::Missing, "http://manager:8080", "(kept)");
        assert_eq!(found.level, Level::Doubtful);
        let wanted = "MINIO_NOTIFY_WEBHOOK_ENDPOINT_OSCAR=http://manager:8080/system/events/minio";
        assert!(found.hints.iter().any(|hint| hint == wanted), "{found:?}");
        let fine = WebhookState::Fine { endpoint: "http://manager:8080/system/events/minio".to_owned() };
        assert_eq!(finding("http://store", "OSCAR", &fine, "http://manager:8080", "").level, Level::Fine);
    }
}
