//! MinIO: the store that OSCAR clusters mostly have. Up in a second, so each test may have
//! its own: whoever changes its settings restarts it.

use std::process::{Command, Output};
use std::time::Duration;

use crate::server::{Server, on_free_ports};
use crate::{Missing, Part, Scratch, free_port, http};

const START_LIMIT: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub struct Minio {
    _server: Server,
    programs: Part,
    url: String,
    scratch: Scratch,
}

impl Minio {
    /// The keys of its root account.
    pub const ACCESS_KEY: &'static str = "root-access";
    pub const SECRET_KEY: &'static str = "root-secret-key";
    pub const REGION: &'static str = "us-east-1";

    pub fn start() -> Result<Minio, Missing> {
        Minio::start_with(&[])
    }

    /// With more variables of its environment, such as `MINIO_NOTIFY_WEBHOOK_…`.
    pub fn start_with(environment: &[(&str, &str)]) -> Result<Minio, Missing> {
        Minio::launch(Scratch::new("minio"), environment)
    }

    /// With its data below `folder`: on the disk that is measured, say.
    pub fn start_in(folder: &std::path::Path) -> Result<Minio, Missing> {
        Minio::launch(Scratch::new_in(folder, "minio"), &[])
    }

    fn launch(scratch: Scratch, environment: &[(&str, &str)]) -> Result<Minio, Missing> {
        let programs = Part::find("minio")?;
        let data = scratch.path().join("data");
        std::fs::create_dir(&data).expect("the scratch folder is writable");
        let agent = http::agent(None);
        let (server, url) = on_free_ports("minio", || {
            let address = format!("127.0.0.1:{}", free_port());
            let url = format!("http://{address}");
            let mut command = quiet(&programs, "minio", &scratch);
            command
                .args(["server", "--quiet", "--address", &address])
                .arg(&data)
                .env("MINIO_ROOT_USER", Minio::ACCESS_KEY)
                .env("MINIO_ROOT_PASSWORD", Minio::SECRET_KEY)
                .envs([("MINIO_UPDATE", "off"), ("MINIO_CALLHOME_ENABLE", "off"), ("MINIO_BROWSER", "off")])
                .envs(environment.iter().copied());
            let mut server = Server::spawn("minio", scratch.path(), &mut command);
            let ready = format!("{url}/minio/health/ready");
            server.wait_ready(START_LIMIT, || http::answers(&agent, &ready))?;
            Ok((server, url))
        });
        Ok(Minio { _server: server, programs, url, scratch })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs `mc` with this store under the name `store`, say `&["ls", "store/bucket"]`.
    pub fn mc(&self, arguments: &[&str]) -> Output {
        let (_, address) = self.url.split_once("://").expect("the URL has a scheme");
        let host = format!("http://{}:{}@{address}", Minio::ACCESS_KEY, Minio::SECRET_KEY);
        quiet(&self.programs, "mc", &self.scratch)
            .args(["--quiet", "--json"])
            .args(arguments)
            .env("MC_HOST_store", host)
            .output()
            .unwrap_or_else(|error| panic!("running mc: {error}"))
    }

    /// The names of its buckets, in order.
    pub fn buckets(&self) -> Vec<String> {
        let listed = self.mc(&["ls", "store"]);
        assert!(listed.status.success(), "mc ls: {}", String::from_utf8_lossy(&listed.stdout));
        let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
        let names = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let names = names.filter_map(|entry| entry["key"].as_str().map(|key| key.trim_end_matches('/').to_owned()));
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

/// With nothing of this machine's own settings or proxies, and a home that goes with the test.
fn quiet(programs: &Part, program: &str, scratch: &Scratch) -> Command {
    let mut command = Command::new(programs.file(program));
    command.env_clear().env("HOME", scratch.path());
    command
}
