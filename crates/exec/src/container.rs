//! Scripts in containers of podman or docker: the one way that uses the image of a service.

use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::drive::{Bounds, Cause, feed, listen, to_ended};
use crate::engine::Engine;
use crate::executor::{Input, Output, to_shell};
use crate::gate::{self, Start};
use crate::leftover;
use crate::ownership::{self, NOBODY};
use crate::run::{Description, Ended, ExecError, Kind, Network, Paths, Run};

const CONFIG: &str = "/oscar/config";
const INPUT: &str = "/oscar/job/input";
const OUTPUT: &str = "/oscar/job/output";

/// How long fetching an image may take, if the run has so much time.
const FETCHING: Duration = Duration::from_mins(30);

/// Reads the environment, then runs the script as a child: signals pass a first process by that
/// does not ask for them. The streams become one here, because engines keep them apart.
///
/// Limits of files are set here too, in the blocks of 512 bytes that every shell counts in: an
/// engine that is told of one limit sets all of them, which not every root may.
///
/// Not every engine tells that the kernel killed something for its memory, so the end of this
/// does, on the standard error that the script does not have.
const ENTER: &str = r#"ulimit -c 0; [ -z "$1" ] || ulimit -f "$1"; shift
. /oscar/config/environment; "$@" 2>&1
code=$?; [ $code = 0 ] || for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  [ ! -r $file ] || while read -r key count; do
    [ "$key" != oom_kill ] || [ "$count" = 0 ] || echo 'oscar: out of memory' >&2
  done < $file
done
exit $code"#;
const OUT_OF_MEMORY: &str = "oscar: out of memory";
/// What is kept of an engine's complaints.
const COMPLAINTS: u64 = 16 * 1024;

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[expect(clippy::unsafe_derive_deserialize, reason = "what is meant is in a macro of tokio")]
pub(crate) struct Container {
    engine: Engine,
    as_root: bool,
}

impl Container {
    pub(crate) async fn find(given: Option<&Path>) -> Result<Container, String> {
        Ok(Container { engine: Engine::find(given).await?, as_root: ownership::is_root() })
    }

    pub(crate) fn paths() -> Paths {
        let script = Path::new(CONFIG).join("script.sh");
        Paths { script, input: INPUT.into(), output: OUTPUT.into(), temporary: "/tmp".into() }
    }

    pub(crate) fn describe(&self) -> Description {
        let engine = &self.engine;
        Description {
            kind: Kind::Container,
            with: format!("{} {} ({})", engine.name, engine.version, engine.program.display()),
            limits: format!("memory, processes, cpu by {}; the output folder is watched", engine.name),
            weaknesses: vec!["an image that insists on being root does not work".to_owned()],
        }
    }

