//! The two stores that clients are pointed at.

use oscar_testkit::{Minio, Missing};

use crate::support::{ROOT, ROOT_SECRET, Served};

/// Where a store is, and the keys of its administrator.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) key: &'static str,
    pub(crate) secret: &'static str,
}

impl Target {
    pub(crate) fn of_store(served: &Served) -> Self {
        Self { url: served.url(), key: ROOT, secret: ROOT_SECRET }
    }

    pub(crate) fn of_minio(minio: &Minio) -> Self {
        Self { url: minio.url().to_owned(), key: Minio::ACCESS_KEY, secret: Minio::SECRET_KEY }
    }

    pub(crate) fn environment(&self) -> [(&'static str, &str); 3] {
        [("S3_URL", &self.url), ("S3_KEY", self.key), ("S3_SECRET", self.secret)]
    }
}

/// Starting it waits for its port.
pub(crate) async fn start_minio() -> Result<Minio, Missing> {
    tokio::task::spawn_blocking(Minio::start).await.expect("it was started")
}
