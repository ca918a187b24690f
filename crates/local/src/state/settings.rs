//! What the administrator sets while the manager runs.

use async_trait::async_trait;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::settings::Settings;
use rusqlite::params;

use super::LocalStore;
use super::index::Index;
use super::writer::{Batch, Change, Failure};

#[async_trait]
impl Settings for LocalStore {
    async fn image_repositories(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.index().repositories.clone())
    }

    async fn set_image_repositories(&self, repositories: Vec<String>) -> Result<(), StoreError> {
        self.submit(SetRepositories(repositories)).await
    }
}

struct SetRepositories(Vec<String>);

impl Change for SetRepositories {
    type Step = ();
    type Output = ();

    fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
        batch.sql.prepare_cached("DELETE FROM image_repositories")?.execute(())?;
        let mut insert =
            batch.sql.prepare_cached("INSERT INTO image_repositories (position, repository) VALUES (?1, ?2)")?;
        for (position, repository) in (0i64..).zip(&self.0) {
            insert.execute(params![position, repository])?;
        }
        Ok(())
    }

    fn publish(self, (): (), index: &mut Index) {
        index.repositories = self.0;
    }
}
