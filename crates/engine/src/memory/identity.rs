use std::collections::HashMap;

use async_trait::async_trait;
use oscar_model::identity::User;

use crate::ports::identity::{Identity, Refusal};

/// Knows the tokens that a test gave out.
#[derive(Default)]
pub struct MemoryIdentity {
    pub users: HashMap<String, User>,
}

#[async_trait]
impl Identity for MemoryIdentity {
    async fn verify(&self, bearer: &str) -> Result<User, Refusal> {
        self.users.get(bearer).cloned().ok_or_else(|| Refusal::NotValid("it is not known".to_owned()))
    }
}
