//! Who speaks for the owner at another cluster.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use oscar_model::federation::record::{Access, Bearer, Contact, Credential, Login};
use oscar_model::identity::Owner;
use oscar_model::service::{Definition, Sensitive};

use super::Federator;

/// A token is not used in its last seconds: it would expire on the way.
const MARGIN: u64 = 30;

/// Access tokens of owners who called lately; they help a plan on that would otherwise wait.
#[derive(Default)]
pub(crate) struct Lent {
    bearers: Mutex<BTreeMap<Owner, Bearer>>,
}

/// Owners whose last token is remembered.
const MOST_LENT: usize = 1024;

impl Federator {
    /// The owner has called with a token of his own: what waits for him can go on.
    pub fn lend(&self, owner: &Owner, bearer: Bearer) {
        let now = self.now();
        let mut bearers = self.memory.lent.bearers.lock().unwrap_or_else(PoisonError::into_inner);
        if bearers.len() >= MOST_LENT {
            bearers.retain(|_, bearer| bearer.expires > now);
        }
        if bearers.len() < MOST_LENT || bearers.contains_key(owner) {
            bearers.insert(owner.clone(), bearer);
        }
    }

    fn lent(&self, owner: &Owner) -> Option<Bearer> {
        self.memory.lent.bearers.lock().unwrap_or_else(PoisonError::into_inner).get(owner).cloned()
    }

    /// What goes into a call to that cluster, or why nobody can speak for the owner there.
    pub(crate) async fn credential(
        &self,
        access: &Access,
        owner: &Owner,
        cluster_id: &str,
        contact: &Contact,
    ) -> Result<Credential, String> {
        if self.is_own(&contact.endpoint) {
            // This manager knows the owner itself.
            return Ok(Credential::None);
        }
        if let Some(login) = access.logins.get(cluster_id) {
            return Ok(Credential::Basic(login.clone()));
        }
        let good = |bearer: &Bearer| bearer.expires > self.now() + MARGIN;
        if let Some(bearer) = access.bearer.as_ref().filter(|bearer| good(bearer)) {
            return Ok(Credential::Bearer(bearer.token.clone()));
        }
        let minted = match (&access.grant, owner) {
            (Some(grant), Owner::User(_)) => self.mint.mint(grant).await,
            (_, Owner::Admin) => Err(format!(
                "the administrator has no identity there: give clusters.{cluster_id}.auth_user and auth_password, or \
                 create the service as a user"
            )),
            (None, Owner::User(_)) => Err("there is no refresh token of the owner".to_owned()),
        };
        match minted {
            Ok(token) => Ok(Credential::Bearer(token)),
            Err(cause) => match self.lent(owner).filter(good) {
                Some(bearer) => Ok(Credential::Bearer(bearer.token)),
                None => Err(cause),
            },
        }
    }
}

/// The accounts that a definition gives for single clusters.
pub(crate) fn logins(definition: &Definition, sensitive: &Sensitive) -> BTreeMap<String, Login> {
    let given = definition.clusters.iter().filter(|(_, cluster)| !cluster.auth_user.is_empty());
    given
        .filter_map(|(id, cluster)| {
            let password = sensitive.cluster_passwords.get(id)?.clone();
            Some((id.clone(), Login { user: cluster.auth_user.clone(), password }))
        })
        .collect()
}
