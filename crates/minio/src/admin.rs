//! MinIO's administrative interface: users, groups, policies, service accounts, and what it is
//! configured to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use oscar_engine::ports::buckets::Keys;
use oscar_engine::ports::clock::Entropy;
use oscar_model::secret::Secret;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::error::Trouble;
use crate::sealed::{self, Sealer};
use crate::wire::{Answer, Ask, Wire};

pub(crate) struct Admin {
    wire: Arc<Wire>,
    entropy: Arc<dyn Entropy>,
    sealer: OnceCell<Arc<Sealer>>,
}

/// A group, as far as it is asked for.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Group {
    #[serde(default)]
    pub(crate) members: Vec<String>,
}

impl Admin {
    pub(crate) fn new(wire: Arc<Wire>, entropy: Arc<dyn Entropy>) -> Self {
        Self { wire, entropy, sealer: OnceCell::new() }
    }

    /// Makes the user, or gives him this secret.
    pub(crate) async fn put_user(&self, name: &str, secret: &Secret) -> Result<(), Trouble> {
        let body = self.seal(&json!({"secretKey": secret.expose(), "status": "enabled"})).await?;
        let query = vec![("accessKey", name)];
        self.call(Ask { query, body, ..ask(Method::PUT, "add-user") }).await.map(drop)
    }

    pub(crate) async fn put_policy(&self, name: &str, policy: &Value) -> Result<(), Trouble> {
        let (query, body) = (vec![("name", name)], policy.to_string().into_bytes());
        self.call(Ask { query, body, ..ask(Method::PUT, "add-canned-policy") }).await.map(drop)
    }

    pub(crate) async fn policies(&self) -> Result<BTreeMap<String, Value>, Trouble> {
        let answer = self.call(ask(Method::GET, "list-canned-policies")).await?;
        serde_json::from_slice(&answer.body).map_err(|_| Trouble::new("its answer is not that of MinIO"))
    }

    /// A blank policy takes away what there was.
    pub(crate) async fn attach(&self, policy: &str, name: &str, is_group: bool) -> Result<(), Trouble> {
        let is_group = if is_group { "true" } else { "false" };
        let query = vec![("policyName", policy), ("userOrGroup", name), ("isGroup", is_group)];
        self.call(Ask { query, ..ask(Method::PUT, "set-user-or-group-policy") }).await.map(drop)
    }

    /// What nobody is attached to any more.
    pub(crate) async fn remove_policy(&self, name: &str) -> Result<(), Trouble> {
        let ask = Ask { query: vec![("name", name)], ..ask(Method::DELETE, "remove-canned-policy") };
        missing_is_fine(self.call(ask).await)
    }

    pub(crate) async fn group(&self, name: &str) -> Result<Option<Group>, Trouble> {
        match self.call(Ask { query: vec![("group", name)], ..ask(Method::GET, "group") }).await {
            Ok(answer) => {
                let group = serde_json::from_slice(&answer.body);
                group.map(Some).map_err(|_| Trouble::new("its answer is not that of MinIO"))
            }
            Err(trouble) if trouble.is_missing() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// Adds members, and makes the group if need be; or takes them out. Taking nobody out of an
    /// empty group removes it.
    pub(crate) async fn change_group(&self, name: &str, members: &[&str], remove: bool) -> Result<(), Trouble> {
        let body = json!({"group": name, "members": members, "isRemove": remove, "groupStatus": "enabled"});
        let body = body.to_string().into_bytes();
        self.call(Ask { body, ..ask(Method::PUT, "update-group-members") }).await.map(drop)
    }

    /// A key of its own under the administrator's, which may do what the policy says.
    pub(crate) async fn add_service_account(
        &self,
        keys: &Keys,
        policy: &Value,
        expires: SystemTime,
    ) -> Result<(), Trouble> {
        let expires = Timestamp::try_from(expires).map_err(|_| Trouble::new("there is no such time"))?;
        let request = json!({
            "accessKey": keys.access_key,
            "secretKey": keys.secret_key.expose(),
            "policy": policy,
            "name": "oscar-job",
            "expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        let body = self.seal(&request).await?;
        self.call(Ask { body, ..ask(Method::PUT, "add-service-account") }).await.map(drop)
    }

    pub(crate) async fn remove_service_account(&self, access_key: &str) -> Result<(), Trouble> {
        let query = vec![("accessKey", access_key)];
        missing_is_fine(self.call(Ask { query, ..ask(Method::DELETE, "delete-service-account") }).await)
    }

    /// Lines of one part of the configuration, with what the environment says as comments.
    pub(crate) async fn configuration(&self, key: &str) -> Result<String, Trouble> {
        let ask = Ask { query: vec![("key", key)], ..ask(Method::GET, "get-config-kv") };
        let answer = self.call(ask).await?;
        let secret = self.wire.signer.secret_key.clone();
        let opened = tokio::task::spawn_blocking(move || sealed::open(&secret, &answer.body)).await.ok().flatten();
        let opened = opened.ok_or_else(|| Trouble::new("its configuration cannot be decrypted"))?;
        Ok(String::from_utf8_lossy(&opened).into_owned())
    }

    async fn call(&self, ask: Ask<'_>) -> Result<Answer, Trouble> {
        self.wire.send(ask).await
    }

    async fn seal(&self, value: &Value) -> Result<Vec<u8>, Trouble> {
        let failed = || Trouble::new("a request to it cannot be encrypted");
        let sealer = self
            .sealer
            .get_or_try_init(|| async {
                let (secret, entropy) = (self.wire.signer.secret_key.clone(), self.entropy.clone());
                let made = tokio::task::spawn_blocking(move || Sealer::new(&secret, &*entropy)).await;
                made.ok().flatten().map(Arc::new).ok_or_else(failed)
            })
            .await?;
        sealer.seal(value.to_string().as_bytes(), &*self.entropy).ok_or_else(failed)
    }
}

fn ask<'a>(method: Method, what: &str) -> Ask<'a> {
    Ask::new(method, format!("/minio/admin/v3/{what}"))
}

fn missing_is_fine(outcome: Result<Answer, Trouble>) -> Result<(), Trouble> {
    match outcome {
        Err(trouble) if !trouble.is_missing() => Err(trouble),
        _ => Ok(()),
    }
}
