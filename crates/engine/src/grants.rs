//! Refresh tokens of owners, as services bring them: taken out of every definition, and given to the
//! federation that needs them.

use std::collections::BTreeMap;

use oscar_model::federation::Federation;
use oscar_model::federation::expand::REFRESH_TOKEN;
use oscar_model::federation::record::{Access, FederationRecord, Holder, Role, Seconds};
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Sensitive, Service};

use crate::bugs::{Bug, planted};
use crate::deploy::Terms;
use crate::failure::Failure;
use crate::manager::Manager;
use crate::ports::StoreError;
use crate::ports::mint::{Claim, Held, Submission};

/// For how long somebody may have a token without being written down anywhere else: a create that
/// is under way looks at its members first.
const UNCLAIMED_FOR: Seconds = 3600;

/// Takes the refresh token out of what is stored with a service: no job may see it.
pub(crate) fn take_refresh_token(sensitive: &mut Sensitive) -> Secret {
    let token = sensitive.environment.remove(REFRESH_TOKEN).unwrap_or_default();
    if planted(Bug::RefreshTokenKept) {
        sensitive.environment.insert(REFRESH_TOKEN.to_owned(), token.clone());
    }
    token
}

impl Manager {
    /// Stores the refresh token that came with a definition apart, and tells how the owner is
    /// represented elsewhere. Without one, what was kept for the service before it was in a
    /// federation serves.
    pub(crate) async fn access(
        &self,
        service: &Service,
        sensitive: &mut Sensitive,
        known: Option<&FederationRecord>,
        (holder, terms): (&Holder, &Terms),
    ) -> Result<(Access, Vec<String>), Failure> {
        let token = take_refresh_token(sensitive);
        let logins = crate::federate::logins(&service.definition, sensitive);
        let mut access = Access { logins, bearer: terms.bearer.clone(), grant: None, actor: terms.actor.clone() };
        access.grant = known.and_then(|record| record.access.grant.clone());
        if terms.dry_run {
            return Ok((access, Vec::new()));
        }
        let deploys = service.definition.federation.as_ref().is_some_and(Federation::deploys);
        let submitted = if !token.is_blank() {
            let submission = submission(service, holder, &token, terms);
            Some(self.federator.mint.submit(submission).await.map_err(Failure::RefreshToken)?)
        } else if access.grant.is_none() && deploys {
            let claim = Claim { actor: &terms.actor, owner: &service.owner, holder, strict: true };
            self.federator.mint.claim(claim).await.map_err(Failure::RefreshToken)?
        } else {
            None
        };
        let Some(submitted) = submitted else { return Ok((access, Vec::new())) };
        access.grant = Some(submitted.grant);
        Ok((access, submitted.warning.into_iter().collect()))
    }

    /// A service that is in no federation of ours keeps its refresh token for the day that it is,
    /// where no job sees it.
    pub(crate) async fn seal_refresh_token(
        &self,
        service: &Service,
        sensitive: &mut Sensitive,
        terms: &Terms,
    ) -> Result<(), Failure> {
        let token = take_refresh_token(sensitive);
        if token.is_blank() || terms.dry_run {
            return Ok(());
        }
        let holder = Holder::from(service.name().clone());
        let kept = self.federator.mint.keep(submission(service, &holder, &token, terms)).await;
        kept.map_err(Failure::RefreshToken)
    }

    /// Replaces the refresh token of a federation.
    pub async fn set_refresh_token(
        &self,
        principal: &Principal,
        name: &ServiceName,
        token: &Secret,
        terms: Terms,
    ) -> Result<Option<String>, Failure> {
        let (stored, record) = self.owned(principal, name).await?;
        let terms = terms.by(principal);
        let holder = Holder::new(name, &record.federation_id);
        let submission = submission(&stored.service, &holder, token, &terms);
        let submitted = self.federator.mint.submit(submission).await.map_err(Failure::RefreshToken)?;
        let former = self.federator.hold_grant(name, Some(submitted.grant.clone())).await?;
        if let Some(former) = former.filter(|former| *former != submitted.grant) {
            self.federator.mint.release(&former, &holder, &terms.actor).await;
        }
        Ok(submitted.warning)
    }

    /// Revokes the refresh token at its issuer; members stay, and wait for a new one.
    pub async fn revoke_refresh_token(&self, principal: &Principal, name: &ServiceName) -> Result<(), Failure> {
        let (_, record) = self.owned(principal, name).await?;
        let holder = Holder::new(name, &record.federation_id);
        self.federator.mint.revoke(&holder, principal.label()).await.map_err(Failure::RefreshToken)?;
        self.federator.hold_grant(name, None).await?;
        Ok(())
    }

    /// Makes who has a token agree with who needs one: a crash may have come between writing down
    /// the one and the other.
    pub(crate) async fn tidy_grants(&self) -> Result<(), StoreError> {
        let held = self.federator.mint.held().await;
        let records = self.federator.journal.federations().await?;
        let operations = self.federator.journal.operations().await?;
        let mut needs = BTreeMap::new();
        for begun in operations {
            let holder = Holder::new(&begun.coordinator, &begun.federation_id);
            needs.extend(begun.access.grant.map(|grant| (holder, (grant, false))));
        }
        for record in records.into_iter().filter(|record| record.role == Role::Coordinator) {
            let holder = Holder::new(&record.own.service_name, &record.federation_id);
            needs.extend(record.access.grant.map(|grant| (holder, (grant, record.deleted.is_none()))));
        }
        for (holder, (grant, lives)) in &needs {
            let has = |holder: &Holder| held.iter().any(|held| held.grant == *grant && held.holder == *holder);
            if !has(holder) || (*lives && has(&Holder::from(holder.service.clone()))) {
                self.federator.mint.hold(grant, holder).await;
            }
        }
        let now = self.federator.now();
        for Held { grant, owner, holder, since } in held {
            let is_needed = if holder.federation_id.is_empty() {
                let federated = needs.iter().any(|(other, (_, lives))| *lives && other.service == holder.service);
                // What cannot be read may be what needs it.
                let stored = self.ports.services.get(&holder.service).await;
                !federated && stored.map_or(true, |found| found.is_some_and(|found| found.service.owner == owner))
            } else {
                needs.get(&holder).is_some_and(|(needed, _)| *needed == grant)
            };
            if is_needed || since + UNCLAIMED_FOR > now {
                continue;
            }
            if holder.federation_id.is_empty() {
                self.federator.mint.discard(&owner, &holder.service).await;
            } else {
                self.federator.mint.abandon(&grant, &holder).await;
            }
        }
        Ok(())
    }
}

fn submission<'a>(service: &'a Service, holder: &'a Holder, token: &'a Secret, terms: &'a Terms) -> Submission<'a> {
    Submission {
        actor: &terms.actor,
        owner: &service.owner,
        namespace: &service.namespace,
        holder,
        token,
        bearer: terms.bearer.as_ref().map(|bearer| &bearer.token),
        strict: true,
    }
}
