use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::ports::StoreError;
use crate::ports::settings::Settings;

#[derive(Default)]
pub struct MemorySettings {
    repositories: Mutex<Vec<String>>,
}

#[async_trait]
impl Settings for MemorySettings {
    async fn image_repositories(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.repositories.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    async fn set_image_repositories(&self, repositories: Vec<String>) -> Result<(), StoreError> {
        *self.repositories.lock().unwrap_or_else(PoisonError::into_inner) = repositories;
        Ok(())
    }
}
