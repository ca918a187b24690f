//! The stored tokens as federations use them.

use async_trait::async_trait;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;

use super::Tokens;
use crate::ports::mint::{GrantStatus, Mint, Submission, Submitted};

#[async_trait]
impl Mint for Tokens {
    async fn mint(&self, grant: &str) -> Result<Secret, String> {
        Tokens::mint(self, grant).await.map_err(|failure| failure.to_string())
    }

    async fn reveal(&self, grant: &str) -> Result<Secret, String> {
        let grant = self.0.load(grant).await.map_err(|failure| failure.to_string())?;
        Ok(grant.token)
    }

    async fn submit(&self, submission: Submission<'_>) -> Result<Submitted, String> {
        let submitted = self.give(submission).await;
        let submitted = submitted.map_err(|failure| failure.to_string())?;
        Ok(Submitted { grant: submitted.id, warning: submitted.warning })
    }

    async fn release(&self, grant: &str, service: &ServiceName, actor: &str) {
        // What could not be ended now is ended when nobody has needed it for a day.
        let _ = Tokens::release(self, grant, service, actor).await;
    }

    async fn abandon(&self, grant: &str, service: &ServiceName) {
        let _ = Tokens::abandon(self, grant, service).await;
    }

    async fn revoke(&self, service: &ServiceName, actor: &str) -> Result<(), String> {
        Tokens::revoke(self, service, actor).await.map(drop).map_err(|failure| failure.to_string())
    }

    async fn status(&self, grant: &str) -> Option<GrantStatus> {
        let status = Tokens::status(self, grant).await.ok()?;
        Some(GrantStatus {
            state: status.state,
            issuer: status.issuer,
            client: status.client,
            age: status.age_seconds,
            refreshed: status.refreshed,
            trouble: status.trouble,
            holders: status.holders.len(),
        })
    }

    async fn tidy(&self) {
        let _ = self.tick_abandoned().await;
    }
}
