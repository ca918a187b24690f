//! Kubeconfig files, in JSON: every reader of the YAML form reads it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

/// One cluster, one user with a bearer token. The authority is inside, so that the file can
/// be copied and outlive the server's folder.
pub(crate) fn with_token(url: &str, authority_pem: &str, token: &str) -> String {
    let authority = BASE64_STANDARD.encode(authority_pem);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    })
    .to_string()
}
