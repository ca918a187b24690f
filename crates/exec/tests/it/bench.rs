//! A workbench for one executor: folders, a script, and what became of it.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oscar_exec::{Ended, ExecError, Executor, Input, Kind, Limits, Network, Run, Settings, choose};
use oscar_testkit::{Missing, Part};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Made by `scripts/parts/podman.sh`.
const IMAGE: &str = "localhost/oscar-busybox:1";

/// Runs one test body with every way that a test is for, as a test of its own each.
macro_rules! on_each {
    ($($(#[$attribute:meta])* async fn $name:ident($bench:ident) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "each body uses other things")]
            use super::*;

            async fn body($bench: crate::bench::Bench) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_bubblewrap() {
                body(oscar_testkit::require!(crate::bench::Bench::bubblewrap().await)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn as_a_process() {
                body(crate::bench::Bench::process().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn as_a_process_without_namespaces() {
                body(crate::bench::Bench::plain_process().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_a_container() {
                body(oscar_testkit::require!(crate::bench::Bench::container().await)).await;
            }
        }
    )*};
}
pub(crate) use on_each;

pub(crate) struct Bench {
    pub(crate) executor: Executor,
    pub(crate) kind: Kind,
    /// A process without namespaces, which promises less.
    pub(crate) is_plain: bool,
    pub(crate) folder: TempDir,
    pub(crate) run: Run,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Result {
    pub(crate) ended: std::result::Result<Ended, ExecError>,
    pub(crate) said: String,
}

impl Result {
    pub(crate) fn ended(&self) -> Ended {
        match &self.ended {
            Ok(ended) => *ended,
            Err(error) => panic!("the script was not run: {error}\n{}", self.said),
        }
    }
}

impl Bench {
    pub(crate) async fn bubblewrap() -> std::result::Result<Bench, Missing> {
        let settings = Settings { bubblewrap: Some(Part::find("bubblewrap")?.file("bwrap")), ..Settings::default() };
        Ok(Bench::new(Kind::Bubblewrap, &settings).await)
    }

    pub(crate) async fn process() -> Bench {
        Bench::new(Kind::Process, &Settings::default()).await
    }

    pub(crate) async fn plain_process() -> Bench {
        let settings = Settings { without_namespaces: true, ..Settings::default() };
        let mut bench = Bench::new(Kind::Process, &settings).await;
        bench.is_plain = true;
        bench
    }

    pub(crate) async fn container() -> std::result::Result<Bench, Missing> {
        Ok(Bench::with_engine(Part::find("podman")?.file("podman")).await)
    }

    pub(crate) async fn with_engine(engine: PathBuf) -> Bench {
        Bench::new(Kind::Container, &Settings { engine: Some(engine), ..Settings::default() }).await
    }

    async fn new(kind: Kind, settings: &Settings) -> Bench {
        let executor = choose(kind, settings).await.expect("a part that is here works");
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["input", "output", "manager"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        // Users of scripts pass through the folder of the job, and not into the manager's.
        for (name, mode) in [("", 0o755), ("manager", 0o700)] {
            let path = folder.path().join(name);
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("rights");
        }
        fs::write(folder.path().join("manager/secret.key"), "planted-in-a-file").expect("a file of the manager");
        let run = Run {
            script: folder.path().join("script.sh"),
            input_dir: folder.path().join("input"),
            output_dir: folder.path().join("output"),
            env: BTreeMap::new(),
            image: IMAGE.to_owned(),
            limits: Limits {
                time: Some(Duration::from_mins(2)),
                grace: Duration::from_millis(300),
                ..Limits::default()
            },
            network: Network::Host,
            hidden: vec![folder.path().join("manager")],
            gpu: false,
        };
        Bench { executor, kind, is_plain: false, folder, run }
    }

    pub(crate) fn script(&mut self, text: &str) -> &mut Bench {
        fs::write(&self.run.script, text).expect("the script");
        self
    }

    pub(crate) fn output(&self, name: &str) -> PathBuf {
        self.run.output_dir.join(name)
    }

    /// Where the script finds its output folder.
    pub(crate) fn output_inside(&self) -> String {
        self.executor.paths(&self.run).output.display().to_string()
    }

    pub(crate) async fn go(&self) -> Result {
        self.go_with(None, std::future::pending()).await
    }

    pub(crate) async fn go_with(&self, stdin: Option<Input>, cancel: impl Future<Output = ()> + Send) -> Result {
        let (sender, mut receiver) = mpsc::channel(8);
        let listening = tokio::spawn(async move {
            let mut all = Vec::new();
            while let Some(piece) = receiver.recv().await {
                all.extend(piece);
            }
            String::from_utf8_lossy(&all).into_owned()
        });
        let ended = self.executor.run(&self.run, stdin, sender, cancel).await;
        Result { ended, said: listening.await.expect("it was listened to") }
    }

    /// Waits until a file of the script is there.
    pub(crate) async fn until(path: PathBuf) {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The processes on this machine whose command line has these words.
pub(crate) fn processes_with(words: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("a list of processes").flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok_and(|pid| pid != std::process::id()))
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|line| line.contains(words))
        .collect()
}

/// A number for `sleep` that no other process on this machine has.
pub(crate) fn unique_seconds(folder: &Path) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (folder, std::process::id()).hash(&mut hasher);
    format!("9{:08}", hasher.finish() % 100_000_000)
}
