//! The part of the demo in which files are processed.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::story::Story;
use super::{PATIENCE, Scene, Trouble, read};

/// Turns a picture in the plain PPM format grey, with what every machine has.
const GRAYIFY: &str = include_str!("../../../../examples/grayify/grayify.sh");

const COLOURS: [(&str, &str); 5] =
    [("red", "255 0 0"), ("green", "0 255 0"), ("blue", "0 0 255"), ("orange", "255 165 0"), ("violet", "238 130 238")];

impl Scene {
    pub(super) async fn process_a_batch(&self, story: &Story) -> Result<(), Trouble> {
        story.step("Alice uploads five pictures to her own cluster, and a service turns them grey");
        let service = json!({
            "name": "gray", "image": "none", "cpu": "0.1", "memory": "64Mi", "script": GRAYIFY,
            "input": [{"storage_provider": "minio.default", "path": "gray/in"}],
            "output": [{"storage_provider": "minio.default", "path": "gray/out"}],
        });
        read(self.request(self.home(), Method::POST, "/system/services").json(&service).send().await).await?;
        let uploads = COLOURS.map(|(name, colour)| self.upload(name, colour));
        futures::future::try_join_all(uploads).await?;
        let jobs = self.ended_jobs(COLOURS.len()).await?;
        if let Some(job) = jobs.iter().find(|job| job["state"] != "succeeded") {
            return Err(format!("a job did not succeed: {job}"));
        }
        for (name, colour) in COLOURS {
            let grey = self.first_pixel(name).await?;
            let [before, after] = ["in", "out"].map(|folder| format!("gray/{folder}/{name}.ppm"));
            story.detail(&format!("{before:<18}  {colour:<11}  →  {after:<19}  {grey}"));
        }
        story.say("Each upload became one job; none is lost when a manager is killed, and none is done twice.");
        story.code(&format!("curl -u oscar:{} {}/system/jobs/gray", self.home().password(), self.home().url()));
        Ok(())
    }

    async fn upload(&self, name: &str, colour: &str) -> Result<(), Trouble> {
        let picture = format!("P3\n2 2\n255\n{colour} {colour}\n{colour} {colour}\n");
        let url = self.presign(&format!("in/{name}.ppm"), "upload").await?;
        read(self.http.put(url).body(picture).send().await).await.map(drop)
    }

    /// The colour of the first point of an output.
    async fn first_pixel(&self, name: &str) -> Result<String, Trouble> {
        let url = self.presign(&format!("out/{name}.ppm"), "download").await?;
        let answer = self.http.get(url).send().await.and_then(reqwest::Response::error_for_status);
        let picture = answer.map_err(|error| error.without_url().to_string())?.text().await;
        let picture = picture.map_err(|error| error.without_url().to_string())?;
        let pixel: Vec<&str> = picture.lines().nth(3).unwrap_or_default().split_whitespace().take(3).collect();
        Ok(pixel.join(" "))
    }

    async fn presign(&self, key: &str, operation: &str) -> Result<String, Trouble> {
        let body = json!({"object_key": key, "operation": operation});
        let request = self.request(self.home(), Method::POST, "/system/buckets/gray/presign").json(&body);
        let answer = read(request.send().await).await?;
        answer["url"].as_str().map(str::to_owned).ok_or_else(|| "the manager signed no address".to_owned())
    }

    async fn ended_jobs(&self, count: usize) -> Result<Vec<Value>, Trouble> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut answer = self.get("/system/jobs/gray").await?;
            let jobs = answer["jobs"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let is_over =
                |job: &Value| ["succeeded", "failed", "cancelled", "lost"].iter().any(|state| job["state"] == *state);
            if jobs.len() == count && jobs.iter().all(is_over) {
                return Ok(jobs);
            }
            if Instant::now() > deadline {
                return Err(format!("the jobs did not end: {}", json!(jobs)));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
