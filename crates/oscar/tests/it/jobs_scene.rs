//! A manager that runs jobs, and a user who uploads and waits.

use std::time::Duration;

use oscar_testkit::Part;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::manager::{Disk, Manager};

/// A job that has not ended by then never will.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct Scene {
    pub(crate) manager: Manager,
    http: reqwest::Client,
}

impl Scene {
    /// With the safest executor that this machine has; the part is used when it is there.
    pub(crate) fn start(environment: &[(&str, &str)]) -> Self {
        Self::start_on(Disk::Shared, environment)
    }

    pub(crate) fn start_on(disk: Disk, environment: &[(&str, &str)]) -> Self {
        let own = std::env::var("PATH").unwrap_or_default();
        let path = match Part::find("bubblewrap") {
            Ok(part) => format!("{}:{own}", part.folder().display()),
            Err(_) => own,
        };
        let mut all = vec![("PATH", path.as_str()), ("OSCAR_CPU", "8"), ("OSCAR_MEMORY", "8Gi")];
        all.extend_from_slice(environment);
        let manager = Manager::start_on(disk, &all);
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { manager, http }
    }

    /// A service that reads `<name>/in` and writes `<name>/out`.
    pub(crate) async fn service(&self, name: &str, script: &str) {
        let body = json!({
            "name": name, "image": "none", "script": script, "cpu": "0.1", "memory": "64Mi",
            "input": [{"storage_provider": "minio.default", "path": format!("{name}/in")}],
            "output": [{"storage_provider": "minio.default", "path": format!("{name}/out")}],
        });
        assert_eq!(self.manager.create(&body).await, StatusCode::CREATED);
    }

    pub(crate) async fn presign(&self, bucket: &str, key: &str, operation: &str) -> String {
        let path = format!("/system/buckets/{bucket}/presign");
        let body = json!({"object_key": key, "operation": operation});
        let answer = self.manager.as_admin(Method::POST, &path).json(&body).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{bucket}/{key}");
        let answer: Value = answer.json().await.expect("JSON");
        answer["url"].as_str().expect("a URL").to_owned()
    }

    pub(crate) async fn upload(&self, bucket: &str, key: &str, body: impl Into<reqwest::Body>) {
        let (status, text) = self.try_upload(bucket, key, body).await;
        assert_eq!(status, 200, "{text}");
    }

    /// What the store answers.
    pub(crate) async fn try_upload(
        &self,
        bucket: &str,
        key: &str,
        body: impl Into<reqwest::Body>,
    ) -> (StatusCode, String) {
        let url = self.presign(bucket, key, "upload").await;
        let answer = self.http.put(url).body(body).send().await.expect("an answer");
        (answer.status(), answer.text().await.unwrap_or_default())
    }

    pub(crate) async fn download(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        let url = self.presign(bucket, key, "download").await;
        let answer = self.http.get(url).send().await.expect("an answer");
        match answer.status() {
            StatusCode::OK => Some(answer.bytes().await.expect("a body").to_vec()),
            StatusCode::NOT_FOUND => None,
            other => panic!("{bucket}/{key}: {other}"),
        }
    }

    pub(crate) async fn submit(&self, service: &str, event: impl Into<reqwest::Body>) -> String {
        let answer = self
            .manager
            .as_admin(Method::POST, &format!("/job/{service}"))
            .body(event)
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), 201);
        let body: Value = answer.json().await.expect("JSON");
        body["job"].as_str().expect("a name").to_owned()
    }

    /// The story of a job.
    pub(crate) async fn job(&self, service: &str, job: &str) -> Value {
        let path = format!("/system/jobs/{service}/{job}");
        let answer = self.manager.as_admin(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{job}");
        answer.json().await.expect("JSON")
    }

    pub(crate) async fn jobs(&self, service: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut page = String::new();
        loop {
            let path = format!("/system/jobs/{service}?limit=1000&page={page}");
            let answer = self.manager.as_admin(Method::GET, &path).send().await.expect("an answer");
            assert_eq!(answer.status(), 200);
            let answer: Value = answer.json().await.expect("JSON");
            all.extend(answer["jobs"].as_array().expect("a list").iter().cloned());
            match answer["next_page"].as_str() {
                Some(next) if !next.is_empty() => page = next.to_owned(),
                _ => return all,
            }
        }
    }

    /// The job as it is when it has ended.
    pub(crate) async fn ended(&self, service: &str, job: &str) -> Value {
        self.until(service, job, &["succeeded", "failed", "cancelled", "lost"]).await
    }

    pub(crate) async fn until(&self, service: &str, job: &str, states: &[&str]) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let story = self.job(service, job).await;
            if states.iter().any(|state| story["state"] == *state) {
                return story;
            }
            assert!(tokio::time::Instant::now() < deadline, "{story:#}\n{}", self.manager.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the service has so many jobs.
    pub(crate) async fn all_of(&self, service: &str, count: usize) -> Vec<Value> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let jobs = self.jobs(service).await;
            if jobs.len() >= count {
                return jobs;
            }
            assert!(tokio::time::Instant::now() < deadline, "{} of {count}\n{}", jobs.len(), self.manager.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the service has so many jobs and all of them have ended.
    pub(crate) async fn all_ended(&self, service: &str, count: usize) -> Vec<Value> {
        let deadline = tokio::time::Instant::now() + PATIENCE * 2;
        loop {
            let jobs = self.jobs(service).await;
            let ended = jobs.iter().filter(|job| is_over(job)).count();
            if jobs.len() >= count && ended == jobs.len() {
                return jobs;
            }
            let told = format!("{ended} of {} ended, {count} expected", jobs.len());
            assert!(tokio::time::Instant::now() < deadline, "{told}\n{}", self.manager.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn log(&self, service: &str, job: &str) -> String {
        let path = format!("/system/logs/{service}/{job}");
        let answer = self.manager.as_admin(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        answer.text().await.expect("a text")
    }
}

fn is_over(job: &Value) -> bool {
    ["succeeded", "failed", "cancelled", "lost"].iter().any(|state| job["state"] == *state)
}
