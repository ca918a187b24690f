//! Running services, their jobs, and what jobs say.

use reqwest::{Method, Response};
use serde_json::Value;

use super::{Client, ClientError};
use crate::body::jobs::{ANSWER_BASE64, ANSWER_ENCODING};

/// How a log is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogWish {
    /// Until the job has ended.
    pub follow: bool,
    pub timestamps: bool,
    /// Only so many lines from the end.
    pub tail_lines: Option<u32>,
}

/// What a job says, as it comes.
#[derive(Debug)]
pub struct Log {
    client: Client,
    response: Response,
}

impl Log {
    /// The next piece; it may end inside a character. `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        let chunk = self.response.chunk().await;
        let chunk = chunk.map_err(|error| self.client.broke_off(error))?;
        Ok(chunk.map(Vec::from))
    }
}

/// What a synchronous run answered.
#[derive(Debug)]
pub struct RunAnswer {
    pub body: Vec<u8>,
    /// Whether it is base64; unknown where the manager does not say.
    pub encoded: Option<bool>,
}

impl Client {
    /// Runs a service and waits for its answer.
    pub async fn run(&self, service: &str, event: Vec<u8>) -> Result<RunAnswer, ClientError> {
        let response = self.answered(self.request(Method::POST, &format!("/run/{service}")).body(event)).await?;
        let said = response.headers().get(ANSWER_ENCODING).map(|said| said == ANSWER_BASE64);
        Ok(RunAnswer { body: self.bytes(response).await?, encoded: said })
    }

    /// Makes a job. `None` when the manager does not tell its name, as Go OSCAR does not.
    pub async fn submit(&self, service: &str, event: Vec<u8>) -> Result<Option<String>, ClientError> {
        let response = self.answered(self.request(Method::POST, &format!("/job/{service}")).body(event)).await?;
        // The job is there, whatever the answer says besides.
        let told = self.bytes(response).await.unwrap_or_default();
        let told: Option<Value> = serde_json::from_slice(&told).ok();
        Ok(told.and_then(|told| told["job"].as_str().map(str::to_owned)))
    }

    /// One page of the jobs of a service, the newest first.
    pub async fn jobs(&self, service: &str, page: Option<&str>) -> Result<Value, ClientError> {
        self.page(&format!("/system/jobs/{service}"), page).await
    }

    /// The same in the form that every OSCAR understands.
    pub async fn job_states(&self, service: &str, page: Option<&str>) -> Result<Value, ClientError> {
        self.page(&format!("/system/logs/{service}"), page).await
    }

    pub(super) async fn page(&self, path: &str, page: Option<&str>) -> Result<Value, ClientError> {
        let query: Vec<_> = page.map(|page| ("page", page)).into_iter().collect();
        let response = self.answered(self.request(Method::GET, path).query(&query)).await?;
        self.json(response).await
    }

    /// One job with its story.
    pub async fn job(&self, service: &str, job: &str) -> Result<Value, ClientError> {
        Ok(self.get(&format!("/system/jobs/{service}/{job}")).await?.value)
    }

    /// The job as it is now: it may still be ending.
    pub async fn cancel_job(&self, service: &str, job: &str) -> Result<Value, ClientError> {
        let response = self.send(Method::POST, &format!("/system/jobs/{service}/{job}/cancel"), None, &[]).await?;
        self.json(response).await
    }

    pub async fn log(&self, service: &str, job: &str, wish: LogWish) -> Result<Log, ClientError> {
        let mut query = Vec::new();
        // What is not asked for is not mentioned: other managers do not know all of it.
        query.extend(wish.follow.then(|| ("follow", "true".to_owned())));
        query.extend(wish.timestamps.then(|| ("timestamps", "true".to_owned())));
        query.extend(wish.tail_lines.map(|lines| ("tailLines", lines.to_string())));
        let request = self.request(Method::GET, &format!("/system/logs/{service}/{job}")).query(&query);
        let response = self.answered(request).await?;
        Ok(Log { client: self.clone(), response })
    }

    /// Forgets a job with its log, ending it first if need be.
    pub async fn delete_job(&self, service: &str, job: &str) -> Result<(), ClientError> {
        self.send(Method::DELETE, &format!("/system/logs/{service}/{job}"), None, &[]).await.map(drop)
    }

    /// Forgets the jobs that succeeded, or all.
    pub async fn delete_jobs(&self, service: &str, all: bool) -> Result<(), ClientError> {
        let query = if all { "?all=true" } else { "" };
        self.send(Method::DELETE, &format!("/system/logs/{service}{query}"), None, &[]).await.map(drop)
    }
}
