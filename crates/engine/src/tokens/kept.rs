//! Tokens of services that are in no federation: kept, and not used before they are.
//!
//! Nobody else may see them, and whoever gave them may be using them elsewhere: a token that is only
//! kept is neither tried nor revoked.

use std::sync::Arc;

use oscar_model::federation::record::{Grant, GrantState, Holder, Seconds};
use oscar_model::identity::Owner;
use oscar_model::name::ServiceName;

use super::submit::{NOT_TRIED, Submitted, submitted};
use super::{Inner, TokenFailure, Tokens, undisturbed};
use crate::ports::mint::{Claim, Held, Submission};

/// The holder of what a service was given before it was in a federation.
fn outside(service: &ServiceName) -> Holder {
    Holder::from(service.clone())
}

/// Whether its issuer was never asked about it, because nobody needed it.
pub(super) fn is_kept_only(grant: &Grant) -> bool {
    grant.refreshed.is_none() && matches!(&grant.state, GrantState::NotVerified(why) if why == NOT_TRIED)
}

impl Tokens {
    /// Keeps a token for a service that is in no federation, in the place of what it had.
    pub async fn keep(&self, submission: Submission<'_>) -> Result<(), TokenFailure> {
        let (grant, _) = self.0.draft(&submission)?;
        let (owner, service) = (submission.owner.clone(), submission.holder.service.clone());
        let holder = outside(&service);
        let (inner, id) = (Arc::clone(&self.0), grant.id.clone());
        undisturbed(async move {
            let _turn = inner.turn(&grant.id).await?;
            match inner.find(&grant.id).await? {
                Some(mut known) => inner.give_to(&mut known, holder).await,
                None => Ok(inner.store(&Grant { holders: [holder].into(), ..grant }).await?),
            }
        })
        .await?;
        self.discard(&owner, &service, Some(&id)).await
    }

    /// A service that is in no federation needs what was kept for it no more, but for one.
    pub async fn discard(&self, owner: &Owner, service: &ServiceName, but: Option<&str>) -> Result<(), TokenFailure> {
        for Grant { id, .. } in self.0.kept_for(owner, service).await? {
            if but == Some(id.as_str()) {
                continue;
            }
            let (inner, holder) = (Arc::clone(&self.0), outside(service));
            undisturbed(async move {
                let _turn = inner.turn(&id).await?;
                let Some(mut grant) = inner.find(&id).await? else { return Ok(()) };
                if !grant.holders.remove(&holder) {
                    return Ok(());
                }
                if grant.holders.is_empty() && is_kept_only(&grant) {
                    return Ok(inner.remove(&id).await?);
                }
                Ok(inner.store(&grant).await?)
            })
            .await?;
        }
        Ok(())
    }

    /// The service is in a federation now: what was kept for it is tried and given to it there.
    pub async fn claim(&self, claim: Claim<'_>) -> Result<Option<Submitted>, TokenFailure> {
        let Claim { actor, owner, holder, strict } = claim;
        let Some(Grant { id, .. }) = self.0.kept_for(owner, &holder.service).await?.into_iter().next() else {
            return Ok(None);
        };
        let (inner, holder, actor) = (Arc::clone(&self.0), holder.clone(), actor.to_owned());
        undisturbed(async move {
            let _turn = inner.turn(&id).await?;
            let Some(mut grant) = inner.find(&id).await? else { return Ok(None) };
            if is_kept_only(&grant) {
                return inner.try_kept(grant, holder, &actor, strict).await.map(Some);
            }
            inner.give_to(&mut grant, holder).await?;
            Ok(Some(submitted(&grant)))
        })
        .await
    }

    /// Who has which token, since when at least.
    pub async fn held(&self) -> Result<Vec<Held>, TokenFailure> {
        let all = self.0.all().await?;
        let held = |grant: Grant| {
            let (id, owner, since) = (grant.id, grant.owner, grant.given.max(grant.submitted));
            let of = move |holder: Holder| Held { grant: id.clone(), owner: owner.clone(), holder, since };
            grant.holders.into_iter().map(of)
        };
        Ok(all.into_iter().flat_map(held).collect())
    }

    /// Writes down that somebody has a token, where it is not; nothing when there is no such token.
    pub async fn hold(&self, grant_id: &str, holder: &Holder) -> Result<(), TokenFailure> {
        let (inner, id, holder) = (Arc::clone(&self.0), grant_id.to_owned(), holder.clone());
        undisturbed(async move {
            let _turn = inner.turn(&id).await?;
            let Some(mut grant) = inner.find(&id).await? else { return Ok(()) };
            let unnamed = grant.holders.remove(&outside(&holder.service));
            if grant.holders.insert(holder) || unnamed {
                inner.store(&grant).await?;
            }
            Ok(())
        })
        .await
    }
}

impl Inner {
    /// The newest first.
    async fn kept_for(&self, owner: &Owner, service: &ServiceName) -> Result<Vec<Grant>, TokenFailure> {
        let holder = outside(service);
        let mut kept = self.all().await?;
        kept.retain(|grant| grant.owner == *owner && grant.holders.contains(&holder));
        kept.sort_by_key(|grant| std::cmp::Reverse::<Seconds>(grant.given.max(grant.submitted)));
        Ok(kept)
    }

    /// A kept token is needed for the first time. One that is refused stays as it was kept.
    pub(super) async fn try_kept(
        &self,
        mut grant: Grant,
        holder: Holder,
        actor: &str,
        strict: bool,
    ) -> Result<Submitted, TokenFailure> {
        grant.holders.insert(holder);
        (grant.given, grant.ending) = (self.now(), None);
        self.admit(grant, None, actor, strict).await
    }
}
