//! A look at a store without a manager: nothing is opened here, and nothing is changed there.

use std::sync::Arc;

use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::Keys;
use oscar_engine::ports::clock::{Clock, Entropy};

use crate::admin::Admin;
use crate::error::OpenError;
use crate::sign::Signer;
use crate::webhook::{WebhookState, state_of};
use crate::wire::Wire;

/// Where a store is, and who asks.
pub struct Server {
    pub endpoint: String,
    pub region: String,
    pub verify: bool,
    pub root: Keys,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

impl Server {
    /// How the store is configured to tell of uploads by the webhook of this name, to this path.
    pub async fn webhook_state(self, name: &str, path: &str) -> Result<Result<WebhookState, StoreError>, OpenError> {
        let Keys { access_key, secret_key } = self.root;
        let signer = Signer { access_key, secret_key, region: self.region };
        let wire = Arc::new(Wire::new(&self.endpoint, self.verify, signer, self.clock)?);
        Ok(asked(&Admin::new(wire, self.entropy), name, path).await)
    }
}

pub(crate) async fn asked(admin: &Admin, name: &str, path: &str) -> Result<WebhookState, StoreError> {
    Ok(state_of(&admin.configuration("notify_webhook").await?, name, path))
}
