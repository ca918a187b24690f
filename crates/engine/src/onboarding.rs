//! The first contact of a user: a home is made once, however many requests come at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use oscar_model::identity::Owner;
use tokio::sync::OnceCell;

use crate::ports::StoreError;
use crate::ports::users::{Home, Users};

pub(crate) struct Onboarding {
    users: Arc<dyn Users>,
    homes: Mutex<HashMap<Owner, Arc<OnceCell<Home>>>>,
}

impl Onboarding {
    pub(crate) fn new(users: Arc<dyn Users>) -> Self {
        Self { users, homes: Mutex::default() }
    }

    /// The home of an owner. A failure is not remembered: the next request tries again.
    pub(crate) async fn home(&self, owner: &Owner, display_name: &str) -> Result<Home, StoreError> {
        let cell = {
            let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
            homes.entry(owner.clone()).or_default().clone()
        };
        cell.get_or_try_init(|| self.users.ensure(owner, display_name)).await.cloned()
    }
}
