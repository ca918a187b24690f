//! Federations, their tokens, and what was done elsewhere in the caller's name.

use oscar_model::secret::Secret;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Client, ClientError};

/// What is done with the members that a body names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembersChange {
    Add,
    Update,
    Remove,
}

impl MembersChange {
    fn method(self) -> Method {
        match self {
            Self::Add => Method::POST,
            Self::Update => Method::PUT,
            Self::Remove => Method::DELETE,
        }
    }
}

impl Client {
    /// Every federation of the caller, also those that are being removed.
    pub async fn federations(&self) -> Result<Vec<Value>, ClientError> {
        self.list("/system/federation").await
    }

    pub async fn federation(&self, service: &str) -> Result<Value, ClientError> {
        Ok(self.get(&format!("/system/federation/{service}")).await?.value)
    }

    /// The federation as it is afterwards; `warnings` in it tell what members do not have yet.
    pub async fn change_members(
        &self,
        change: MembersChange,
        service: &str,
        body: &Value,
    ) -> Result<Value, ClientError> {
        let path = format!("/system/federation/{service}");
        let response = self.send(change.method(), &path, Some(body), &[]).await?;
        self.json(response).await
    }

    /// What a change would do at which member: `federation` of the answer. Nothing is changed.
    pub async fn foresee_members(
        &self,
        change: MembersChange,
        service: &str,
        body: &Value,
    ) -> Result<Value, ClientError> {
        let path = format!("/system/federation/{service}?dry_run=true");
        let response = self.send(change.method(), &path, Some(body), &[]).await?;
        self.json(response).await
    }

    /// Looks at every member now instead of later.
    pub async fn reconcile(&self, service: &str) -> Result<Value, ClientError> {
        let path = format!("/system/federation/{service}/reconcile");
        let response = self.send(Method::POST, &path, None, &[]).await?;
        self.json(response).await
    }

    /// What is known of the refresh token of a federation; `null` when it has none.
    pub async fn refresh_token(&self, service: &str) -> Result<Value, ClientError> {
        Ok(self.get(&format!("/system/federation/{service}/token")).await?.value)
    }

    pub async fn set_refresh_token(&self, service: &str, token: &Secret) -> Result<Value, ClientError> {
        let path = format!("/system/federation/{service}/token");
        let body = json!({"refresh_token": token.expose()});
        let response = self.send(Method::PUT, &path, Some(&body), &[]).await?;
        self.json(response).await
    }

    pub async fn revoke_refresh_token(&self, service: &str) -> Result<(), ClientError> {
        let path = format!("/system/federation/{service}/token");
        self.send(Method::DELETE, &path, None, &[]).await.map(drop)
    }

    /// What was done elsewhere in the caller's name, newest first.
    pub async fn audit(&self, limit: u32) -> Result<Vec<Value>, ClientError> {
        self.list(&format!("/system/audit?limit={limit}")).await
    }
}
