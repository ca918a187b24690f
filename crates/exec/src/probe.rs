//! Which ways of running scripts work on this machine: each is tried, not guessed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;

use crate::bubblewrap::Bubblewrap;
use crate::cgroup::Places;
use crate::container::Container;
use crate::executor::{Executor, Way};
use crate::ownership;
use crate::process::Process;
use crate::run::{Description, Ended, ExecError, Kind, Limits, Network, Run};

/// How long a trial may take. A machine under load is slow, a broken way hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the operator says about executors.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Where `bwrap` is; on the path when not given.
    pub bubblewrap: Option<PathBuf>,
    /// Where podman or docker is; on the path when not given.
    pub engine: Option<PathBuf>,
    /// Further folders that scripts in bubblewrap see, read-only.
    pub shown: Vec<PathBuf>,
    /// Plain processes get no namespaces, also where they work.
    pub without_namespaces: bool,
}

/// What became of one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kind: Kind,
    /// What it is like, or why it does not work.
    pub result: Result<Description, String>,
}

/// What was found, the safest way first.
#[derive(Debug, Clone)]
pub struct Findings {
    pub ways: Vec<Finding>,
    /// What [`choose`] takes, or why it takes nothing.
    pub chosen: Result<Executor, String>,
}

/// The ways, the safest first.
const BY_SAFETY: [Kind; 3] = [Kind::Bubblewrap, Kind::Container, Kind::Process];

/// Tries every way for real, and says which one [`choose`] takes.
pub async fn probe(wish: Kind, settings: &Settings) -> Findings {
    let places = find_places().await;
    let mut tried = Vec::new();
    for kind in BY_SAFETY {
        tried.push((kind, try_way(kind, settings, &places).await));
    }
    let of_wish = tried.iter().filter(|(kind, _)| wish == Kind::Auto || *kind == wish).map(|(_, result)| result);
    let chosen = of_wish.clone().find_map(|result| result.clone().ok()).ok_or_else(|| explain(wish, of_wish));
    let ways = tried
        .iter()
        .map(|(kind, result)| Finding { kind: *kind, result: result.clone().map(|executor| executor.describe()) });
    Findings { ways: ways.collect(), chosen }
}

/// Takes the way that is wished for, or the safest that works, and tries no further one.
pub async fn choose(wish: Kind, settings: &Settings) -> Result<Executor, String> {
    let places = find_places().await;
    let mut failed = Vec::new();
    for kind in BY_SAFETY.into_iter().filter(|kind| wish == Kind::Auto || *kind == wish) {
        match try_way(kind, settings, &places).await {
            Ok(executor) => return Ok(executor),
            Err(why) => failed.push(Err(why)),
        }
    }
    Err(explain(wish, failed.iter()))
}

async fn find_places() -> Places {
    tokio::task::spawn_blocking(Places::find).await.unwrap_or_default()
}

/// Why nothing of what was wished for works.
fn explain<'a>(wish: Kind, failed: impl Iterator<Item = &'a Result<Executor, String>>) -> String {
    let reasons: Vec<&str> = failed.filter_map(|result| result.as_ref().err().map(String::as_str)).collect();
    if wish == Kind::Auto {
        return format!("no way of running scripts works on this machine: {}", reasons.join("; "));
    }
    reasons.join("; ")
}

async fn try_way(kind: Kind, settings: &Settings, places: &Places) -> Result<Executor, String> {
    let as_root = ownership::is_root();
    let mut why = String::new();
    for way in candidates(kind, settings, places, as_root).await? {
        let executor = Executor { way };
        match trial(&executor).await {
            Ok(()) => return Ok(executor),
            Err(reason) => why = reason,
        }
    }
    Err(why)
}

