//! What every handler can reach.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use oscar_engine::Manager;
use oscar_engine::ports::buckets::Notices;
use oscar_engine::ports::identity::Identity;
use oscar_model::secret::Secret;

use super::printed::Prints;
use super::traffic::Traffic;

pub struct App {
    pub manager: Arc<Manager>,
    pub identity: Arc<dyn Identity>,
    pub admin: AdminAccount,
    pub facts: Facts,
    pub limits: Limits,
    pub prints: Prints,
    pub traffic: Arc<Traffic>,
    /// Of an object store that runs elsewhere.
    pub notices: Option<Arc<dyn Notices>>,
}

/// The one account that Basic authentication knows.
pub struct AdminAccount {
    pub username: Secret,
    pub password: Secret,
}

/// How long a request may take, and how much of a list it gets unless it says.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For its body to arrive.
    pub body: Duration,
    /// For its answer to be made.
    pub answer: Duration,
    /// Jobs or objects of one page.
    pub page: usize,
}

/// What the manager says of itself; fixed while it runs.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub instance_id: String,
    pub name: String,
    pub namespace: String,
    pub services_namespace: String,
    pub controller_service_account: String,
    pub oidc_enabled: bool,
    pub oidc_issuers: Vec<String>,
    pub oidc_groups: Vec<String>,
    /// Answer browsers of other origins here, because nothing stands before the manager.
    pub cors: bool,
    /// What runs scripts, once that is known.
    pub executor: Arc<OnceLock<String>>,
    /// A refresh token older than this should be replaced.
    pub oldest_refresh_token: Duration,
}
