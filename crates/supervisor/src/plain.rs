//! The script as a child process in a process group of its own: for a container, which is the
//! wall already, and for tests. It walls off nothing itself.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

use crate::journal::OutputSink;
use crate::sandbox::{Exit, Sandbox, SandboxError, ScriptRun};

const CHUNK: usize = 64 * 1024;

/// Far enough away to be never.
const NEVER: Duration = Duration::from_hours(365 * 24);

/// Runs `/bin/sh <script>` with exactly the environment of the [`ScriptRun`] (and a `PATH` when
/// it has none), no standard input, both streams in one pipe, in the current folder.
///
/// A script has ended when its own process has: what it left running keeps the grace period to
/// close the output, and is killed then. A process that made a session of its own escapes this;
/// the end of the container gets it.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainSandbox;

#[async_trait]
impl Sandbox for PlainSandbox {
    async fn run(&self, run: &ScriptRun, output: &mut dyn OutputSink) -> Result<Exit, SandboxError> {
        let kills_before = out_of_memory_kills();
        let (mut child, mut pipe) =
            start(run).map_err(|cause| SandboxError::of_io("/bin/sh cannot be started", &cause))?;
        let group = Group::of(&child);
        let mut buffer = vec![0; CHUNK];
        let mut deadline = Instant::now() + run.time.unwrap_or(NEVER);
        let mut stopped: Option<Exit> = None;
        let mut ended: Option<ExitStatus> = None;
        let mut open = true;
        while open || ended.is_none() {
            tokio::select! {
                read = pipe.read(&mut buffer), if open => match read {
                    Ok(0) | Err(_) => open = false,
                    Ok(count) => output.write(&buffer[..count]).await,
                },
                status = child.wait(), if ended.is_none() => {
                    let status = status.map_err(|cause| SandboxError::of_io("the script was lost", &cause))?;
                    ended = Some(status);
                    deadline = Instant::now() + run.grace;
                }
                () = run.cancel.cancelled(), if stopped.is_none() && ended.is_none() => {
                    stopped = Some(Exit::Cancelled);
                    group.signal(Signal::TERM);
                    deadline = Instant::now() + run.grace;
                }
                () = sleep_until(deadline) => {
                    if stopped.is_none() && ended.is_none() {
                        stopped = Some(Exit::TimedOut);
                        group.signal(Signal::TERM);
                        deadline = Instant::now() + run.grace;
                    } else {
                        group.signal(Signal::KILL);
                        // Whoever still holds the pipe now is outside the group.
                        open = open && ended.is_none();
                        deadline = Instant::now() + NEVER;
                    }
                }
            }
        }
        drop(group);
        let status = ended.expect("the loop ends after the script");
        Ok(stopped.unwrap_or_else(|| exit_of(status, out_of_memory_kills() > kills_before)))
    }
}

fn start(run: &ScriptRun) -> std::io::Result<(Child, Receiver)> {
    let (reader, writer) = std::io::pipe()?;
    let env = run.environment(Path::to_path_buf);
    let mut command = Command::new("/bin/sh");
    command.env_clear();
    if !env.contains_key("PATH") {
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    }
    command
        .arg(&run.script)
        .envs(env)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .kill_on_drop(true);
    let child = command.spawn()?;
    // The command holds our ends of the pipe; as long as they live it never ends.
    drop(command);
    Ok((child, Receiver::from_owned_fd(OwnedFd::from(reader))?))
}

/// The processes of a script. What is left of them ends with this value.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // An empty group is what we want.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

fn exit_of(status: ExitStatus, out_of_memory: bool) -> Exit {
    match (status.code(), status.signal()) {
        (Some(137), _) | (None, Some(9)) if out_of_memory => Exit::OutOfMemory,
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    }
}

/// How often the kernel has killed for memory in this container.
fn out_of_memory_kills() -> u64 {
    let events = fs::read_to_string("/sys/fs/cgroup/memory.events").unwrap_or_default();
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