    pub(crate) async fn run(
        &self,
        run: &Run,
        stdin: Option<Input>,
        output: Output,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<Ended, ExecError> {
        check_image(&run.image)?;
        let config = Config::write(run, self.as_root)?;
        let name = leftover::new_name();
        let mut made = Made { engine: &self.engine, name: name.clone(), removed: false };
        let words = self.build_create(run, &name, &config.0, stdin.is_some());
        // Fetching an image may take longer than the script, and counts like it.
        let bounds = Bounds::new(run, false);
        tokio::pin!(cancel);
        let broken = tokio::select! {
            created = self.create(run, &words) => created.map(|()| None)?,
            cause = bounds.broken(|| 0, cancel.as_mut()) => Some(cause),
        };
        if let Some(cause) = broken {
            made.remove().await;
            return Ok(cause.into());
        }

        let mut program = vec![OsString::from(&self.engine.program), "start".into(), "--attach".into()];
        if stdin.is_some() {
            program.push("--interactive".into());
        }
        program.push(name.clone().into());
        let start = Start {
            program,
            env: Engine::environment(),
            descriptors: Vec::new(),
            folder: "/".into(),
            errors_apart: true,
        };
        let source = if stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        let waiting = gate::start(start, source).map_err(ExecError::io("starting its container"))?;
        let (mut child, bytes, errors) = waiting.open().map_err(ExecError::io("opening its gate"))?;
        let feeding = stdin.map(|stdin| feed(&mut child, stdin));
        let (everything_ended, ended) = oneshot::channel();
        let listening = tokio::spawn(listen(bytes, output, ended));
        let complaining = tokio::spawn(complaints(errors));
        let cause = tokio::select! {
            _ = child.wait() => None,
            cause = bounds.broken(|| 0, cancel.as_mut()) => Some(cause),
        };
        if let Some(cause) = cause {
            let asked = matches!(cause, Cause::Time | Cause::Cancel)
                && self.ask_to_end(&name).await
                && timeout(run.limits.grace, child.wait()).await.is_ok();
            if !asked {
                let _ = self.engine.tell(&["kill", "--signal", "KILL", &name]).await;
            }
        }
        let status = child.wait().await.map_err(ExecError::io("waiting for its end"))?;
        let state = self.engine.tell(&["inspect", "--format", "{{.State.Status}} {{.State.OOMKilled}}", &name]).await;
        made.remove().await;
        let _ = everything_ended.send(());
        if let Some(feeding) = feeding {
            feeding.abort();
        }
        let _ = listening.await;
        let complaints = complaining.await.unwrap_or_default();
        if let Some(cause) = cause {
            return Ok(cause.into());
        }
        let state = state.map_err(ExecError::NoEngine)?;
        if !state.starts_with("exited") && !state.starts_with("stopped") {
            let why = complaints.trim().lines().last().unwrap_or("its container did not start");
            let why = why.trim_start_matches("Error: ").to_owned();
            return Err(ExecError::NoImage { image: run.image.clone(), why });
        }
        Ok(to_ended(status, &run.limits, state.ends_with("true") || complaints.contains(OUT_OF_MEMORY)))
    }

    /// Removes containers whose maker was killed before it could; how many there were.
    pub(crate) async fn sweep(&self) -> Result<usize, String> {
        let names = ["ps", "--all", "--filter", "label=oscar.job=yes", "--format", "{{.Names}}"];
        let names = self.engine.tell(&names).await?;
        let left: Vec<&str> = names.lines().map(str::trim).filter(|name| leftover::is_left(name)).collect();
        for name in &left {
            self.engine.tell(&["rm", "--force", "--volumes", name]).await?;
        }
        Ok(left.len())
    }

    /// Makes the container; an image that is not here is fetched first.
    async fn create(&self, run: &Run, words: &[OsString]) -> Result<(), ExecError> {
        let Err(why) = self.engine.tell(words).await else { return Ok(()) };
        if self.engine.tell(&["image", "inspect", "--format", "here", &run.image]).await.is_ok() {
            return Err(ExecError::NoEngine(why));
        }
        let fetched = self.engine.ask(&["pull", "--quiet", &run.image], FETCHING).await;
        fetched.map_err(|why| ExecError::NoImage { image: run.image.clone(), why })?;
        self.engine.tell(words).await.map(|_| ()).map_err(ExecError::NoEngine)
    }

    fn build_create(&self, run: &Run, name: &str, config: &Path, stdin: bool) -> Vec<OsString> {
        let user = if self.as_root {
            format!("{NOBODY}:{NOBODY}")
        } else {
            format!("{}:{}", rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
        };
        let network = if run.network == Network::Host { "host" } else { "none" };
        let mut words: Vec<OsString> = Vec::new();
        let mut add = |more: &[&str]| words.extend(more.iter().map(OsString::from));
        add(&["create", "--name", name, "--pull", "never", "--label", "oscar.job=yes", "--log-driver", "none"]);
        add(&["--network", network, "--user", &user, "--workdir", "/tmp", "--read-only"]);
        add(&["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
        if !self.as_root && self.engine.name == "podman" {
            add(&["--userns", "keep-id"]);
        }
        if stdin {
            add(&["--interactive"]);
        }
        let mut temporary = "/tmp:rw,mode=1777".to_owned();
        if let Some(bytes) = run.limits.memory_bytes {
            let bytes_word = bytes.to_string();
            add(&["--memory", &bytes_word, "--memory-swap", &bytes_word]);
            temporary.push_str(&format!(",size={}", bytes / 2));
        }
        add(&["--tmpfs", &temporary]);
        if let Some(millis) = run.limits.cpu_millis {
            add(&["--cpus", &format!("{}.{:03}", millis / 1000, millis % 1000)]);
        }
        if let Some(most) = run.limits.processes {
            add(&["--pids-limit", &most.to_string()]);
        }
        if run.gpu {
            let gpu = if self.engine.name == "podman" { ["--device", "nvidia.com/gpu=all"] } else { ["--gpus", "all"] };
            add(&gpu);
        }
        add(&["--env", "HOME=/tmp", "--env", "LANG=C.UTF-8"]);
        for (outside, inside, readonly) in
            [(config, CONFIG, true), (&run.input_dir, INPUT, true), (&run.output_dir, OUTPUT, false)]
        {
            words.extend(["--mount".into(), mount_word(outside, inside, readonly)]);
        }
        let script = Container::paths().script;
        let blocks = run.limits.disk_bytes.map(|bytes| bytes.div_ceil(512).to_string()).unwrap_or_default();
        let command = ["--entrypoint", "/bin/sh", &run.image, "-c", ENTER, "oscar", &blocks, "/bin/sh"];
        words.extend(command.iter().map(OsString::from));
        words.push(script.into());
        words
    }

    /// Asks every process in the container to end; whether it could be asked.
    async fn ask_to_end(&self, name: &str) -> bool {
        self.engine.tell(&["exec", name, "/bin/sh", "-c", "kill -TERM -1"]).await.is_ok()
    }
}

/// Whether it can be the name of an image at all: an engine would read some words as options.
fn check_image(image: &str) -> Result<(), ExecError> {
    if image.is_empty() {
        return Err(ExecError::Unfit("its service names no image, and this manager runs containers".to_owned()));
    }
    if image.starts_with('-') || image.contains(char::is_whitespace) {
        return Err(ExecError::Unfit(format!("{image:?} is not the name of an image")));
    }
    Ok(())
}

/// The beginning of what an engine says beside the output; the rest is read and dropped.
async fn complaints(mut errors: pipe::Receiver) -> String {
    let mut kept = Vec::new();
    let _ = (&mut errors).take(COMPLAINTS).read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

/// A mount in the words of both engines, which read it as one line of CSV.
fn mount_word(outside: &Path, inside: &str, readonly: bool) -> OsString {
    let mut source = OsString::from("source=");
    source.push(outside);
    let text = source.to_string_lossy();
    if text.contains([',', '"']) {
        source = format!("\"{}\"", text.replace('"', "\"\"")).into();
    }
    let mut word = OsString::from("type=bind,");
    word.push(source);
    word.push(format!(",target={inside}"));
    if readonly {
        word.push(",readonly");
    }
    word
}

/// A container that exists, and is removed whatever happens.
struct Made<'a> {
    engine: &'a Engine,
    name: String,
    removed: bool,
}

impl Made<'_> {
    async fn remove(&mut self) {
        self.removed = self.engine.tell(&["rm", "--force", "--volumes", &self.name]).await.is_ok();
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if !self.removed {
            self.engine.abandon(&self.name);
        }
    }
}

/// A folder with the script and its environment, which is shown to the container and removed
/// afterwards.
struct Config(PathBuf);

impl Config {
    fn write(run: &Run, as_root: bool) -> Result<Config, ExecError> {
        let name = run.output_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = run.output_dir.with_file_name(format!("{name}.config"));
        let doing = || format!("making {}", folder.display());
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(ExecError::io(doing()))?;
        let config = Config(folder.clone());
        let script = fs::read(&run.script).map_err(ExecError::io("reading the script"))?;
        fs::write(folder.join("script.sh"), script).map_err(ExecError::io(doing()))?;
        fs::write(folder.join("environment"), to_shell(&run.env)).map_err(ExecError::io(doing()))?;
        if as_root {
            for folder in [&folder, &run.input_dir, &run.output_dir] {
                ownership::give_to_scripts(folder).map_err(ExecError::io(doing()))?;
            }
        }
        Ok(config)
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_stay_one_field_of_a_mount() {
        assert_eq!(mount_word(Path::new("/a b:c"), "/x", true), "type=bind,source=/a b:c,target=/x,readonly");
        assert_eq!(mount_word(Path::new("/a,\"b"), "/x", false), "type=bind,\"source=/a,\"\"b\",target=/x");
    }
}
