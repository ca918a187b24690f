//! The first contact of a user: a home is made once, however many requests come at once.
//!
//! Nothing is remembered beyond that: a home can be deleted while the manager runs, and the world
//! knows by itself, without a call, whom it has made one for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oscar_model::identity::Owner;
use tokio::sync::OnceCell;

use crate::ports::StoreError;
use crate::ports::users::{Home, Users};

type Asking = Arc<OnceCell<Home>>;

pub(crate) struct Onboarding {
    users: Arc<dyn Users>,
    /// Whose home is being asked for, with what everybody who asks meanwhile will be told.
    asked: Mutex<HashMap<Owner, Asking>>,
}

impl Onboarding {
    pub(crate) fn new(users: Arc<dyn Users>) -> Self {
        Self { users, asked: Mutex::default() }
    }

    /// The home of an owner. A failure is not shared: the next one in line tries again.
    pub(crate) async fn home(&self, owner: &Owner, display_name: &str) -> Result<Home, StoreError> {
        let asking = self.asked().entry(owner.clone()).or_default().clone();
        let _leaving = Leaving { onboarding: self, owner, asking: &asking };
        asking.get_or_try_init(|| self.users.ensure(owner, display_name)).await.cloned()
    }

    /// Where the home of an owner is, or would be made. Makes none.
    pub(crate) async fn look(&self, owner: &Owner) -> Result<Home, StoreError> {
        self.users.look(owner).await
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<Owner, Asking>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever leaves closes the question that was answered, also when he gives up waiting.
struct Leaving<'a> {
    onboarding: &'a Onboarding,
    owner: &'a Owner,
    asking: &'a Asking,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut asked = self.onboarding.asked();
        let Some(standing) = asked.get(self.owner).filter(|standing| Arc::ptr_eq(standing, self.asking)) else {
            return;
        };
        // Two are the map's and ours: nobody else waits for it.
        if standing.initialized() || Arc::strong_count(standing) <= 2 {
            asked.remove(self.owner);
        }
    }
}