/// The forms of one kind, the safest first.
async fn candidates(kind: Kind, settings: &Settings, places: &Places, as_root: bool) -> Result<Vec<Way>, String> {
    match kind {
        Kind::Bubblewrap => {
            let program = find_program(settings.bubblewrap.as_deref(), &["bwrap"])
                .ok_or("bwrap is not installed (Debian and Fedora: the package bubblewrap)")?;
            let version = version_of(&program).await?;
            if as_root && find_program(None, &["setpriv"]).is_none() {
                return Err(
                    "setpriv is not installed (the package util-linux); a manager that is root needs it".to_owned()
                );
            }
            let (shown, places) = (settings.shown.clone(), places.clone());
            Ok(vec![Way::Bubblewrap(Bubblewrap { program, version, places, shown, as_root })])
        }
        Kind::Process => {
            let program = find_program(None, &["setpriv"]);
            let setpriv = program.is_some();
            if as_root && !setpriv {
                return Err(
                    "setpriv is not installed (the package util-linux), and scripts must not run as root".to_owned()
                );
            }
            let ends_with_parent = match &program {
                Some(program) => can_end_with_parent(program).await,
                None => false,
            };
            let way = |namespaces| {
                Way::Process(Process { places: places.clone(), namespaces, as_root, setpriv, ends_with_parent })
            };
            let tools = !settings.without_namespaces && setpriv && find_program(None, &["unshare"]).is_some();
            Ok(if tools { vec![way(true), way(false)] } else { vec![way(false)] })
        }
        Kind::Container | Kind::Auto => Ok(vec![Way::Container(Container::find(settings.engine.as_deref()).await?)]),
    }
}

/// Runs a script of ours and looks whether it did what it should.
async fn trial(executor: &Executor) -> Result<(), String> {
    // Containers need an image, which belongs to a service: the engine was asked instead.
    if let Way::Container(_) = executor.way {
        return Ok(());
    }
    let folder = Trial::make().map_err(|error| format!("no folder to try it in: {error}"))?;
    let run = folder.run();
    let (sender, mut receiver) = mpsc::channel(4);
    let said = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(piece) = receiver.recv().await {
            all.extend(piece);
        }
        all
    });
    let ended = executor.run(&run, None, sender, std::future::pending()).await;
    let said = said.await.unwrap_or_default();
    match ended {
        Ok(Ended::Code(0)) if said == b"works" => Ok(()),
        Ok(ended) => Err(format!("{ended}: {}", String::from_utf8_lossy(&said).trim())),
        Err(ExecError::Unusable { why, .. }) => Err(why),
        Err(error) => Err(error.to_string()),
    }
}

/// A folder for a trial, removed afterwards.
struct Trial(PathBuf);

impl Trial {
    fn make() -> std::io::Result<Trial> {
        let trial = Trial(std::env::temp_dir().join(crate::gate::unique_name("oscar-trial")));
        for folder in [trial.0.clone(), trial.0.join("input"), trial.0.join("output")] {
            fs::create_dir(&folder)?;
            // The user of scripts must reach it, whatever new files are allowed otherwise.
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        }
        fs::write(trial.0.join("script.sh"), "printf works\n")?;
        fs::set_permissions(trial.0.join("script.sh"), fs::Permissions::from_mode(0o644))?;
        Ok(trial)
    }

    fn run(&self) -> Run {
        let limits = Limits { time: Some(PATIENCE), grace: Duration::ZERO, ..Limits::default() };
        Run {
            script: self.0.join("script.sh"),
            input_dir: self.0.join("input"),
            output_dir: self.0.join("output"),
            env: BTreeMap::new(),
            image: String::new(),
            limits,
            network: Network::Host,
            hidden: Vec::new(),
            gpu: false,
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How limits are enforced, for people.
pub(crate) fn describe_limits(places: &Places) -> String {
    let rest = "the output folder is watched, single files have a limit";
    places
        .describe()
        .map_or_else(|| format!("no control groups can be made; {rest}"), |groups| format!("{groups}; {rest}"))
}

pub(crate) fn weak_limits(places: &Places) -> Vec<String> {
    let mut found = Vec::new();
    if !places.bounds_memory() {
        found.push("memory is watched, not bounded: a script can use too much for a moment".to_owned());
    }
    if !places.bounds_cpu() {
        found.push("the share of the processor is not bounded".to_owned());
    }
    found
}

/// The program at a given place, or the first of these names on the path.
pub(crate) fn find_program(given: Option<&Path>, names: &[&str]) -> Option<PathBuf> {
    if let Some(path) = given {
        return path.is_file().then(|| path.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()))
}

/// Whether this `setpriv` knows the word for it: there are smaller ones.
async fn can_end_with_parent(setpriv: &Path) -> bool {
    let mut command = tokio::process::Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--", "/bin/sh", "-c", ":"]).env_clear();
    command.output().await.is_ok_and(|answer| answer.status.success())
}

async fn version_of(program: &Path) -> Result<String, String> {
    let said = tokio::process::Command::new(program).arg("--version").env_clear().output().await;
    let said = said.map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
