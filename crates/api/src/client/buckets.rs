//! Buckets of the cluster's object store. Their objects are read and written over S3.

use reqwest::Method;
use serde_json::Value;

use super::{Client, ClientError};

impl Client {
    pub async fn buckets(&self) -> Result<Vec<Value>, ClientError> {
        self.list("/system/buckets").await
    }

    /// A bucket with one page of what is in it.
    pub async fn bucket(&self, name: &str, page: Option<&str>) -> Result<Value, ClientError> {
        self.page(&format!("/system/buckets/{name}"), page).await
    }

    pub async fn create_bucket(&self, body: &Value) -> Result<(), ClientError> {
        self.send(Method::POST, "/system/buckets", Some(body), &[]).await.map(drop)
    }

    pub async fn update_bucket(&self, body: &Value) -> Result<(), ClientError> {
        self.send(Method::PUT, "/system/buckets", Some(body), &[]).await.map(drop)
    }

    /// With everything in it.
    pub async fn delete_bucket(&self, name: &str) -> Result<(), ClientError> {
        self.send(Method::DELETE, &format!("/system/buckets/{name}"), None, &[]).await.map(drop)
    }
}
