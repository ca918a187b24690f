//! The stored tokens as federations use them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use oscar_model::federation::record::Holder;
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;

use super::Tokens;
use crate::ports::mint::{Claim, GrantStatus, Held, Mint, Submission, Submitted};

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

    async fn release(&self, grant: &str, holder: &Holder, actor: &str) {
        // What could not be ended now is when it is found that nobody needs it.
        let _ = Tokens::release(self, grant, holder, actor).await;
    }

    async fn abandon(&self, grant: &str, holder: &Holder) {
        let _ = Tokens::abandon(self, grant, holder).await;
    }

    async fn revoke(&self, holder: &Holder, actor: &str) -> Result<(), String> {
        Tokens::revoke(self, holder, actor).await.map(drop).map_err(|failure| failure.to_string())
    }

    async fn keep(&self, submission: Submission<'_>) -> Result<(), String> {
        Tokens::keep(self, submission).await.map_err(|failure| failure.to_string())
    }

    async fn claim(&self, claim: Claim<'_>) -> Result<Option<Submitted>, String> {
        let claimed = Tokens::claim(self, claim).await.map_err(|failure| failure.to_string())?;
        Ok(claimed.map(|submitted| Submitted { grant: submitted.id, warning: submitted.warning }))
    }

    async fn discard(&self, owner: &Owner, service: &ServiceName) {
        let _ = Tokens::discard(self, owner, service, None).await;
    }

    async fn held(&self) -> Vec<Held> {
        Tokens::held(self).await.unwrap_or_default()
    }

    async fn hold(&self, grant: &str, holder: &Holder) {
        let _ = Tokens::hold(self, grant, holder).await;
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
            holders: status.holders.iter().map(|holder| &holder.service).collect::<BTreeSet<_>>().len(),
        })
    }

    async fn tidy(&self) {
        let _ = self.tick_abandoned().await;
    }
}
